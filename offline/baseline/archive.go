package baseline

import (
	"math"
	"math/rand/v2"

	"prefdt/inference/goal"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
	"prefdt/offline/pareto"
	"prefdt/offline/rollout"
)

// Archive decides as the member of an archive that is nearest to the request, eq. (match);
// for a budget, as the one whose mean energy is nearest. It does not look at what was spent.
type Archive struct {
	Omegas    []float64 // by member
	EnergiesJ []float64
	DecideAs  func(member int, s *slot.Snapshot, d *slot.Decision)
	OnReset   func() // nil: nothing is to be done
	// Replans chooses a budget's member in each slot, for the joules left. Otherwise it is that
	// of the total.
	Replans bool
}

// Reset starts another flight.
func (a *Archive) Reset() {
	if a.OnReset != nil {
		a.OnReset()
	}
}

// Decide decides a slot.
func (a *Archive) Decide(s *slot.Snapshot, g goal.Objective, d *slot.Decision) goal.Observation {
	xs, x := a.Omegas, g.Omega()
	if g.Budgeted() {
		xs, x = a.EnergiesJ, g.BudgetJ()
		if a.Replans {
			x = g.CalmMissionJ()
		}
	}
	a.DecideAs(pareto.Nearest(xs, x), s, d)
	return goal.Observation{}
}

// NewRandom decides at random, the same for the same setting in the same slot.
func NewRandom(c *physics.Constants) rollout.PolicyFunc {
	return func(s *slot.Snapshot, g goal.Objective, d *slot.Decision) {
		d.Resize(s)
		rng := rand.New(rand.NewPCG(math.Float64bits(g.Omega()), uint64(s.Slot)))
		for u := range s.Users {
			d.Users[u].Server = rng.IntN(len(s.Aircraft) + 1)
			if d.Users[u].Server > 0 {
				d.Users[u].Offload = rng.Float64()
			}
		}
		for m := range s.Aircraft {
			north, east := math.Sincos(2 * math.Pi * rng.Float64())
			length := c.SpeedMaxMPS * rng.Float64()
			d.Move[m] = physics.Position{EastM: length * east, NorthM: length * north}
		}
		d.Evaluate(c, s)
	}
}
