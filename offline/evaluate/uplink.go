package evaluate

import (
	"context"
	"fmt"
	"math"

	"prefdt/inference/checkpoint"
	"prefdt/offline/experiment"
	"prefdt/offline/pareto"
	"prefdt/offline/rollout"
)

// LinkRetention is what a lossy or late link leaves of the front: hypervolume per
// seed over that of the same flights on a perfect link, at the wide reference point
// and, in the fields of that name, at the tight one.
type LinkRetention struct {
	LossRate  float64 `json:"loss"`
	LateSlots int     `json:"late_slots"`
	// Local: users whose report is lost compute locally. LastReport: their last
	// report is used instead. Speculative: a decision is made for every known user
	// without a report. Offer: they accept the standing offer.
	Local            float64 `json:"local"`
	LocalTight       float64 `json:"local_tight"`
	LastReport       float64 `json:"last_report"`
	LastReportTight  float64 `json:"last_report_tight"`
	Speculative      float64 `json:"speculative"`
	SpeculativeTight float64 `json:"speculative_tight"`
	Offer            float64 `json:"offer"`
	OfferTight       float64 `json:"offer_tight"`
	// OfferTeacher is what the standing offer leaves of the teacher's front: the
	// loss that no policy can avoid.
	OfferTeacher      float64 `json:"offer_teacher"`
	OfferTeacherTight float64 `json:"offer_teacher_tight"`
	// OfferBudgetAbsError is the mean absolute error of targets under the standing offer.
	OfferBudgetAbsError float64 `json:"offer_budget_abs_error"`
}

// links are the loss rates and the delays in slots that are measured.
var links = []rollout.ReportLink{{LossRate: 0.05}, {LossRate: 0.1}, {LossRate: 0.2}, {LossRate: 0.4}, {LossRate: 1}, {LateSlots: 1},
	{LateSlots: 2}, {LateSlots: 5}}

// measureUplink measures every link with every fallback.
func measureUplink(ctx context.Context, ck *checkpoint.Checkpoint, c Config) ([]LinkRetention, error) {
	requests := c.recalibrated(ck, c.Settings)
	nominal, err := c.sweep(ctx, ck, rollout.ReportLink{}, requests, "perfect link")
	if err != nil {
		return nil, err
	}
	taught, err := c.sweepTeacherOver(ctx, ck, rollout.ReportLink{})
	if err != nil {
		return nil, err
	}
	wideReference, tightReference := pareto.References(&c.World, pareto.MeanPoints(rollout.Outcomes(taught)))
	// retained is the mean over seeds of one hypervolume over another.
	retained := func(results, whole [][]rollout.Result) (wide, tight float64) {
		part := func(reference pareto.Point) (mean float64) {
			a, b := pareto.Hypervolumes(rollout.Outcomes(results), reference), pareto.Hypervolumes(rollout.Outcomes(whole), reference)
			for _, x := range ratios(a, b) {
				mean += x / float64(len(c.Seeds))
			}
			return mean
		}
		return part(wideReference), part(tightReference)
	}
	var rows []LinkRetention
	for _, l := range links {
		row := LinkRetention{LossRate: l.LossRate, LateSlots: l.LateSlots}
		for _, f := range []struct {
			fallback    rollout.Fallback
			wide, tight *float64
		}{
			{rollout.FallbackLocal, &row.Local, &row.LocalTight},
			{rollout.FallbackLastReport, &row.LastReport, &row.LastReportTight},
			{rollout.FallbackSpeculative, &row.Speculative, &row.SpeculativeTight},
			{rollout.FallbackOffer, &row.Offer, &row.OfferTight},
		} {
			l.Fallback = f.fallback
			results, err := c.sweep(ctx, ck, l, requests, fmt.Sprintf("%.0f %% lost, %d late, %q", 100*l.LossRate, l.LateSlots, f.fallback))
			if err != nil {
				return nil, err
			}
			*f.wide, *f.tight = retained(results, nominal)
		}
		results, err := c.sweepTeacherOver(ctx, ck, l)
		if err != nil {
			return nil, err
		}
		row.OfferTeacher, row.OfferTeacherTight = retained(results, taught)
		if row.OfferBudgetAbsError, err = c.budgetAbsError(ctx, ck, l); err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// sweepTeacherOver flies the teacher at its prices over the link of a leader with the checkpoint: what the link costs
// by itself.
func (c *Config) sweepTeacherOver(ctx context.Context, ck *checkpoint.Checkpoint, l rollout.ReportLink) ([][]rollout.Result, error) {
	l.Prior = ck.UserPrior()
	prices := c.prices()
	settings := rollout.Linspace(0, 1, len(prices))
	runner := func() (*rollout.Runner, error) {
		p := experiment.Dispatch(&c.World.Physics, prices)
		p.Omegas = settings
		return rollout.NewWithPolicy(p, &ck.GoalConstants, c.World, l)
	}
	return rollout.SweepRunners(ctx, runner, c.World, c.Seeds, rollout.PreferenceRequests(settings), c.Workers, nil)
}

// budgetAbsError is the mean absolute error of targets over a link.
func (c *Config) budgetAbsError(ctx context.Context, ck *checkpoint.Checkpoint, l rollout.ReportLink) (mean float64, err error) {
	var requests []rollout.Request
	for _, j := range []float64{27.5e3, 29e3, 31e3, 33e3, 35e3, 36.5e3} {
		requests = append(requests, experiment.Target(j*c.World.EnergyScale()))
	}
	results, err := c.sweep(ctx, ck, l, requests, fmt.Sprintf("budgets, %.0f %% lost, %d late", 100*l.LossRate, l.LateSlots))
	for i := range results {
		for _, r := range results[i] {
			mean += math.Abs(r.EnergyJ/requests[i].BudgetJ-1) / float64(len(requests)*len(c.Seeds))
		}
	}
	return mean, err
}

// FleetRatio compares the policy with the teacher at another size of the fleet.
type FleetRatio struct {
	Aircraft int              `json:"aircraft"`
	Ratio    HypervolumeRatio `json:"teacher_ratio"`
}

func measureFleets(ctx context.Context, ck *checkpoint.Checkpoint, c Config, sizes []int) ([]FleetRatio, error) {
	var rows []FleetRatio
	for _, m := range sizes {
		at := c
		at.World.Aircraft = m
		r, err := measureFront(ctx, ck, at)
		if err != nil {
			return nil, fmt.Errorf("fleet of %d: %w", m, err)
		}
		rows = append(rows, FleetRatio{m, r.TeacherRatio})
	}
	return rows, nil
}
