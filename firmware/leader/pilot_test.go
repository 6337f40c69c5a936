package leader_test

import (
	"slices"
	"strings"
	"testing"

	"prefdt/firmware/rig"
	"prefdt/simbridge/autopilot"
	"prefdt/telemetry"
)

// mustNotCommand is that nothing which moves an aircraft reaches it for some statuses
// from the moment on that the leader says why it does not fly.
func mustNotCommand(t *testing.T, r *rig.Rig, i int, statuses int64, why string) {
	t.Helper()
	s := r.Await("the leader says "+why, func(s telemetry.Status) bool { return strings.Contains(s.Aircraft[i].Reason, why) })
	s = r.Await("what was on its way", rig.StatusesAfter(s, 2))
	before := r.CommandCount(i)
	r.Await("some statuses", rig.StatusesAfter(s, statuses))
	if n := r.CommandCount(i) - before; n > 0 {
		t.Errorf("%d commands and setpoints reached its pilot's aircraft: %+v", n, r.Autopilots[i].State())
	}
}

// An aircraft that is disarmed in its climb is not armed again (fault 1).
func TestDisarmedInTheClimbIsLeft(t *testing.T) {
	r := rig.New(t, 2, 100000)
	r.StartLeader()
	r.TakeOff()
	if !r.Eventually(func() bool { return r.Autopilots[1].State().Position.UpM > 2 }) {
		t.Fatal("it does not climb")
	}
	r.Autopilots[1].DisarmByRC()
	mustNotCommand(t, r, 1, 60, "disarmed while")
	if s := r.Autopilots[1].State(); s.Armed {
		t.Errorf("%+v", s)
	}
	r.Await("the other flies", rig.Flying)
}

// One that is disarmed in flight is offered to nobody, and the way home ends
// without it (fault 6).
func TestDisarmedInFlightDoesNotFly(t *testing.T) {
	r := rig.New(t, 2, 100000)
	r.StartLeader()
	r.TakeOff()
	r.Await("slot 5", rig.SlotSettled(5))
	r.Autopilots[1].DisarmByRC()
	mustNotCommand(t, r, 1, 20, "disarmed while")
	if offered := r.OfferedAircraft(); !slices.Equal(offered, []int{1}) {
		t.Errorf("aircraft %v are offered", offered)
	}
	if ack := r.SendAction("resume"); ack.Accepted {
		t.Errorf("resume with nobody in the air to resume: %+v", ack)
	}
	r.MustSendAction("return")
	r.Await("done", rig.Done)
}

// A pilot in POSCTL stays in it when the crew stops the mission (fault 4).
func TestStopLeavesThePilot(t *testing.T) {
	r := rig.New(t, 2, 100000)
	r.StartLeader()
	r.TakeOff()
	r.Await("slot 5", rig.SlotSettled(5))
	r.Autopilots[1].SetModeByRC(autopilot.ModePosition)
	// Before its next HEARTBEAT nobody else can know of it.
	r.Await("the leader knows", func(s telemetry.Status) bool { return s.Aircraft[1].Mode == "POSCTL" })
	r.MustSendAction("stop")
	mustNotCommand(t, r, 1, 20, "POSCTL")
	if !r.Eventually(func() bool { return r.Autopilots[0].State().Mode == autopilot.ModeHold }) || r.Autopilots[1].State().Mode != autopilot.ModePosition {
		t.Errorf("after the stop: %s and %s", r.Autopilots[0].State().Mode, r.Autopilots[1].State().Mode)
	}
	mustNotCommand(t, r, 0, 20, "stopped")
}

// What keeps an autopilot from arming is known in seconds, in its own words (fault 10).
func TestArmingDeniedIsSaid(t *testing.T) {
	r := rig.New(t, 1, 100000)
	const why = "Preflight Fail: a compass that was bent on purpose"
	r.Autopilots[0].DenyArming(why)
	r.StartLeader()
	r.Await("a start refused for it", func(telemetry.Status) bool {
		ack := r.SendAction("start")
		return !ack.Accepted && strings.Contains(ack.Reason, "pre-arm")
	})
	if r.Autopilots[0].State().Armed {
		t.Error("it was armed")
	}
}

// HEARTBEATs that are lost for eight seconds cost no OFFBOARD: they are asked
// for (fault 9).
func TestFliesOnWithoutHeartbeats(t *testing.T) {
	r := rig.NewAt(t, 1, 100000, 100)
	r.StartLeader()
	r.TakeOff()
	s := r.Await("slot 5", rig.SlotSettled(5))
	r.Autopilots[0].PauseHeartbeats(8)
	r.Await("ten slots on", rig.SlotSettled(s.Slot+10))
	if now := r.Autopilots[0].State(); now.Mode != autopilot.ModeOffboard || !slices.Equal(r.OfferedAircraft(), []int{1}) {
		t.Errorf("%s, offered %v", now.Mode, r.OfferedAircraft())
	}
}
