package leader_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"prefdt/inference/physics"
	"prefdt/inference/slot"
	"prefdt/simbridge/autopilot"
	"prefdt/simbridge/rig"
	"prefdt/simbridge/simnet"
	"prefdt/telemetry"
)

// An aircraft that is not received any more stays an obstacle to the other, also over
// a restart of the leader, until the crew clears it; resume clears nothing.
func TestSilentAircraftStaysAnObstacle(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		r := rig.New(t, 2, 100000)
		r.OverrideDecision = func(s *slot.Snapshot, d *slot.Decision) {
			for m := range s.Aircraft {
				d.Move[m] = physics.Position{}
				if s.Aircraft[m].Number == 1 { // along the line of their starts
					d.Move[m].EastM = math.Copysign(min(8.4, math.Abs(990-s.Aircraft[m].Position.EastM)), 990-s.Aircraft[m].Position.EastM)
				}
			}
		}
		f := r.FlyToSlot(2)
		r.Autopilots[1].CutLinks(1e6)
		r.Await("it is lost", func(s telemetry.Status) bool { a := s.Aircraft[1]; return a.AgeS != nil && *a.AgeS > 11 })
		stopped := func(s telemetry.Status) bool {
			return s.Aircraft[0].SpeedMPS != nil && *s.Aircraft[0].SpeedMPS < 0.5 && r.Autopilots[0].State().Position.EastM > 600
		}
		s := r.Await("the other stops before it", stopped)
		if d := separationM(r); d < 15 || d > 60 {
			t.Errorf("they are %.1f m apart", d)
		}
		r.Await("ten slots on", rig.SlotSettled(s.Slot+10))
		f.Restart(nil)
		s = r.Await("flying again", rig.Flying)
		r.Await("twenty slots on", rig.SlotSettled(s.Slot+20))
		if d := separationM(r); d < 15 || d > 60 {
			t.Errorf("after the restart they are %.1f m apart", d)
		}
		if ack := r.SendAction("resume"); ack.Accepted {
			t.Errorf("resume with no aircraft at its pilot's: %+v", ack)
		}
		if ack := r.SendAction("clear", 1); ack.Accepted || !strings.Contains(ack.Reason, "the others keep clear of it") {
			t.Errorf("clear of one that is received: %+v", ack)
		}
		r.MustSendAction("clear", 2)
		r.Await("the other flies on", func(telemetry.Status) bool { return r.Autopilots[0].State().Position.EastM > 700 })
	})
}

// An aircraft that others block from its home lands beside them.
func TestWayHomeBlocked(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		r := rig.New(t, 2, 100000)
		home := r.Autopilots[0].Config.Start
		r.Config.Flight.StartWithinM = 500
		r.CloseAutopilot(1)
		r.Autopilots[1].Config.Start.EastM = home.EastM + 15
		r.ReplaceParameters(1, nil)
		r.Config.Aircraft[0].StartM, r.Config.Aircraft[1].StartM = &[2]float64{100, home.NorthM}, &[2]float64{home.EastM + 15, home.NorthM}
		r.OverrideDecision = func(s *slot.Snapshot, d *slot.Decision) { clear(d.Move) }
		r.FlyToSlot(2)
		r.Autopilots[1].SetModeByRC(autopilot.ModeHold)
		r.Await("it is with its pilot", func(s telemetry.Status) bool { return s.Aircraft[1].Mode == "AUTO.LOITER" })
		r.MustSendAction("return")
		if !r.Eventually(func() bool { return r.Landed(0) }) {
			t.Fatalf("it hovers still: %+v", r.Autopilots[0].State())
		}
		if off := r.HomeDistanceM(0); off < 2 || off > 20 || separationM(r) < 15 {
			t.Errorf("it landed %.1f m from home, %.1f m from the other", off, separationM(r))
		}
		r.Await("done", rig.Done)
	})
}

// An aircraft that fell at another's home, or 7 m from it, lies there: the other lands beside it.
func TestAnotherLiesAtItsHome(t *testing.T) {
	for _, offM := range []float64{0, 7} {
		t.Run(fmt.Sprint(offM), func(t *testing.T) { simnet.Test(t, func(t *testing.T) { liesNearHome(t, offM) }) })
	}
}

func liesNearHome(t *testing.T, offM float64) {
	r := rig.New(t, 2, 100000)
	home := r.Autopilots[0].Config.Start
	home.NorthM += offM
	r.OverrideDecision = func(s *slot.Snapshot, d *slot.Decision) {
		for m := range s.Aircraft {
			d.Move[m] = physics.Position{EastM: -5}
			if s.Aircraft[m].Number == 2 {
				way := physics.Position{EastM: home.EastM, NorthM: home.NorthM}.Sub(s.Aircraft[m].Position)
				d.Move[m] = way.Scale(min(1, 8/max(way.Norm(), 1e-9)))
			}
		}
	}
	r.FlyToSlot(2)
	over := func(telemetry.Status) bool {
		s := r.Autopilots[1].State()
		return math.Hypot(s.Position.EastM-home.EastM, s.Position.NorthM-home.NorthM) < 1 && s.SpeedMPS() < 0.3
	}
	r.Await("it is over the other's home", over)
	r.Autopilots[1].Reboot(false)
	r.Await("it lies there", func(s telemetry.Status) bool { return s.Aircraft[1].Landed != nil && *s.Aircraft[1].Landed })
	r.MustSendAction("return")
	if !r.Eventually(func() bool { return r.Landed(0) }) {
		t.Fatalf("it hovers still: %+v", r.Autopilots[0].State())
	}
	if d := separationM(r); d < 9 || r.HomeDistanceM(0) > 20 {
		t.Errorf("it landed %.1f m from the other, %.1f m from home", d, r.HomeDistanceM(0))
	}
}

// separationM is the true distance of the first two aircraft.
func separationM(r *rig.Rig) float64 {
	a, b := r.Autopilots[0].State().Position, r.Autopilots[1].State().Position
	return math.Hypot(a.EastM-b.EastM, a.NorthM-b.NorthM)
}
