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
	"prefdt/inference/goal"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
	"prefdt/offline/teacher"
)

// flight is what all baselines share: the teacher, at a price of their own.
type flight struct {
	constants  *physics.Constants
	bestMPS    float64 // v*
	minFlightW float64 // P(v*)
	scheduler  teacher.Scheduler
}

func newFlight(c *physics.Constants) flight {
	bestMPS, minFlightW := c.MinPower()
	return flight{constants: c, bestMPS: bestMPS, minFlightW: minFlightW}
}

func (f *flight) observe(s *slot.Snapshot, d *slot.Decision) { f.scheduler.Observe(f.constants, s, d) }

func (f *flight) move(s *slot.Snapshot, d *slot.Decision) {
	f.scheduler.Move(f.constants, s, f.bestMPS, d)
}

// solve dispatches the slot at a price and returns what that spends above the floor.
func (f *flight) solve(s *slot.Snapshot, o *goal.Objective, priceSPerJ float64, d *slot.Decision) (spentJ float64) {
	return f.scheduler.SpendAboveFloorJ(f.constants, s, priceSPerJ, o.PropulsionMultiplier(), d)
}

// bracket returns two prices as good as equal, at the lower of which the slot spends
// more than limitJ and at the higher no more; both are zero where even that spends no
// more. Spending jumps with the price.
func (f *flight) bracket(s *slot.Snapshot, o *goal.Objective, limitJ float64, d *slot.Decision) (over, under float64) {
	if f.solve(s, o, 0, d) <= limitJ {
		return 0, 0
	}
	return goal.Bisect(0, budget.MaxPriceSPerJ, 30, func(priceSPerJ float64) bool { return f.solve(s, o, priceSPerJ, d) > limitJ })
}

// solveWithin dispatches the slot at a price or, if that spends more than limitJ, at the
// lowest higher one that does not.
func (f *flight) solveWithin(s *slot.Snapshot, o *goal.Objective, priceSPerJ, limitJ float64, d *slot.Decision) {
	if f.solve(s, o, priceSPerJ, d) > limitJ {
		_, under := f.bracket(s, o, limitJ, d)
		f.solve(s, o, under, d)
	}
}
