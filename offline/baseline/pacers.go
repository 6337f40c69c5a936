package baseline

import (
	"prefdt/inference/budget"
	"prefdt/inference/goal"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
)

// Pacer is a scheduler without a network that paces a budget: it dispatches each slot at a
// price of its own.
type Pacer struct {
	flight
	pay func(f *flight, s *slot.Snapshot, o *goal.Objective, d *slot.Decision) goal.Observation
}

// Reset prepares for another mission.
func (p *Pacer) Reset() { p.flight = newFlight(p.constants) }

// Decide writes the decision of a slot into d. The objective must have a budget.
func (p *Pacer) Decide(s *slot.Snapshot, o goal.Objective, d *slot.Decision) goal.Observation {
	p.observe(s, d)
	observed := p.pay(&p.flight, s, &o, d)
	p.move(s, d)
	return observed
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
	return &Pacer{newFlight(c), func(f *flight, s *slot.Snapshot, o *goal.Objective, d *slot.Decision) (none goal.Observation) {
		shareJ := max(o.AllowanceJ(), 0)
		over, under := f.bracket(s, o, shareJ, d)
		underJ := f.solve(s, o, under, d)
		if overJ := f.solve(s, o, over, d); capped || overJ-shareJ > shareJ-underJ || overJ > shareJ*float64(o.SlotsLeft()) {
			f.solve(s, o, under, d)
		}
		return none
	}}
}

// NewConstant flies one price: that at which the archived front spends the budget. It never
// learns what was spent. The curve is the archived spending at its prices.
func NewConstant(c *physics.Constants, curve budget.Curve) *Pacer {
	return &Pacer{newFlight(c), func(f *flight, s *slot.Snapshot, o *goal.Objective, d *slot.Decision) (none goal.Observation) {
		floorJ := f.minFlightW * float64(o.Flying())
		f.solve(s, o, curve.PriorPriceSPerJ(o.Flying(), o.BudgetJ()/float64(o.Slots())-floorJ), d)
		return none
	}}
}

// NewGreedy spends at price zero until nothing is left above the flight floor.
func NewGreedy(c *physics.Constants) *Pacer {
	return &Pacer{newFlight(c), func(f *flight, s *slot.Snapshot, o *goal.Objective, d *slot.Decision) (none goal.Observation) {
		f.solveWithin(s, o, 0, o.HeadroomJ(), d)
		return none
	}}
}

// NewController flies the price at which a mean slot is forecast to spend what is left
// over the slots to go, and no more than is left. With a reserve it is the rule of
// package budget, by which the policy flies, with the teacher's motion in place of
// the network's; nil: none, and no limit for a slot.
func NewController(c *physics.Constants, curve budget.Curve, reserve *budget.Reserve) *Pacer {
	return &Pacer{newFlight(c), func(f *flight, s *slot.Snapshot, o *goal.Objective, d *slot.Decision) goal.Observation {
		observed := goal.Observation{Known: true}
		f.scheduler.Solver.Sweep(curve.PricesSPerJ[:], observed.EdgeJ[:])
		o.Observe(observed)
		limitJ, own := o.HeadroomJ(), budget.Reserve{}
		if reserve != nil {
			limitJ, own = o.SlotLimitJ(), *reserve
		}
		f.solveWithin(s, o, curve.PriceSPerJ(o, own), limitJ, d)
		return observed
	}}
}

// NewOrdered flies the prices of the plan of who is in the air. Where it sets none, it is the
// controller with the reserve that flies.
func NewOrdered(c *physics.Constants, curve budget.Curve) *Pacer {
	controller, weights := NewController(c, curve, &budget.Shipped), []float64(nil)
	return &Pacer{newFlight(c), func(f *flight, s *slot.Snapshot, o *goal.Objective, d *slot.Decision) (observed goal.Observation) {
		var priceSPerJ float64
		if priceSPerJ, weights = s.OrderedPrices(weights[:0]); priceSPerJ > 0 {
			f.scheduler.Solver.Ordered(f.constants, s, priceSPerJ, weights, d)
			return observed
		}
		observed = controller.pay(f, s, o, d)
		d.LimitEdge(f.constants, s)
		return observed
	}}
}
