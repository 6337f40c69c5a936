// Package calibrate finds after training what a checkpoint may promise, on seeds
// of its own: the remap of Sec. IV-C, the monotone map from a setting c in
// [0, 1] to a delay share, such that settings spread evenly over the
// non-dominated part of the front that the trained policy achieves (Fit); the
// margin of ceilings (Ceilings); and how true the floors are that budgets are
// told (Floors). It is pure inference.
package calibrate

import (
	"fmt"

	"prefdt/inference"
	"prefdt/inference/checkpoint"
	"prefdt/inference/goal"
	"prefdt/offline/front"
	"prefdt/offline/rollout"
	"prefdt/offline/seeds"
	"prefdt/simbridge/world"
)

// Calibration is a fitted remap with what it was fitted on.
type Calibration struct {
	Remap  goal.Remap    `json:"remap"`
	Omegas []float64     `json:"omegas"` // the shares flown
	Points []front.Point `json:"points"` // their mean outcomes
	Kept   []int         `json:"kept"`   // those that make the front
	Seeds  int           `json:"seeds"`

	Ceiling goal.Promise       `json:"ceiling"`
	Figures map[string]float64 `json:"figures"` // of Floors
}

// knots of the remap, so that 21 settings and 101 lie well within its grain.
const knots = 51

// Fit flies a checkpoint on calibration seeds over a grid of settings that is
// even in the conditioner's place, and fits the remap.
func Fit(frozen *checkpoint.Checkpoint, c world.Config, list []uint64, settings, workers int, progress func(done int)) (Calibration, error) {
	cal := Calibration{Seeds: len(list)}
	for _, s := range list {
		if err := seeds.Calibration(s); err != nil {
			return cal, fmt.Errorf("calibrate: %w", err)
		}
	}
	cal.Omegas = evenOmegas(&frozen.Scales, frozen.Band, settings)
	results, err := rollout.Sweep(frozen, inference.Dispatch, c, rollout.Link{}, list, rollout.Preferences(cal.Omegas), workers, progress)
	if err != nil {
		return cal, fmt.Errorf("calibrate: %w", err)
	}
	for _, row := range results {
		var mean front.Point
		for _, r := range row {
			mean.DelayS += r.DelayS / float64(len(row))
			mean.EnergyJ += r.EnergyJ / float64(len(row))
		}
		cal.Points = append(cal.Points, mean)
	}
	cal.Kept = longestFront(cal.Points)
	if len(cal.Kept) < 3 {
		return cal, fmt.Errorf("calibrate: only %d of %d settings lie on one front; train longer", len(cal.Kept), settings)
	}
	cal.Remap = cal.remap()
	return cal, nil
}

// evenOmegas returns shares whose conditioner places are even.
func evenOmegas(s *goal.Scales, band [2]float64, n int) []float64 {
	omegas := make([]float64, n)
	for i := range omegas {
		want := float64(i) / float64(n-1)
		low, high := band[0], band[1]
		for range 60 { // Place rises with omega
			if mid := (low + high) / 2; s.Place(mid) < want {
				low = mid
			} else {
				high = mid
			}
		}
		omegas[i] = (low + high) / 2
	}
	omegas[0], omegas[n-1] = band[0], band[1]
	return omegas
}

// longestFront returns the longest subsequence along which delay rises and
// energy falls strictly: the settings that are distinct and do not dominate
// each other.
func longestFront(points []front.Point) []int {
	best, from := make([]int, len(points)), make([]int, len(points))
	end := 0
	for i, p := range points {
		best[i], from[i] = 1, -1
		for j, q := range points[:i] {
			if p.DelayS > q.DelayS && p.EnergyJ < q.EnergyJ && best[j] >= best[i] {
				best[i], from[i] = best[j]+1, j
			}
		}
		if best[i] > best[end] {
			end = i
		}
	}
	var chain []int
	for i := end; i >= 0; i = from[i] {
		chain = append([]int{i}, chain...)
	}
	return chain
}

// remap spaces the settings evenly in the achieved place, half delay and half energy.
func (c *Calibration) remap() goal.Remap {
	first, last := c.Points[c.Kept[0]], c.Points[c.Kept[len(c.Kept)-1]]
	var places, omegas []float64
	for _, i := range c.Kept {
		p := c.Points[i]
		places = append(places, (p.DelayS-first.DelayS)/(2*(last.DelayS-first.DelayS))+(first.EnergyJ-p.EnergyJ)/(2*(first.EnergyJ-last.EnergyJ)))
		omegas = append(omegas, c.Omegas[i])
	}
	r := goal.Remap{Omegas: make([]float64, knots)}
	for k := range r.Omegas {
		i, f := goal.Hat(places, float64(k)/(knots-1))
		r.Omegas[k] = omegas[i] + f*(omegas[i+1]-omegas[i])
	}
	return r
}
