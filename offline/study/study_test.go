package study

import (
	"bytes"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"prefdt/configs/cli"
	"prefdt/inference"
	"prefdt/inference/goal"
	"prefdt/inference/model"
	"prefdt/inference/slot"
	"prefdt/inference/token"
	"prefdt/offline/baseline"
	"prefdt/offline/command"
	"prefdt/offline/experiment"
	"prefdt/offline/offlinetest"
	"prefdt/offline/pareto"
	"prefdt/offline/rollout"
	"prefdt/offline/search"
)

// openShort opens a study of missions of a third of the slots.
func openShort(t *testing.T, c Config, out string) *study {
	s := offlinetest.Must(open(c, out, io.Discard))(t)
	s.world.Slots = 30
	return s
}

// Every name by which one part of the study refers to another exists there.
func TestNames(t *testing.T) {
	for _, grid := range []bool{false, true} {
		c := Default()
		c.AllSizes = grid
		arms, runs := c.arms(), c.trainingRuns()
		seen := map[string]bool{}
		for _, a := range arms {
			if seen[a.Name] {
				t.Errorf("two arms have the name %q", a.Name)
			}
			seen[a.Name] = true
			if a.TrainingRun != "" && a.Kind != kindPaper &&
				!slices.ContainsFunc(runs, func(r trainingRun) bool { return r.Name == a.TrainingRun }) {
				t.Errorf("arm %q has no run %q", a.Name, a.TrainingRun)
			}
			if a.Kind == kindPacer && !slices.Contains(baseline.Pacers, a.Scheduler) {
				t.Errorf("arm %q has no pacer %q", a.Name, a.Scheduler)
			}
		}
		for _, r := range runs {
			if _, known := recipes[r.Recipe]; !known {
				t.Errorf("run %q has no corpus %q", r.Name, r.Recipe)
			}
			if _, err := hideFeatures(token.IdentityStatistics(), r.Hidden); err != nil {
				t.Errorf("run %q: %v", r.Name, err)
			}
		}
		for _, table := range c.tables() {
			if !seen[table.Baseline] {
				t.Errorf("table %q has the baseline %q, which is no arm", table.Name, table.Baseline)
			}
			for _, name := range table.Arms {
				if !seen[name] {
					t.Errorf("table %q has no arm %q", table.Name, name)
				}
			}
			for _, name := range table.Columns {
				if readLayout().Columns[name] == "" {
					t.Errorf("table %q has no column %q", table.Name, name)
				}
			}
		}
		if want := map[bool]int{false: 9, true: 27}[grid]; len(c.sizes()) != want {
			t.Errorf("grid %v: %d sizes, want %d", grid, len(c.sizes()), want)
		}
	}
}

// A hidden feature is zero whatever its value, in statistics that a checkpoint
// would accept.
func TestHiddenFeatures(t *testing.T) {
	c, before := Default(), token.IdentityStatistics()
	hide := c.trainingRun("no-allowance").Hidden
	s, err := hideFeatures(before, hide)
	if err != nil || s.Check() != nil {
		t.Fatal(err, s.Check())
	}
	hidden := 0
	for i, std := range s.Return.Std {
		if x := 1e4 / std; x < 1e-6 {
			hidden++
			if name := token.Features().Return[i]; !slices.Contains(hide.Return, name) {
				t.Errorf("%q is hidden", name)
			}
		}
	}
	if hidden != len(hide.Return) || before.Return.Std[4] != 1 {
		t.Errorf("%d features are hidden, or the statistics given were changed", hidden)
	}
	if _, err := hideFeatures(before, token.Layout{Pair: []string{"colour"}}); err == nil {
		t.Error("a feature that does not exist was hidden")
	}
}

// tinyConfig is a study of seconds.
func tinyConfig() Config {
	c := Default()
	c.Checkpoint = "../../configs/checkpoint"
	c.Seeds, c.AblationSeeds, c.CalibrationSeeds, c.LinkSeeds, c.Settings, c.Prices = 2, 2, 1, 1, 3, 4
	c.CorpusFlights, c.ArchiveEpisodes = 400, 1
	c.Train.Arch = model.Arch{Width: 16, PairWidth: 8, Layers: 1, Heads: 2, Context: 4}
	c.Train.Batch, c.Train.Schedule.Steps, c.Train.Schedule.WarmUpSteps = 2, 60, 10
	return c
}

// The arms that need no training, and the paper's form, fly; the flagship is
// better than the published form of so few steps, and random is the worst.
func TestArms(t *testing.T) {
	if testing.Short() {
		t.Skip("flies twelve arms")
	}
	c := tinyConfig()
	dir := t.TempDir()
	only := []string{"dispatch-teacher", "dispatch-teacher-256", "flagship-heads", "rules-50", "random", "dispatch-centroid", "paper-form",
		"unconditioned",
		"even", "constant-price", "greedy", "flagship-price"}
	s := openShort(t, c, dir)
	// These stand in for the 2000 rules that a search flies: they offload less and less.
	var found search.State
	for k := range 12 {
		x := float64(k) / 11
		found.Population = append(found.Population, search.Member{Genes: []float64{3, 1 - x, 800, 0, 8.4, 1, 0.3, 8.4, 1, 0.3},
			Point: pareto.Point{DelayS: 100 + 600*x, EnergyJ: 40e3 - 13e3*x}})
	}
	for _, path := range []string{ruleArchivePath(50), filepath.Join(trainingPath("published"), "rules.json")} {
		offlinetest.NoError(t, command.ReplaceJSON(filepath.Join(dir, path), "", found.Archive(search.Default())))
	}
	offlinetest.NoError(t, s.Run(t.Context(), experiment.Part{Only: only}, s.report))
	s = openShort(t, c, dir)
	list, err := s.newReport()
	if err != nil || len(list.arms) != len(only) {
		t.Fatalf("%d arms have results, want %d: %v", len(list.arms), len(only), err)
	}
	results := map[string]*figures{}
	for _, a := range list.arms {
		results[a.Name] = list.figuresOf(a.Name, "flagship-heads")
	}
	if x := results["dispatch-teacher-256"]; x.number("ratio") != 1 || x.number("tight_ratio") != 1 || x.number("gust_ratio") != 1 ||
		x.Cells["settings"] != 256 || x.number("hypervolume") < 95e6 {
		t.Errorf("teacher: %+v", x)
	}
	if x := results["dispatch-teacher"]; !(x.number("ratio") < 0.999) || !(x.number("tight_ratio") < 0.999) ||
		x.Cells["settings"] != c.Prices {
		t.Errorf("the teacher at %d prices has ratios %v and %v to its finest front", c.Prices, x.number("ratio"), x.number("tight_ratio"))
	}
	if a, b := results["random"].number("ratio"), results["rules-50"].number("ratio"); !(a < b && b < 1) {
		t.Errorf("ratios: random %v, rules %v", a, b)
	}
	if x := results["unconditioned"]; x.Cells["settings"] != 1 || x.number("reach_s") != 0 || !math.IsNaN(x.number("fidelity")) ||
		len(x.Budgets) != 0 {
		t.Errorf("unconditioned: %+v", x)
	}
	if x := results["paper-form"]; !(x.number("hypervolume_difference") < 0) || x.Cells["pairs"] != 2 ||
		len(x.Budgets) != len(results["even"].Budgets) {
		t.Errorf("paper form: %+v", x)
	}
	loss := rollout.ReportLink{LossRate: 0.4, Fallback: rollout.FallbackLocal}
	if kept := list.results["paper-form"].Hypervolumes(linkName(loss)); len(kept) != c.LinkSeeds || kept[0] <= 0 {
		t.Errorf("over a link the paper form has %v", kept)
	}
	for _, a := range list.arms {
		if x := results[a.Name]; a.BudgetsOnly {
			mean := x.Budgets.Mean(experiment.PerturbationNone)
			if !(mean.DelayS > 20 && mean.DelayS < 1000) || a.Name == evenArm && mean.DelayS != mean.EvenDelayS {
				t.Errorf("%s: %+v", a.Name, mean)
			}
			if !math.IsNaN(x.number("hypervolume")) || !math.IsNaN(x.number("decision_us")) || x.Cells["settings"] != 0 {
				t.Errorf("%s has a front: %+v", a.Name, x)
			}
		}
	}
	if pooled := len(list.reference.Contributors); pooled != len(only)-4 {
		t.Errorf("%d arms in the pool, want those with a front", pooled)
	}
	md, err := os.ReadFile(filepath.Join(dir, "report", "study.md"))
	if err != nil || !strings.Contains(string(md), "| paper-form |") || !strings.Contains(string(md), list.reference.Hash[:12]) {
		t.Errorf("study.md: %v\n%s", err, md)
	}
}

// The budgets that are drawn can be kept: under the shock the flagship ends a little
// below them.
func TestTracedBudgetsAreKept(t *testing.T) {
	c := Default()
	c.Checkpoint = "../../configs/checkpoint"
	s := offlinetest.Must(open(c, t.TempDir(), io.Discard))(t)
	p := offlinetest.Must(s.policy(t.Context(), &row{Kind: kindFlagship, Decoder: inference.DecoderDispatch}, nil))(t)
	at := s.world
	at.Shock = experiment.Shock
	runner := offlinetest.Must(p.Runner(at, rollout.ReportLink{}))(t)
	for _, trace := range rollout.TraceEnergy(runner, evaluationSeeds(5), experiment.TraceRequests) {
		budget := trace.BudgetJ
		if trace.ReviseSlot > 0 {
			budget = trace.RevisedBudgetJ
		}
		last := at.Slots
		if spent := trace.MeanJ[last]; spent > budget || spent < 0.995*budget || len(trace.MeanJ) != last+1 {
			t.Errorf("a budget of %v J ended on %v J", budget, spent)
		}
		for i := 1; i <= last; i++ {
			if trace.MeanJ[i] < trace.MeanJ[i-1] || trace.MeanDelayS[i] < trace.MeanDelayS[i-1] {
				t.Fatalf("slot %d: energy or delay fell", i)
			}
		}
	}
}

// measuredReport has a front of some arms: so many settings, from an energy on.
func measuredReport(c Config, list fronts) *report {
	r := &report{study: &study{Config: c}, results: map[string]*experiment.Result{}}
	var arms []*row
	for name, x := range list {
		front := experiment.Sweep{Name: experiment.Nominal, Settings: make([]float64, x.settings)}
		for i := range x.settings {
			front.Outcomes = append(front.Outcomes, []pareto.Point{{DelayS: 100 + 100*float64(i), EnergyJ: x.energyJ - 1e3*float64(i)}})
		}
		gusts := front
		gusts.Name = gusty
		r.results[name] = &experiment.Result{Key: "of " + name, Record: &experiment.Record{Version: "v1"},
			Sweeps: []experiment.Sweep{front, gusts}}
		arms = append(arms, &row{Name: name})
	}
	slices.SortFunc(arms, func(a, b *row) int { return strings.Compare(a.Name, b.Name) })
	r.add(arms)
	return r
}

type fronts = map[string]struct {
	settings int
	energyJ  float64
}

// No ratio is taken to a front of fewer points than the arm's own.
func TestRatioToFinestFront(t *testing.T) {
	for settings, want := range map[int]bool{3: true, 4: false} {
		r := measuredReport(Default(), fronts{finestTeacherArm: {3, 35e3}, "arm": {settings, 35e3}})
		if m := r.figuresOf("arm", ""); !math.IsNaN(m.number("ratio")) != want || !math.IsNaN(m.number("tight_ratio")) != want ||
			!math.IsNaN(m.number("gust_ratio")) != want {
			t.Errorf("%d settings against 3: %+v", settings, m)
		}
	}
}

// A pool carries its contributors' hash: one more arm, or one more joule, is
// another reference.
func TestReferenceHash(t *testing.T) {
	pool := func(x fronts) pareto.ReferenceFronts { return measuredReport(Default(), x).reference }
	first := pool(fronts{"a": {2, 40e3}, "b": {2, 30e3}})
	if len(first.BySeed) != 1 || len(first.BySeed[0]) != 2 {
		t.Errorf("pool %+v", first.BySeed)
	}
	for _, other := range []fronts{{"a": {2, 40e3}}, {"a": {2, 40e3}, "b": {2, 30e3 + 1e-3}}, {"a": {2, 40e3}, "c": {2, 30e3}}} {
		if pool(other).Hash == first.Hash {
			t.Error("another pool has the same hash")
		}
	}
	if pool(fronts{"a": {2, 40e3}, "b": {2, 30e3}}).Hash != first.Hash {
		t.Error("the same pool has another hash")
	}
}

// Together with a budget come the entries of the setting that spends as much, less
// what was realised; the energy entry is the budget's.
func TestPreferenceWithBudget(t *testing.T) {
	scales := goal.Constants{EtaDelayS: 600, EtaEnergyJ: 12e3, Slots: 100, AircraftCount: 2,
		Conditioner: goal.Conditioner{Omegas: []float64{0, 0.5, 1}, DelayS: []float64{90, 200, 700}, EnergyJ: []float64{39e3, 29e3, 27e3}},
		SettingMap:  goal.SettingMap{Omegas: []float64{0, 1}}}
	physics := (&study{}).world.Physics
	g := goal.New(&scales, &physics, 100, 2)
	offlinetest.NoError(t, g.SetBudget(34e3, goal.Target))
	recorder := &recordingPolicy{}
	b := &preferenceWithBudget{policy: recorder, scales: &scales}
	b.Decide(&slot.Snapshot{}, g, &slot.Decision{})
	if x := recorder.objective; x.Budgeted() || math.Abs(x.Omega()-0.25) > 1e-9 || math.Abs(x.DelayToGoS()-145) > 1e-6 ||
		x.EnergyToGoJ() != 34e3 {
		t.Errorf("its objective is %+v", x.State())
	}
	g.Settle(goal.Settlement{DelayS: 5, EnergyJ: 400, Flying: 2})
	offlinetest.NoError(t, g.SetBudget(30e3, goal.Target))
	b.Decide(&slot.Snapshot{}, g, &slot.Decision{})
	if x := recorder.objective; math.Abs(x.Omega()-0.25) > 1e-9 || math.Abs(x.DelayToGoS()-140) > 1e-6 ||
		math.Abs(x.EnergyToGoJ()-29.6e3) > 1e-6 {
		t.Errorf("after a slot and a revision its objective is %+v", x.State())
	}
}

type recordingPolicy struct{ objective goal.Objective }

func (s *recordingPolicy) Reset() {}
func (s *recordingPolicy) Decide(_ *slot.Snapshot, o goal.Objective, _ *slot.Decision) goal.Observation {
	s.objective = o
	return goal.Observation{}
}

func TestList(t *testing.T) {
	var out bytes.Buffer
	if err := Command(t.Context(), cli.NewCall("offline study", []string{"-list"}, &out, io.Discard)); err != nil ||
		!strings.Contains(out.String(), "paper-form ") {
		t.Errorf("-list: %v\n%s", err, &out)
	}
}
