// Package evaluate measures a checkpoint on seeds that nothing before has
// seen: the front it draws against the exact-dispatch teacher's on the same
// episodes, whether settings are followed, whether budgets are held, what a
// lossy or late link leaves of the front, and other fleets.
package evaluate

import (
	"cmp"
	"context"
	"fmt"
	"io"

	"prefdt/inference"
	"prefdt/inference/checkpoint"
	"prefdt/inference/goal"
	"prefdt/offline/command"
	"prefdt/offline/pareto"
	"prefdt/offline/rollout"
	"prefdt/offline/seeds"
	"prefdt/offline/teacher"
	"prefdt/simbridge/world"
)

// Config is one evaluation.
type Config struct {
	World         world.Config
	Seeds         []uint64
	Settings      int // K
	TeacherPrices int // of the teacher's sweep
	Decoder       inference.Decoder
	Workers       int
	Progress      io.Writer

	// pricedWorld is the world that the teacher's prices are for, where World is a
	// shift of it; nil: World.
	pricedWorld *world.Config
}

// Stat is a mean over seeds.
type Stat struct {
	Mean float64 `json:"mean"`
	Std  float64 `json:"std"`
	N    int     `json:"n"`
}

func summaryOf(x []float64) Stat {
	s := pareto.Summarise(x)
	return Stat{Mean: s.Mean, Std: s.Std, N: len(x)}
}

// Report is the headline of DESIGN: every figure is a mean over seeds of a
// per-seed reading.
type Report struct {
	Decoder  inference.Decoder `json:"decoder"`
	Settings int               `json:"settings"`

	// On the recalibrated axis, which is what a crew asks on.
	Hypervolume      Stat `json:"hypervolume"`
	HypervolumeTight Stat `json:"hypervolume_tight"`
	// On the uniform grid of omega, the paper's.
	HypervolumeUniform Stat `json:"hypervolume_uniform"`

	TeacherHypervolume      Stat             `json:"teacher_hypervolume"`
	TeacherHypervolumeTight Stat             `json:"teacher_hypervolume_tight"`
	TeacherRatio            HypervolumeRatio `json:"teacher_ratio"` // per seed
	IGD                     float64          `json:"igd"`           // against the pooled front of policy and teacher

	Fidelity             float64 `json:"fidelity"` // |rho| on the uniform grid
	FidelityRecalibrated float64 `json:"fidelity_recalibrated"`
	// DistinctSettings counts the recalibrated settings whose mean outcomes are
	// distinct and dominate none of the others.
	DistinctSettings int     `json:"distinct_settings"`
	ReachS           float64 `json:"reach_s"`
	TeacherReachS    float64 `json:"teacher_reach_s"`
	CornerS          float64 `json:"corner_s"`
	TeacherCornerS   float64 `json:"teacher_corner_s"`
	Operable         bool    `json:"operable"` // eq. (criterion)
	MinSeparationM   float64 `json:"min_separation_m"`

	Budgets []BudgetResult `json:"budgets,omitempty"`
	// What was calibrated, out of the manifest.
	CeilingMargin     *goal.CeilingMargin `json:"ceiling_promise,omitempty"`
	CalibratedBudgets map[string]float64  `json:"calibrated,omitempty"`

	Uplink          []LinkRetention  `json:"uplink,omitempty"`
	Fleets          []FleetRatio     `json:"fleets,omitempty"`
	OperatingPoints []OperatingPoint `json:"points,omitempty"`
}

// HypervolumeRatio is the policy's hypervolume over the teacher's.
type HypervolumeRatio struct {
	Hypervolume float64 `json:"hypervolume"`
	Tight       float64 `json:"tight"`
}

// MeasureFront measures the front.
func MeasureFront(ctx context.Context, ck *checkpoint.Checkpoint, c Config) (Report, error) {
	r := Report{Decoder: c.Decoder, Settings: c.Settings, MinSeparationM: -1}
	taught, err := sweepTeacher(ctx, c)
	if err != nil {
		return r, err
	}
	uniform := rollout.Linspace(ck.OmegaBand[0], ck.OmegaBand[1], c.Settings)
	axis := rollout.Linspace(0, 1, c.Settings)
	onUniform, err := sweep(ctx, ck, c, rollout.PreferenceRequests(uniform), "uniform settings")
	if err != nil {
		return r, err
	}
	onAxis, err := sweep(ctx, ck, c, rollout.PreferenceRequests(rollout.CalibratedOmegas(&ck.GoalConstants.SettingMap, c.Settings)), "recalibrated settings")
	if err != nil {
		return r, err
	}

	reference, tightReference := pareto.References(&c.World, teacher.MeanPoints(taught))
	var hv, tight, hvUniform, thv, ttight, ratio, tightRatio, igd, rho, rhoAxis, reach, treach, corner, tcorner []float64
	for s := range c.Seeds {
		p, u, t := rollout.SeedPoints(onAxis, s), rollout.SeedPoints(onUniform, s), teacher.SeedPoints(taught, s)
		pooled := pareto.Pool(p, t)
		hv = append(hv, pareto.Hypervolume(p, reference))
		tight = append(tight, pareto.Hypervolume(p, tightReference))
		hvUniform = append(hvUniform, pareto.Hypervolume(u, reference))
		thv = append(thv, pareto.Hypervolume(t, reference))
		ttight = append(ttight, pareto.Hypervolume(t, tightReference))
		ratio = append(ratio, ratioOrZero(hv[s], thv[s]))
		tightRatio = append(tightRatio, ratioOrZero(tight[s], ttight[s]))
		igd = append(igd, pareto.IGD(p, pooled))
		rho = append(rho, pareto.Fidelity(uniform, u))
		rhoAxis = append(rhoAxis, pareto.Fidelity(axis, p))
		reach = append(reach, pareto.ReachS(u))
		treach = append(treach, pareto.ReachS(t))
		corner = append(corner, pareto.CornerS(u))
		tcorner = append(tcorner, pareto.CornerS(t))
		for i := range onAxis {
			if apart := onAxis[i][s].MinSeparationM; r.MinSeparationM < 0 || apart < r.MinSeparationM {
				r.MinSeparationM = apart
			}
		}
	}
	r.Hypervolume, r.HypervolumeTight, r.HypervolumeUniform = summaryOf(hv), summaryOf(tight), summaryOf(hvUniform)
	r.TeacherHypervolume, r.TeacherHypervolumeTight = summaryOf(thv), summaryOf(ttight)
	r.TeacherRatio = HypervolumeRatio{summaryOf(ratio).Mean, summaryOf(tightRatio).Mean}
	r.IGD, r.Fidelity, r.FidelityRecalibrated = summaryOf(igd).Mean, summaryOf(rho).Mean, summaryOf(rhoAxis).Mean
	r.ReachS, r.TeacherReachS, r.CornerS, r.TeacherCornerS = summaryOf(reach).Mean, summaryOf(treach).Mean, summaryOf(corner).Mean, summaryOf(tcorner).Mean
	r.Operable = r.Fidelity >= 0.9 && r.ReachS >= 0.8*r.TeacherReachS
	r.DistinctSettings = countDistinct(onAxis)
	return r, nil
}

// ratioOrZero is a/b, and 0 where the teacher has no volume to compare with.
func ratioOrZero(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// countDistinct counts the settings on the non-dominated front of the mean outcomes.
func countDistinct(results [][]rollout.Result) int {
	return len(pareto.NonDominated(meanPoints(results)))
}

// meanPoints returns each request's outcome as a mean over seeds.
func meanPoints(results [][]rollout.Result) []pareto.Point {
	means := make([]pareto.Point, len(results))
	for i, row := range results {
		for _, x := range row {
			means[i].DelayS += x.DelayS / float64(len(row))
			means[i].EnergyJ += x.EnergyJ / float64(len(row))
		}
	}
	return means
}

// prices returns the teacher's prices.
func (c Config) prices() []float64 {
	return teacher.PricesIn(cmp.Or(c.pricedWorld, &c.World), c.TeacherPrices)
}

func sweepTeacher(ctx context.Context, c Config) ([][]pareto.Point, error) {
	return teacher.Sweep(ctx, &c.World, seeds.CheckEvaluation, c.Seeds, c.prices(), c.Workers, command.Progress(c.Progress, "teacher's seeds", len(c.Seeds)))
}

func sweep(ctx context.Context, ck *checkpoint.Checkpoint, c Config, requests []rollout.Request, what string) ([][]rollout.Result, error) {
	return c.sweepLink(ctx, ck, rollout.ReportLink{}, requests, what)
}

func (c Config) sweepLink(ctx context.Context, ck *checkpoint.Checkpoint, l rollout.ReportLink, requests []rollout.Request, what string) ([][]rollout.Result, error) {
	for _, s := range c.Seeds {
		if err := seeds.CheckEvaluation(s); err != nil {
			return nil, fmt.Errorf("evaluate: %w", err)
		}
	}
	return rollout.Sweep(ctx, ck, c.Decoder, c.World, l, c.Seeds, requests, c.Workers, command.Progress(c.Progress, "seeds, "+what, len(c.Seeds)))
}
