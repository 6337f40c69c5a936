// Package calibrate finds after training what a checkpoint may promise, on seeds
// of its own: the remap of Sec. IV-C, the monotone map from a setting c in
// [0, 1] to a delay share, such that settings spread evenly over the
// non-dominated part of the front that the trained policy achieves (Fit); the
// margin of ceilings (Ceilings); and how true the floors are that budgets are
// told (Floors). It is pure inference.
package calibrate

import (
	"context"
	"fmt"

	"prefdt/inference"
	"prefdt/inference/checkpoint"
	"prefdt/inference/goal"
	"prefdt/inference/slot"
	"prefdt/offline/pareto"
	"prefdt/offline/rollout"
	"prefdt/offline/seeds"
	"prefdt/simbridge/world"
)

// Calibration is a fitted remap with what it was fitted on.
type Calibration struct {
	PriceAxis    checkpoint.PriceAxis `json:"price"` // read as the network was found to write it
	SettingMap   goal.SettingMap      `json:"remap"`
	Omegas       []float64            `json:"omegas"` // the shares flown
	Points       []pareto.Point       `json:"points"` // their mean outcomes
	FrontIndices []int                `json:"kept"`   // those that make the front
	SeedCount    int                  `json:"seeds"`

	CeilingMargin goal.CeilingMargin `json:"ceiling"`
	BudgetMetrics map[string]float64 `json:"figures"` // of Floors
}

// settingMapKnots of the remap, so that 21 settings and 101 lie well within its grain.
const settingMapKnots = 51

// Fit flies a checkpoint on calibration seeds. It sets the checkpoint's price
// axis, then flies a grid of settings that is even in the conditioner's place,
// and fits the remap.
func Fit(ctx context.Context, frozen *checkpoint.Checkpoint, c world.Config, list []uint64, settings, workers int, progress func(done int)) (Calibration, error) {
	for _, s := range list {
		if err := seeds.CheckCalibration(s); err != nil {
			return Calibration{}, fmt.Errorf("calibrate: %w", err)
		}
	}
	if err := fitPriceAxis(ctx, frozen, c, list); err != nil {
		return Calibration{}, fmt.Errorf("calibrate the price axis: %w", err)
	}
	omegas := EvenOmegas(&frozen.GoalConstants, frozen.OmegaBand, settings)
	results, err := rollout.Sweep(ctx, frozen, inference.DecoderDispatch, c, rollout.ReportLink{}, list, rollout.PreferenceRequests(omegas), workers, progress)
	if err != nil {
		return Calibration{}, fmt.Errorf("calibrate: %w", err)
	}
	outcomes := make([][]pareto.Point, len(results))
	for i, row := range results {
		for _, r := range row {
			outcomes[i] = append(outcomes[i], r.Point)
		}
	}
	cal, err := FitSettingMap(omegas, outcomes)
	cal.PriceAxis = frozen.PriceAxis
	return cal, err
}

// fitPriceAxis sets the far end of the price axis to what the network writes there
// when it is asked for the least energy, a standard deviation below its mean.
// Regression shrinks towards the middle: it stays short of the end, and the
// price there rises steeply.
func fitPriceAxis(ctx context.Context, frozen *checkpoint.Checkpoint, c world.Config, list []uint64) error {
	y := append([]float64(nil), frozen.PriceAxis.FrontPositions...)
	frozen.PriceAxis.FrontPositions = y
	first, last := y[0], y[len(y)-1]
	set := func(end float64) {
		for i := range y {
			y[i] = first + (y[i]-first)*(end-first)/(last-first)
		}
		last = end
	}
	set(1)
	policy, err := inference.New(frozen, inference.DecoderDispatch)
	if err != nil {
		return err
	}
	read := &priceRecorder{Policy: policy, axis: &frozen.PriceAxis}
	flyer, err := rollout.NewWithPolicy(read, &frozen.GoalConstants, c, rollout.ReportLink{})
	if err != nil {
		return err
	}
	for _, seed := range list {
		if err := ctx.Err(); err != nil {
			return err
		}
		flyer.Fly(seed, rollout.Request{Mode: goal.Preference, Omega: frozen.OmegaBand[1]})
	}
	said := pareto.Summarise(read.positions)
	end := said.Mean - said.Std
	if !(end > 0.5) {
		return fmt.Errorf("asked for the least energy, the network says %.3f ± %.3f of 1; train longer", said.Mean, said.Std)
	}
	set(end)
	return nil
}

// priceRecorder notes what the network says on the price axis.
type priceRecorder struct {
	rollout.Policy
	axis      *checkpoint.PriceAxis
	positions []float64
}

func (r *priceRecorder) Decide(s *slot.Snapshot, g goal.Objective, d *slot.Decision) goal.Observation {
	seen := r.Policy.Decide(s, g, d)
	r.positions = append(r.positions, r.axis.FrontPosition(d.PriceSPerJ))
	return seen
}

// FitSettingMap fits a remap to the outcomes, by share and by seed, of any policy.
func FitSettingMap(omegas []float64, outcomes [][]pareto.Point) (Calibration, error) {
	c := Calibration{Omegas: omegas, SeedCount: len(outcomes[0])}
	for _, row := range outcomes {
		var mean pareto.Point
		for _, p := range row {
			mean.DelayS += p.DelayS / float64(len(row))
			mean.EnergyJ += p.EnergyJ / float64(len(row))
		}
		c.Points = append(c.Points, mean)
	}
	c.FrontIndices = longestFront(c.Points)
	if len(c.FrontIndices) < 3 {
		return c, fmt.Errorf("calibrate: only %d of %d settings lie on one front; train longer", len(c.FrontIndices), len(omegas))
	}
	c.SettingMap = c.spacedSettingMap(outcomes)
	return c, nil
}

// EvenOmegas returns n delay shares over a band that are even in the conditioner's
// place, a grid to fit a remap on.
func EvenOmegas(s *goal.Constants, band [2]float64, n int) []float64 {
	omegas := make([]float64, n)
	for i := range omegas {
		want := float64(i) / float64(n-1)
		low, high := band[0], band[1]
		for range 60 { // Place rises with omega
			if mid := (low + high) / 2; s.FrontPosition(mid) < want {
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
func longestFront(points []pareto.Point) []int {
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

// Neighbours among that many settings are told apart by so many standard
// deviations of their delay on one seed.
const (
	separatedSettings = 21
	separationStdDevs = 3
)

// spacedSettingMap spaces the settings evenly along the front, half in delay and half in
// energy, but nowhere so densely that flights come out of order: at the corner
// kilojoules buy tenths of a second, less than tells one flight from the next.
func (c *Calibration) spacedSettingMap(outcomes [][]pareto.Point) goal.SettingMap {
	first, last := c.Points[c.FrontIndices[0]], c.Points[c.FrontIndices[len(c.FrontIndices)-1]]
	places, omegas := []float64{0}, []float64{c.Omegas[c.FrontIndices[0]]}
	for k, j := range c.FrontIndices[1:] {
		i := c.FrontIndices[k]
		p, q := c.Points[i], c.Points[j]
		gained := make([]float64, len(outcomes[i]))
		for s := range gained {
			gained[s] = outcomes[j][s].DelayS - outcomes[i][s].DelayS
		}
		way := (q.DelayS-p.DelayS)/(2*(last.DelayS-first.DelayS)) + (p.EnergyJ-q.EnergyJ)/(2*(first.EnergyJ-last.EnergyJ))
		if noise := pareto.Summarise(gained).Std; noise > 0 {
			way = min(way, (q.DelayS-p.DelayS)/(separationStdDevs*noise*(separatedSettings-1)))
		}
		places, omegas = append(places, places[k]+way), append(omegas, c.Omegas[j])
	}
	r := goal.SettingMap{Omegas: make([]float64, settingMapKnots)}
	for k := range r.Omegas {
		i, f := goal.HatBasis(places, places[len(places)-1]*float64(k)/(settingMapKnots-1))
		r.Omegas[k] = omegas[i] + f*(omegas[i+1]-omegas[i])
	}
	return r
}
