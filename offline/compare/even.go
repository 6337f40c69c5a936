package compare

import (
	"fmt"
	"path/filepath"

	"gonum.org/v1/plot/vg"

	"prefdt/configs/cli"
	"prefdt/inference/checkpoint"
	"prefdt/offline/baseline"
	"prefdt/offline/rollout"
	"prefdt/simbridge/chart"
	"prefdt/simbridge/report"
	"prefdt/simbridge/users"
)

// BesideEven is a flight with a budget beside the even pacer's on the same seed, with the same
// reports lost and slots missed.
type BesideEven struct {
	BudgetJ float64 `json:"budget_j"` // the last
	Error   float64 `json:"error"`    // of the flight's energy, over the budget
	Flight  Cost    `json:"flight"`
	Even    Cost    `json:"even"`
}

// CompareEven flies the even pacer.
func CompareEven(f *Flight) (c BesideEven, err error) {
	frozen, err := checkpoint.Load(f.Leader.Checkpoint)
	if err != nil {
		return c, err
	}
	l := rollout.ReportLink{Fallback: rollout.FallbackOffer, Prior: frozen.UserPrior()}
	l.Received = func(slot, user int) bool {
		return !users.ReportIsLost(f.Summary.Seed, slot, user, f.Summary.ReportLoss)
	}
	l.Missed = func(slot int) bool { return f.Slots[slot].Missed }
	r, err := rollout.NewWithPolicy(baseline.NewEven(&f.World.Physics), &frozen.GoalConstants, f.World, l)
	if err != nil {
		return c, err
	}
	r.OnSettled = func(_ int, delayS, energyJ float64) { c.Even.add(delayS, energyJ) }
	r.Fly(f.Summary.Seed, f.Request)
	for i := range f.Slots {
		c.Flight.add(f.Slots[i].DelayS, f.Slots[i].EnergyJ)
	}
	c.BudgetJ = f.Request.EndBudgetJ()
	c.Error = c.Flight.EnergyJ/c.BudgetJ - 1
	return c, nil
}

// String says what became of the budget.
func (c *BesideEven) String() string {
	what := "kept"
	if c.Error > report.PassedMost {
		what = "passed"
	}
	return fmt.Sprintf("%s %.1f kJ (%+.2f %%); an even spender: %.0f s of delay (%+.2f %%), you: %.0f s",
		what, c.BudgetJ/1000, 100*c.Error, c.Even.DelayS, 100*(c.Even.EnergyJ/c.BudgetJ-1), c.Flight.DelayS)
}

// evenCommand is "offline compare" of a flight with a budget.
func evenCommand(call *cli.Call, f *Flight, folder string, asJSON bool) error {
	c, err := CompareEven(f)
	if err != nil {
		return err
	}
	path := filepath.Join(folder, "even.png")
	plots := costPlots("The flight, and the same joules spent evenly", curve{"spent evenly", &c.Even, chart.Red, 2},
		curve{"the flight", &c.Flight, chart.Blue, 2})
	if err := report.SaveStacked(plots, 24*vg.Centimeter, 22*vg.Centimeter, path); err != nil {
		return err
	}
	return call.Result(asJSON, c, "%v\npicture    %s: joules and delay beside the even spender's", &c, path)
}
