package leader

import (
	"math"
	"testing"

	"prefdt/telemetry"
)

// An autopilot that is rebooted in the air says nothing for five seconds, and
// its counter and its time begin anew. What it drew since is its counter's: only
// the moment before the boot is left to the model. If it fell it drew nothing,
// and what was booked of it meanwhile, at hover, is stated as an error.
func TestRebootCostsNoJoules(t *testing.T) {
	for name, inAir := range map[string]bool{"flies on": true, "falls": false} {
		t.Run(name, func(t *testing.T) {
			r := newRigAt(t, 2, 2000, 100)
			f := r.launch()
			r.takeOff()
			r.await("slot 6", at(6))
			r.craft[1].Reboot(inAir)
			s := r.await("it is heard again", func(s telemetry.Status) bool {
				a := s.Aircraft[1]
				return s.Slot > 14 && a.AgeS != nil && *a.AgeS < 1 && a.EnergySource == "energy_consumed"
			})
			s = r.await("two slots on", at(s.Slot+2))
			if !r.until(func() bool { _, marked := r.truthJ[s.Slot+1]; return marked }) {
				t.Fatal("no beacon after it")
			}
			r.mutex.Lock()
			booked := s.SpentJ + s.TransitJ - r.truthJ[s.Slot+1]
			r.mutex.Unlock()
			metered, stated := -r.trueJ(), 0.0
			for _, v := range f.fleet.Views(nil) {
				metered, stated = metered+v.TotalJ, stated+v.ErrorJ
			}
			t.Logf("booked %+.0f J, metered %+.0f J, stated %.0f J", booked, metered, stated)
			// Two counters of 100 J, and a quarter of a second before the boot.
			if math.Abs(metered) > 200 || math.Abs(metered) > stated {
				t.Errorf("metered %+.0f J, stated %.0f J", metered, stated)
			}
			if inAir && math.Abs(booked) > 200 || booked < -200 {
				t.Errorf("booked %+.0f J", booked)
			}
			f.kill(t)
			over := 0.0
			for _, a := range f.lastRow.Aircraft {
				over += a.ErrorJ
			}
			if math.Abs(booked) > over {
				t.Errorf("booked %+.0f J, the row states %.0f J", booked, over)
			}
		})
	}
}
