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
	g := newGoal()
	fly := func(slots int, factor float64) {
		for range slots {
			off := 100 * (2*r.Float64() - 1) // joules that went elsewhere than was guessed
			g.Settle(Settlement{EnergyJ: 268.8*factor + 40 + off, EdgeJ: 40, Guessed: true, ModelFlightJ: 268.8, Flying: 2})
		}
	}
	fly(48, 1)
	if math.Abs(g.Factor-1) > 0.06 {
		t.Errorf("multiplier %v in calm air", g.Factor)
	}
	fly(16, 1.5)
	if math.Abs(g.Factor-1.5) > 0.12 {
		t.Errorf("multiplier %v 16 slots after it rose to 1.5", g.Factor)
	}
	g.Settle(Settlement{EnergyJ: 268.8 * 0.9, ModelFlightJ: 268.8, Flying: 2})
	if g.VagueSlots != 0 {
		t.Errorf("%d slots are vague after 64, which make whole measurements", g.VagueSlots)
	}
}
