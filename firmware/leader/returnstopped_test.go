package leader

import (
	"strings"
	"testing"

	"prefdt/firmware/fleet"
	"prefdt/telemetry"
)

// A return that comes before the aircraft were received again says so, so that its sender
// can tell a restart from a fleet that is its pilots'. It is not accepted for those alone that were: the
// other would hover on. One that is silent for long keeps nobody in the air.
func TestReturnBeforeAircraftAreReceived(t *testing.T) {
	frozen := loadCheckpoint(t)
	l := newInPhase(t, telemetry.StateStopped, nil, frozen.Physics, &frozen.GoalConstants)
	for i := range l.views {
		l.views[i].Flying, l.views[i].Mode, l.views[i].Phase = false, fleet.ModePosition, fleet.PhasePilot
	}
	if _, err := l.checks(l.views).returnAll(nil); err == nil || !strings.Contains(err.Error(), "its pilot has it") {
		t.Errorf("received, with their pilots: %v", err)
	}
	l.views[1] = fleet.View{Number: 2}
	if _, err := l.checks(l.views).returnAll(nil); err == nil ||
		!strings.Contains(err.Error(), "nothing recent was received from aircraft 2") {
		t.Errorf("not received: %v", err)
	}
	hover := func(v *fleet.View) { v.InAir, v.Fresh, v.Role, v.Phase = true, true, fleet.RoleHold, fleet.PhasePilot }
	hover(&l.views[0])
	if ordered, err := l.checks(l.views).returnAll(nil); err == nil || !strings.Contains(err.Error(), "from aircraft 2") {
		t.Errorf("one received, the other silent for a moment: %v returns, %v", ordered, err)
	}
	l.views[1].StaleS = fleet.LostAfterS + 1
	if ordered, _ := l.checks(l.views).returnAll(nil); len(ordered) != 1 || ordered[0].Number != 1 {
		t.Errorf("the other silent for long: %v returns", ordered)
	}
	l.views[1].Partly = true
	if ordered, err := l.checks(l.views).returnAll(nil); err == nil || !strings.Contains(err.Error(), "from aircraft 2") {
		t.Errorf("the other back but for its HEARTBEAT: %v returns, %v", ordered, err)
	}
	hover(&l.views[1]) // in another mode than before, with no position since
	l.views[1].StaleS = 0.2
	if ordered, err := l.checks(l.views).returnAll(nil); err == nil || !strings.Contains(err.Error(), "from aircraft 2") {
		t.Errorf("the other back but for a position in its mode: %v returns, %v", ordered, err)
	}
}

// An aircraft whose positions are back before its HEARTBEAT is not passed over by a resume of all: nobody else would
// bring it down, and the leader's HEARTBEATs keep it up there.
func TestResumeOfOneJustBack(t *testing.T) {
	t.Parallel()
	frozen := loadCheckpoint(t)
	l := newInPhase(t, telemetry.StateHolding, nil, frozen.Physics, &frozen.GoalConstants)
	back := &l.views[1]
	back.Phase, back.Fresh, back.Partly, back.InAir, back.Obstacle, back.StaleS = fleet.PhasePilot, false, true, false, true, 12
	resume := func(aircraft ...int) error {
		_, err := l.checks(l.views).resume(&telemetry.Mission{Aircraft: aircraft})
		return err
	}
	if err := resume(); err == nil || !strings.Contains(err.Error(), "aircraft 2: no position or no HEARTBEAT") {
		t.Errorf("resume of all: %v", err)
	}
	back.Fresh, back.StaleS = true, 0.2 // but for a position in its mode
	if err := resume(); err == nil || !strings.Contains(err.Error(), "aircraft 2: no position or no HEARTBEAT") {
		t.Errorf("resume of all, without a position in its mode: %v", err)
	}
	if err := resume(1); err == nil || strings.Contains(err.Error(), "aircraft 2") {
		t.Errorf("resume of the other: %v", err)
	}
	back.Partly = false // lost
	if err := resume(); err != nil {
		t.Errorf("resume while it is lost: %v", err)
	}
}
