package compare

import (
	"fmt"

	"prefdt/offline/baseline"
	"prefdt/offline/rollout"
	"prefdt/simbridge/report"
	"prefdt/simbridge/world"
	"prefdt/telemetry"
	"prefdt/telemetry/command"
)

// BesideEven is a flight with a budget beside the even pacer's on the same seed, with the same
// reports lost and slots missed and, where the budget counts them, the flight's own climb and ways home.
type BesideEven struct {
	BudgetJ  float64 `json:"budget_j"`            // the last
	Scope    string  `json:"scope"`               // of it: slots or landed
	Error    float64 `json:"error"`               // of the flight's energy in that scope, over the budget
	TransitJ float64 `json:"transit_j,omitempty"` // in that scope beside the slots
	Flight   Cost    `json:"flight"`              // in slots
	Even     Cost    `json:"even"`                // in slots
}

// CompareEven flies the even pacer.
func CompareEven(f *Flight) (c BesideEven, err error) {
	r, err := f.evenRunner()
	if err != nil {
		return c, err
	}
	c.Even = f.rollout(r)
	c.Flight, _ = f.cost()
	last := f.Summary.Budgets[len(f.Summary.Budgets)-1]
	if c.BudgetJ, c.Scope = last.EnergyJ, telemetry.ScopeSlots; last.Landed {
		c.Scope, c.TransitJ = telemetry.ScopeLanded, f.transitJ()
	}
	c.Error = c.over(&c.Flight)
	return c, nil
}

// evenRunner returns a runner of the even pacer over the flight's link.
func (f *Flight) evenRunner() (*rollout.Runner, error) {
	frozen, err := f.Leader.load()
	if err != nil {
		return nil, err
	}
	l := rollout.ReportLink{Fallback: rollout.FallbackOffer, Prior: frozen.UserPrior(), Missed: f.missed}
	l.Received = func(slot, user int) bool {
		return !world.ReportIsLost(f.Summary.Seed, slot, user, f.Summary.ReportLoss)
	}
	return rollout.NewWithPolicy(baseline.NewEven(&f.World.Physics), &frozen.GoalConstants, f.World, l)
}

// transitJ is what the flight's climbs and ways home took.
func (f *Flight) transitJ() (sumJ float64) {
	for _, a := range f.Summary.Aircraft {
		sumJ += a.TransitJ
	}
	return sumJ
}

// over is a cost over the budget, in its scope, less one.
func (c *BesideEven) over(x *Cost) float64 { return (x.EnergyJ+c.TransitJ)/c.BudgetJ - 1 }

// String says what became of the budget.
func (c *BesideEven) String() string {
	return fmt.Sprintf("%s; an even spender: %.0f s of delay (%+.2f %%), you: %.0f s",
		becameOf(c.BudgetJ, c.Scope, c.Error), c.Even.DelayS, 100*c.over(&c.Even), c.Flight.DelayS)
}

// becameOf says what became of a budget that a flight ended above by a share of it.
func becameOf(budgetJ float64, scope string, share float64) string {
	what := "kept"
	if share > report.PassedMost {
		what = "passed"
	}
	return fmt.Sprintf("%s %.1f kJ %s (%+.2f %%)", what, budgetJ/1000, command.ScopeText(scope), 100*share)
}
