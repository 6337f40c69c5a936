package fleet

import (
	"math"
	"testing"
	"time"

	"prefdt/inference/physics"
)

// A copter that may return as it came does so after a restart of its leader, too: others keep clear of that way, not of the straight
// one.
func TestWayIsRememberedOverARestart(t *testing.T) {
	v := newSimCopter(newFixture(t), 1, physics.Position{EastM: 300, NorthM: 300})
	v.simulate(time.Second, nil)
	v.armed, v.landed, v.upM, v.mode = true, false, 100, copterGuided
	var way []physics.Position
	for s := 0.0; s < 120; s++ { // east, then north on a bow
		bow := 40 * math.Sin(s/20)
		v.position = physics.Position{EastM: 300 + 8*min(s, 50) + bow, NorthM: 300 + 8*max(s-50, 0)}
		v.simulate(time.Second, nil)
		way = append(way, v.position)
	}
	v.Fleet.aircraft[0].home = &physics.Position{EastM: 300, NorthM: 300}
	saved := v.savedUnderCommand()
	if n := len(saved[0].CameBy); n == 0 || n > 60 {
		t.Fatalf("%d corners are saved of %d", n, len(v.Fleet.aircraft[0].cameBy))
	}
	v.replaceLeader(saved)
	v.simulate(3*time.Second, nil)
	v.mode = copterSmartRTL
	v.simulate(2*time.Second, nil)
	a := v.Fleet.aircraft[0]
	if !a.retraces() {
		t.Fatalf("in %s", a.modeName())
	}
	for _, p := range way {
		if d := distanceToPath(p, append(a.cameBy[:len(a.cameBy):len(a.cameBy)], a.position)); d > 2 {
			t.Errorf("(%.0f, %.0f) is %.1f m beside the way that is remembered, of %d corners", p.EastM, p.NorthM, d, len(a.cameBy))
			break
		}
	}
	for i := len(way) - 1; i > 40; i-- { // it comes back, and what lies behind it is forgotten
		v.position = way[i]
		v.simulate(time.Second, nil)
	}
	last := a.cameBy[len(a.cameBy)-1]
	if n, d := len(a.cameBy), last.Sub(v.position).Norm(); n > 80 || d > cornerM+1 {
		t.Errorf("on its way back it remembers %d corners, the last %.1f m away", n, d)
	}
}
