package evaluate

import (
	"context"
	_ "embed"
	"fmt"
	"slices"

	"prefdt/inference"
	"prefdt/inference/budget"
	"prefdt/inference/checkpoint"
	"prefdt/inference/goal"
	"prefdt/offline/experiment"
	"prefdt/offline/pareto"
	"prefdt/offline/rollout"
	"prefdt/offline/seeds"
	"prefdt/simbridge/world"
)

// ReserveResult is what a size of the reserve costs and gives, over the cells that it may
// be chosen on: means over seeds of what a seed's keepable flights come to.
type ReserveResult struct {
	Reserve budget.Reserve `json:"insurance"`
	Shipped bool           `json:"shipped"`
	Best    bool           `json:"best"` // of those that keep the limits, the least even ratio

	DelayS    float64 `json:"delay_s"`
	EvenRatio float64 `json:"even_ratio"` // of its delay to the even pacer's
	// AboveBest is its even ratio less the best's on the same seeds, with the standard
	// error of this difference; 0 if none is best.
	AboveBest      float64 `json:"above_best"`
	AboveBestError float64 `json:"above_best_standard_error"`

	// Of the cells of targets, the worst mean.
	CalmRegretS float64 `json:"calm_regret_s"` // in calm air
	CalmCostS   float64 `json:"calm_cost_s"`   // in calm air, delay above that without a reserve
	MeanOverrun float64 `json:"mean_overrun"`

	OverrunRate float64 `json:"overrun_rate"` // of all ceilings

	bySeed             []reserveSum
	ceilings, ceilingN float64 // passed, of so many keepable ones
}

// reserveSum is what one seed's keepable flights come to.
type reserveSum struct{ delayS, evenRatio, flights float64 }

// MeasureReserves measures each size of the reserve on calibration seeds, and first none
// at all and the shipped one.
func MeasureReserves(ctx context.Context, ck *checkpoint.Checkpoint, c Config, sizes []budget.Reserve) ([]ReserveResult, error) {
	if err := seeds.CheckAll(c.Seeds, seeds.CheckCalibration); err != nil {
		return nil, fmt.Errorf("evaluate: %w", err)
	}
	rows := newReserveResults(sizes, len(c.Seeds))
	arms, runnerOf := reserveArms(&c, rows)
	for _, p := range perturbations() {
		if !p.Tuned {
			continue
		}
		cells, err := p.fly(ctx, ck, c, arms, seeds.CheckCalibration, runnerOf)
		if err != nil {
			return nil, err
		}
		for k := range cells {
			for i := range rows {
				rows[i].add(p.Name == calmAir, &cells[k])
			}
		}
	}
	finishReserves(rows)
	return rows, nil
}

// newReserveResults returns one of each size, none at all first.
func newReserveResults(sizes []budget.Reserve, seedCount int) (rows []ReserveResult) {
	for _, x := range append([]budget.Reserve{{}, budget.Shipped}, sizes...) {
		if x.Probability == 0 || x.MaxPriceShare == 0 {
			x = budget.Reserve{} // it is none
		}
		if !slices.ContainsFunc(rows, func(r ReserveResult) bool { return r.Reserve == x }) {
			rows = append(rows, ReserveResult{Reserve: x, Shipped: x == budget.Shipped, bySeed: make([]reserveSum, seedCount)})
		}
	}
	return rows
}

// reserveArm names the policy with a size of the reserve.
func reserveArm(x budget.Reserve) string { return fmt.Sprintf("reserve %v", x) }

// reserveArms returns the even pacer, and the policy with each size of the reserve.
func reserveArms(c *Config, rows []ReserveResult) (arms []string, runnerOf newRunner) {
	sizes := map[string]budget.Reserve{}
	arms = []string{evenArm}
	for _, r := range rows {
		name := reserveArm(r.Reserve)
		arms, sizes[name] = append(arms, name), r.Reserve
	}
	return arms, func(arm string, ck *checkpoint.Checkpoint, w world.Config) (*rollout.Runner, error) {
		if arm == evenArm {
			return c.runnerOf(arm, ck, w)
		}
		p, err := inference.New(ck, inference.DecoderDispatch)
		if err != nil {
			return nil, err
		}
		p.Reserve = sizes[arm]
		return rollout.NewWithPolicy(p, &ck.GoalConstants, w, rollout.ReportLink{})
	}
}

// add adds a cell's keepable flights.
func (r *ReserveResult) add(calm bool, cell *budgetFlights) {
	even, none, own := cell.byArm[evenArm], cell.byArm[reserveArm(budget.Reserve{})], cell.byArm[reserveArm(r.Reserve)]
	means := experiment.MeansOf(own, cell.kept, cell.request.EndBudgetJ())
	regretS, costS, n := 0.0, 0.0, float64(len(cell.kept))
	for _, s := range cell.kept {
		regretS += (own[s].DelayS - cell.constantS[s]) / n
		costS += (own[s].DelayS - none[s].DelayS) / n
		sum := &r.bySeed[s]
		sum.delayS += own[s].DelayS
		sum.evenRatio += own[s].DelayS / even[s].DelayS
		sum.flights++
	}
	if cell.request.Mode == goal.Ceiling {
		r.ceilings, r.ceilingN = r.ceilings+means.OverrunRate*n, r.ceilingN+n
		return
	}
	r.MeanOverrun = max(r.MeanOverrun, means.MeanOverrun)
	if calm {
		r.CalmRegretS, r.CalmCostS = max(r.CalmRegretS, regretS), max(r.CalmCostS, costS)
	}
}

func (r *ReserveResult) evenRatios() (list []float64) {
	for _, sum := range r.bySeed {
		if sum.flights > 0 {
			list = append(list, sum.evenRatio/sum.flights)
		}
	}
	return list
}

// finishReserves takes the means and finds the best.
func finishReserves(rows []ReserveResult) {
	var best *ReserveResult
	for i := range rows {
		r := &rows[i]
		var delaysS []float64
		for _, sum := range r.bySeed {
			if sum.flights > 0 {
				delaysS = append(delaysS, sum.delayS/sum.flights)
			}
		}
		r.DelayS, r.EvenRatio = pareto.Summarise(delaysS).Mean, pareto.Summarise(r.evenRatios()).Mean
		r.OverrunRate = r.ceilings / max(r.ceilingN, 1)
		if keeps := r.MeanOverrun <= maxMeanOverrun && r.OverrunRate <= maxOverrunRate; keeps && (best == nil ||
			r.EvenRatio < best.EvenRatio) {
			best = r
		}
	}
	if best == nil {
		return
	}
	best.Best = true
	for i := range rows {
		above := rows[i].evenRatios()
		for s, x := range best.evenRatios() {
			above[s] -= x
		}
		x := pareto.Summarise(above)
		rows[i].AboveBest, rows[i].AboveBestError = x.Mean, x.StdError()
	}
}

// ReserveText is a template of a line for each size.
//
//go:embed reserve.tmpl
var ReserveText string
