package leader_test

import (
	"slices"
	"testing"

	"prefdt/simbridge/autopilot"
	"prefdt/simbridge/rig"
	"prefdt/simbridge/simnet"
	"prefdt/telemetry"
)

// startedWithPilot is a leader that starts while the only aircraft is with its pilot, in a mode.
func startedWithPilot(t *testing.T, r *rig.Rig, mode autopilot.Mode) {
	t.Helper()
	f := r.FlyToSlot(3)
	r.SetModeAsPilot(0, mode)
	r.Await("it is with its pilot", func(s telemetry.Status) bool { return s.Aircraft[0].Reason != "" })
	r.AwaitSaved()
	before := r.Beacons()
	f.Restart(nil)
	s := r.Await("slots go on", func(s telemetry.Status) bool { return s.Slot > before[len(before)-1]+3 })
	if !rig.Flying(s) || r.Autopilots[0].State().Mode != mode {
		t.Errorf("%s, and it is in %s", s.State, r.Autopilots[0].State().Mode)
	}
	r.CheckSlotsInOrder()
}

// A leader that starts while every aircraft is with its pilot opens its slots, and flies once the crew resumes.
func TestStartedWhileAllAreWithTheirPilots(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		r := rig.New(t, 1, 100000)
		startedWithPilot(t, r, autopilot.ModeHold)
		r.MustSendAction("resume")
		s := r.LastStatus()
		r.Await("it flies by setpoints of slots", func(s telemetry.Status) bool {
			return s.Aircraft[0].Mode == "OFFBOARD" && *s.Aircraft[0].SpeedMPS > 5
		})
		r.Await("fifteen slots on", rig.SlotSettled(s.Slot+15)) // longer than a stream without setpoints of slots
		if got := r.OfferedAircraft(); !slices.Equal(got, []int{1}) {
			t.Errorf("aircraft %v are offered", got)
		}
		r.MustSendAction("return")
		r.Await("done", rig.Done)
	})
}

// Killed twice while an autopilot returns by itself: the crew's return ends the mission, and another may begin.
func TestStartedTwiceWhileItReturnsByItself(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		r := rig.New(t, 1, 100000)
		startedWithPilot(t, r, autopilot.ModeReturn)
		r.MustSendAction("return")
		r.Await("done", rig.Done)
		if !r.Eventually(func() bool { return r.Landed(0) }) {
			t.Fatal("it does not land")
		}
		if ack := r.SendMission(telemetry.Mission{Action: "new", Mission: "next"}); !ack.Accepted {
			t.Errorf("%+v", ack)
		}
	})
}

// A leader that is stopped, or ordered to return, before it has received anything ends its wait.
func TestReturnWhileNothingIsReceived(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		r := rig.New(t, 1, 100000)
		f := r.FlyToSlot(3)
		r.SetModeAsPilot(0, autopilot.ModeHold)
		r.Await("it is with its pilot", func(s telemetry.Status) bool { return s.Aircraft[0].Reason != "" })
		r.AwaitSaved()
		f.Restart(func() { r.CloseAutopilot(0) })
		r.Await("a status", rig.AnyStatus)
		r.MustSendAction("return")
		r.Await("done", rig.Done)
	})
}
