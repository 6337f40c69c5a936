package experiment

import (
	"context"
	"fmt"
	"slices"

	"prefdt/offline/baseline"
	"prefdt/offline/command"
	"prefdt/offline/pareto"
	"prefdt/offline/rollout"
	"prefdt/simbridge/world"
)

// BudgetResult is what was flown for a total in joules.
type BudgetResult struct {
	Perturbation string         `json:"perturbation"`
	BudgetJ      float64        `json:"budget_j"` // as last revised
	Outcomes     []pareto.Point `json:"outcomes"` // by seed
}

// Shock multiplies the power of flight in the tests of budgets.
var Shock = world.Shock{FromSlot: 50, Factor: 1.5}

// GustStdDev is of the gusts that arms are flown in.
const GustStdDev = 0.15

const reviseSlot = 60

// Names of the perturbations of budgets.
const (
	PerturbationNone     = "calm"
	PerturbationShock    = "x1.5 from slot 50"
	PerturbationGusts    = "gusts of 15 %"
	PerturbationRevision = "revised at slot 60"
)

// Perturbations are all of them, in the order of reports.
var Perturbations = []string{PerturbationNone, PerturbationShock, PerturbationGusts, PerturbationRevision}

var budgetTests = []struct {
	name     string
	change   func(*world.Config)
	requests []rollout.Request
}{
	{PerturbationNone, func(*world.Config) {}, []rollout.Request{Target(29e3), Target(33e3), Target(36.5e3)}},
	{PerturbationShock, func(c *world.Config) { c.Shock = Shock }, []rollout.Request{Target(40.5e3), Target(42e3), Target(44e3)}},
	{PerturbationGusts, func(c *world.Config) { c.Gust = GustStdDev }, []rollout.Request{Target(29e3), Target(33e3), Target(36.5e3)}},
	{PerturbationRevision, func(*world.Config) {}, []rollout.Request{Revised(35e3, reviseSlot, 32e3), Revised(29e3, reviseSlot, 31e3)}},
}

// TraceRequests are the requests drawn slot by slot under the shock: a budget, and one
// that is revised after the shock. An even pacer keeps both.
var TraceRequests = []rollout.Request{Target(42e3), Revised(45e3, reviseSlot, 42.5e3)}

// Revised requests a total that is another from a slot on.
func Revised(budgetJ float64, slot int, revisedJ float64) rollout.Request {
	r := Target(budgetJ)
	r.ReviseSlot, r.RevisedBudgetJ = slot, revisedJ
	return r
}

// flyBudgets flies totals in joules, and traces those under the shock.
func (s *Set) flyBudgets(ctx context.Context, a *Arm, p *Policy, r *Result) error {
	for _, b := range budgetTests {
		c := p.World
		b.change(&c)
		runner := func() (*rollout.Runner, error) { return p.Runner(c, rollout.ReportLink{}) }
		results, err := rollout.SweepRunners(ctx, runner, c, a.BudgetSeeds, b.requests, s.Workers,
			command.Progress(s.Log, "  seeds, "+a.Name+", budgets, "+b.name, len(a.BudgetSeeds)))
		if err != nil {
			return err
		}
		for i, outcomes := range rollout.Outcomes(results) {
			budgetJ := b.requests[i].EndBudgetJ()
			r.Budgets = append(r.Budgets, BudgetResult{Perturbation: b.name, BudgetJ: budgetJ, Outcomes: outcomes})
		}
	}
	c := p.World
	c.Shock = Shock
	runner, err := p.Runner(c, rollout.ReportLink{})
	if err == nil {
		r.Traces = rollout.TraceEnergy(runner, a.BudgetSeeds, TraceRequests)
	}
	return err
}

// checkBudgets returns what is wrong with stored flights of flyBudgets.
func checkBudgets(r *Result, seeds int) error {
	n := 0
	for _, b := range budgetTests {
		for _, request := range b.requests {
			budgetJ := request.EndBudgetJ()
			if n >= len(r.Budgets) || r.Budgets[n].Perturbation != b.name || r.Budgets[n].BudgetJ != budgetJ {
				return fmt.Errorf("the budget of %v J, %s, is missing", budgetJ, b.name)
			}
			if err := pareto.CheckOutcomes([]float64{budgetJ}, [][]pareto.Point{r.Budgets[n].Outcomes}, seeds); err != nil {
				return fmt.Errorf("budgets, %s: %w", b.name, err)
			}
			n++
		}
	}
	if n != len(r.Budgets) || len(r.Traces) != len(TraceRequests) {
		return fmt.Errorf("%d budgets and %d traces, want %d and %d", len(r.Budgets), len(r.Traces), n, len(TraceRequests))
	}
	for i := range r.Traces {
		if x := &r.Traces[i]; len(x.MeanJ) < 2 || len(x.StdDevJ) != len(x.MeanJ) || len(x.MeanDelayS) != len(x.MeanJ) {
			return fmt.Errorf("a trace of %d, %d and %d slots", len(x.MeanJ), len(x.StdDevJ), len(x.MeanDelayS))
		}
	}
	return nil
}

// BudgetMeans are what a budget bought, in the mean over flights.
type BudgetMeans struct {
	DelayS      float64 `json:"delay_s"`
	End         float64 `json:"end"`          // energy over the budget, less one
	MeanOverrun float64 `json:"mean_overrun"` // of max(End, 0)
	OverrunRate float64 `json:"overrun_rate"` // flights above their budget by more than a millionth
}

// MeansOf returns them of some of the flights by seed.
func MeansOf(flights []pareto.Point, seeds []int, budgetJ float64) (a BudgetMeans) {
	n := float64(len(seeds))
	for _, s := range seeds {
		end := flights[s].EnergyJ/budgetJ - 1
		a.DelayS += flights[s].DelayS / n
		a.End += end / n
		a.MeanOverrun += max(end, 0) / n
		if end > 1e-6 {
			a.OverrunRate += 1 / n
		}
	}
	return a
}

// Keepable returns the seeds on which the judge of a budget, often the even pacer, keeps it.
func Keepable(judge []pareto.Point, budgetJ float64) (seeds []int) {
	for s := range judge {
		if judge[s].EnergyJ <= budgetJ*baseline.KeepableWithin {
			seeds = append(seeds, s)
		}
	}
	return seeds
}

// BudgetFigures is how an arm kept one budget, judged by the budget itself on the
// keepable seeds: those on which the even pacer ends within baseline.KeepableWithin
// of it. The arm has no influence on either.
type BudgetFigures struct {
	Perturbation string
	BudgetJ      float64 // as last revised
	Seeds        int
	Keepable     int     // of these seeds
	EvenDelayS   float64 // of the even pacer
	BudgetMeans
}

// Measured reports whether the budget can be kept on half of the seeds at least.
func (b *BudgetFigures) Measured() bool { return 2*b.Keepable >= b.Seeds }

// BudgetList is how an arm kept its budgets.
type BudgetList []BudgetFigures

// JudgeBudgets judges an arm's flights by the even pacer's, which flew the same budgets, over the seeds
// that both flew.
func JudgeBudgets(flown, even []BudgetResult) (list BudgetList) {
	for _, b := range flown {
		i := slices.IndexFunc(even, func(e BudgetResult) bool { return e.Perturbation == b.Perturbation && e.BudgetJ == b.BudgetJ })
		if i < 0 {
			continue
		}
		n := min(len(b.Outcomes), len(even[i].Outcomes))
		pacer := even[i].Outcomes[:n]
		kept := Keepable(pacer, b.BudgetJ)
		list = append(list, BudgetFigures{Perturbation: b.Perturbation, BudgetJ: b.BudgetJ, Seeds: n, Keepable: len(kept),
			EvenDelayS: MeansOf(pacer, kept, b.BudgetJ).DelayS, BudgetMeans: MeansOf(b.Outcomes, kept, b.BudgetJ)})
	}
	return list
}

// Under returns the measured budgets of a perturbation.
func (list BudgetList) Under(perturbation string) (measured BudgetList) {
	for _, b := range list {
		if b.Perturbation == perturbation && b.Measured() {
			measured = append(measured, b)
		}
	}
	return measured
}

// Mean returns the mean over the measured budgets of a perturbation; NaN where there are none.
func (list BudgetList) Mean(perturbation string) (mean BudgetFigures) {
	measured := list.Under(perturbation)
	mean.Perturbation = perturbation
	for _, b := range measured {
		mean.DelayS += b.DelayS
		mean.EvenDelayS += b.EvenDelayS
		mean.End += b.End
		mean.MeanOverrun += b.MeanOverrun
		mean.OverrunRate += b.OverrunRate
	}
	for _, x := range []*float64{&mean.DelayS, &mean.EvenDelayS, &mean.End, &mean.MeanOverrun, &mean.OverrunRate} {
		*x /= float64(len(measured))
	}
	return mean
}
