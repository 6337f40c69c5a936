package evaluate

import (
	"context"
	"fmt"
	"math"

	"prefdt/inference/checkpoint"
	"prefdt/inference/goal"
	"prefdt/offline/front"
	"prefdt/offline/rollout"
	"prefdt/offline/teacher"
)

// Retention is what a link leaves of the front: hypervolume per seed over that
// on a perfect link.
type Retention struct {
	Loss float64 `json:"loss"`
	Late int     `json:"late_slots"`
	// Local: users that are not heard compute locally. LastReport: their last
	// report stands in. Speculative: a decision is made for every known user
	// that is not heard. Offer: they take the standing offer.
	Local       float64 `json:"local"`
	LastReport  float64 `json:"last_report"`
	Speculative float64 `json:"speculative"`
	Offer       float64 `json:"offer"`
	// Tight is Offer's at the tight reference point.
	Tight float64 `json:"offer_tight"`
	// Teacher is what the standing offer leaves of the teacher's front: what is
	// lost with the reports, whoever decides.
	Teacher float64 `json:"offer_teacher"`
	// Budget is the mean absolute error of targets under the standing offer.
	Budget float64 `json:"offer_budget_abs_error"`
}

// links are the rates of loss and the displacements measured.
var links = []rollout.Link{{Loss: 0.05}, {Loss: 0.1}, {Loss: 0.2}, {Loss: 0.4}, {Loss: 1}, {Late: 1}, {Late: 2}, {Late: 5}}

// Uplink measures them.
func Uplink(ctx context.Context, ck *checkpoint.Checkpoint, c Config) ([]Retention, error) {
	requests := rollout.Preferences(rollout.Axis(&ck.Scales.Remap, c.Settings))
	nominal, err := c.sweepLink(ck, rollout.Link{}, requests, "perfect link")
	if err != nil {
		return nil, err
	}
	taught, err := c.sweepTeacherOver(ck, rollout.Link{})
	if err != nil {
		return nil, err
	}
	var rows []Retention
	for _, l := range links {
		row := Retention{Loss: l.Loss, Late: l.Late}
		for unheard, into := range map[rollout.Fallback]*float64{
			rollout.Local: &row.Local, rollout.LastReport: &row.LastReport, rollout.Speculative: &row.Speculative, rollout.Offer: &row.Offer,
		} {
			l.Unheard = unheard
			results, err := c.sweepLink(ck, l, requests, fmt.Sprintf("%.0f %% lost, %d late, %q", 100*l.Loss, l.Late, unheard))
			if err != nil {
				return nil, err
			}
			*into = c.retained(results, nominal, front.Reference)
			if unheard == rollout.Offer {
				row.Tight = c.retained(results, nominal, front.TightReference)
			}
		}
		l.Unheard = rollout.Offer
		results, err := c.sweepTeacherOver(ck, l)
		if err != nil {
			return nil, err
		}
		row.Teacher = c.retained(results, taught, front.Reference)
		if row.Budget, err = c.budgetOver(ck, l); err != nil {
			return nil, err
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// retained is the mean over seeds of one hypervolume over another.
func (c Config) retained(results, nominal [][]rollout.Result, reference front.Point) (mean float64) {
	for s := range c.Seeds {
		mean += front.Hypervolume(rollout.Points(results, s), reference) / front.Hypervolume(rollout.Points(nominal, s), reference) / float64(len(c.Seeds))
	}
	return mean
}

// sweepTeacherOver flies the teacher at its prices over a link.
func (c Config) sweepTeacherOver(ck *checkpoint.Checkpoint, l rollout.Link) (results [][]rollout.Result, err error) {
	for _, price := range teacher.Prices(c.Prices) {
		at, err := rollout.SweepOf(
			func() (*rollout.Flyer, error) { return rollout.NewTeacher(ck, price, c.World, l) },
			c.World, c.Seeds, rollout.Preferences([]float64{0}), c.Workers, nil)
		if err != nil {
			return nil, err
		}
		results = append(results, at[0])
	}
	return results, nil
}

// budgetOver is the mean absolute error of targets over a link.
func (c Config) budgetOver(ck *checkpoint.Checkpoint, l rollout.Link) (mean float64, err error) {
	var requests []rollout.Request
	for _, j := range []float64{27.5e3, 29e3, 31e3, 33e3, 35e3, 36.5e3} {
		requests = append(requests, rollout.Request{Mode: goal.Target, BudgetJ: j})
	}
	results, err := c.sweepLink(ck, l, requests, fmt.Sprintf("budgets, %.0f %% lost, %d late", 100*l.Loss, l.Late))
	for i := range results {
		for _, r := range results[i] {
			mean += math.Abs(r.EnergyJ/requests[i].BudgetJ-1) / float64(len(requests)*len(c.Seeds))
		}
	}
	return mean, err
}

// Fleet compares the policy with the teacher at another size of the fleet.
type Fleet struct {
	Aircraft int   `json:"aircraft"`
	Ratio    Ratio `json:"teacher_ratio"`
}

// Fleets measures each size.
func Fleets(ctx context.Context, ck *checkpoint.Checkpoint, c Config, sizes []int) ([]Fleet, error) {
	var rows []Fleet
	for _, m := range sizes {
		at := c
		at.World.Aircraft = m
		r, err := Headline(ctx, ck, at)
		if err != nil {
			return nil, fmt.Errorf("fleet of %d: %w", m, err)
		}
		rows = append(rows, Fleet{m, r.TeacherRatio})
	}
	return rows, nil
}
