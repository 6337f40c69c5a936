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
	"fmt"

	"prefdt/inference/budget"
	"prefdt/inference/goal"
	"prefdt/inference/motion"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
	"prefdt/offline/teacher"
)

// Pacer is a scheduler without a network that paces a budget: the teacher, at a price of its own in
// each slot.
type Pacer struct {
	constants *physics.Constants
	scheduler teacher.Scheduler
	pay       payment
}

// Even names the reference even pacer.
const Even = "even"

// Pacers names those that a policy under a budget is judged against, in the order of tables.
var Pacers = []string{Even, "capped even", "constant price", "greedy", "controller", "controller with reserve"}

// NewPacer returns one of them, of a world's physics and of what a front spends at each price.
func NewPacer(name string, c *physics.Constants, curve budget.Curve) (*Pacer, error) {
	switch name {
	case Even:
		return NewEven(c), nil
	case "capped even":
		return NewCappedEven(c), nil
	case "constant price":
		return NewConstant(c, curve), nil
	case "greedy":
		return NewGreedy(c), nil
	case "controller":
		return NewController(c, curve, nil), nil
	case "controller with reserve":
		return NewController(c, curve, &budget.Shipped), nil
	}
	return nil, fmt.Errorf("there is no pacer %q, want one of %q", name, Pacers)
}

// payment dispatches a slot at a price that it finds.
type payment func(p *Pacer, s *slot.Snapshot, o *goal.Objective, d *slot.Decision) goal.Observation

// Reset prepares for another mission.
func (p *Pacer) Reset() { p.scheduler = teacher.Scheduler{} }

// Decide writes the decision of a slot into d. The objective must have a budget.
func (p *Pacer) Decide(s *slot.Snapshot, o goal.Objective, d *slot.Decision) goal.Observation {
	p.scheduler.Observe(p.constants, s, d)
	observed := p.pay(p, s, &o, d)
	p.scheduler.Move(p.constants, s, &motion.Air{}, d)
	return observed
}

// solve dispatches the slot at a price and returns what that spends above the floor.
func (p *Pacer) solve(s *slot.Snapshot, o *goal.Objective, priceSPerJ float64, d *slot.Decision) (spentJ float64) {
	return p.scheduler.SpendAboveFloorJ(p.constants, s, priceSPerJ, o.PropulsionMultiplier(), d)
}

// bracket returns two prices as good as equal, at the lower of which the slot spends
// more than limitJ and at the higher no more; both are zero where even that spends no
// more. Spending jumps with the price.
func (p *Pacer) bracket(s *slot.Snapshot, o *goal.Objective, limitJ float64, d *slot.Decision) (over, under float64) {
	if p.solve(s, o, 0, d) <= limitJ {
		return 0, 0
	}
	return goal.Bisect(0, budget.MaxPriceSPerJ, 30, func(priceSPerJ float64) bool { return p.solve(s, o, priceSPerJ, d) > limitJ })
}

// solveWithin dispatches the slot at a price or, if that spends more than limitJ, at the
// lowest higher one that does not.
func (p *Pacer) solveWithin(s *slot.Snapshot, o *goal.Objective, priceSPerJ, limitJ float64, d *slot.Decision) {
	if p.solve(s, o, priceSPerJ, d) > limitJ {
		_, under := p.bracket(s, o, limitJ, d)
		p.solve(s, o, under, d)
	}
}

// KeepableWithin is the largest ratio of the even pacer's end to a keepable budget.
const KeepableWithin = 1.0005

// NewEven returns the reference even pacer for a world with these constants: in each slot it
// spends, above the flight floor, what is left over the slots to go, as nearly as a price can
// and never more than is left. A budget is keepable on a seed if this pacer ends within
// KeepableWithin of it, so that what can be kept is defined without the policy under test.
// TestEvenPacerIsFrozen records its flights: a change of it is a change of every figure
// that rests on it.
func NewEven(c *physics.Constants) *Pacer { return newEven(c, false) }

// NewCappedEven returns a more cautious pacer, which never spends more than its share:
// what light slots leave is kept for later ones, and often for good.
func NewCappedEven(c *physics.Constants) *Pacer { return newEven(c, true) }

func newEven(c *physics.Constants, capped bool) *Pacer {
	return &Pacer{constants: c, pay: func(p *Pacer, s *slot.Snapshot, o *goal.Objective, d *slot.Decision) (none goal.Observation) {
		shareJ := max(o.AllowanceJ(), 0)
		over, under := p.bracket(s, o, shareJ, d)
		underJ := p.solve(s, o, under, d)
		if overJ := p.solve(s, o, over, d); capped || overJ-shareJ > shareJ-underJ || overJ > shareJ*float64(o.SlotsLeft()) {
			p.solve(s, o, under, d)
		}
		return none
	}}
}

// NewConstant flies one price: that at which the archived front spends the budget. It never
// learns what was spent. The curve is the archived spending at its prices.
func NewConstant(c *physics.Constants, curve budget.Curve) *Pacer {
	_, minFlightW := c.MinPower() // P(v*)
	return &Pacer{constants: c, pay: func(p *Pacer, s *slot.Snapshot, o *goal.Objective, d *slot.Decision) (none goal.Observation) {
		floorJ := minFlightW * float64(o.Flying())
		p.solve(s, o, curve.PriorPriceSPerJ(o.Flying(), o.BudgetJ()/float64(o.Slots())-floorJ), d)
		return none
	}}
}

// NewGreedy spends at price zero until nothing is left above the flight floor.
func NewGreedy(c *physics.Constants) *Pacer {
	return &Pacer{constants: c, pay: func(p *Pacer, s *slot.Snapshot, o *goal.Objective, d *slot.Decision) (none goal.Observation) {
		p.solveWithin(s, o, 0, o.HeadroomJ(), d)
		return none
	}}
}

// NewController flies the price at which a mean slot is forecast to spend what is left
// over the slots to go, and no more than is left. With a reserve it is the rule of
// package budget, by which the policy flies, with the teacher's motion in place of
// the network's; nil: none, and no limit for a slot.
func NewController(c *physics.Constants, curve budget.Curve, reserve *budget.Reserve) *Pacer {
	return &Pacer{constants: c, pay: func(p *Pacer, s *slot.Snapshot, o *goal.Objective, d *slot.Decision) goal.Observation {
		observed := goal.Observation{Known: true}
		p.scheduler.Solver.Sweep(curve.PricesSPerJ[:], observed.EdgeJ[:])
		o.Observe(observed)
		limitJ, own := o.HeadroomJ(), budget.Reserve{}
		if reserve != nil {
			limitJ, own = o.SlotLimitJ(), *reserve
		}
		p.solveWithin(s, o, curve.PriceSPerJ(o, own), limitJ, d)
		return observed
	}}
}

// NewOrdered flies the prices of the plan of who is in the air. Where it sets none, it is the
// controller with the reserve that flies.
func NewOrdered(c *physics.Constants, curve budget.Curve) *Pacer {
	controller, weights := NewController(c, curve, &budget.Shipped), []float64(nil)
	return &Pacer{constants: c, pay: func(p *Pacer, s *slot.Snapshot, o *goal.Objective, d *slot.Decision) (observed goal.Observation) {
		var priceSPerJ float64
		if priceSPerJ, weights = s.OrderedPrices(weights[:0]); priceSPerJ > 0 {
			p.scheduler.Solver.Ordered(p.constants, s, priceSPerJ, weights, d)
			return observed
		}
		observed = controller.pay(p, s, o, d)
		d.LimitEdge(p.constants, s)
		return observed
	}}
}
