package goal

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Guesses that are off by half a flight's power every other slot move the
// multiplier little; a change of physics among them is found.
func TestGuessedEdgeEnergy(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	g := newObjective()
	fly := func(slots int, factor float64) {
		for range slots {
			off := 100 * (2*r.Float64() - 1) // joules that went elsewhere than was guessed
			g.Settle(Settlement{EnergyJ: 268.8*factor + 110 + off, EdgeJ: 110, MinEdgeJ: 10, MaxEdgeJ: 210, ModelFlightJ: 268.8, Flying: 2})
		}
	}
	fly(48, 1)
	if math.Abs(g.PropulsionMultiplier()-1) > 0.06 {
		t.Errorf("multiplier %v in calm air", g.PropulsionMultiplier())
	}
	fly(16, 1.5)
	if math.Abs(g.PropulsionMultiplier()-1.5) > 0.12 {
		t.Errorf("multiplier %v 16 slots after it rose to 1.5", g.PropulsionMultiplier())
	}
	g.Settle(Settlement{EnergyJ: 268.8 * 0.9, ModelFlightJ: 268.8, Flying: 2})
	if g.state.PendingSlots != 0 {
		t.Errorf("%d slots are vague after 64, which make whole measurements", g.state.PendingSlots)
	}
}

// One slot is enough to see a shock that no guess explains; the next
// measurement says how large it is.
func TestGuessDoesNotHideAShock(t *testing.T) {
	g := newObjective()
	settle := func(factor, edgeJ, leastJ, mostJ float64) {
		g.Settle(Settlement{EnergyJ: 268.8*factor + 200, EdgeJ: edgeJ, MinEdgeJ: leastJ, MaxEdgeJ: mostJ, ModelFlightJ: 268.8, Flying: 2})
	}
	for range 20 {
		settle(1, 200, 0, 0)
	}
	settle(1, 120, 60, 220)
	if math.Abs(g.PropulsionMultiplier()-1) > 1e-9 || g.state.PendingSlots != 1 {
		t.Errorf("a guess moved the multiplier to %v", g.PropulsionMultiplier())
	}
	settle(1.5, 120, 60, 220)
	if want := 1.5 + 80/268.8; math.Abs(g.PropulsionMultiplier()-want) > 1e-9 || g.state.PendingSlots != 0 {
		t.Errorf("multiplier %v, want the guess %v", g.PropulsionMultiplier(), want)
	}
	settle(1.5, 200, 0, 0)
	if math.Abs(g.PropulsionMultiplier()-1.5) > 0.01 {
		t.Errorf("multiplier %v after a measurement of 1.5", g.PropulsionMultiplier())
	}
	settle(1, 220, 150, 300)
	if want := 1 - 20/268.8; math.Abs(g.PropulsionMultiplier()-want) > 1e-9 {
		t.Errorf("multiplier %v, want the guess %v", g.PropulsionMultiplier(), want)
	}
}
