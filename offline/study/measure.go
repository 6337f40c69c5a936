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
	"prefdt/offline/pareto"
	"prefdt/offline/rollout"
	"prefdt/offline/seeds"
	"prefdt/simbridge/world"
)

// Result is what one arm did; figures are read from it later, together with
// the others'.
type Result struct {
	Hash       string  `json:"key"` // of the arm and the configuration
	Parameters int     `json:"parameters"`
	DecisionUS float64 `json:"-"` // median over the slots of some flights, one core; timed for each report

	// Omegas are the shares that the settings stand for, spread over what the
	// arm achieves on calibration seeds; of an archive, those of its members.
	Omegas   []float64        `json:"omegas"`
	Outcomes [][]pareto.Point `json:"front"` // [setting][seed]
	// KeptSettings of the calibration's grid make one front.
	KeptSettings int `json:"kept"`
	GridSettings int `json:"spread"`
	Uniform      struct {
		Omegas   []float64        `json:"omegas"` // even over the attainable band
		Points   [][]pareto.Point `json:"points"`
		SpeedMPS []float64        `json:"speed_mps"` // mean over seeds
	} `json:"uniform"`
	GustOutcomes   [][]pareto.Point `json:"gust"` // the front again under gusts
	Budgets        []BudgetResult   `json:"budgets"`
	LinkRetentions []LinkRetention  `json:"link"`
	EnergyTraces   []EnergyTrace    `json:"traces"`

	arm *Arm
}

// BudgetResult is how a total was held over all seeds.
type BudgetResult struct {
	Perturbation string  `json:"perturbation"`
	BudgetJ      float64 `json:"budget_j"` // as last revised
	// Relative to the budget, or the least total possible without foreseeing
	// the shock if that is more.
	MeanError      float64 `json:"error"`
	MeanAbsError   float64 `json:"abs_error"`
	OverBudgetRate float64 `json:"over"` // fraction of flights above
}

// LinkRetention is what a lossy link leaves of the hypervolume, per seed.
type LinkRetention struct {
	LossRate            float64          `json:"loss"`
	LateSlots           int              `json:"late"`
	Fallback            rollout.Fallback `json:"unheard"`
	HypervolumeRetained float64          `json:"kept"`
}

// EnergyTrace is the energy spent, slot by slot, over seeds.
type EnergyTrace struct {
	BudgetJ        float64   `json:"budget_j"`
	ReviseSlot     int       `json:"revise"`
	RevisedBudgetJ float64   `json:"revised_j"`
	MeanJ          []float64 `json:"mean_j"` // [slot], 0 to T
	StdDevJ        []float64 `json:"std_j"`
}

const (
	shockSlot   = 50
	shockFactor = 1.5
	gustStdDev  = 0.15
	reviseSlot  = 60
)

// Names of the perturbations of budgets.
const (
	perturbationNone     = "calm"
	perturbationShock    = "x1.5 from slot 50"
	perturbationGusts    = "gusts of 15 %"
	perturbationRevision = "revised at slot 60"
)

var budgetTests = []struct {
	name     string
	set      func(*world.Config)
	requests []rollout.Request
}{
	{perturbationNone, func(*world.Config) {}, targetRequests(29e3, 33e3, 36.5e3)},
	{perturbationShock, func(c *world.Config) { c.Shock = world.Shock{FromSlot: shockSlot, Factor: shockFactor} }, targetRequests(40.5e3, 42e3, 44e3)},
	{perturbationGusts, func(c *world.Config) { c.Gust = gustStdDev }, targetRequests(29e3, 33e3, 36.5e3)},
	{perturbationRevision, func(*world.Config) {}, []rollout.Request{
		{Mode: goal.Target, BudgetJ: 35e3, ReviseSlot: reviseSlot, RevisedBudgetJ: 32e3},
		{Mode: goal.Target, BudgetJ: 29e3, ReviseSlot: reviseSlot, RevisedBudgetJ: 31e3},
	}},
}

// traceRequests are the requests drawn slot by slot under the shock: a budget that an
// even spender can still meet, and its revision to one that nobody can.
var traceRequests = []rollout.Request{
	{Mode: goal.Target, BudgetJ: 40.5e3},
	{Mode: goal.Target, BudgetJ: 40.5e3, ReviseSlot: reviseSlot, RevisedBudgetJ: 36e3},
}

func targetRequests(totals ...float64) (list []rollout.Request) {
	for _, j := range totals {
		list = append(list, rollout.Request{Mode: goal.Target, BudgetJ: j})
	}
	return list
}

// measure flies an arm through the protocol.
func (s *study) measure(ctx context.Context, a *Arm) (*Result, error) {
	p, err := s.prepareArm(ctx, a)
	if err != nil {
		return nil, err
	}
	r := &Result{Hash: s.resultHash(a), Parameters: p.parameterCount, arm: a}
	list := evaluationSeeds(s.AblationSeeds)
	if a.AllSeeds {
		list = evaluationSeeds(s.Seeds)
	}
	if err := s.calibrateSettings(ctx, p, a, r); err != nil {
		return nil, err
	}
	results, err := s.sweep(ctx, p, s.world, rollout.ReportLink{}, list, rollout.PreferenceRequests(r.Omegas), a.Name+", front")
	if err != nil {
		return nil, err
	}
	r.Outcomes = resultPoints(results)
	if p.memberOmegas == nil && !a.Unconditioned {
		r.Uniform.Omegas = rollout.Linspace(p.omegaBand[0], p.omegaBand[1], s.Settings)
		if results, err = s.sweep(ctx, p, s.world, rollout.ReportLink{}, list, rollout.PreferenceRequests(r.Uniform.Omegas), a.Name+", even settings"); err != nil {
			return nil, err
		}
		r.Uniform.Points = resultPoints(results)
		for _, row := range results {
			mean := 0.0
			for _, x := range row {
				mean += x.MeanSpeedMPS / float64(len(row))
			}
			r.Uniform.SpeedMPS = append(r.Uniform.SpeedMPS, mean)
		}
	}
	few := list[:s.AblationSeeds]
	rough := s.world
	rough.Gust = gustStdDev
	if results, err = s.sweep(ctx, p, rough, rollout.ReportLink{}, few, rollout.PreferenceRequests(r.Omegas), a.Name+", gusts"); err != nil {
		return nil, err
	}
	r.GustOutcomes = resultPoints(results)
	if !a.Unconditioned && a.Kind != kindRandom {
		if err := s.measureBudgets(ctx, p, a, few, r); err != nil {
			return nil, err
		}
	}
	if a.LossyLink {
		if err := s.measureLinks(ctx, p, a, list[:min(s.LinkSeeds, len(list))], r); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func resultPoints(results [][]rollout.Result) [][]pareto.Point {
	p := make([][]pareto.Point, len(results))
	for i, row := range results {
		for _, x := range row {
			p[i] = append(p[i], x.Point)
		}
	}
	return p
}

// sweep flies every request on every seed.
func (s *study) sweep(ctx context.Context, p *armPolicy, c world.Config, l rollout.ReportLink, list []uint64, requests []rollout.Request, what string) ([][]rollout.Result, error) {
	return rollout.SweepRunners(ctx, func() (*rollout.Runner, error) {
		policy, err := p.newPolicy()
		if err != nil {
			return nil, err
		}
		return rollout.NewWithPolicy(policy, p.scales, c, l)
	}, c, list, requests, s.workers, s.progress("seeds, "+what, len(list)))
}

// calibrationGridSize is the number of settings that an axis is spread from.
const calibrationGridSize = 41

// calibrateSettings finds the shares that an arm's settings stand for.
func (s *study) calibrateSettings(ctx context.Context, p *armPolicy, a *Arm, r *Result) error {
	switch {
	case p.memberOmegas != nil:
		r.Omegas = p.memberOmegas
		return nil
	case a.Unconditioned:
		r.Omegas = []float64{0.5}
		return nil
	case a.Kind == kindRandom:
		r.Omegas = rollout.Linspace(0, 1, s.Settings)
		return nil
	case p.calibrated:
		r.Omegas = rollout.CalibratedOmegas(&p.scales.SettingMap, s.Settings)
		return nil
	}
	var list []uint64
	for i := range s.CalibrationSeeds {
		list = append(list, seeds.CalibrationFirst+uint64(i))
	}
	grid := calibrate.EvenOmegas(p.scales, p.omegaBand, calibrationGridSize)
	results, err := s.sweep(ctx, p, s.world, rollout.ReportLink{}, list, rollout.PreferenceRequests(grid), a.Name+", calibration")
	if err != nil {
		return err
	}
	cal, err := calibrate.FitSettingMap(grid, resultPoints(results))
	r.KeptSettings, r.GridSettings = len(cal.FrontIndices), len(grid)
	if err != nil { // it makes no front; fly it as it was conditioned
		r.Omegas = calibrate.EvenOmegas(p.scales, p.omegaBand, s.Settings)
		return nil
	}
	r.Omegas = rollout.CalibratedOmegas(&cal.SettingMap, s.Settings)
	return nil
}

func meanPoint(row []pareto.Point) (mean pareto.Point) {
	for _, p := range row {
		mean.DelayS += p.DelayS / float64(len(row))
		mean.EnergyJ += p.EnergyJ / float64(len(row))
	}
	return mean
}

// measureBudgets flies totals in joules, and keeps the traces under the shock.
func (s *study) measureBudgets(ctx context.Context, p *armPolicy, a *Arm, list []uint64, r *Result) error {
	for _, b := range budgetTests {
		c := s.world
		b.set(&c)
		results, err := s.sweep(ctx, p, c, rollout.ReportLink{}, list, b.requests, a.Name+", budgets, "+b.name)
		if err != nil {
			return err
		}
		for i, request := range b.requests {
			row := BudgetResult{Perturbation: b.name, BudgetJ: request.BudgetJ}
			if request.ReviseSlot > 0 {
				row.BudgetJ = request.RevisedBudgetJ
			}
			for _, x := range results[i] {
				e := x.EnergyJ/max(row.BudgetJ, x.FloorJ) - 1
				row.MeanError += e / float64(len(list))
				row.MeanAbsError += math.Abs(e) / float64(len(list))
				if e > 1e-6 {
					row.OverBudgetRate += 1 / float64(len(list))
				}
			}
			r.Budgets = append(r.Budgets, row)
		}
	}
	c := s.world
	c.Shock = world.Shock{FromSlot: shockSlot, Factor: shockFactor}
	policy, err := p.newPolicy()
	if err != nil {
		return err
	}
	traced := &spendRecorder{Policy: policy}
	flyer, err := rollout.NewWithPolicy(traced, p.scales, c, rollout.ReportLink{})
	if err != nil {
		return err
	}
	for _, request := range traceRequests {
		t := EnergyTrace{BudgetJ: request.BudgetJ, ReviseSlot: request.ReviseSlot, RevisedBudgetJ: request.RevisedBudgetJ}
		spent := make([][]float64, c.Slots+1) // [slot][seed]
		for _, seed := range list {
			traced.spentJ = traced.spentJ[:0]
			end := flyer.Fly(seed, request).EnergyJ
			for i, j := range append(traced.spentJ, end) {
				spent[i] = append(spent[i], j)
			}
		}
		for _, row := range spent {
			x := pareto.Summarise(row)
			t.MeanJ, t.StdDevJ = append(t.MeanJ, x.Mean), append(t.StdDevJ, x.Std)
		}
		r.EnergyTraces = append(r.EnergyTraces, t)
	}
	return nil
}

// spendRecorder notes what was spent before each slot.
type spendRecorder struct {
	rollout.Policy
	spentJ []float64
}

func (t *spendRecorder) Decide(s *slot.Snapshot, g goal.Objective, d *slot.Decision) goal.Observation {
	t.spentJ = append(t.spentJ, g.SpentJ())
	return t.Policy.Decide(s, g, d)
}

// measureLinks flies the front over a link that loses reports or is late. Only a policy
// that works at a price has a standing offer to make.
func (s *study) measureLinks(ctx context.Context, p *armPolicy, a *Arm, list []uint64, r *Result) error {
	fallbacks := []rollout.Fallback{rollout.FallbackLocal, rollout.FallbackLastReport}
	if a.Kind != kindPaper {
		fallbacks = append(fallbacks, rollout.FallbackOffer)
	}
	for _, l := range []rollout.ReportLink{{LossRate: 0.05}, {LossRate: 0.2}, {LossRate: 0.4}, {LossRate: 1}, {LateSlots: 1}} {
		for _, l.Fallback = range fallbacks {
			results, err := s.sweep(ctx, p, s.world, l, list, rollout.PreferenceRequests(r.Omegas), fmt.Sprintf("%s, %.0f %% of reports lost, %d late, %q", a.Name, 100*l.LossRate, l.LateSlots, l.Fallback))
			if err != nil {
				return err
			}
			row := LinkRetention{LossRate: l.LossRate, LateSlots: l.LateSlots, Fallback: l.Fallback}
			for i := range list {
				row.HypervolumeRetained += pareto.Hypervolume(outcomesOfSeed(resultPoints(results), i), pareto.Reference) /
					pareto.Hypervolume(outcomesOfSeed(r.Outcomes, i), pareto.Reference) / float64(len(list))
			}
			r.LinkRetentions = append(r.LinkRetentions, row)
		}
	}
	return nil
}

// outcomesOfSeed returns one seed's outcomes over all settings.
func outcomesOfSeed(outcomes [][]pareto.Point, seed int) []pareto.Point {
	p := make([]pareto.Point, len(outcomes))
	for i := range outcomes {
		p[i] = outcomes[i][seed]
	}
	return p
}

// timeDecision times one decision of an arm.
func (s *study) timeDecision(ctx context.Context, a *Arm, omegas []float64) (medianUS float64, err error) {
	p, err := s.prepareArm(ctx, a)
	if err != nil {
		return 0, err
	}
	policy, err := p.newPolicy()
	if err != nil {
		return 0, err
	}
	timed := &decisionTimer{Policy: policy}
	flyer, err := rollout.NewWithPolicy(timed, p.scales, s.world, rollout.ReportLink{})
	if err != nil {
		return 0, err
	}
	for i := range 5 {
		flyer.Fly(seeds.EvaluationFirst+uint64(i), rollout.Request{Mode: goal.Preference, Omega: omegas[i*(len(omegas)-1)/4]})
	}
	slices.Sort(timed.timesUS)
	return timed.timesUS[len(timed.timesUS)/2], nil
}

// decisionTimer notes how long each decision took.
type decisionTimer struct {
	rollout.Policy
	timesUS []float64
}

func (t *decisionTimer) Decide(s *slot.Snapshot, g goal.Objective, d *slot.Decision) goal.Observation {
	at := time.Now()
	seen := t.Policy.Decide(s, g, d)
	t.timesUS = append(t.timesUS, float64(time.Since(at).Nanoseconds())/1e3)
	return seen
}
