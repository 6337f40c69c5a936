// Package evaluate measures a checkpoint on seeds that nothing before has
// seen: the front it draws against the exact-dispatch teacher's on the same
// episodes, whether settings are followed, whether budgets are held, what a
// lossy or late link leaves of the front, and other fleets.
package evaluate

import (
	"context"
	"fmt"
	"io"

	"prefdt/inference"
	"prefdt/inference/checkpoint"
	"prefdt/inference/goal"
	"prefdt/offline/command"
	"prefdt/offline/front"
	"prefdt/offline/rollout"
	"prefdt/offline/seeds"
	"prefdt/offline/teacher"
	"prefdt/simbridge/world"
)

// Config is one evaluation.
type Config struct {
	World    world.Config
	Seeds    []uint64
	Settings int // K
	Prices   int // of the teacher's sweep
	Decoder  inference.Decoder
	Workers  int
	Progress io.Writer
}

// Stat is a mean over seeds.
type Stat struct {
	Mean float64 `json:"mean"`
	Std  float64 `json:"std"`
	N    int     `json:"n"`
}

func over(x []float64) Stat {
	s := front.Summarise(x)
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

	TeacherHypervolume Stat    `json:"teacher_hypervolume"`
	TeacherTight       Stat    `json:"teacher_hypervolume_tight"`
	TeacherRatio       Ratio   `json:"teacher_ratio"` // per seed
	IGD                float64 `json:"igd"`           // against the pooled front of policy and teacher

	Fidelity             float64 `json:"fidelity"` // |rho| on the uniform grid
	FidelityRecalibrated float64 `json:"fidelity_recalibrated"`
	// Distinct counts the recalibrated settings whose mean outcomes are
	// distinct and dominate none of the others.
	Distinct      int     `json:"distinct_settings"`
	ReachS        float64 `json:"reach_s"`
	TeacherReachS float64 `json:"teacher_reach_s"`
	CornerS       float64 `json:"corner_s"`
	TeacherCorner float64 `json:"teacher_corner_s"`
	Operable      bool    `json:"operable"` // eq. (criterion)
	MinApartM     float64 `json:"min_separation_m"`

	Budgets []Budget `json:"budgets,omitempty"`
	// What was calibrated, out of the manifest.
	Promise    *goal.Promise      `json:"ceiling_promise,omitempty"`
	Calibrated map[string]float64 `json:"calibrated,omitempty"`

	Uplink []Retention `json:"uplink,omitempty"`
	Fleets []Fleet     `json:"fleets,omitempty"`
	Points []Point     `json:"points,omitempty"`
}

// Ratio is the policy's hypervolume over the teacher's.
type Ratio struct {
	Hypervolume float64 `json:"hypervolume"`
	Tight       float64 `json:"tight"`
}

// Headline measures the front.
func Headline(ctx context.Context, ck *checkpoint.Checkpoint, c Config) (Report, error) {
	r := Report{Decoder: c.Decoder, Settings: c.Settings, MinApartM: -1}
	taught, err := sweepTeacher(ctx, c)
	if err != nil {
		return r, err
	}
	uniform := rollout.Grid(ck.Band[0], ck.Band[1], c.Settings)
	axis := rollout.Grid(0, 1, c.Settings)
	onUniform, err := sweep(ck, c, rollout.Preferences(uniform), "uniform settings")
	if err != nil {
		return r, err
	}
	onAxis, err := sweep(ck, c, rollout.Preferences(rollout.Axis(&ck.Scales.Remap, c.Settings)), "recalibrated settings")
	if err != nil {
		return r, err
	}

	reference, tightReference := c.references()
	var hv, tight, hvUniform, thv, ttight, ratio, tightRatio, igd, rho, rhoAxis, reach, treach, corner, tcorner []float64
	for s := range c.Seeds {
		p, u, t := rollout.Points(onAxis, s), rollout.Points(onUniform, s), teacher.Front(taught, s)
		pooled := front.Pool(p, t)
		hv = append(hv, front.Hypervolume(p, reference))
		tight = append(tight, front.Hypervolume(p, tightReference))
		hvUniform = append(hvUniform, front.Hypervolume(u, reference))
		thv = append(thv, front.Hypervolume(t, reference))
		ttight = append(ttight, front.Hypervolume(t, tightReference))
		ratio = append(ratio, quotient(hv[s], thv[s]))
		tightRatio = append(tightRatio, quotient(tight[s], ttight[s]))
		igd = append(igd, front.IGD(p, pooled))
		rho = append(rho, front.Fidelity(uniform, u))
		rhoAxis = append(rhoAxis, front.Fidelity(axis, p))
		reach = append(reach, front.ReachS(u))
		treach = append(treach, front.ReachS(t))
		corner = append(corner, front.CornerS(u))
		tcorner = append(tcorner, front.CornerS(t))
		for i := range onAxis {
			if apart := onAxis[i][s].MinApartM; r.MinApartM < 0 || apart < r.MinApartM {
				r.MinApartM = apart
			}
		}
	}
	r.Hypervolume, r.HypervolumeTight, r.HypervolumeUniform = over(hv), over(tight), over(hvUniform)
	r.TeacherHypervolume, r.TeacherTight = over(thv), over(ttight)
	r.TeacherRatio = Ratio{over(ratio).Mean, over(tightRatio).Mean}
	r.IGD, r.Fidelity, r.FidelityRecalibrated = over(igd).Mean, over(rho).Mean, over(rhoAxis).Mean
	r.ReachS, r.TeacherReachS, r.CornerS, r.TeacherCorner = over(reach).Mean, over(treach).Mean, over(corner).Mean, over(tcorner).Mean
	r.Operable = r.Fidelity >= 0.9 && r.ReachS >= 0.8*r.TeacherReachS
	r.Distinct = distinct(onAxis)
	return r, nil
}

// references returns the two reference points, in joules for the size of the
// fleet: DESIGN's are those of two aircraft.
func (c Config) references() (wide, tight front.Point) {
	wide, tight = front.Reference, front.TightReference
	wide.EnergyJ *= float64(c.World.Aircraft) / 2
	tight.EnergyJ *= float64(c.World.Aircraft) / 2
	return wide, tight
}

// quotient is a/b, and 0 where the teacher has no volume to compare with.
func quotient(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// distinct counts the settings on the non-dominated front of the mean outcomes.
func distinct(results [][]rollout.Result) int {
	var means []front.Point
	for _, row := range results {
		var p front.Point
		for _, x := range row {
			p.DelayS += x.DelayS / float64(len(row))
			p.EnergyJ += x.EnergyJ / float64(len(row))
		}
		means = append(means, p)
	}
	return len(front.NonDominated(means))
}

func sweepTeacher(ctx context.Context, c Config) ([][]front.Point, error) {
	return teacher.Sweep(ctx, &c.World, seeds.Evaluation, c.Seeds, teacher.Prices(c.Prices), c.Workers, command.Progress(c.Progress, "teacher's seeds", len(c.Seeds)))
}

func sweep(ck *checkpoint.Checkpoint, c Config, requests []rollout.Request, what string) ([][]rollout.Result, error) {
	return c.sweepLink(ck, rollout.Link{}, requests, what)
}

func (c Config) sweepLink(ck *checkpoint.Checkpoint, l rollout.Link, requests []rollout.Request, what string) ([][]rollout.Result, error) {
	for _, s := range c.Seeds {
		if err := seeds.Evaluation(s); err != nil {
			return nil, fmt.Errorf("evaluate: %w", err)
		}
	}
	return rollout.Sweep(ck, c.Decoder, c.World, l, c.Seeds, requests, c.Workers, command.Progress(c.Progress, "seeds, "+what, len(c.Seeds)))
}
