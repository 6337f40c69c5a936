// Package evaluate measures a checkpoint on seeds that nothing before it has
// used. Inputs: a checkpoint, a world and evaluation seeds. Outputs: a report of
// its front against the exact-dispatch teacher's on the same episodes, of whether
// settings are followed and budgets are held, of what a lossy or late link leaves
// of the front, and of other fleets and worlds; and, on calibration seeds, what other
// sizes of the reserve of budgets cost and give. "offline evaluate" and "offline
// calibrate" call it.
package evaluate

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"

	"prefdt/inference"
	"prefdt/inference/belief/learned"
	"prefdt/inference/checkpoint"
	"prefdt/inference/goal"
	"prefdt/offline/command"
	"prefdt/offline/experiment"
	"prefdt/offline/pareto"
	"prefdt/offline/plots"
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
	// CeilingsOnly leaves out targets and regret: their rate of being passed takes many
	// seeds to measure.
	CeilingsOnly bool
	// Perturbation is contained in the names of the perturbations that budgets are measured
	// under; empty: all.
	Perturbation   string
	perturbationOf string // which of how many is measured, for the progress
	// BudgetsJ are budgets of one's own, in joules of World, in place of the perturbations'; empty: theirs.
	BudgetsJ []float64
	// Plot is a PNG file for the fronts of policy and teacher; empty: none.
	Plot string

	// Of a field world: the estimator that the policy believes, nil: none, and others,
	// trained at other windows.
	Estimator *learned.Parameters
	Contexts  []*learned.Parameters

	// pricedWorld is the world that the teacher's prices are for, where World is a
	// shift of it; nil: World.
	pricedWorld *world.Config
}

// checkSeeds refuses any but evaluation seeds.
func (c *Config) checkSeeds() error {
	if err := seeds.CheckAll(c.Seeds, seeds.CheckEvaluation); err != nil {
		return fmt.Errorf("evaluate: %w", err)
	}
	return nil
}

// Report is the result of an evaluation: every metric is computed per seed, then
// averaged.
type Report struct {
	Record   *experiment.Record `json:"record,omitempty"`
	Decoder  inference.Decoder  `json:"decoder"`
	Settings int                `json:"settings"`
	Trace    *Trace             `json:"trace,omitempty"` // nil: users and tasks are drawn

	// Means over seeds: at the crew's settings from 0, least delay, to 1, and at the teacher's prices.
	Front        []FrontPoint `json:"front"`
	TeacherFront []FrontPoint `json:"teacher_front"`

	// On the calibrated axis, that of the crew's settings.
	Hypervolume      pareto.Summary `json:"hypervolume"`
	HypervolumeTight pareto.Summary `json:"hypervolume_tight"`
	// On the uniform grid of omega, the paper's.
	HypervolumeUniform pareto.Summary `json:"hypervolume_uniform"`

	TeacherHypervolume      pareto.Summary   `json:"teacher_hypervolume"`
	TeacherHypervolumeTight pareto.Summary   `json:"teacher_hypervolume_tight"`
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

	Budgets       []BudgetCell        `json:"budgets,omitempty"`
	BudgetArms    []ArmSummary        `json:"budget_arms,omitempty"`
	CeilingMargin *goal.CeilingMargin `json:"ceiling_promise,omitempty"` // what was calibrated, out of the manifest

	Uplink          []LinkRetention  `json:"uplink,omitempty"`
	Fleets          []FleetRatio     `json:"fleets,omitempty"`
	OperatingPoints []OperatingPoint `json:"points,omitempty"`
	RandomWorlds    *WorldRange      `json:"random_worlds,omitempty"`
}

// Trace is the recorded workload of an evaluation.
type Trace struct {
	File   string `json:"file"`
	SHA256 string `json:"sha256"`
	Users  int    `json:"users"`
	Rows   int    `json:"rows"`
}

// FrontPoint is one of a front: of the policy at a setting, of the teacher at a price.
type FrontPoint struct {
	Setting    *float64 `json:"setting,omitempty"`
	PriceSPerJ *float64 `json:"price_s_per_j,omitempty"`
	pareto.Point
}

// frontOf pairs the mean outcomes of a sweep with what was swept.
func frontOf(outcomes [][]pareto.Point, at func(k int) FrontPoint) []FrontPoint {
	list := make([]FrontPoint, len(outcomes))
	for k, mean := range pareto.MeanPoints(outcomes) {
		list[k] = at(k)
		list[k].Point = mean
	}
	return list
}

// HypervolumeRatio is the policy's hypervolume over the teacher's.
type HypervolumeRatio struct {
	Hypervolume float64 `json:"hypervolume"`
	Tight       float64 `json:"tight"`
}

func measureFront(ctx context.Context, ck *checkpoint.Checkpoint, c Config) (Report, error) {
	r := Report{Decoder: c.Decoder, Settings: c.Settings, MinSeparationM: -1}
	if t := c.World.Trace; t != nil {
		r.Trace = &Trace{File: t.File, SHA256: t.SHA256, Users: len(t.Users), Rows: t.Len()}
	}
	taught, err := c.sweepTeacher(ctx)
	if err != nil {
		return r, err
	}
	uniform := rollout.Linspace(ck.OmegaBand[0], ck.OmegaBand[1], c.Settings)
	onUniform, err := c.sweep(ctx, ck, rollout.ReportLink{}, rollout.PreferenceRequests(uniform), "uniform settings")
	if err != nil {
		return r, err
	}
	onAxis, err := c.sweep(ctx, ck, rollout.ReportLink{}, c.recalibrated(ck, c.Settings), "recalibrated settings")
	if err != nil {
		return r, err
	}
	wide, tight := pareto.References(&c.World, pareto.MeanPoints(taught))
	outcomes, mean := rollout.Outcomes(onAxis), pareto.Mean
	settings, prices := rollout.Linspace(0, 1, c.Settings), c.prices()
	r.Front = frontOf(outcomes, func(k int) FrontPoint { return FrontPoint{Setting: &settings[k]} })
	r.TeacherFront = frontOf(taught, func(k int) FrontPoint { return FrontPoint{PriceSPerJ: &prices[k]} })
	policy := pareto.Measure(settings, outcomes, wide, tight)
	even := pareto.Measure(uniform, rollout.Outcomes(onUniform), wide, tight)
	expert := pareto.Measure(prices, taught, wide, tight)
	r.Hypervolume, r.TeacherHypervolume = pareto.Summarise(policy.Hypervolumes), pareto.Summarise(expert.Hypervolumes)
	r.HypervolumeTight, r.TeacherHypervolumeTight = pareto.Summarise(policy.Tight), pareto.Summarise(expert.Tight)
	r.HypervolumeUniform = pareto.Summarise(even.Hypervolumes)
	r.TeacherRatio = HypervolumeRatio{mean(ratios(policy.Hypervolumes, expert.Hypervolumes)), mean(ratios(policy.Tight, expert.Tight))}
	var igd []float64
	for s := range c.Seeds {
		p := pareto.SeedPoints(outcomes, s)
		igd = append(igd, pareto.IGD(p, pareto.Pool(p, pareto.SeedPoints(taught, s))))
	}
	r.IGD, r.Fidelity, r.FidelityRecalibrated = mean(igd), mean(even.Fidelities), mean(policy.Fidelities)
	r.ReachS, r.TeacherReachS = mean(even.Reaches), mean(expert.Reaches)
	r.CornerS, r.TeacherCornerS = mean(even.Corners), mean(expert.Corners)
	for _, x := range slices.Concat(onAxis...) {
		if r.MinSeparationM < 0 || x.MinSeparationM < r.MinSeparationM {
			r.MinSeparationM = x.MinSeparationM
		}
	}
	if c.Plot != "" {
		fronts := plots.Fronts([]plots.Arm{{Label: "teacher", Outcomes: taught}, {Label: "policy", Outcomes: outcomes}})
		if err := plots.Save(c.Plot, "The policy's front and its teacher's", fronts); err != nil {
			return r, fmt.Errorf("plot: %w", err)
		}
	}
	r.Operable = r.Fidelity >= 0.9 && r.ReachS >= 0.8*r.TeacherReachS
	r.DistinctSettings = policy.Distinct
	return r, nil
}

// ratios returns a over b by seed, and 0 where b has no volume to compare with.
func ratios(a, b []float64) []float64 {
	list := make([]float64, len(a))
	for s := range list {
		if b[s] != 0 {
			list[s] = a[s] / b[s]
		}
	}
	return list
}

// recalibrated returns requests of the crew's settings.
func (c *Config) recalibrated(ck *checkpoint.Checkpoint, settings int) []rollout.Request {
	return rollout.PreferenceRequests(rollout.CalibratedOmegas(&ck.GoalConstants.SettingMap, settings))
}

func (c *Config) prices() []float64 {
	return teacher.PricesIn(cmp.Or(c.pricedWorld, &c.World), c.TeacherPrices)
}

func (c *Config) sweepTeacher(ctx context.Context) ([][]pareto.Point, error) {
	return teacher.Sweep(ctx, &c.World, seeds.CheckEvaluation, c.Seeds, c.prices(), c.Workers, command.Progress(c.Progress,
		"teacher's seeds", len(c.Seeds)))
}

func (c *Config) sweep(ctx context.Context, ck *checkpoint.Checkpoint, l rollout.ReportLink, requests []rollout.Request,
	what string) ([][]rollout.Result, error) {
	if err := c.checkSeeds(); err != nil {
		return nil, err
	}
	return rollout.Sweep(ctx, ck, c.Decoder, c.World, l, c.Seeds, requests, c.Workers, command.Progress(c.Progress, "seeds, "+what,
		len(c.Seeds)))
}
