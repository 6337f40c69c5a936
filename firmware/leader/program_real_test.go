//go:build real

package leader_test

import (
	"math"
	"path/filepath"
	"testing"

	"prefdt/simbridge/rig"
	"prefdt/telemetry"
)

// The leader's program is killed with SIGKILL in flight: the next one continues the mission, and
// its account in the end is the batteries'.
func TestProgramKilled(t *testing.T) {
	t.Parallel()
	r := rig.NewRealTime(t, 2, 12, 1000) // at speed 1 a busy machine has seconds, not tenths of one
	r.Config.Request.BudgetJ = 6000
	args := r.ProgramArgs()
	p := r.StartProgram(args)
	r.TakeOff()
	before := r.Await("slot 3", rig.SlotSettled(3))
	p.Kill()
	r.StartProgram(args)
	after := r.Await("the next one", func(s telemetry.Status) bool { return s.Challenge != before.Challenge })
	if after.Mission != before.Mission || after.Slot < before.Slot || after.BudgetJ == nil || *after.BudgetJ != 6000 ||
		after.SpentJ < before.SpentJ {
		t.Errorf("before %+v, after %+v", before, after)
	}
	r.Await("done", rig.Done)
	r.Await("both landed", func(telemetry.Status) bool { return r.Landed(0) && r.Landed(1) })
	s := r.Await("three more", rig.StatusesAfter(r.LastStatus(), 3))
	if off := s.SpentJ + s.TransitJ - r.BatteryLossJ(); math.Abs(off) > 200 {
		t.Errorf("accounted %+.0f J more than the batteries lost", off)
	}
	r.CheckSlotsInOrder()
}

// The leader's wall clock jumps a day forth and back, several times in a flight:
// no slot is missed or late for it, and no joule is miscounted.
func TestClockJumps(t *testing.T) {
	t.Parallel()
	r := rig.NewRealTime(t, 2, 12, 1000)
	r.Config.Request.BudgetJ = 6000
	args := r.ProgramArgs()
	args[0] = filepath.Join(t.TempDir(), "leader-jump")
	rig.BuildJumping(t, args[0], "prefdt/firmware")
	p := r.StartProgram(args)
	r.TakeOff()
	s := r.Await("done", rig.Done)
	// With a clock that counts, the first jump would end the mission at once.
	if n := len(r.Beacons()); s.Slot != 11 || n+s.MissedSlots < 12 || n < 2 {
		t.Errorf("%d slots were opened: %+v", n, s)
	}
	r.Await("landed", func(telemetry.Status) bool { return r.Landed(0) && r.Landed(1) })
	s = r.Await("three more", rig.StatusesAfter(r.LastStatus(), 3))
	if off := s.SpentJ + s.TransitJ - r.BatteryLossJ(); math.Abs(off) > 200 {
		t.Errorf("accounted %+.0f J more than the batteries lost", off)
	}
	r.CheckSlotsInOrder()
	if err := p.Shutdown(); err != nil {
		t.Error(err)
	}
}
