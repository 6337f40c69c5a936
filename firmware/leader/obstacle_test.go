package leader_test

import (
	"math"
	"strings"
	"testing"

	"prefdt/firmware/rig"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
	"prefdt/simbridge/autopilot"
	"prefdt/telemetry"
)

// An aircraft that falls silent stays in the other's way, also over a restart
// of the leader, until the crew clears it; resume clears nobody (fault 2).
func TestSilentAircraftStaysInTheWay(t *testing.T) {
	r := rig.New(t, 2, 100000)
	r.Steer = func(s *slot.Snapshot, d *slot.Decision) {
		for m := range s.Aircraft {
			d.Move[m] = physics.Position{}
			if s.Aircraft[m].Number == 1 { // along the line of their starts
				d.Move[m].EastM = math.Copysign(min(8.4, math.Abs(990-s.Aircraft[m].Position.EastM)), 990-s.Aircraft[m].Position.EastM)
			}
		}
	}
	f := r.Launch()
	r.TakeOff()
	r.Await("slot 2", rig.At(2))
	r.Craft[1].Silence(1e6)
	r.Await("it is lost", func(s telemetry.Status) bool { a := s.Aircraft[1]; return a.AgeS != nil && *a.AgeS > 11 })
	stopped := func(s telemetry.Status) bool {
		return s.Aircraft[0].SpeedMPS != nil && *s.Aircraft[0].SpeedMPS < 0.5 && r.Craft[0].State().Position.EastM > 600
	}
	s := r.Await("the other stops before it", stopped)
	if d := r.ApartM(); d < 15 || d > 60 {
		t.Errorf("they are %.1f m apart", d)
	}
	r.Await("ten slots on", rig.At(s.Slot+10))
	f.Again(nil)
	s = r.Await("flying again", rig.Flying)
	r.Await("twenty slots on", rig.At(s.Slot+20))
	if d := r.ApartM(); d < 15 || d > 60 {
		t.Errorf("after the restart they are %.1f m apart", d)
	}
	if ack := r.Order("resume"); ack.Accepted {
		t.Errorf("resume with no aircraft at its pilot's: %+v", ack)
	}
	if ack := r.Order("clear", 1); ack.Accepted || !strings.Contains(ack.Reason, "aircraft 1 is not lost") {
		t.Errorf("clear of one that is received: %+v", ack)
	}
	r.MustOrder("clear", 2)
	r.Await("the other flies on", func(telemetry.Status) bool { return r.Craft[0].State().Position.EastM > 700 })
}

// An aircraft that others keep from its home lands beside it.
func TestWayHomeBarred(t *testing.T) {
	r := rig.New(t, 2, 100000)
	home := r.Craft[0].Config.Start
	r.Config.Flight.StartWithinM = 500
	r.Lose(1)
	r.Craft[1].Config.Start.EastM = home.EastM + 15
	r.Replace(1, nil)
	r.Config.Aircraft[0].StartM, r.Config.Aircraft[1].StartM = &[2]float64{100, home.NorthM}, &[2]float64{home.EastM + 15, home.NorthM}
	r.Steer = func(s *slot.Snapshot, d *slot.Decision) { clear(d.Move) }
	r.Launch()
	r.TakeOff()
	r.Await("slot 2", rig.At(2))
	r.Craft[1].Pilot(autopilot.ModeHold)
	r.Await("it is with its pilot", func(s telemetry.Status) bool { return s.Aircraft[1].Mode == "AUTO.LOITER" })
	r.MustOrder("return")
	if !r.Eventually(func() bool { return r.LandedAt(0) }) {
		t.Fatalf("it hovers still: %+v", r.Craft[0].State())
	}
	if off := r.OffHomeM(0); off < 2 || off > 20 || r.ApartM() < 15 {
		t.Errorf("it landed %.1f m from home, %.1f m from the other", off, r.ApartM())
	}
	r.Await("done", rig.Done)
}
