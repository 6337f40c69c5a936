package evaluate

import (
	"cmp"
	"context"
	"math"
	"slices"

	"prefdt/inference/checkpoint"
	"prefdt/offline/experiment"
	"prefdt/offline/pareto"
	"prefdt/offline/rollout"
)

// OperatingPoint compares the policy with the teacher run at another operating point.
type OperatingPoint struct {
	Name  string           `json:"name"`
	Ratio HypervolumeRatio `json:"teacher_ratio"`
	// RatioError is the standard error of Ratio over the seeds; unknown from one seed alone.
	RatioError *HypervolumeRatio `json:"teacher_ratio_standard_error,omitempty"`
	// BudgetAbsError is the mean absolute error of targets at a quarter, half and three
	// quarters of what the teacher's front spans.
	BudgetAbsError float64 `json:"budget_abs_error"`
	// SeparationViolations counts the flights in which two aircraft were ever closer than
	// the least separation at a slot's end.
	SeparationViolations int `json:"too_close"`
}

func measureEach(ctx context.Context, ck *checkpoint.Checkpoint, c Config, shifts []experiment.Shift) ([]OperatingPoint, error) {
	var rows []OperatingPoint
	for _, s := range shifts {
		at := c
		at.pricedWorld = &c.World
		s.Apply(&at.World)
		p, err := compareWithTeacher(ctx, ck, at, s.Name)
		if err != nil {
			return nil, err
		}
		rows = append(rows, p)
	}
	return rows, nil
}

// WorldRange is the policy's hypervolume ratio over random worlds.
type WorldRange struct {
	Ratio pareto.Summary `json:"teacher_ratio"` // over worlds
	Seeds int            `json:"seeds"`         // in each world
	Least OperatingPoint `json:"least"`
	Most  OperatingPoint `json:"most"`
}

func measureRandomWorlds(ctx context.Context, ck *checkpoint.Checkpoint, c Config, n int) (rows []OperatingPoint, over *WorldRange,
	err error) {
	if rows, err = measureEach(ctx, ck, c, experiment.RandomWorlds(&c.World, n)); err != nil {
		return nil, nil, err
	}
	return rows, summarizeWorlds(rows, len(c.Seeds)), nil
}

// summarizeWorlds takes the range of what was measured in one world or more.
func summarizeWorlds(rows []OperatingPoint, seedCount int) *WorldRange {
	byRatio := func(a, b OperatingPoint) int { return cmp.Compare(a.Ratio.Hypervolume, b.Ratio.Hypervolume) }
	var ratios []float64
	for _, p := range rows {
		ratios = append(ratios, p.Ratio.Hypervolume)
	}
	return &WorldRange{Ratio: pareto.Summarise(ratios), Seeds: seedCount, Least: slices.MinFunc(rows, byRatio), Most: slices.MaxFunc(rows,
		byRatio)}
}

// compareWithTeacher compares per seed, with reference points a fifth beyond the ends
// of the teacher's own front there: those of the standard world mean nothing in
// another.
// The policy flies as many settings as the teacher flies prices.
func compareWithTeacher(ctx context.Context, ck *checkpoint.Checkpoint, c Config, name string) (OperatingPoint, error) {
	row := OperatingPoint{Name: name}
	taught, err := c.sweepTeacher(ctx)
	if err != nil {
		return row, err
	}
	results, err := c.sweep(ctx, ck, rollout.ReportLink{}, c.recalibrated(ck, c.TeacherPrices), name)
	if err != nil {
		return row, err
	}
	for _, x := range slices.Concat(results...) {
		if x.MinSeparationM < c.World.Physics.SeparationM {
			row.SeparationViolations++
		}
	}
	flown := rollout.Outcomes(results)
	var volumes [2][2][]float64 // the policy's and the teacher's, to the wide and the tight reference, by seed
	for s := range c.Seeds {
		p, t := pareto.SeedPoints(flown, s), pareto.SeedPoints(taught, s)
		for k, beyond := range []float64{0.2, 0.02} {
			reference := pareto.Beyond(t, beyond)
			volumes[0][k] = append(volumes[0][k], pareto.Hypervolume(p, reference))
			volumes[1][k] = append(volumes[1][k], pareto.Hypervolume(t, reference))
		}
	}
	row.Ratio, row.RatioError = meanRatio(ratios(volumes[0][0], volumes[1][0]), ratios(volumes[0][1], volumes[1][1]))
	mean := pareto.MeanPoints(taught)
	high, low := mean[0].EnergyJ, mean[len(mean)-1].EnergyJ
	var requests []rollout.Request
	for _, part := range []float64{0.25, 0.5, 0.75} {
		requests = append(requests, experiment.Target(low+part*(high-low)))
	}
	if results, err = c.sweep(ctx, ck, rollout.ReportLink{}, requests, name+", budgets"); err != nil {
		return row, err
	}
	n := float64(len(c.Seeds))
	for i := range results {
		for _, x := range results[i] {
			row.BudgetAbsError += math.Abs(x.EnergyJ/max(requests[i].BudgetJ, x.FloorJ)-1) / (n * float64(len(results)))
		}
	}
	return row, nil
}

// meanRatio takes the mean over seeds and, from two seeds on, its standard error.
func meanRatio(wide, tight []float64) (mean HypervolumeRatio, standardError *HypervolumeRatio) {
	w, t := pareto.Summarise(wide), pareto.Summarise(tight)
	if w.N > 1 {
		standardError = &HypervolumeRatio{w.StdError(), t.StdError()}
	}
	return HypervolumeRatio{w.Mean, t.Mean}, standardError
}
