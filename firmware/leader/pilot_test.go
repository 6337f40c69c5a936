package leader_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"prefdt/simbridge/autopilot"
	"prefdt/simbridge/rig"
	"prefdt/simbridge/simnet"
	"prefdt/telemetry"
)

// mustNotCommand checks that nothing which moves an aircraft is sent to it for some
// statuses once the leader reports why it does not fly.
func mustNotCommand(t *testing.T, r *rig.Rig, i int, statuses int64, why string) {
	t.Helper()
	s := r.Await("the leader reports "+why, func(s telemetry.Status) bool { return strings.Contains(s.Aircraft[i].Reason, why) })
	s = r.Await("what was on its way", rig.StatusesAfter(s, 2))
	before := r.CommandCount(i)
	r.Await("some statuses", rig.StatusesAfter(s, statuses))
	if n := r.CommandCount(i) - before; n > 0 {
		t.Errorf("%d commands and setpoints reached its pilot's aircraft: %+v", n, r.Autopilots[i].State())
	}
}

// An aircraft that is disarmed in its climb is not armed again.
func TestDisarmedInTheClimbIsLeft(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
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
	})
}

// An aircraft that is disarmed in flight is not offered to users, and the mission
// returns without it.
func TestDisarmedInFlightDoesNotFly(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		r := rig.New(t, 2, 100000)
		r.FlyToSlot(5)
		r.Autopilots[1].DisarmByRC()
		mustNotCommand(t, r, 1, 20, "disarmed while")
		if offered := r.OfferedAircraft(); !slices.Equal(offered, []int{1}) {
			t.Errorf("aircraft %v are offered", offered)
		}
		if ack := r.SendAction("resume"); ack.Accepted {
			t.Errorf("resume with no aircraft in the air to resume: %+v", ack)
		}
		r.MustSendAction("return")
		r.Await("done", rig.Done)
	})
}

// A pilot in POSCTL stays in it when the crew stops the mission.
func TestStopLeavesThePilot(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		r := rig.New(t, 2, 100000)
		r.FlyToSlot(5)
		r.Autopilots[1].SetModeByRC(autopilot.ModePosition)
		// Before its next HEARTBEAT the leader cannot know of it.
		r.Await("the leader knows", func(s telemetry.Status) bool { return s.Aircraft[1].Mode == "POSCTL" })
		r.MustSendAction("stop")
		mustNotCommand(t, r, 1, 20, "POSCTL")
		if !r.Eventually(func() bool { return r.Autopilots[0].State().Mode == autopilot.ModeHold }) ||
			r.Autopilots[1].State().Mode != autopilot.ModePosition {
			t.Errorf("after the stop: %s and %s", r.Autopilots[0].State().Mode, r.Autopilots[1].State().Mode)
		}
		mustNotCommand(t, r, 0, 20, "stopped")
	})
}

// The reason why an autopilot does not arm is reported within seconds, as its own text.
func TestArmingDeniedIsReported(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		r := rig.New(t, 1, 100000)
		const why = "Preflight Fail: a compass that was bent on purpose"
		r.Autopilots[0].DenyArming(why)
		r.StartLeader()
		r.Await("a start refused for it", func(telemetry.Status) bool {
			time.Sleep(time.Second)
			ack := r.SendAction("start")
			return !ack.Accepted && strings.Contains(ack.Reason, "pre-arm")
		})
		if r.Autopilots[0].State().Armed {
			t.Error("it was armed")
		}
	})
}

// HEARTBEATs that are lost for eight seconds do not end OFFBOARD: they are requested.
func TestFliesOnWithoutHeartbeats(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		r := rig.New(t, 1, 100000)
		r.FlyToSlot(5)
		s := r.LastStatus()
		r.Autopilots[0].PauseHeartbeats(8)
		r.Await("ten slots on", rig.SlotSettled(s.Slot+10))
		if now := r.Autopilots[0].State(); now.Mode != autopilot.ModeOffboard || !slices.Equal(r.OfferedAircraft(), []int{1}) {
			t.Errorf("%s, offered %v", now.Mode, r.OfferedAircraft())
		}
	})
}
