// Package baseline has the schedulers without a network that the policy is judged
// against: the reference even pacer, by which "a budget that can be kept" is
// defined, a constant price, greedy spending, and controllers that forecast what
// their prices spend.
//
// Inputs: the slot's snapshot and the mission's objective, as the policy receives
// them. Outputs: a decision. All of them dispatch exactly and fly as the teacher
// does; they differ in the price of energy alone. The evaluation and the study fly
// them through package rollout.
package baseline

import (
	"prefdt/inference/budget"
	"prefdt/inference/dispatch"
	"prefdt/inference/goal"
	"prefdt/inference/motion"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
)

// flight is what all baselines share: exact dispatch at a price, and the teacher's
// motion at that price.
type flight struct {
	constants  *physics.Constants
	bestMPS    float64 // v*
	minFlightW float64 // P(v*)

	solver    dispatch.Solver
	planner   motion.Planner
	limiter   motion.Limiter
	targets   []physics.Position
	positions []physics.Position
}

func newFlight(c *physics.Constants) flight {
	bestMPS, minFlightW := c.MinPower()
	return flight{constants: c, bestMPS: bestMPS, minFlightW: minFlightW}
}

// observe adds a slot's users to what motion is planned for.
func (f *flight) observe(s *slot.Snapshot, d *slot.Decision) {
	d.Resize(s)
	f.planner.Observe(s.Users)
	f.targets = f.planner.Targets(f.constants, s.Aircraft, f.targets)
}

// solve dispatches the slot at a price and returns what that spends above the
// flight floor, in joules: edge energy, and the power of flying faster than v*.
func (f *flight) solve(s *slot.Snapshot, o *goal.Objective, priceSPerJ float64, d *slot.Decision) (spentJ float64) {
	f.solver.Solve(f.constants, s, priceSPerJ, d)
	spentJ = d.TotalEdgeJ()
	for m := range s.Aircraft {
		spentJ += o.PropulsionMultiplier() * (f.constants.Propulsion.PowerW(f.speedMPS(s, m, priceSPerJ)) - f.minFlightW)
	}
	return spentJ
}

// bracket returns two prices as good as equal, at the lower of which the slot spends
// more than limitJ and at the higher no more; both are zero where even that spends no
// more. Spending jumps with the price.
func (f *flight) bracket(s *slot.Snapshot, o *goal.Objective, limitJ float64, d *slot.Decision) (over, under float64) {
	if f.solve(s, o, 0, d) <= limitJ {
		return 0, 0
	}
	over, under = 0, budget.MaxPriceSPerJ
	for range 30 {
		if mid := (over + under) / 2; f.solve(s, o, mid, d) > limitJ {
			over = mid
		} else {
			under = mid
		}
	}
	return over, under
}

func (f *flight) speedMPS(s *slot.Snapshot, m int, priceSPerJ float64) float64 {
	return f.planner.SpeedMPS(f.constants, m, s.Slots-s.Slot, f.targets[m].Sub(s.Aircraft[m].Position).Norm(), priceSPerJ)
}

// move flies each aircraft towards its target at the speed for the decision's price.
func (f *flight) move(s *slot.Snapshot, d *slot.Decision) {
	f.positions = f.positions[:0]
	for m := range s.Aircraft {
		at := s.Aircraft[m].Position
		f.positions = append(f.positions, at)
		d.Move[m] = motion.MoveToward(at, f.targets[m], f.bestMPS, f.speedMPS(s, m, d.PriceSPerJ))
	}
	f.limiter.Limit(f.positions, d.Move, motion.Limits{
		SpeedMaxMPS: f.constants.SpeedMaxMPS, SeparationM: f.constants.SeparationM, AreaSideM: f.constants.AreaSideM,
	})
}
