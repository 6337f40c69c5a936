package baseline

import (
	"prefdt/inference/goal"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
)

// Even is the reference even pacer: in each slot it spends, above the flight floor,
// what is left over the slots to go, as nearly as a price can and never more than is
// left. A budget is keepable on a seed if this pacer ends within KeepableWithin of
// it, so that what can be kept is defined without the policy under test.
// TestEvenPacerIsFrozen records its flights: a change of it is a change of every
// figure that rests on it.
type Even struct {
	flight flight
	capped bool // never more than its share
}

// KeepableWithin is the largest ratio of the even pacer's end to a keepable budget.
const KeepableWithin = 1.0005

// NewEven returns the reference pacer for a world with these constants.
func NewEven(c *physics.Constants) *Even { return &Even{flight: newFlight(c)} }

// NewCappedEven returns a more cautious pacer, which never spends more than its share:
// what light slots leave is kept for later ones, and often for good.
func NewCappedEven(c *physics.Constants) *Even { return &Even{flight: newFlight(c), capped: true} }

// Reset prepares for another mission.
func (e *Even) Reset() { e.flight = newFlight(e.flight.constants) }

// Decide writes the decision of a slot into d. The objective must have a budget.
func (e *Even) Decide(s *slot.Snapshot, o goal.Objective, d *slot.Decision) goal.Observation {
	f := &e.flight
	f.observe(s, d)
	shareJ := max(o.AllowanceJ(), 0)
	over, under := f.bracket(s, &o, shareJ, d)
	underJ := f.solve(s, &o, under, d)
	if overJ := f.solve(s, &o, over, d); e.capped || overJ-shareJ > shareJ-underJ || overJ > shareJ*float64(o.SlotsLeft()) {
		f.solve(s, &o, under, d)
	}
	f.move(s, d)
	return goal.Observation{}
}
