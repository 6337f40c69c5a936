package evaluate

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"

	"prefdt/inference/belief"
	"prefdt/inference/belief/learned"
	"prefdt/inference/checkpoint"
	"prefdt/offline/baseline"
	"prefdt/offline/belieftrain"
	"prefdt/offline/command"
	"prefdt/offline/experiment"
	"prefdt/offline/jobs"
	"prefdt/offline/pareto"
	"prefdt/offline/rollout"
	"prefdt/offline/seeds"
	"prefdt/offline/teacher"
)

// FieldArm is one scheduler in a world that hides what lasts. All arms dispatch, fly and
// are priced alike: they differ in what they believe.
type FieldArm struct {
	Hypervolume      pareto.Summary `json:"hypervolume"`
	HypervolumeTight pareto.Summary `json:"hypervolume_tight"`
	// DeltaDelay is the delay over the memoryless arm's, less one, at equal joules: those
	// 30 % up its span of energy.
	DeltaDelay pareto.Summary `json:"delta_delay"`
	// Share is (arm - memoryless) / (hidden state - memoryless) in tight hypervolume: a
	// ratio of means, with its 95 % bootstrap interval over the seeds; nil where the
	// hidden state is worth nothing.
	Share    *float64   `json:"share"`
	Interval [2]float64 `json:"share_interval"`
	// HypervolumeShare is the same in the standard hypervolume.
	HypervolumeShare *float64 `json:"share_hypervolume"`

	fronts [][]pareto.Point // by seed
	tight  []float64        // tight hypervolume by seed
}

// MemoryTest compares the policy with itself where it remembers less, seed by seed.
type MemoryTest struct {
	Window     int            `json:"window"`     // of the one that remembers less, in slots
	Trained    bool           `json:"trained"`    // at that window; else its memory is cut to it
	Difference pareto.Summary `json:"difference"` // in tight hypervolume
	// P is of the two-sided signed-rank test of Wilcoxon, corrected for the number of tests (Holm); nil where the two are trained
	// apart: a test over seeds says nothing of how another training run would come out.
	P *float64 `json:"p"`
}

// Names of the arms of a field world.
const (
	memorylessArm = "memoryless" // a slot's own reports
	filterArm     = "filter"     // filters written by hand
	hiddenArm     = "hidden"     // knows the present hidden state
	learnedArm    = "learned"    // believes what the policy's estimator says
	settingsArm   = "settings"   // the policy at its own settings, whose prices it chooses itself
)

// contextArm names the policy with a memory of so many slots.
func contextArm(window int) string { return fmt.Sprintf("context%d", window) }

// fieldArms returns the estimators of the arms that fly prices, the learned one if there
// are parameters.
func (c *Config) fieldArms() map[string]belief.Estimator {
	arms := map[string]belief.Estimator{
		memorylessArm: baseline.NewMemoryless(&c.World), filterArm: baseline.NewFilter(&c.World), hiddenArm: &baseline.Truth{},
	}
	if c.Estimator != nil {
		arms[learnedArm] = c.newLearned(c.Estimator)
	}
	return arms
}

// contextArms returns what the policy remembers less with: the estimators given, trained
// at other windows, and, unless one of them remembers one slot, its own cut to that.
func (c *Config) contextArms() map[string]*learned.Parameters {
	arms := map[string]*learned.Parameters{}
	if c.Estimator == nil {
		return arms
	}
	arms[contextArm(1)] = &learned.Parameters{Window: 1, Data: c.Estimator.Data}
	for _, p := range c.Contexts {
		arms[contextArm(p.Window)] = p
	}
	return arms
}

// newLearned returns the estimator of these parameters; none of nil.
func (c *Config) newLearned(p *learned.Parameters) belief.Estimator {
	if p == nil {
		return nil
	}
	return learned.New(belieftrain.SurroundingsOf(&c.World), p)
}

// newFieldRunner returns a runner of the checkpoint as it flies in a field world, where it
// believes what an estimator says; nil: the reports, in calm air.
func (c *Config) newFieldRunner(ck *checkpoint.Checkpoint, e belief.Estimator) (*rollout.Runner, error) {
	r, err := rollout.New(ck, c.Decoder, c.World, rollout.ReportLink{})
	if err == nil && e != nil {
		r.Believe(e)
	}
	return r, err
}

// flight is what a runner is asked for.
type flight struct {
	runner  *rollout.Runner
	request rollout.Request
}

// flyArms flies each arm's flights on every seed, which allowed, a function of package seeds, does not refuse. It returns what they
// cost, by seed and arm. newArms makes them for the i-th seed.
func (c *Config) flyArms(ctx context.Context, what string, allowed func(uint64) error,
	newArms func(i int) (map[string][]flight, error)) ([]map[string][]rollout.Result, error) {
	if err := seeds.CheckAll(c.Seeds, allowed); err != nil {
		return nil, fmt.Errorf("evaluate: %w", err)
	}
	flown := make([]map[string][]rollout.Result, len(c.Seeds))
	err := jobs.Do(ctx, len(c.Seeds), c.Workers, jobs.Stateless, func(_ struct{}, i int) error {
		arms, err := newArms(i)
		if err != nil {
			return err
		}
		flown[i] = map[string][]rollout.Result{}
		for name, flights := range arms {
			for _, f := range flights {
				if err := ctx.Err(); err != nil {
					return err
				}
				flown[i][name] = append(flown[i][name], f.runner.Fly(c.Seeds[i], f.request))
			}
		}
		return nil
	}, command.Progress(c.Progress, "seeds, "+what, len(c.Seeds)))
	return flown, err
}

// newFieldArms returns the schedulers, the policy and the policy with less memory, each at every price in every slot,
// whatever the network would have it be, and the policy at its own settings.
func (c *Config) newFieldArms(ck *checkpoint.Checkpoint, prices []float64) (map[string][]flight, error) {
	arms, failed := map[string][]flight{}, error(nil)
	atPrice := func(name string) func(*rollout.Runner, error) {
		return func(runner *rollout.Runner, err error) {
			arms[name], failed = append(arms[name], flight{runner, experiment.Preference(0.5)}), cmp.Or(failed, err)
		}
	}
	policies := c.contextArms()
	policies[policyArm] = c.Estimator
	for _, price := range prices {
		for name, e := range c.fieldArms() {
			atPrice(name)(rollout.NewWithPolicy(baseline.NewBelieving(&c.World.Physics, e, price), &ck.GoalConstants, c.World,
				rollout.ReportLink{}))
		}
		here := *ck
		here.PriceCurve = checkpoint.PriceCurve{FrontPositions: []float64{0, 1}, PricesSPerJ: []float64{price, price * (1 + 1e-9)}}
		for name, p := range policies {
			atPrice(name)(c.newFieldRunner(&here, c.newLearned(p)))
		}
	}
	runner, err := c.newFieldRunner(ck, c.newLearned(c.Estimator))
	for _, r := range c.recalibrated(ck, c.Settings) {
		arms[settingsArm] = append(arms[settingsArm], flight{runner, r})
	}
	return arms, cmp.Or(failed, err)
}

// FieldReport is a field world's measurement: the figures of the checkpoint's policy with
// its estimator, and those of the arms that it is measured against. All share the prices:
// the volume of a front depends on how many points it has, and where.
type FieldReport struct {
	Record *experiment.Record `json:"record"`
	World  string             `json:"world"`
	Seeds  int                `json:"seeds"`
	Prices int                `json:"prices"` // of all arms but one, which has Settings
	// Settings of the policy, and how many slots it remembers, 0: it has no estimator.
	Settings int `json:"settings"`
	Window   int `json:"window"`
	*FieldArm
	Arms map[string]*FieldArm `json:"arms"`
	// Memory tests the policy against each arm of it that remembers less or more.
	Memory []MemoryTest `json:"memory"`

	Budgets []FieldBudget `json:"budgets,omitempty"`
}

// measureField flies the checkpoint's policy, with each memory, and every arm over the
// prices of the teacher's front, and the policy over its settings, too.
func measureField(ctx context.Context, ck *checkpoint.Checkpoint, c Config) (*FieldReport, error) {
	prices := teacher.PricesIn(&c.World, c.TeacherPrices)
	flown, err := c.flyArms(ctx, "field arms", seeds.CheckEvaluation, func(int) (map[string][]flight, error) {
		return c.newFieldArms(ck, prices)
	})
	if err != nil {
		return nil, err
	}
	arms := map[string]*FieldArm{}
	for name := range flown[0] {
		var results [][]rollout.Result // by seed
		for _, byArm := range flown {
			results = append(results, byArm[name])
		}
		arms[name] = &FieldArm{fronts: rollout.Outcomes(results)}
	}
	wide, tight := pareto.References(&c.World, nil)
	for _, a := range arms {
		a.compare(arms[memorylessArm], arms[hiddenArm], [2]pareto.Point{wide, tight})
	}
	policy := arms[policyArm]
	delete(arms, policyArm)
	r := &FieldReport{Seeds: len(c.Seeds), Prices: c.TeacherPrices, Settings: c.Settings, FieldArm: policy, Arms: arms}
	if c.Estimator != nil {
		r.Window = c.Estimator.Window
	}
	var tests []float64 // NaN: there is none
	byWindow := func(a, b *learned.Parameters) int { return cmp.Compare(a.Window, b.Window) }
	for _, p := range slices.SortedFunc(maps.Values(c.contextArms()), byWindow) {
		d, x := pareto.Differences(policy.tight, arms[contextArm(p.Window)].tight), math.NaN()
		test := MemoryTest{Window: p.Window, Trained: &p.Data[0] != &c.Estimator.Data[0], Difference: pareto.Summarise(d)}
		if !test.Trained {
			if x, _, err = pareto.Wilcoxon(d); err != nil {
				return nil, err
			}
		}
		r.Memory, tests = append(r.Memory, test), append(tests, x)
	}
	for i, p := range pareto.Holm(tests) {
		if !math.IsNaN(p) {
			r.Memory[i].P = &p
		}
	}
	return r, nil
}

//go:embed field.tmpl
var fieldText string

// compare fills the figures of an arm; the references are those of the standard and of the tight hypervolume.
func (a *FieldArm) compare(memoryless, hidden *FieldArm, references [2]pareto.Point) {
	all := make([]int, len(a.fronts))
	for i := range all {
		all[i] = i
	}
	volumes := func(x *FieldArm, reference pareto.Point) (list []float64) {
		for _, front := range x.fronts {
			list = append(list, pareto.Hypervolume(front, reference))
		}
		return list
	}
	measure := func(reference pareto.Point) (own []float64, shareOf func(seeds []int) float64, share *float64) {
		own = volumes(a, reference)
		low, high := volumes(memoryless, reference), volumes(hidden, reference)
		shareOf = func(seeds []int) float64 {
			gained, possible := 0.0, 0.0
			for _, i := range seeds {
				gained += own[i] - low[i]
				possible += high[i] - low[i]
			}
			return gained / possible
		}
		if x := shareOf(all); !math.IsNaN(x) && !math.IsInf(x, 0) {
			share = &x
		}
		return own, shareOf, share
	}
	wide, _, share := measure(references[0])
	a.Hypervolume, a.HypervolumeShare = pareto.Summarise(wide), share
	tight, shareOf, share := measure(references[1])
	a.tight, a.HypervolumeTight, a.Share = tight, pareto.Summarise(tight), share
	if share != nil {
		random, resampled := rand.New(rand.NewPCG(1, 1)), make([]float64, 2000)
		for b := range resampled {
			draw := make([]int, len(all))
			for i := range draw {
				draw[i] = random.IntN(len(all))
			}
			resampled[b] = shareOf(draw)
		}
		slices.Sort(resampled)
		a.Interval = [2]float64{resampled[len(resampled)/40], resampled[len(resampled)-1-len(resampled)/40]}
	}
	var deltas []float64
	for i, front := range a.fronts {
		least, most := math.Inf(1), 0.0
		for _, p := range memoryless.fronts[i] {
			least, most = min(least, p.EnergyJ), max(most, p.EnergyJ)
		}
		at := least + 0.3*(most-least)
		deltas = append(deltas, frontDelayS(front, at)/frontDelayS(memoryless.fronts[i], at)-1)
	}
	a.DeltaDelay = pareto.Summarise(deltas)
}

// frontDelayS returns the least delay of a front, in any order, at a total energy.
func frontDelayS(front []pareto.Point, energyJ float64) float64 {
	return leastDelayS(pareto.NonDominated(front), energyJ) // in order of delay, so that its energies fall
}
