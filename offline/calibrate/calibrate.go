// Package calibrate measures after training what a checkpoint can guarantee, on
// seeds of its own. Inputs: a checkpoint, a world and calibration seeds. Outputs:
// the setting map (the remap of Sec. IV-C), the monotone map from a setting c in
// [0, 1] to a delay share that spreads settings evenly over the non-dominated part
// of the front that the trained policy achieves (Fit); the margin of ceilings
// (fitCeilingMargin); and the error of the floors reported for budgets
// (measureFloors). "offline calibrate" and the study call it. It trains nothing.
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

// Calibration is a fitted setting map with what it was fitted on.
type Calibration struct {
	PriceCurve   checkpoint.PriceCurve `json:"price"` // fitted to what the network predicts
	SettingMap   goal.SettingMap       `json:"remap"`
	Omegas       []float64             `json:"omegas"` // the shares flown
	Points       []pareto.Point        `json:"points"` // their mean outcomes
	FrontIndices []int                 `json:"kept"`   // those that make the front
	SeedCount    int                   `json:"seeds"`

	CeilingMargin goal.CeilingMargin `json:"ceiling"`
	BudgetMetrics map[string]float64 `json:"figures"` // of Floors
}

// settingMapKnots is fine enough for 21 settings and for 101.
const settingMapKnots = 51

// Fit flies a checkpoint on calibration seeds. It sets the checkpoint's price
// curve, then flies a grid of shares that is even in the conditioner's front position,
// and fits the remap.
func Fit(ctx context.Context, frozen *checkpoint.Checkpoint, c world.Config, list []uint64, settings, workers int,
	progress func(done int)) (Calibration, error) {
	if err := seeds.CheckAll(list, seeds.CheckCalibration); err != nil {
		return Calibration{}, fmt.Errorf("calibrate: %w", err)
	}
	if err := fitPriceCurve(ctx, frozen, c, list); err != nil {
		return Calibration{}, fmt.Errorf("calibrate the price curve: %w", err)
	}
	omegas := EvenOmegas(&frozen.GoalConstants, frozen.OmegaBand, settings)
	cal, err := FlySettingMap(ctx, frozen, inference.DecoderDispatch, c, list, omegas, workers, progress)
	cal.PriceCurve = frozen.PriceCurve
	return cal, err
}

// FlySettingMap flies a checkpoint at some shares on calibration seeds, and fits a setting map to what it achieves.
func FlySettingMap(ctx context.Context, frozen *checkpoint.Checkpoint, decoder inference.Decoder, c world.Config, list []uint64,
	omegas []float64, workers int, progress func(done int)) (cal Calibration, err error) {
	var results [][]rollout.Result
	if err = seeds.CheckAll(list, seeds.CheckCalibration); err == nil {
		results, err = rollout.Sweep(ctx, frozen, decoder, c, rollout.ReportLink{}, list, rollout.PreferenceRequests(omegas), workers,
			progress)
	}
	if err != nil {
		return cal, fmt.Errorf("calibrate: %w", err)
	}
	return FitSettingMap(omegas, rollout.Outcomes(results))
}

// fitPriceCurve sets the far end of the price curve to what the network predicts when
// the least energy is requested, a standard deviation below its mean.
// Regression shrinks towards the middle: it stays short of the end, and the
// price there rises steeply.
func fitPriceCurve(ctx context.Context, frozen *checkpoint.Checkpoint, c world.Config, list []uint64) error {
	y := append([]float64(nil), frozen.PriceCurve.FrontPositions...)
	frozen.PriceCurve.FrontPositions = y
	first, last := y[0], y[len(y)-1]
	set := func(end float64) {
		for i := range y {
			y[i] = first + (y[i]-first)*(end-first)/(last-first)
		}
		last = end
	}
	set(1)
	var positions []float64
	runner, err := newRunner(frozen, c)
	if err != nil {
		return err
	}
	runner.OnDecided = func(_ *slot.Snapshot, _ goal.Objective, d *slot.Decision) {
		positions = append(positions, frozen.PriceCurve.FrontPosition(d.PriceSPerJ))
	}
	for _, seed := range list {
		if err := ctx.Err(); err != nil {
			return err
		}
		runner.Fly(seed, rollout.Request{Mode: goal.Preference, Omega: frozen.OmegaBand[1]})
	}
	predicted := pareto.Summarise(positions)
	end := predicted.Mean - predicted.Std
	if !(end > 0.5) {
		return fmt.Errorf("with the least energy requested, the network predicts %.3f ± %.3f of 1; train longer", predicted.Mean,
			predicted.Std)
	}
	set(end)
	return nil
}

// newRunner returns what flies a checkpoint in a world, whose constants are the checkpoint's.
func newRunner(frozen *checkpoint.Checkpoint, c world.Config) (*rollout.Runner, error) {
	policy, err := inference.New(frozen, inference.DecoderDispatch)
	if err != nil {
		return nil, err
	}
	return rollout.NewWithPolicy(policy, &frozen.GoalConstants, c, rollout.ReportLink{})
}

// FitSettingMap fits a setting map to the outcomes, by share and by seed, of any policy.
func FitSettingMap(omegas []float64, outcomes [][]pareto.Point) (Calibration, error) {
	c := Calibration{Omegas: omegas, Points: pareto.MeanPoints(outcomes), SeedCount: len(outcomes[0])}
	c.FrontIndices = longestFront(c.Points)
	if len(c.FrontIndices) < 3 {
		return c, fmt.Errorf("calibrate: only %d of %d settings lie on one front; train longer", len(c.FrontIndices), len(omegas))
	}
	c.SettingMap = c.spacedSettingMap(outcomes)
	return c, nil
}

// EvenOmegas returns n delay shares over a band that are even in the conditioner's
// front position, a grid to fit a setting map on.
func EvenOmegas(s *goal.Constants, band [2]float64, n int) []float64 {
	omegas := make([]float64, n)
	for i := range omegas {
		want := float64(i) / float64(n-1)
		low, high := goal.Bisect(band[0], band[1], 60, func(omega float64) bool { return s.FrontPosition(omega) < want }) // it rises
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

// Neighbours among separatedSettings settings differ in delay by at least
// separationStdDevs standard deviations of that difference on one seed.
const (
	separatedSettings = 21
	separationStdDevs = 3
)

// spacedSettingMap spaces the settings evenly along the front, half in delay and half in
// energy, but nowhere so densely that noise changes their order: at the corner
// kilojoules buy tenths of a second, less than two flights differ by chance.
func (c *Calibration) spacedSettingMap(outcomes [][]pareto.Point) goal.SettingMap {
	first, last := c.Points[c.FrontIndices[0]], c.Points[c.FrontIndices[len(c.FrontIndices)-1]]
	positions, omegas := []float64{0}, []float64{c.Omegas[c.FrontIndices[0]]}
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
		positions, omegas = append(positions, positions[k]+way), append(omegas, c.Omegas[j])
	}
	r := goal.SettingMap{Omegas: make([]float64, settingMapKnots)}
	for k := range r.Omegas {
		i, f := goal.HatBasis(positions, positions[len(positions)-1]*float64(k)/(settingMapKnots-1))
		r.Omegas[k] = omegas[i] + f*(omegas[i+1]-omegas[i])
	}
	return r
}
