package evaluate

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"maps"
	"slices"

	"prefdt/inference"
	"prefdt/inference/budget"
	"prefdt/inference/checkpoint"
	"prefdt/inference/goal"
	"prefdt/offline/command"
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
	arms := reserveArms(rows)
	for _, p := range perturbations() {
		if !p.tuned {
			continue
		}
		bySeed, err := p.fly(ctx, ck, c, arms, seeds.CheckCalibration)
		if err != nil {
			return nil, err
		}
		for m, mode := range c.budgetModes() {
			for k := range p.requests {
				budgetJ := p.requests[k].EndBudgetJ()
				kept := map[int]reserveFlights{}
				for s := range bySeed {
					x := reserveFlights{p.cell(&bySeed[s], m, k, len(arms)), bySeed[s].constantS[k]}
					if keepable(&x.flights[0], budgetJ) {
						kept[s] = x
					}
				}
				for i := range rows {
					rows[i].add(i, mode, p.name == calmAir, budgetJ, kept)
				}
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

// reserveArms returns the even pacer, and the policy with each size of the reserve.
func reserveArms(rows []ReserveResult) []scheduler {
	arms := []scheduler{schedulers[slices.IndexFunc(schedulers, func(a scheduler) bool { return a.name == evenArm })]}
	for _, r := range rows {
		arms = append(arms, scheduler{new: func(ck *checkpoint.Checkpoint, _ *world.Config) (rollout.Policy, error) {
			p, err := inference.New(ck, inference.DecoderDispatch)
			if err == nil {
				p.Reserve = r.Reserve
			}
			return p, err
		}})
	}
	return arms
}

// reserveFlights are one seed's of a cell: the even pacer's, without a reserve, then that of each other size; and the delay
// of the one price known in advance.
type reserveFlights struct {
	flights   []rollout.Result
	constantS float64
}

// add adds a cell's keepable flights, by seed, to the i-th size.
func (r *ReserveResult) add(i int, mode goal.Mode, calm bool, budgetJ float64, kept map[int]reserveFlights) {
	var means experiment.BudgetMeans
	regretS, costS, n := 0.0, 0.0, float64(len(kept))
	for _, s := range slices.Sorted(maps.Keys(kept)) {
		even, none, own := &kept[s].flights[0], &kept[s].flights[1], &kept[s].flights[1+i]
		means.Add(own.Point, budgetJ, n)
		regretS += (own.DelayS - kept[s].constantS) / n
		costS += (own.DelayS - none.DelayS) / n
		sum := &r.bySeed[s]
		sum.delayS += own.DelayS
		sum.evenRatio += own.DelayS / even.DelayS
		sum.flights++
	}
	if mode == goal.Ceiling {
		r.ceilings, r.ceilingN = r.ceilings+means.OverrunRate*n, r.ceilingN+n
		return
	}
	r.MeanOverrun = max(r.MeanOverrun, means.MeanOverrun)
	if calm {
		r.CalmRegretS, r.CalmCostS = max(r.CalmRegretS, regretS), max(r.CalmCostS, costS)
	}
}

// evenRatios returns the even ratio by seed.
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

//go:embed reserve.tmpl
var reserveText string

// PrintReserves writes one line for each size.
func PrintReserves(w io.Writer, rows []ReserveResult) error {
	return command.PrintText(w, reserveText, rows)
}
