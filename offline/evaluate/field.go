package evaluate

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"slices"

	"prefdt/inference/belief"
	"prefdt/inference/belief/learned"
	"prefdt/inference/checkpoint"
	"prefdt/inference/goal"
	"prefdt/offline/baseline"
	"prefdt/offline/belieftrain"
	"prefdt/offline/command"
	"prefdt/offline/experiment"
	"prefdt/offline/jobs"
	"prefdt/offline/pareto"
	"prefdt/offline/rollout"
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
	P          float64        `json:"p"`          // two-sided, Wilcoxon's signed-rank test
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

// newPriceRunner returns the same at one price in every slot, whatever the network would
// have it be.
func (c *Config) newPriceRunner(ck *checkpoint.Checkpoint, p *learned.Parameters, priceSPerJ float64) (*rollout.Runner, error) {
	here := *ck
	here.PriceCurve = checkpoint.PriceCurve{FrontPositions: []float64{0, 1}, PricesSPerJ: []float64{priceSPerJ, priceSPerJ * (1 + 1e-9)}}
	return c.newFieldRunner(&here, c.newLearned(p))
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
	if err := c.checkSeeds(); err != nil {
		return nil, err
	}
	wide, tight := pareto.References(&c.World, nil)
	prices := teacher.PricesIn(&c.World, c.TeacherPrices)
	newArm := func() *FieldArm { return &FieldArm{fronts: make([][]pareto.Point, len(c.Seeds))} }
	policy, arms, contexts := newArm(), map[string]*FieldArm{settingsArm: newArm()}, c.contextArms()
	for name := range c.fieldArms() {
		arms[name] = newArm()
	}
	for name := range contexts {
		arms[name] = newArm()
	}
	type worker struct {
		schedulers map[string]*baseline.Believing
		runners    map[string]*rollout.Runner      // of the schedulers
		policies   map[*FieldArm][]*rollout.Runner // by price
		settings   *rollout.Runner
	}
	newWorker := func() (w worker, err error) {
		w = worker{map[string]*baseline.Believing{}, map[string]*rollout.Runner{}, map[*FieldArm][]*rollout.Runner{}, nil}
		for name, e := range c.fieldArms() {
			w.schedulers[name] = baseline.NewBelieving(&c.World.Physics, e, 0)
			if w.runners[name], err = rollout.NewWithPolicy(w.schedulers[name], &ck.GoalConstants, c.World,
				rollout.ReportLink{}); err != nil {
				return w, err
			}
		}
		atPrices := func(arm *FieldArm, p *learned.Parameters) {
			for k := range prices {
				r, e := c.newPriceRunner(ck, p, prices[k])
				w.policies[arm], err = append(w.policies[arm], r), cmp.Or(err, e)
			}
		}
		atPrices(policy, c.Estimator)
		for name, p := range contexts {
			atPrices(arms[name], p)
		}
		if err == nil {
			w.settings, err = c.newFieldRunner(ck, c.newLearned(c.Estimator))
		}
		return w, err
	}
	requests := rollout.PreferenceRequests(rollout.CalibratedOmegas(&ck.GoalConstants.SettingMap, c.Settings))
	err := jobs.Do(ctx, len(c.Seeds), c.Workers, newWorker, func(w worker, i int) error {
		for name, runner := range w.runners {
			for _, price := range prices {
				if err := ctx.Err(); err != nil {
					return err
				}
				w.schedulers[name].PriceSPerJ = price
				arms[name].fronts[i] = append(arms[name].fronts[i], runner.Fly(c.Seeds[i], rollout.Request{Mode: goal.Preference,
					Omega: 0.5}).Point)
			}
		}
		fly := func(arm *FieldArm, runner *rollout.Runner, r rollout.Request) {
			if ctx.Err() == nil {
				arm.fronts[i] = append(arm.fronts[i], runner.Fly(c.Seeds[i], r).Point)
			}
		}
		for arm, runners := range w.policies {
			for _, runner := range runners {
				fly(arm, runner, rollout.Request{Mode: goal.Preference, Omega: 0.5})
			}
		}
		for _, r := range requests {
			fly(arms[settingsArm], w.settings, r)
		}
		return ctx.Err()
	}, command.Progress(c.Progress, "seeds, field arms", len(c.Seeds)))
	if err != nil {
		return nil, err
	}
	for _, a := range slices.Concat(slices.Collect(maps.Values(arms)), []*FieldArm{policy}) {
		a.compare(arms[memorylessArm], arms[hiddenArm], [2]pareto.Point{wide, tight})
	}
	r := &FieldReport{Seeds: len(c.Seeds), Prices: c.TeacherPrices, Settings: c.Settings, FieldArm: policy, Arms: arms}
	if c.Estimator != nil {
		r.Window = c.Estimator.Window
	}
	for name, p := range contexts {
		test := MemoryTest{Window: p.Window, Trained: &p.Data[0] != &c.Estimator.Data[0]}
		d := pareto.Differences(policy.tight, arms[name].tight)
		if test.P, _, err = pareto.Wilcoxon(d); err != nil {
			return nil, err
		}
		test.Difference = pareto.Summarise(d)
		r.Memory = append(r.Memory, test)
	}
	slices.SortFunc(r.Memory, func(a, b MemoryTest) int { return cmp.Compare(a.Window, b.Window) })
	return r, nil
}

//go:embed field.tmpl
var fieldText string

// print writes the report as a table.
func (r *FieldReport) print(w io.Writer) error { return command.PrintText(w, fieldText, r) }

// compare fills the figures of an arm.
func (a *FieldArm) compare(memoryless, hidden *FieldArm, references [2]pareto.Point) {
	volumes := func(x *FieldArm, reference pareto.Point) (list []float64) {
		for _, front := range x.fronts {
			list = append(list, pareto.Hypervolume(front, reference))
		}
		return list
	}
	shares := [2]*float64{}
	for k, reference := range references {
		own, low, high := volumes(a, reference), volumes(memoryless, reference), volumes(hidden, reference)
		share := func(seeds []int) float64 {
			gained, possible := 0.0, 0.0
			for _, i := range seeds {
				gained += own[i] - low[i]
				possible += high[i] - low[i]
			}
			return gained / possible
		}
		all := make([]int, len(own))
		for i := range all {
			all[i] = i
		}
		if x := share(all); !math.IsNaN(x) && !math.IsInf(x, 0) {
			shares[k] = &x
		}
		if k == 0 {
			a.Hypervolume = pareto.Summarise(own)
			continue
		}
		a.tight = own
		if a.HypervolumeTight = pareto.Summarise(own); shares[k] == nil {
			continue
		}
		random, resampled := rand.New(rand.NewPCG(1, 1)), make([]float64, 2000)
		for b := range resampled {
			draw := make([]int, len(own))
			for i := range draw {
				draw[i] = random.IntN(len(own))
			}
			resampled[b] = share(draw)
		}
		slices.Sort(resampled)
		a.Interval = [2]float64{resampled[len(resampled)/40], resampled[len(resampled)-1-len(resampled)/40]}
	}
	a.HypervolumeShare, a.Share = shares[0], shares[1]
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
