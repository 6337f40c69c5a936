package leader

import (
	"math"
	"testing"

	"prefdt/inference/physics"
	"prefdt/inference/slot"
	"prefdt/simbridge/autopilot"
	"prefdt/telemetry"
)

// apartM is the distance of the first two aircraft, in truth.
func (r *rig) apartM() float64 {
	a, b := r.craft[0].State().Position, r.craft[1].State().Position
	return math.Hypot(a.EastM-b.EastM, a.NorthM-b.NorthM)
}

// An aircraft that falls silent stays in the other's way, also over a restart
// of the leader, until the crew says that it is gone.
func TestSilentAircraftStaysInTheWay(t *testing.T) {
	r := newRig(t, 2, 100000)
	r.steer = func(s *slot.Snapshot, d *slot.Decision) {
		for m := range s.Aircraft {
			d.Move[m] = physics.Position{}
			if s.Aircraft[m].Number == 1 { // along the line of their starts
				d.Move[m].EastM = math.Copysign(min(8.4, math.Abs(990-s.Aircraft[m].Position.EastM)), 990-s.Aircraft[m].Position.EastM)
			}
		}
	}
	f := r.launch()
	r.takeOff()
	r.await("slot 2", at(2))
	r.craft[1].Silence(1e6)
	r.await("it is lost", func(s telemetry.Status) bool { a := s.Aircraft[1]; return a.AgeS != nil && *a.AgeS > 11 })
	stopped := func(s telemetry.Status) bool {
		return s.Aircraft[0].SpeedMPS != nil && *s.Aircraft[0].SpeedMPS < 0.5 && r.craft[0].State().Position.EastM > 600
	}
	s := r.await("the other stops before it", stopped)
	if d := r.apartM(); d < 15 || d > 60 {
		t.Errorf("they are %.1f m apart", d)
	}
	r.await("ten slots on", at(s.Slot+10))
	r.again(f, func() {})
	s = r.await("flying again", flying)
	r.await("twenty slots on", at(s.Slot+20))
	if d := r.apartM(); d < 15 || d > 60 {
		t.Errorf("after the restart they are %.1f m apart", d)
	}
	if ack := r.mission("resume"); !ack.Accepted {
		t.Fatalf("resume: %+v", ack)
	}
	r.await("the other flies on", func(s telemetry.Status) bool { return r.craft[0].State().Position.EastM > 700 })
	if ack := r.mission("resume"); ack.Accepted {
		t.Errorf("a second resume, with nobody in the way: %+v", ack)
	}
}

// An aircraft that others keep from its home lands beside it.
func TestWayHomeBarred(t *testing.T) {
	r := newRig(t, 2, 100000)
	home := r.craft[0].Config.Start
	r.lose[1]()
	r.craft[1].Config.Start.EastM = home.EastM + 15
	r.replace(1, nil)
	r.config.Aircraft[0].StartM, r.config.Aircraft[1].StartM = &[2]float64{100, home.NorthM}, &[2]float64{home.EastM + 15, home.NorthM}
	r.steer = func(s *slot.Snapshot, d *slot.Decision) { clear(d.Move) }
	r.launch()
	r.takeOff()
	r.await("slot 2", at(2))
	r.craft[1].Pilot(autopilot.ModeHold)
	r.await("it is with its pilot", func(s telemetry.Status) bool { return s.Aircraft[1].Mode == "AUTO.LOITER" })
	r.mission("return")
	if !r.eventually(func() bool { return r.landedAt(0) }) {
		t.Fatalf("it hovers still: %+v", r.craft[0].State())
	}
	if off := r.offHomeM(0); off < 2 || off > 20 || r.apartM() < 15 {
		t.Errorf("it landed %.1f m from home, %.1f m from the other", off, r.apartM())
	}
	r.await("done", done)
}
