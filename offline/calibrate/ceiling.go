package calibrate

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"prefdt/inference/checkpoint"
	"prefdt/inference/goal"
	"prefdt/offline/baseline"
	"prefdt/offline/jobs"
	"prefdt/offline/rollout"
	"prefdt/offline/seeds"
	"prefdt/simbridge/world"
)

// ViolationRate is the rate of violations that ceilings are calibrated for.
const ViolationRate = 0.005

// disturbance is one condition of a calibration flight.
type disturbance struct {
	name  string
	apply func(c *world.Config, r *rand.Rand)
}

var disturbances = []disturbance{
	{"calm air", func(*world.Config, *rand.Rand) {}},
	{"gusts of 5 %", func(c *world.Config, _ *rand.Rand) { c.Gust = 0.05 }},
	{"gusts of 15 %", func(c *world.Config, _ *rand.Rand) { c.Gust = 0.15 }},
	{"calm air, flight power x0.8 to x2 from a random slot", func(c *world.Config, r *rand.Rand) {
		c.Shock = world.Shock{FromSlot: r.IntN(c.Slots), Factor: 0.8 + 1.2*r.Float64()}
	}},
	{"edge energy x0.7 to x1.3 of its closed form", func(c *world.Config, r *rand.Rand) { c.EdgeFactor = 0.7 + 0.6*r.Float64() }},
}

// trial is one calibration flight: a world and a ceiling drawn evenly from the
// flight floor there to what the least delay takes above it.
type trial struct {
	seed     uint64
	world    world.Config
	ceilingJ float64
	keepable bool // by the reference even pacer
	violated bool // at some margin tried so far
}

func newTrial(s *goal.Constants, c world.Config, seed uint64, k int) trial {
	r := rand.New(rand.NewPCG(seed, uint64(k)))
	disturbances[k].apply(&c, r)
	_, powerW := c.Physics.MinPower()
	best := powerW * float64(c.Aircraft)
	floor := 0.0
	for slot := range c.Slots {
		floor += best * c.PropulsionFactor(slot)
	}
	span := s.Conditioner.EnergyJ[0]*float64(c.Slots*c.Aircraft)/float64(s.Slots*s.AircraftCount) - best*float64(c.Slots)
	return trial{seed: seed, world: c, ceilingJ: floor + r.Float64()*max(span, 0)}
}

// keeps reports whether the flight, by a runner in its world, keeps its ceiling to within a ratio.
func (t *trial) keeps(f *rollout.Runner, within float64) bool {
	return f.Fly(t.seed, rollout.Request{Mode: goal.Ceiling, BudgetJ: t.ceilingJ}).EnergyJ <= t.ceilingJ*within
}

// candidateMargins are tried in this order, in standard deviations of the cost of
// flying one slot. A normal deviate exceeds 2.6 at the calibrated rate.
var candidateMargins = []float64{5, 4, 3.5, 3.3, 3.2, 3.1, 3, 2.9, 2.8, 2.7, 2.6, 2.5, 2.25, 2, 1.5, 1, 0.5, 0}

// allowedViolations is how many of n flights may be violated at the guaranteed rate;
// negative: so few flights can guarantee nothing.
func allowedViolations(n int) int { return int(ViolationRate*float64(n+1)+1e-9) - 1 }

// CheckCeilingSeeds returns why a margin cannot be fitted on these seeds.
func CheckCeilingSeeds(list []uint64) error {
	if allowedViolations(len(list)) < 0 {
		return fmt.Errorf("calibrate: %d flights cannot guarantee a rate of %v, want %.0f at least", len(list), ViolationRate,
			1/ViolationRate-1)
	}
	if err := seeds.CheckAll(list, seeds.CheckCalibration); err != nil {
		return fmt.Errorf("calibrate: %w", err)
	}
	return nil
}

// fitCeilingMargin finds the least margin that guarantees a rate of violations, on one
// flight a seed in each condition.
//
// This is split conformal prediction (Vovk, Gammerman, Shafer, Algorithmic
// Learning in a Random World, 2005): the score of a flight is the least margin
// from which on, upwards, it is not violated; a margin that at most
// ViolationRate (n+1) - 1 of n scores exceed is exceeded by the score of the next
// exchangeable flight at most at that rate. Margins are tried downwards, and a
// flight that was violated once counts as violated from there on.
//
// tried is what an earlier call handed to progress and need not be flown again:
// the trials that each of the first margins violated.
func fitCeilingMargin(ctx context.Context, frozen *checkpoint.Checkpoint, c world.Config, list []uint64, workers int, tried [][]int,
	progress func(margin float64, violations []int, violated []int) error) (goal.CeilingMargin, error) {
	p := goal.CeilingMargin{ViolationRate: ViolationRate, Flights: len(list)}
	if err := CheckCeilingSeeds(list); err != nil {
		return p, err
	}
	allowed := allowedViolations(len(list))
	var trials []trial
	for k := range disturbances {
		p.Conditions = append(p.Conditions, disturbances[k].name)
		for _, seed := range list {
			trials = append(trials, newTrial(&frozen.GoalConstants, c, seed, k))
		}
	}
	if err := jobs.Do(ctx, len(trials), workers, jobs.Stateless, func(_ struct{}, j int) error {
		t := &trials[j]
		f, err := rollout.NewWithPolicy(baseline.NewEven(&t.world.Physics), &frozen.GoalConstants, t.world, rollout.ReportLink{})
		t.keepable = err == nil && t.keeps(f, baseline.KeepableWithin)
		return err
	}, nil); err != nil {
		return p, err
	}
	for i, margin := range candidateMargins {
		at := *frozen
		at.GoalConstants.CeilingMargin.StdDevs = margin
		if i < len(tried) {
			for _, j := range tried[i] {
				trials[j].violated = true
			}
		} else if err := jobs.Do(ctx, len(trials), workers, jobs.Stateless, func(_ struct{}, j int) error {
			t := &trials[j]
			if t.violated || !t.keepable {
				return nil
			}
			f, err := newRunner(&at, t.world)
			t.violated = err == nil && !t.keeps(f, 1+1e-6)
			return err
		}, nil); err != nil {
			return p, err
		}
		violations, violated := make([]int, len(disturbances)), []int{}
		for j := range trials {
			if trials[j].violated {
				violations[j/len(list)]++
				violated = append(violated, j)
			}
		}
		if i >= len(tried) {
			if err := progress(margin, violations, violated); err != nil {
				return p, err
			}
		}
		if most := slices.Max(violations); most > allowed && i > 0 {
			return p, nil
		} else if most > allowed {
			return p, fmt.Errorf("calibrate: with a margin of %v deviations, %v of %d flights exceed their ceiling in %q, want "+
				"%d at most", margin, violations, len(list), p.Conditions, allowed)
		}
		p.StdDevs, p.Violations = margin, violations
	}
	return p, nil
}
