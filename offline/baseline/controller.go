package baseline

import (
	"prefdt/inference/budget"
	"prefdt/inference/goal"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
)

// Constant flies one price: that at which the archived front spends the budget. It
// never learns what was spent.
type Constant struct {
	flight flight
	curve  budget.Curve
}

// NewConstant returns the baseline for a world with these constants, and the archived
// spending at its prices.
func NewConstant(c *physics.Constants, curve budget.Curve) *Constant {
	return &Constant{newFlight(c), curve}
}

// Reset prepares for another mission.
func (x *Constant) Reset() { x.flight = newFlight(x.flight.constants) }

// Decide writes the decision of a slot into d. The objective must have a budget.
func (x *Constant) Decide(s *slot.Snapshot, o goal.Objective, d *slot.Decision) goal.Observation {
	x.flight.observe(s, d)
	floorJ := x.flight.minFlightW * float64(o.Flying())
	x.flight.solve(s, &o, x.curve.PriorPriceSPerJ(o.Flying(), o.BudgetJ()/float64(o.Slots())-floorJ), d)
	x.flight.move(s, d)
	return goal.Observation{}
}

// Greedy spends at price zero until nothing is left above the flight floor.
type Greedy struct{ flight flight }

// NewGreedy returns the baseline for a world with these constants.
func NewGreedy(c *physics.Constants) *Greedy { return &Greedy{newFlight(c)} }

// Reset prepares for another mission.
func (x *Greedy) Reset() { x.flight = newFlight(x.flight.constants) }

// Decide writes the decision of a slot into d. The objective must have a budget.
func (x *Greedy) Decide(s *slot.Snapshot, o goal.Objective, d *slot.Decision) goal.Observation {
	x.flight.observe(s, d)
	x.flight.solveWithin(s, &o, 0, o.HeadroomJ(), d)
	x.flight.move(s, d)
	return goal.Observation{}
}

// solveWithin dispatches the slot at a price or, if that spends more than limitJ, at the
// lowest higher one that does not.
func (f *flight) solveWithin(s *slot.Snapshot, o *goal.Objective, priceSPerJ, limitJ float64, d *slot.Decision) {
	if f.solve(s, o, priceSPerJ, d) > limitJ {
		_, under := f.bracket(s, o, limitJ, d)
		f.solve(s, o, under, d)
	}
}

// Controller flies the price at which a mean slot is forecast to spend what is left
// over the slots to go, and no more than is left. With an insurance it is the rule of
// package budget, by which the policy flies, with the teacher's motion in place of
// the network's.
type Controller struct {
	flight    flight
	curve     budget.Curve
	insurance *budget.Insurance // nil: none, and no limit for a slot
}

// NewController returns the baseline for a world with these constants.
func NewController(c *physics.Constants, curve budget.Curve, insurance *budget.Insurance) *Controller {
	return &Controller{newFlight(c), curve, insurance}
}

// Reset prepares for another mission.
func (x *Controller) Reset() { x.flight = newFlight(x.flight.constants) }

// Decide writes the decision of a slot into d. The objective must have a budget.
func (x *Controller) Decide(s *slot.Snapshot, o goal.Objective, d *slot.Decision) goal.Observation {
	x.flight.observe(s, d)
	observed := goal.Observation{Known: true}
	x.flight.scheduler.Solver.Sweep(x.curve.PricesSPerJ[:], observed.EdgeJ[:])
	o.Observe(observed)
	limitJ, insurance := o.HeadroomJ(), budget.Insurance{}
	if x.insurance != nil {
		limitJ, insurance = o.SlotLimitJ(), *x.insurance
	}
	x.flight.solveWithin(s, &o, x.curve.PriceSPerJ(&o, insurance), limitJ, d)
	x.flight.move(s, d)
	return observed
}
