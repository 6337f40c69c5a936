package evaluate

import (
	"context"
	"fmt"

	"prefdt/inference/checkpoint"
	"prefdt/offline/front"
	"prefdt/offline/rollout"
)

// Retention is what a link leaves of the front: hypervolume per seed over that
// of the same policy on a perfect link.
type Retention struct {
	Loss float64 `json:"loss"`
	Late int     `json:"late_slots"`
	// Local: users that are not heard compute locally. LastReport: their last
	// report stands in. Offer: they take the standing offer.
	Local      float64 `json:"local"`
	LastReport float64 `json:"last_report"`
	Offer      float64 `json:"offer"`
}

// Uplink measures rates of loss, all reports lost, and late snapshots.
func Uplink(ck *checkpoint.Checkpoint, c Config) ([]Retention, error) {
	var omegas []float64
	for _, setting := range rollout.Grid(0, 1, c.Settings) {
		omegas = append(omegas, ck.Scales.Remap.Omega(setting))
	}
	requests := rollout.Preferences(omegas)
	volumes := func(l rollout.Link) ([]float64, error) {
		results, err := c.sweepLink(ck, l, requests, fmt.Sprintf("%.0f %% lost, %d late, %q", 100*l.Loss, l.Late, l.Unheard))
		if err != nil {
			return nil, err
		}
		var hv []float64
		for s := range c.Seeds {
			hv = append(hv, front.Hypervolume(rollout.Points(results, s), front.Reference))
		}
		return hv, nil
	}
	nominal, err := volumes(rollout.Link{})
	if err != nil {
		return nil, err
	}
	var rows []Retention
	for _, l := range []rollout.Link{{Loss: 0.05}, {Loss: 0.1}, {Loss: 0.2}, {Loss: 0.4}, {Loss: 1}, {Late: 1}, {Late: 2}, {Late: 5}} {
		row := Retention{Loss: l.Loss, Late: l.Late}
		for unheard, into := range map[rollout.Fallback]*float64{rollout.Local: &row.Local, rollout.LastReport: &row.LastReport, rollout.Offer: &row.Offer} {
			l.Unheard = unheard
			hv, err := volumes(l)
			if err != nil {
				return nil, err
			}
			for s := range hv {
				*into += hv[s] / nominal[s] / float64(len(hv))
			}
		}
		rows = append(rows, row)
	}
	return rows, nil
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
