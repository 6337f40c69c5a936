package study

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"prefdt/inference/goal"
	"prefdt/inference/slot"
	"prefdt/offline/calibrate"
	"prefdt/offline/front"
	"prefdt/offline/rollout"
	"prefdt/offline/seeds"
	"prefdt/simbridge/world"
)

// Result is what one arm did; figures are read from it later, together with
// the others'.
type Result struct {
	Key        string  `json:"key"` // of the arm and the configuration
	Parameters int     `json:"parameters"`
	DecisionUS float64 `json:"-"` // median over the slots of some flights, one core; timed for each report

	// Omegas are the shares that the settings stand for, spread over what the
	// arm achieves on calibration seeds; of an archive, those of its members.
	Omegas []float64       `json:"omegas"`
	Front  [][]front.Point `json:"front"` // [setting][seed]
	// Kept of the calibration's grid make one front.
	Kept    int `json:"kept"`
	Spread  int `json:"spread"`
	Uniform struct {
		Omegas   []float64       `json:"omegas"` // even over the attainable band
		Points   [][]front.Point `json:"points"`
		SpeedMPS []float64       `json:"speed_mps"` // mean over seeds
	} `json:"uniform"`
	Gust    [][]front.Point `json:"gust"` // the front again under gusts
	Budgets []Budget        `json:"budgets"`
	Link    []Retention     `json:"link"`
	Traces  []Trace         `json:"traces"`

	arm *Arm
}

// Budget is how a total was held over all seeds.
type Budget struct {
	Perturbation string  `json:"perturbation"`
	BudgetJ      float64 `json:"budget_j"` // as last revised
	// Relative to the budget, or the least total possible without foreseeing
	// the shock if that is more.
	Error    float64 `json:"error"`
	AbsError float64 `json:"abs_error"`
	Over     float64 `json:"over"` // fraction of flights above
}

// Retention is what a lossy link leaves of the hypervolume, per seed.
type Retention struct {
	Loss    float64          `json:"loss"`
	Late    int              `json:"late"`
	Unheard rollout.Fallback `json:"unheard"`
	Kept    float64          `json:"kept"`
}

// Trace is the energy spent, slot by slot, over seeds.
type Trace struct {
	BudgetJ  float64   `json:"budget_j"`
	Revise   int       `json:"revise"`
	RevisedJ float64   `json:"revised_j"`
	MeanJ    []float64 `json:"mean_j"` // [slot], 0 to T
	StdJ     []float64 `json:"std_j"`
}

const (
	shockSlot   = 50
	shockFactor = 1.5
	gust        = 0.15
	reviseSlot  = 60
)

// Names of the perturbations of budgets.
const (
	calm     = "calm"
	shocked  = "x1.5 from slot 50"
	gusty    = "gusts of 15 %"
	revision = "revised at slot 60"
)

var budgets = []struct {
	name     string
	set      func(*world.Config)
	requests []rollout.Request
}{
	{calm, func(*world.Config) {}, targets(29e3, 33e3, 36.5e3)},
	{shocked, func(c *world.Config) { c.Shock = world.Shock{FromSlot: shockSlot, Factor: shockFactor} }, targets(40.5e3, 42e3, 44e3)},
	{gusty, func(c *world.Config) { c.Gust = gust }, targets(29e3, 33e3, 36.5e3)},
	{revision, func(*world.Config) {}, []rollout.Request{
		{Mode: goal.Target, BudgetJ: 35e3, Revise: reviseSlot, RevisedJ: 32e3},
		{Mode: goal.Target, BudgetJ: 29e3, Revise: reviseSlot, RevisedJ: 31e3},
	}},
}

// tracesJ are the requests drawn slot by slot under the shock: a budget that an
// even spender can still meet, and its revision to one that nobody can.
var tracesJ = []rollout.Request{
	{Mode: goal.Target, BudgetJ: 40.5e3},
	{Mode: goal.Target, BudgetJ: 40.5e3, Revise: reviseSlot, RevisedJ: 36e3},
}

func targets(totals ...float64) (list []rollout.Request) {
	for _, j := range totals {
		list = append(list, rollout.Request{Mode: goal.Target, BudgetJ: j})
	}
	return list
}

// measure flies an arm through the protocol.
func (s *study) measure(ctx context.Context, a *Arm) (*Result, error) {
	p, err := s.player(ctx, a)
	if err != nil {
		return nil, err
	}
	r := &Result{Key: s.key(a), Parameters: p.parameters, arm: a}
	list := evaluation(s.AblationSeeds)
	if a.Headline {
		list = evaluation(s.Seeds)
	}
	if err := s.spread(ctx, p, a, r); err != nil {
		return nil, err
	}
	results, err := s.sweep(ctx, p, s.world, rollout.Link{}, list, rollout.Preferences(r.Omegas), a.Name+", front")
	if err != nil {
		return nil, err
	}
	r.Front = points(results)
	if p.members == nil && !a.Blind {
		r.Uniform.Omegas = rollout.Grid(p.band[0], p.band[1], s.Settings)
		if results, err = s.sweep(ctx, p, s.world, rollout.Link{}, list, rollout.Preferences(r.Uniform.Omegas), a.Name+", even settings"); err != nil {
			return nil, err
		}
		r.Uniform.Points = points(results)
		for _, row := range results {
			mean := 0.0
			for _, x := range row {
				mean += x.SpeedMPS / float64(len(row))
			}
			r.Uniform.SpeedMPS = append(r.Uniform.SpeedMPS, mean)
		}
	}
	few := list[:s.AblationSeeds]
	rough := s.world
	rough.Gust = gust
	if results, err = s.sweep(ctx, p, rough, rollout.Link{}, few, rollout.Preferences(r.Omegas), a.Name+", gusts"); err != nil {
		return nil, err
	}
	r.Gust = points(results)
	if !a.Blind && a.Kind != kindRandom {
		if err := s.budgets(ctx, p, a, few, r); err != nil {
			return nil, err
		}
	}
	if a.Link {
		if err := s.link(ctx, p, a, list[:min(s.LinkSeeds, len(list))], r); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func points(results [][]rollout.Result) [][]front.Point {
	p := make([][]front.Point, len(results))
	for i, row := range results {
		for _, x := range row {
			p[i] = append(p[i], x.Point)
		}
	}
	return p
}

// sweep flies every request on every seed.
func (s *study) sweep(ctx context.Context, p *player, c world.Config, l rollout.Link, list []uint64, requests []rollout.Request, what string) ([][]rollout.Result, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return rollout.SweepOf(func() (*rollout.Flyer, error) {
		policy, err := p.policy()
		if err != nil {
			return nil, err
		}
		return rollout.NewOf(policy, p.scales, c, l)
	}, c, list, requests, s.workers, s.progress("seeds, "+what, len(list)))
}

// calibrationGrid is the number of settings that an axis is spread from.
const calibrationGrid = 41

// spread finds the shares that an arm's settings stand for.
func (s *study) spread(ctx context.Context, p *player, a *Arm, r *Result) error {
	switch {
	case p.members != nil:
		r.Omegas = p.members
		return nil
	case a.Blind:
		r.Omegas = []float64{0.5}
		return nil
	case a.Kind == kindRandom:
		r.Omegas = rollout.Grid(0, 1, s.Settings)
		return nil
	case p.calibrated:
		r.Omegas = rollout.Axis(&p.scales.Remap, s.Settings)
		return nil
	}
	var list []uint64
	for i := range s.CalibrationSeeds {
		list = append(list, seeds.CalibrationFirst+uint64(i))
	}
	grid := calibrate.Even(p.scales, p.band, calibrationGrid)
	results, err := s.sweep(ctx, p, s.world, rollout.Link{}, list, rollout.Preferences(grid), a.Name+", calibration")
	if err != nil {
		return err
	}
	cal, err := calibrate.Spread(grid, points(results))
	r.Kept, r.Spread = len(cal.Kept), len(grid)
	if err != nil { // it makes no front; fly it as it was conditioned
		r.Omegas = calibrate.Even(p.scales, p.band, s.Settings)
		return nil
	}
	r.Omegas = rollout.Axis(&cal.Remap, s.Settings)
	return nil
}

func meanPoint(row []front.Point) (mean front.Point) {
	for _, p := range row {
		mean.DelayS += p.DelayS / float64(len(row))
		mean.EnergyJ += p.EnergyJ / float64(len(row))
	}
	return mean
}

// budgets flies totals in joules, and keeps the traces under the shock.
func (s *study) budgets(ctx context.Context, p *player, a *Arm, list []uint64, r *Result) error {
	for _, b := range budgets {
		c := s.world
		b.set(&c)
		results, err := s.sweep(ctx, p, c, rollout.Link{}, list, b.requests, a.Name+", budgets, "+b.name)
		if err != nil {
			return err
		}
		for i, request := range b.requests {
			row := Budget{Perturbation: b.name, BudgetJ: request.BudgetJ}
			if request.Revise > 0 {
				row.BudgetJ = request.RevisedJ
			}
			for _, x := range results[i] {
				e := x.EnergyJ/max(row.BudgetJ, x.FloorJ) - 1
				row.Error += e / float64(len(list))
				row.AbsError += math.Abs(e) / float64(len(list))
				if e > 1e-6 {
					row.Over += 1 / float64(len(list))
				}
			}
			r.Budgets = append(r.Budgets, row)
		}
	}
	c := s.world
	c.Shock = world.Shock{FromSlot: shockSlot, Factor: shockFactor}
	policy, err := p.policy()
	if err != nil {
		return err
	}
	traced := &tracer{Policy: policy}
	flyer, err := rollout.NewOf(traced, p.scales, c, rollout.Link{})
	if err != nil {
		return err
	}
	for _, request := range tracesJ {
		t := Trace{BudgetJ: request.BudgetJ, Revise: request.Revise, RevisedJ: request.RevisedJ}
		spent := make([][]float64, c.Slots+1) // [slot][seed]
		for _, seed := range list {
			traced.spentJ = traced.spentJ[:0]
			end := flyer.Fly(seed, request).EnergyJ
			for i, j := range append(traced.spentJ, end) {
				spent[i] = append(spent[i], j)
			}
		}
		for _, row := range spent {
			x := front.Summarise(row)
			t.MeanJ, t.StdJ = append(t.MeanJ, x.Mean), append(t.StdJ, x.Std)
		}
		r.Traces = append(r.Traces, t)
	}
	return nil
}

// tracer notes what was spent before each slot.
type tracer struct {
	rollout.Policy
	spentJ []float64
}

func (t *tracer) Decide(s *slot.Snapshot, g goal.Objective, d *slot.Decision) goal.Seen {
	t.spentJ = append(t.spentJ, g.SpentJ())
	return t.Policy.Decide(s, g, d)
}

// link flies the front over a link that loses reports or is late. Only a policy
// that works at a price has a standing offer to make.
func (s *study) link(ctx context.Context, p *player, a *Arm, list []uint64, r *Result) error {
	fallbacks := []rollout.Fallback{rollout.Local, rollout.LastReport}
	if a.Kind != kindPaper {
		fallbacks = append(fallbacks, rollout.Offer)
	}
	for _, l := range []rollout.Link{{Loss: 0.05}, {Loss: 0.2}, {Loss: 0.4}, {Loss: 1}, {Late: 1}} {
		for _, l.Unheard = range fallbacks {
			results, err := s.sweep(ctx, p, s.world, l, list, rollout.Preferences(r.Omegas), fmt.Sprintf("%s, %.0f %% of reports lost, %d late, %q", a.Name, 100*l.Loss, l.Late, l.Unheard))
			if err != nil {
				return err
			}
			row := Retention{Loss: l.Loss, Late: l.Late, Unheard: l.Unheard}
			for i := range list {
				row.Kept += front.Hypervolume(seedPoints(points(results), i), front.Reference) /
					front.Hypervolume(seedPoints(r.Front, i), front.Reference) / float64(len(list))
			}
			r.Link = append(r.Link, row)
		}
	}
	return nil
}

// seedPoints returns one seed's outcomes over all settings.
func seedPoints(outcomes [][]front.Point, seed int) []front.Point {
	p := make([]front.Point, len(outcomes))
	for i := range outcomes {
		p[i] = outcomes[i][seed]
	}
	return p
}

// decision times one decision of an arm.
func (s *study) decision(ctx context.Context, a *Arm, omegas []float64) (medianUS float64, err error) {
	p, err := s.player(ctx, a)
	if err != nil {
		return 0, err
	}
	policy, err := p.policy()
	if err != nil {
		return 0, err
	}
	timed := &timer{Policy: policy}
	flyer, err := rollout.NewOf(timed, p.scales, s.world, rollout.Link{})
	if err != nil {
		return 0, err
	}
	for i := range 5 {
		flyer.Fly(seeds.EvaluationFirst+uint64(i), rollout.Request{Mode: goal.Preference, Omega: omegas[i*(len(omegas)-1)/4]})
	}
	slices.Sort(timed.us)
	return timed.us[len(timed.us)/2], nil
}

// timer notes how long each decision took.
type timer struct {
	rollout.Policy
	us []float64
}

func (t *timer) Decide(s *slot.Snapshot, g goal.Objective, d *slot.Decision) goal.Seen {
	at := time.Now()
	seen := t.Policy.Decide(s, g, d)
	t.us = append(t.us, float64(time.Since(at).Nanoseconds())/1e3)
	return seen
}
