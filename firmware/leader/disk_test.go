package leader_test

import (
	"math"
	"os"
	"os/exec"
	"testing"

	"prefdt/simbridge/rig"
	"prefdt/simbridge/rig/fulldisk"
	"prefdt/simbridge/simnet"
	"prefdt/telemetry"
)

// diskTest runs a test that fills the disk in a process of its own: the limit applies to the
// whole process, and go test writes files too.
func diskTest(t *testing.T, f func(*testing.T)) {
	t.Helper()
	if os.Getenv("PREFDT_DISK_FULL") != "" {
		simnet.Test(t, f)
		return
	}
	t.Parallel()
	c := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	c.Env = append(os.Environ(), "PREFDT_DISK_FULL=1")
	out, err := c.CombinedOutput()
	if t.Logf("%s", out); err != nil {
		t.Error(err)
	}
}

// A disk that is full in flight: no command is acknowledged that is not durable, the
// fleet returns without the ledger, and what was settled before is there when there
// is space again.
func TestDiskFull(t *testing.T) {
	diskTest(t, func(t *testing.T) {
		r := rig.New(t, 2, 100000)
		f := r.StartLeader()
		r.TakeOff()
		if ack := r.SendCommand(r.Topics.Budget(), `{"id":"before","energy_j":42000,"mode":"target"}`, "before"); !ack.Accepted {
			t.Fatalf("%+v", ack)
		}
		before := r.Await("slot 5", rig.SlotSettled(5))
		freeSpace := fulldisk.Fill(t)
		r.PublishRaw(r.Topics.Budget(), `{"id":"during","energy_j":31000,"mode":"target"}`)
		r.Await("returning", rig.InState(telemetry.StateReturning))
		r.Await("done", rig.Done)
		if !r.Landed(0) || !r.Landed(1) || r.HomeDistanceM(0) > 5 || r.HomeDistanceM(1) > 5 {
			t.Errorf("%+v, %+v", r.Autopilots[0].State(), r.Autopilots[1].State())
		}
		s := r.Await("status", rig.AnyStatus)
		if s.BudgetJ == nil || *s.BudgetJ != 42000 {
			t.Errorf("a request that is not durable is in force: %+v", s)
		}
		if acks := r.Acks("during"); len(acks) > 0 {
			t.Errorf("it was acknowledged: %s", acks)
		}
		freeSpace()
		r.AwaitSaved()
		f = f.Restart(nil)
		after := r.Await("the next leader", rig.AnyStatus)
		if after.Slot < before.Slot || after.BudgetJ == nil || *after.BudgetJ != 42000 || after.SpentJ < before.SpentJ-1e-6 {
			t.Errorf("after the restart: %+v, before: %+v", after, before)
		}
		r.Await("done", rig.Done)
		f.Kill()
		if got := after.SpentJ + after.TransitJ; math.Abs(got-r.BatteryLossJ()) > 400 {
			t.Errorf("accounted %.0f J, the batteries lost %.0f J", got, r.BatteryLossJ())
		}
	})
}
