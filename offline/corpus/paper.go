package corpus

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"prefdt/inference/motion"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
	"prefdt/offline/pareto"
	"prefdt/offline/search"
	"prefdt/offline/seeds"
	"prefdt/simbridge/world"
)

// The paper's recipe, Sec. IV-C, after D4MORL (Zhu, Dang and Grover, ICLR 2023): preferences of
// three Dirichlet tiers within the band of a front, each matched to the member whose realised
// share is nearest, some of them in the corner of least delay, a fifth of the flights by
// scripted heuristics. Package prefdttrain and the methods that learn from flights draw theirs so.

const (
	bandTolerance = 0.05
	cornerMembers = 4
	mostDraws     = 1_000_000 // a band of 0.05 at an end takes millions from the tier that is nearest to the middle
)

var dirichletTiers = []int{1, 3, 8}

// Share returns the delay's part of an outcome over the scales eta, the share of eq.
// (omegastar). The normalisation is a pure ratio: nothing is subtracted.
func Share(p, etas pareto.Point) float64 {
	delay, energy := p.DelayS/etas.DelayS, p.EnergyJ/etas.EnergyJ
	return delay / (delay + energy)
}

// Accepted returns the least and the largest preference that a flight is stored under: the
// band of the members' shares, widened by a tolerance. The settings are between these, too: at
// the band's own ends the regression, a compromise over all flights, asks for less than the
// extreme members realise.
func Accepted(shares []float64) (low, high float64) {
	return max(slices.Min(shares)-bandTolerance, 0), min(slices.Max(shares)+bandTolerance, 1)
}

// DrawHeuristic returns which heuristic flies flight i, if any, from a generator of its own.
func DrawHeuristic(seed, i uint64, share float64) (mode int, flies bool) {
	r := rand.New(rand.NewPCG(seed+1, i))
	if r.Float64() >= share {
		return 0, false
	}
	return r.IntN(len(heuristics)), true
}

// DrawOmega draws a preference: a part in the share window of the four members of least delay,
// the others from Dirichlet distributions of three entropies, a third each, those that are not
// accepted drawn again. The shares are of members in order of delay. It is an error where next to
// none is accepted: at an end of the axis, or where shares are no numbers.
func DrawOmega(r *rand.Rand, shares []float64, corner float64) (float64, error) {
	low, high := Accepted(shares)
	if r.Float64() < corner {
		window := shares[:min(cornerMembers, len(shares))]
		first, last := slices.Min(window), slices.Max(window)
		return first + (last-first)*r.Float64(), nil
	}
	alpha := dirichletTiers[r.IntN(len(dirichletTiers))]
	for range mostDraws {
		// The first entry of a symmetric Dirichlet distribution, as a ratio of gamma variates.
		a, b := 0.0, 0.0
		for range alpha {
			a += r.ExpFloat64()
			b += r.ExpFloat64()
		}
		if omega := a / (a + b); omega >= low && omega <= high {
			return omega, nil
		}
	}
	return 0, fmt.Errorf("of %d preferences drawn none is from %v to %v, where the front's members are", mostDraws, low, high)
}

// heuristic is one of the three fixed modes of the quality pool. It flies at v*, or hovers,
// and gives the nearest aircraft a fraction of each task that is then done sooner.
type heuristic struct {
	hovers  bool
	offload float64
}

// heuristics are the modes. The paper says that there are three, and not which.
var heuristics = []heuristic{{hovers: true}, {offload: 0.5}, {offload: 1}}

// DecideHeuristic decides a slot by a mode of the quality pool.
func DecideHeuristic(mode int, c *world.Config, s *slot.Snapshot, d *slot.Decision) {
	h := heuristics[mode]
	d.Resize(s)
	for u := range s.Users {
		user, best := &s.Users[u], 0
		for m := range s.Aircraft {
			if user.Position.Sub(s.Aircraft[m].Position).Norm() < user.Position.Sub(s.Aircraft[best].Position).Norm() {
				best = m
			}
		}
		local := user.Task.LocalTimeS(user.CPUHz)
		offload := user.Task.OffloadTimeS(c.Physics.EqualShare(user.Gain[best], s.Aircraft[best].CPUHz, float64(len(s.Users))))
		if physics.CompletionS(local, offload, h.offload) < local {
			d.Users[u] = slot.UserDecision{Server: best + 1, Offload: h.offload}
		}
	}
	d.Evaluate(&c.Physics, s)
	if !h.hovers {
		speedMPS := c.Physics.Propulsion.BestSpeedMPS(c.Physics.SpeedMaxMPS)
		for m := range s.Aircraft {
			d.Move[m] = motion.MoveToward(s.Aircraft[m].Position, c.Start(s.Aircraft[m].Number-1), speedMPS, speedMPS)
		}
	}
}

// FlownRules flies every rule of a search on the first training seeds and returns those
// whose mean outcomes make a front: a search's own outcomes are means over three episodes.
func FlownRules(ctx context.Context, found *search.Archive, episodes, workers int) (Archive, error) {
	a := Archive{Episodes: episodes}
	outcomes, err := search.Fly(ctx, &found.Config.World, found.Members, seeds.List(0, episodes), workers, nil)
	if err != nil {
		return a, err
	}
	points := pareto.MeanPoints(outcomes)
	for _, p := range pareto.NonDominated(points) {
		a.Append(p, 0, found.Members[slices.Index(points, p)].Genes)
	}
	return a, a.Check()
}
