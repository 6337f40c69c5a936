package judge

import "testing"

// A decision after its time is seen, also of a leader that stood still.
func TestDecisionTime(t *testing.T) {
	for _, x := range []struct {
		atS    float64
		broken int
	}{{0.59, 0}, {0.7, 1}} {
		f := servingFlight()
		f.fail("leader_down", 0, f.beacons[8].timeS-2, f.beacons[8].timeS)
		for k := range f.decisions {
			if d := &f.decisions[k]; d.Slot == 8 && d.user == "u1" {
				d.timeS = f.beacons[8].timeS + x.atS
			}
		}
		if got := judged(t, "decision time", f); got.Broken != x.broken || got.Active == 0 {
			t.Errorf("%.2f s after the beacon: %+v", x.atS, got)
		}
	}
}

// One that climbs on with less than its reserve and its landing is seen, and not one that turns back in time.
func TestClimbsOn(t *testing.T) {
	for _, x := range []struct {
		leftJ, turnsS float64
		broken        int
	}{{60e3, 40, 0}, {15e3, 18, 0}, {15e3, 30, 1}} {
		f := wholeFlight()
		f.from(1, 12, wholeS, func(s *state) { s.LeftJ = x.leftJ })
		f.from(1, x.turnsS, wholeS, func(s *state) { s.Mode = land })
		f.from(2, 0, wholeS, func(s *state) { s.LeftJ = 60e3 })
		if got := judged(t, "climbs on", f); got.Broken != x.broken || got.Active == 0 {
			t.Errorf("%.0f J until %.0f s: %+v", x.leftJ, x.turnsS, got)
		}
	}
}

// One that stays outside is seen, and one that comes in from there is not.
func TestComesIn(t *testing.T) {
	for _, x := range []struct {
		toS    float64
		broken int
	}{{60, 0}, {68, 1}} {
		f := wholeFlight()
		f.from(1, 50, x.toS, func(s *state) { s.PositionM[0] = -3 })
		if got := judged(t, "comes in", f); got.Broken != x.broken || got.Active == 0 {
			t.Errorf("outside until %.0f s: %+v", x.toS, got)
		}
	}
}
