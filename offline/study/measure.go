package study

import (
	"cmp"
	"context"
	"fmt"
	"math"

	"prefdt/inference/goal"
	"prefdt/offline/calibrate"
	"prefdt/offline/pareto"
	"prefdt/offline/rollout"
	"prefdt/offline/seeds"
	"prefdt/simbridge/world"
)

// Result is the outcomes of one arm; metrics are computed from it later, together
// with those of the other arms.
type Result struct {
	Hash       string  `json:"key"` // of the arm and the configuration
	Parameters int     `json:"parameters"`
	DecisionUS float64 `json:"-"` // median over the slots of some flights, one core; timed for each report

	// Omegas are the delay shares of the settings, spread over what the arm achieves
	// on calibration seeds; of an archive, those of its members.
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
	GustOutcomes   [][]pareto.Point      `json:"gust"` // the same settings in gusts
	Budgets        []BudgetResult        `json:"budgets"`
	LinkRetentions []LinkRetention       `json:"link"`
	EnergyTraces   []rollout.EnergyTrace `json:"traces"`

	arm *Arm
}

// ResultKey implements experiment.Result.
func (r *Result) ResultKey() string { return r.Hash }

// BudgetResult is what was flown for a total in joules.
type BudgetResult struct {
	Perturbation string         `json:"perturbation"`
	BudgetJ      float64        `json:"budget_j"` // as last revised
	Outcomes     []pareto.Point `json:"outcomes"` // by seed
}

// LinkRetention is what a lossy link leaves of the hypervolumes, the mean over seeds.
type LinkRetention struct {
	LossRate            float64          `json:"loss"`
	LateSlots           int              `json:"late"`
	Fallback            rollout.Fallback `json:"unheard"`
	HypervolumeRetained float64          `json:"kept"`
	// TightRetained is nil where the arm's own front has nothing below the tight
	// reference point.
	TightRetained *float64 `json:"tight_kept"`
}

// Shock multiplies the power of flight in the tests of budgets.
var Shock = world.Shock{FromSlot: 50, Factor: 1.5}

const (
	gustStdDev = 0.15
	reviseSlot = 60
)

// Names of the perturbations of budgets.
const (
	PerturbationNone     = "calm"
	PerturbationShock    = "x1.5 from slot 50"
	PerturbationGusts    = "gusts of 15 %"
	PerturbationRevision = "revised at slot 60"
)

// perturbations are all of them, in the order of the report.
var perturbations = []string{PerturbationNone, PerturbationShock, PerturbationGusts, PerturbationRevision}

var budgetTests = []struct {
	name     string
	perturb  func(*world.Config)
	requests []rollout.Request
}{
	{PerturbationNone, func(*world.Config) {}, targetRequests(29e3, 33e3, 36.5e3)},
	{PerturbationShock, func(c *world.Config) { c.Shock = Shock }, targetRequests(40.5e3, 42e3, 44e3)},
	{PerturbationGusts, func(c *world.Config) { c.Gust = gustStdDev }, targetRequests(29e3, 33e3, 36.5e3)},
	{PerturbationRevision, func(*world.Config) {}, []rollout.Request{
		{Mode: goal.Target, BudgetJ: 35e3, ReviseSlot: reviseSlot, RevisedBudgetJ: 32e3},
		{Mode: goal.Target, BudgetJ: 29e3, ReviseSlot: reviseSlot, RevisedBudgetJ: 31e3},
	}},
}

// traceRequests are the requests drawn slot by slot under the shock: a budget, and
// one that is revised after the shock. An even pacer keeps both.
var traceRequests = []rollout.Request{
	{Mode: goal.Target, BudgetJ: 42e3},
	{Mode: goal.Target, BudgetJ: 45e3, ReviseSlot: reviseSlot, RevisedBudgetJ: 42.5e3},
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
	ablationSeeds := list[:s.AblationSeeds]
	if !a.BudgetsOnly {
		if err := s.measureFronts(ctx, p, a, list, ablationSeeds, r); err != nil {
			return nil, err
		}
	}
	if a.hasBudgets() {
		if err := s.measureBudgets(ctx, p, a, ablationSeeds, r); err != nil {
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

// measureFronts calibrates an arm's settings, and flies them in calm air and in gusts
// and the uniform grid.
func (s *study) measureFronts(ctx context.Context, p *armPolicy, a *Arm, list, gustSeeds []uint64, r *Result) error {
	if err := s.calibrateSettings(ctx, p, a, r); err != nil {
		return err
	}
	results, err := s.sweep(ctx, p, s.world, rollout.ReportLink{}, list, rollout.PreferenceRequests(r.Omegas), a.Name+", front")
	if err != nil {
		return err
	}
	r.Outcomes = rollout.Outcomes(results)
	if p.memberOmegas == nil && !a.Unconditioned {
		r.Uniform.Omegas = rollout.Linspace(p.omegaBand[0], p.omegaBand[1], s.Settings)
		if results, err = s.sweep(ctx, p, s.world, rollout.ReportLink{}, list, rollout.PreferenceRequests(r.Uniform.Omegas), a.Name+", even settings"); err != nil {
			return err
		}
		r.Uniform.Points = rollout.Outcomes(results)
		for _, row := range results {
			mean := 0.0
			for _, x := range row {
				mean += x.MeanSpeedMPS / float64(len(row))
			}
			r.Uniform.SpeedMPS = append(r.Uniform.SpeedMPS, mean)
		}
	}
	gusty := s.world
	gusty.Gust = gustStdDev
	if results, err = s.sweep(ctx, p, gusty, rollout.ReportLink{}, gustSeeds, rollout.PreferenceRequests(r.Omegas), a.Name+", gusts"); err != nil {
		return err
	}
	r.GustOutcomes = rollout.Outcomes(results)
	return nil
}

// sweep flies every request on every seed.
func (s *study) sweep(ctx context.Context, p *armPolicy, c world.Config, l rollout.ReportLink, list []uint64, requests []rollout.Request, what string) ([][]rollout.Result, error) {
	return rollout.SweepRunners(ctx, func() (*rollout.Runner, error) { return p.runner(c, l) }, c, list, requests, s.workers, s.progress("seeds, "+what, len(list)))
}

// runner returns a runner of the policy.
func (p *armPolicy) runner(c world.Config, l rollout.ReportLink) (*rollout.Runner, error) {
	policy, err := p.newPolicy()
	if err != nil {
		return nil, err
	}
	return rollout.NewWithPolicy(policy, p.scales, c, l)
}

// calibrationGridSize is the number of shares flown to calibrate the settings.
const calibrationGridSize = 41

// calibrateSettings finds the delay shares of an arm's settings.
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
	list := seeds.List(seeds.CalibrationFirst, s.CalibrationSeeds)
	grid := calibrate.EvenOmegas(p.scales, p.omegaBand, calibrationGridSize)
	results, err := s.sweep(ctx, p, s.world, rollout.ReportLink{}, list, rollout.PreferenceRequests(grid), a.Name+", calibration")
	if err != nil {
		return err
	}
	cal, err := calibrate.FitSettingMap(grid, rollout.Outcomes(results))
	r.KeptSettings, r.GridSettings = len(cal.FrontIndices), len(grid)
	if err != nil { // it makes no front: fly the conditioner's shares
		r.Omegas = calibrate.EvenOmegas(p.scales, p.omegaBand, s.Settings)
		return nil
	}
	r.Omegas = rollout.CalibratedOmegas(&cal.SettingMap, s.Settings)
	return nil
}

// measureBudgets flies totals in joules, and keeps the traces under the shock.
func (s *study) measureBudgets(ctx context.Context, p *armPolicy, a *Arm, list []uint64, r *Result) (err error) {
	runner := func(c world.Config) (*rollout.Runner, error) { return p.runner(c, rollout.ReportLink{}) }
	r.Budgets, r.EnergyTraces, err = FlyBudgets(ctx, runner, s.world, list, s.workers, func(what string) func(int) {
		return s.progress("seeds, "+a.Name+", budgets, "+what, len(list))
	})
	return err
}

// FlyBudgets flies the study's totals in joules by the runners of a policy, and traces those
// under the shock.
func FlyBudgets(ctx context.Context, runner func(world.Config) (*rollout.Runner, error), standard world.Config, list []uint64, workers int, progress func(what string) func(done int)) (budgets []BudgetResult, traces []rollout.EnergyTrace, err error) {
	for _, b := range budgetTests {
		c := standard
		b.perturb(&c)
		results, err := rollout.SweepRunners(ctx, func() (*rollout.Runner, error) { return runner(c) }, c, list, b.requests, workers, progress(b.name))
		if err != nil {
			return nil, nil, err
		}
		outcomes := rollout.Outcomes(results)
		for i, request := range b.requests {
			row := BudgetResult{Perturbation: b.name, BudgetJ: request.BudgetJ, Outcomes: outcomes[i]}
			if request.ReviseSlot > 0 {
				row.BudgetJ = request.RevisedBudgetJ
			}
			budgets = append(budgets, row)
		}
	}
	c := standard
	c.Shock = Shock
	f, err := runner(c)
	if err != nil {
		return nil, nil, err
	}
	return budgets, rollout.TraceEnergy(f, list, traceRequests), nil
}

// BudgetFlights is how many flights FlyBudgets makes of each episode.
func BudgetFlights() int {
	n := len(traceRequests)
	for _, b := range budgetTests {
		n += len(b.requests)
	}
	return n
}

// CheckBudgets returns what is wrong with stored flights of FlyBudgets.
func CheckBudgets(budgets []BudgetResult, traces []rollout.EnergyTrace, seeds int) error {
	n := 0
	for _, b := range budgetTests {
		for _, request := range b.requests {
			want := BudgetResult{Perturbation: b.name, BudgetJ: cmp.Or(request.RevisedBudgetJ, request.BudgetJ)}
			if n >= len(budgets) || budgets[n].Perturbation != want.Perturbation || budgets[n].BudgetJ != want.BudgetJ {
				return fmt.Errorf("the budget of %v J, %s, is missing", want.BudgetJ, want.Perturbation)
			}
			if err := pareto.CheckOutcomes([]float64{want.BudgetJ}, [][]pareto.Point{budgets[n].Outcomes}, seeds); err != nil {
				return fmt.Errorf("budgets, %s: %w", want.Perturbation, err)
			}
			n++
		}
	}
	if n != len(budgets) || len(traces) != len(traceRequests) {
		return fmt.Errorf("%d budgets and %d traces, want %d and %d", len(budgets), len(traces), n, len(traceRequests))
	}
	for i := range traces {
		if x := &traces[i]; len(x.MeanJ) < 2 || len(x.StdDevJ) != len(x.MeanJ) || len(x.MeanDelayS) != len(x.MeanJ) {
			return fmt.Errorf("a trace of %d, %d and %d slots", len(x.MeanJ), len(x.StdDevJ), len(x.MeanDelayS))
		}
	}
	return nil
}

// check returns what is wrong with an arm's stored result.
func (s *study) check(a *Arm, r *Result) error {
	seeds := s.AblationSeeds
	if a.AllSeeds {
		seeds = s.Seeds
	}
	if !a.BudgetsOnly {
		if err := pareto.CheckOutcomes(r.Omegas, r.Outcomes, seeds); err != nil {
			return fmt.Errorf("front: %w", err)
		}
		if err := pareto.CheckOutcomes(r.Omegas, r.GustOutcomes, s.AblationSeeds); err != nil {
			return fmt.Errorf("in gusts: %w", err)
		}
		if n := len(r.Uniform.Omegas); n > 0 {
			if err := pareto.CheckOutcomes(r.Uniform.Omegas, r.Uniform.Points, seeds); err != nil {
				return fmt.Errorf("even settings: %w", err)
			}
		}
	}
	if a.hasBudgets() {
		if err := CheckBudgets(r.Budgets, r.EnergyTraces, s.AblationSeeds); err != nil {
			return err
		}
	}
	if want := len(links) * len(a.fallbacks()); a.LossyLink && len(r.LinkRetentions) != want {
		return fmt.Errorf("%d links, want %d", len(r.LinkRetentions), want)
	}
	return nil
}

// links are the bad links that an arm is flown over.
var links = []rollout.ReportLink{{LossRate: 0.05}, {LossRate: 0.2}, {LossRate: 0.4}, {LossRate: 1}, {LateSlots: 1}}

// hasBudgets reports whether an arm is flown for totals in joules: whether it takes any.
func (a *Arm) hasBudgets() bool { return !a.Unconditioned && a.Kind != kindRandom }

// fallbacks are what users do without a decision. Only a policy that decides at a price
// can make a standing offer.
func (a *Arm) fallbacks() []rollout.Fallback {
	list := []rollout.Fallback{rollout.FallbackLocal, rollout.FallbackLastReport}
	if a.Kind != kindPaper {
		list = append(list, rollout.FallbackOffer)
	}
	return list
}

// measureLinks flies the front over a link that loses reports or is late.
func (s *study) measureLinks(ctx context.Context, p *armPolicy, a *Arm, list []uint64, r *Result) error {
	for _, l := range links {
		l.Prior = s.flagship.Statistics.UserPrior()
		for _, l.Fallback = range a.fallbacks() {
			results, err := s.sweep(ctx, p, s.world, l, list, rollout.PreferenceRequests(r.Omegas), fmt.Sprintf("%s, %.0f %% of reports lost, %d late, %q", a.Name, 100*l.LossRate, l.LateSlots, l.Fallback))
			if err != nil {
				return err
			}
			outcomes := rollout.Outcomes(results)
			retained := func(reference pareto.Point) float64 {
				return pareto.MeanRatio(pareto.Hypervolumes(outcomes, reference), pareto.Hypervolumes(r.Outcomes, reference))
			}
			row := LinkRetention{LossRate: l.LossRate, LateSlots: l.LateSlots, Fallback: l.Fallback, HypervolumeRetained: retained(pareto.Reference)}
			if tight := retained(pareto.TightReference); !math.IsNaN(tight) {
				row.TightRetained = &tight
			}
			r.LinkRetentions = append(r.LinkRetentions, row)
		}
	}
	return nil
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
	timer := &rollout.DecisionTimer{Policy: policy}
	runner, err := rollout.NewWithPolicy(timer, p.scales, s.world, rollout.ReportLink{})
	if err != nil {
		return 0, err
	}
	for i := range 5 {
		runner.Fly(seeds.EvaluationFirst+uint64(i), rollout.Request{Mode: goal.Preference, Omega: omegas[i*(len(omegas)-1)/4]})
	}
	return timer.Median().Seconds() * 1e6, nil
}
