package leader_test

import (
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"prefdt/firmware/leader"
	"prefdt/inference/slot"
	"prefdt/simbridge/rig"
	"prefdt/simbridge/simnet"
	"prefdt/telemetry"
)

// The broker is lost and the leader is killed: the next one flies on without it, and
// when the broker is back the ledger has everything.
func TestRestartWithoutABroker(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		r := rig.New(t, 2, 100000)
		r.Config.Flight.BrokerHoldS, r.Config.Flight.BrokerReturnS = 500, 1000
		f := r.StartLeader()
		r.TakeOff()
		if ack := r.SendCommand(r.Topics.Budget(), `{"id":"b1","energy_j":90000,"mode":"target"}`, "b1"); !ack.Accepted {
			t.Fatalf("%+v", ack)
		}
		before := r.Await("slot 5", rig.SlotSettled(5))
		r.CloseBroker()
		f = f.Restart(nil)
		began := time.Now()
		if !r.WaitAllMove(began) {
			t.Fatalf("without a broker no aircraft moves: %+v, %+v", r.Autopilots[0].State(), r.Autopilots[1].State())
		}
		back := r.NewBroker(r.BrokerAddress())
		if !r.Eventually(func() bool { return back.Initialize() == nil }) {
			t.Fatal("the broker does not come back")
		}
		t.Cleanup(back.Close)
		after := r.Await("a slot with the broker", func(s telemetry.Status) bool {
			return rig.Flying(s) && s.UsersHeard > 0 && s.Slot > before.Slot+5
		})
		if after.BudgetJ == nil || *after.BudgetJ != 90000 || after.SpentJ <= before.SpentJ {
			t.Errorf("before %+v, after %+v", before, after)
		}
		if repeat := r.SendCommand(r.Topics.Budget(), `{"id":"b1","energy_j":90000,"mode":"target"}`, "b1"); repeat.EffectiveSlot == nil ||
			*repeat.EffectiveSlot > before.Slot {
			t.Errorf("the repeated command got %+v", repeat)
		}
		f.Kill()
	})
}

// A disk that fails is remounted to be read only, and the watchdog starts the leader again: it brings the fleet home by what it
// can read. On the ground it does not start.
func TestRestartOnAReadOnlyDisk(t *testing.T) {
	dir, err := os.MkdirTemp("", "readonly")
	if err != nil {
		t.Fatal(err)
	}
	defer os.Remove(dir)
	if err := unix.Mount("none", dir, "tmpfs", 0, ""); err != nil {
		t.Skip("no file system can be mounted here: ", err)
	}
	defer unix.Unmount(dir, 0)
	simnet.Test(t, func(t *testing.T) {
		r := rig.New(t, 2, 100000)
		r.Config.StateDir = filepath.Join(dir, "state")
		r.FlyToSlot(5).Restart(func() {
			if err := unix.Mount("none", dir, "tmpfs", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
				t.Fatal(err)
			}
		})
		s := r.Await("both landed", func(telemetry.Status) bool { return r.Landed(0) && r.Landed(1) })
		for i := range 2 {
			if r.HomeDistanceM(i) > 5 {
				t.Errorf("aircraft %d landed %.0f m from where it took off", i+1, r.HomeDistanceM(i))
			}
		}
		if s.State != telemetry.StateReturning && s.State != telemetry.StateDone {
			t.Errorf("the mission is %s", s.State)
		}
	})
}

// tearLedger makes the ledger's last transaction one whose pages did not all reach
// the disk: its meta page leads to a root that was never written.
func tearLedger(t *testing.T, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const header, rootAt, txAt = 16, 16, 48
	page := int64(os.Getpagesize())
	var newest, root uint64
	for _, at := range []int64{0, page} {
		raw := make([]byte, header+64)
		if _, err := f.ReadAt(raw, at); err != nil {
			t.Fatal(err)
		}
		if tx := binary.LittleEndian.Uint64(raw[header+txAt:]); tx >= newest {
			newest, root = tx, binary.LittleEndian.Uint64(raw[header+rootAt:])
		}
	}
	if _, err := f.WriteAt(make([]byte, page), int64(root)*page); err != nil {
		t.Fatal(err)
	}
}

// Power is lost in a transaction, on a disk that does not keep the order of writes:
// the next leader flies on from the transaction before.
func TestTornTransaction(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		r := rig.New(t, 2, 100000)
		f := r.StartLeader()
		r.TakeOff()
		r.SendCommand(r.Topics.Budget(), `{"id":"b1","energy_j":90000,"mode":"target"}`, "b1")
		before := r.Await("slot 8", rig.SlotSettled(8))
		path := filepath.Join(r.Config.StateDir, "ledger.db")
		f = f.Restart(func() { tearLedger(t, path) })
		after := r.Await("a slot after it", func(s telemetry.Status) bool { return rig.Flying(s) && s.Slot > before.Slot })
		if after.BudgetJ == nil || *after.BudgetJ != 90000 || after.SpentJ < before.SpentJ-1e-6 {
			t.Errorf("before %+v, after %+v", before, after)
		}
		if !r.Eventually(func() bool { return !math.IsNaN(r.AccountErrorJ(after)) }) {
			t.Fatal("no beacon after it")
		}
		if off := r.AccountErrorJ(after); math.Abs(off) > 600 {
			t.Errorf("accounted %+.0f J more than the batteries lost", off)
		}
		r.CheckSlotsInOrder()
		f.Kill()

		// Worse damage is reported in one line, and the leader does not fly.
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, raw[:len(raw)/4], 0o600); err != nil {
			t.Fatal(err)
		}
		err = <-r.StartLeader().Done
		if err == nil || !strings.Contains(err.Error(), "is damaged") || !strings.Contains(err.Error(), "leader log recover") ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("a ledger cut short: %v", err)
		}
	})
}

// A restarted leader that waits for its aircraft reports its loop, which feeds the
// watchdog.
func TestReportsWhileRejoining(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		r := rig.New(t, 2, 100000)
		f := r.FlyToSlot(3)
		r.AwaitSaved()
		f.Kill()
		r.CloseAutopilot(0)
		r.CloseAutopilot(1)
		var turns atomic.Int64
		r.OnIteration = func(leader.LoopReport) { turns.Add(1) }
		f = r.StartLeader()
		if !r.Eventually(func() bool { return turns.Load() >= 50 }) {
			t.Errorf("%d reports while it waits for its aircraft", turns.Load())
		}
		f.Kill()
	})
}

// A decision that takes longer than the rest of the mission ends it: no slot beyond
// the last is opened, and the missed ones are settled.
func TestLateAtTheEnd(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		r := rig.New(t, 1, 12)
		r.OverrideDecision = func(s *slot.Snapshot, _ *slot.Decision) {
			if s.Slot == 7 {
				r.DelayNextDecision(10) // that of slot 8
			}
		}
		r.FlyToSlot(6)
		s := r.Await("done", rig.Done)
		b := r.Beacons()
		if last := b[len(b)-1]; s.Slot != 11 || s.MissedSlots < 2 || last > 11 {
			t.Errorf("ended with slot %d, %d missed, the last beacon is of slot %d", s.Slot, s.MissedSlots, last)
		}
	})
}
