package evaluate

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

	"prefdt/inference"
	"prefdt/inference/budget"
	"prefdt/inference/checkpoint"
	"prefdt/inference/goal"
	"prefdt/offline/pareto"
	"prefdt/offline/rollout"
	"prefdt/offline/seeds"
	"prefdt/simbridge/world"
)

// ReserveResult is what a size of the reserve costs and gives, over the cells that it may
// be chosen on: means over seeds of what a seed's keepable flights come to.
type ReserveResult struct {
	Insurance budget.Insurance `json:"insurance"`
	Shipped   bool             `json:"shipped"`
	Best      bool             `json:"best"` // of those that keep the limits, the least even ratio

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

	seedRatios []float64 // the even ratio by seed
}

// MeasureReserves measures each size of the reserve on calibration seeds, and first none
// at all and the shipped one.
func MeasureReserves(ctx context.Context, ck *checkpoint.Checkpoint, c Config, sizes []budget.Insurance) ([]ReserveResult, error) {
	for _, seed := range c.Seeds {
		if err := seeds.CheckCalibration(seed); err != nil {
			return nil, fmt.Errorf("evaluate: %w", err)
		}
	}
	all := reserveSizes(sizes)
	arms := reserveArms(all)
	t := newReserveTable(all, len(c.Seeds))
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
				cell := reserveCell{mode: mode, calm: p.name == calmAir, budgetJ: endBudgetJ(&p.requests[k])}
				for i := range bySeed {
					x := &bySeed[i]
					cell.flights, cell.constantS = append(cell.flights, p.cell(x, m, k, len(arms))), append(cell.constantS, x.constantS[k])
				}
				t.add(&cell)
			}
		}
	}
	return t.finish(), nil
}

// reserveSizes returns each size once, none at all first.
func reserveSizes(sizes []budget.Insurance) []budget.Insurance {
	all := []budget.Insurance{{}, budget.Shipped}
	for _, x := range sizes {
		if x.Probability == 0 || x.MaxPriceShare == 0 {
			continue // it is none
		}
		if !slices.Contains(all, x) {
			all = append(all, x)
		}
	}
	return all
}

// reserveArms returns the even pacer, and the policy with each size of the reserve.
func reserveArms(sizes []budget.Insurance) (arms []budgetArm) {
	for _, a := range budgetArms {
		if a.name == evenArm {
			arms = append(arms, a)
		}
	}
	for _, x := range sizes {
		arms = append(arms, budgetArm{new: func(ck *checkpoint.Checkpoint, _ *world.Config) (rollout.Policy, error) {
			p, err := inference.New(ck, inference.DecoderDispatch)
			if err == nil {
				p.Insurance = x
			}
			return p, err
		}})
	}
	return arms
}

// reserveCell is a cell's flights.
type reserveCell struct {
	mode      goal.Mode
	calm      bool
	budgetJ   float64
	flights   [][]rollout.Result // by seed: the even pacer's, without a reserve, then that of each other size
	constantS []float64          // by seed: the delay of the one price known in advance
}

// reserveTable sums up cells for each size.
type reserveTable struct {
	rows       []ReserveResult
	sums       [][]reserveSum // by size and seed
	ceilings   float64        // keepable flights
	overCounts []float64      // of these, by size: those that passed theirs
}

// reserveSum is what one seed's keepable flights come to.
type reserveSum struct{ delayS, evenRatio, flights float64 }

func newReserveTable(sizes []budget.Insurance, seedCount int) *reserveTable {
	t := reserveTable{rows: make([]ReserveResult, len(sizes)), sums: make([][]reserveSum, len(sizes)), overCounts: make([]float64, len(sizes))}
	for i, x := range sizes {
		t.rows[i] = ReserveResult{Insurance: x, Shipped: x == budget.Shipped}
		t.sums[i] = make([]reserveSum, seedCount)
	}
	return &t
}

// add adds a cell.
func (t *reserveTable) add(c *reserveCell) {
	var kept []int
	for s, f := range c.flights {
		if keepable(&f[0], c.budgetJ) {
			kept = append(kept, s)
		}
	}
	n := float64(len(kept))
	if c.mode == goal.Ceiling {
		t.ceilings += n
	}
	for i := range t.rows {
		var a ArmResult
		regretS, costS := 0.0, 0.0
		for _, s := range kept {
			even, x := &c.flights[s][0], &c.flights[s][1+i]
			a.Add(x.Point, c.budgetJ, n)
			regretS += (x.DelayS - c.constantS[s]) / n
			costS += (x.DelayS - c.flights[s][1].DelayS) / n
			sum := &t.sums[i][s]
			sum.delayS += x.DelayS
			sum.evenRatio += x.DelayS / even.DelayS
			sum.flights++
		}
		r := &t.rows[i]
		if c.mode == goal.Ceiling {
			t.overCounts[i] += a.OverrunRate * n
			continue
		}
		r.MeanOverrun = max(r.MeanOverrun, a.MeanOverrun)
		if c.calm {
			r.CalmRegretS, r.CalmCostS = max(r.CalmRegretS, regretS), max(r.CalmCostS, costS)
		}
	}
}

// finish takes the means and finds the best.
func (t *reserveTable) finish() []ReserveResult {
	best := -1
	for i := range t.rows {
		r := &t.rows[i]
		var delaysS []float64
		for _, sum := range t.sums[i] {
			if sum.flights > 0 {
				delaysS = append(delaysS, sum.delayS/sum.flights)
				r.seedRatios = append(r.seedRatios, sum.evenRatio/sum.flights)
			}
		}
		r.DelayS, r.EvenRatio = pareto.Summarise(delaysS).Mean, pareto.Summarise(r.seedRatios).Mean
		r.OverrunRate = t.overCounts[i] / max(t.ceilings, 1)
		if keeps := r.MeanOverrun <= maxMeanOverrun && r.OverrunRate <= maxOverrunRate; keeps && (best < 0 || r.EvenRatio < t.rows[best].EvenRatio) {
			best = i
		}
	}
	if best < 0 {
		return t.rows
	}
	t.rows[best].Best = true
	for i := range t.rows {
		r := &t.rows[i]
		above := make([]float64, len(r.seedRatios))
		for s := range above {
			above[s] = r.seedRatios[s] - t.rows[best].seedRatios[s]
		}
		x := pareto.Summarise(above)
		r.AboveBest, r.AboveBestError = x.Mean, x.Std/math.Sqrt(float64(max(x.N, 1)))
	}
	return t.rows
}

// PrintReserves writes one line for each size.
func PrintReserves(w io.Writer, rows []ReserveResult) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "probability\tlargest share\tmean delay, s\tof even's\tabove the best's\tcalm air: worst regret, s\tworst cost, s\tworst mean overrun of targets\tceilings passed\t")
	for _, r := range rows {
		var marks []string
		if r.Best {
			marks = append(marks, "best")
		}
		if r.Shipped {
			marks = append(marks, "shipped")
		}
		fmt.Fprintf(t, "%.3g\t%.3g\t%.2f\t%.4f\t%.4f ± %.4f\t%.1f\t%.1f\t%.4f %%\t%.2f %%\t%s\n", r.Insurance.Probability, r.Insurance.MaxPriceShare, r.DelayS, r.EvenRatio,
			r.AboveBest, r.AboveBestError, r.CalmRegretS, r.CalmCostS, 100*r.MeanOverrun, 100*r.OverrunRate, strings.Join(marks, ", "))
	}
	return t.Flush()
}
