package prefdttrain

import (
	"math"

	"prefdt/inference/checkpoint"
	"prefdt/inference/dispatch"
	"prefdt/inference/goal"
	"prefdt/inference/physics"
	"prefdt/inference/prefdt"
)

// Checkpoint returns parameters trained on the corpus as a checkpoint that is not yet
// calibrated.
func (m *Corpus) Checkpoint(f *prefdt.Form, parameters []float32) (*checkpoint.Checkpoint, error) {
	net, err := prefdt.NewNet(f, parameters)
	if err != nil {
		return nil, err
	}
	low, high := m.Accepted()
	constants := m.GoalConstants()
	return &checkpoint.Checkpoint{Paper: net, Manifest: checkpoint.Manifest{
		Published:     &prefdt.Archived{Form: *f, Statistics: m.Rows, UserPrior: m.userPrior()},
		GoalConstants: constants, PriceCurve: priceCurve(&constants), OmegaBand: [2]float64{low, high}, Physics: m.World.Physics,
		World: m.World.Record(),
	}}, nil
}

// userPrior is the prior over users that the world's draws are.
func (m *Corpus) userPrior() dispatch.UserPrior {
	c := &m.World
	spread := func(low, high float64) float64 { return (high - low) / math.Sqrt(12) } // deviation of a uniform draw
	return dispatch.UserPrior{
		ActiveUsers: float64(c.ActiveMin+c.ActiveMax) / 2 * c.TaskProbability, CPUHz: c.UserCPUHz,
		TaskMean: physics.Task{Bits: (c.BitsMin + c.BitsMax) / 2, CyclesPerBit: c.CyclesPerBit,
			DeadlineS: (c.DeadlineMinS + c.DeadlineMaxS) / 2},
		TaskStdDev: physics.Task{Bits: spread(c.BitsMin, c.BitsMax), DeadlineS: spread(c.DeadlineMinS, c.DeadlineMaxS)},
	}
}

// priceCurve returns the price at each position of the front that the conditioner describes.
// The form does not read it; what compares budgets with other schedulers does.
func priceCurve(g *goal.Constants) (a checkpoint.PriceCurve) {
	for _, omega := range g.Conditioner.Omegas {
		y, price := g.FrontPosition(omega), prefdt.PriceSPerJ(&g.Conditioner, omega)
		if n := len(a.PricesSPerJ); n == 0 || y > a.FrontPositions[n-1] && price > a.PricesSPerJ[n-1] {
			a.FrontPositions, a.PricesSPerJ = append(a.FrontPositions, y), append(a.PricesSPerJ, price)
		}
	}
	return a
}
