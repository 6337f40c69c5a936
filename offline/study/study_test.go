package study

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"prefdt/configs"
	"prefdt/configs/cli"
	"prefdt/inference"
	"prefdt/inference/checkpoint"
	"prefdt/inference/goal"
	"prefdt/inference/model"
	"prefdt/inference/slot"
	"prefdt/inference/token"
	"prefdt/offline/pareto"
	"prefdt/simbridge/world"
)

// The file of the defaults is the defaults.
func TestConfigFile(t *testing.T) {
	c := Config{}
	if err := configs.Load("../../configs/study.yaml", &c); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(c, Default()) {
		t.Errorf("configs/study.yaml has %+v, the defaults are %+v", c, Default())
	}
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
			if a.TrainingRun != "" && !slices.ContainsFunc(runs, func(r trainingRun) bool { return r.name == a.TrainingRun }) {
				t.Errorf("arm %q has no run %q", a.Name, a.TrainingRun)
			}
		}
		for _, r := range runs {
			if _, known := recipes[r.recipe]; !known {
				t.Errorf("run %q has no corpus %q", r.name, r.recipe)
			}
			if _, err := hideFeatures(token.IdentityStatistics(), r.hiddenFeatures); err != nil {
				t.Errorf("run %q: %v", r.name, err)
			}
		}
		for _, table := range c.tables() {
			if !seen[table.baseline] {
				t.Errorf("table %q has the baseline %q, which is no arm", table.name, table.baseline)
			}
			for _, name := range table.arms {
				if !seen[name] {
					t.Errorf("table %q has no arm %q", table.name, name)
				}
			}
			for _, name := range table.columns {
				if columns[name].cell == nil {
					t.Errorf("table %q has no column %q", table.name, name)
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
	before := token.IdentityStatistics()
	s, err := hideFeatures(before, token.Layout{Return: allowanceFeatures})
	if err != nil || s.Check() != nil {
		t.Fatal(err, s.Check())
	}
	hidden := 0
	for i, std := range s.Return.Std {
		if x := 1e4 / std; x < 1e-6 {
			hidden++
			if name := token.Features().Return[i]; !slices.Contains(allowanceFeatures, name) {
				t.Errorf("%q is hidden", name)
			}
		}
	}
	if hidden != len(allowanceFeatures) || before.Return.Std[4] != 1 {
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
	c.Seeds, c.AblationSeeds, c.CalibrationSeeds, c.LinkSeeds, c.Settings, c.Prices = 3, 2, 1, 1, 5, 5
	c.CorpusFlights, c.ArchiveEpisodes = 700, 10
	c.Train.Arch = model.Arch{Width: 16, PairWidth: 8, Layers: 1, Heads: 2, Context: 4}
	c.Train.Batch, c.Train.Schedule.Steps, c.Train.Schedule.WarmUpSteps = 2, 60, 10
	return c
}

// A study that was interrupted in the middle of a training run and is resumed ends
// with the files of one that was not; what is done is not done again.
func TestResume(t *testing.T) {
	if testing.Short() {
		t.Skip("trains twice")
	}
	c := tinyConfig()
	only := []string{"dispatch-teacher", "base"}
	whole, parts := t.TempDir(), t.TempDir()
	if err := Run(context.Background(), c, whole, only, io.Discard); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	cut := writerFunc(func(p []byte) {
		if bytes.Contains(p, []byte("step 50/60")) {
			stop()
		}
	})
	if err := Run(ctx, c, parts, only, cut); err == nil || !strings.Contains(err.Error(), "-resume continues") {
		t.Fatalf("interrupted: %v", err)
	}
	if p, err := os.ReadFile(filepath.Join(parts, "train", "base", "log.csv")); err != nil || bytes.Count(p, []byte("\n")) != 51 {
		t.Fatalf("the log of a run cut at step 50: %v\n%s", err, p)
	}
	if err := Run(context.Background(), c, parts, only, io.Discard); err != nil {
		t.Fatal(err)
	}
	figures := func(dir string) Result {
		raw, err := os.ReadFile(filepath.Join(dir, "base", "result.json"))
		if err != nil {
			t.Fatal(err)
		}
		var r Result
		if err := json.Unmarshal(raw, &r); err != nil {
			t.Fatal(err)
		}
		return r
	}
	if !reflect.DeepEqual(figures(whole), figures(parts)) {
		t.Error("the resumed study differs")
	}
	var log bytes.Buffer
	if err := Run(context.Background(), c, parts, only, &log); err != nil || strings.Count(log.String(), "done before") != 2 {
		t.Errorf("it was done again: %v\n%s", err, &log)
	}
	for _, name := range []string{"study.md", "study.csv", "departures.csv", "reference.json", "fronts.png"} {
		if info, err := os.Stat(filepath.Join(parts, "report", name)); err != nil || info.Size() < 100 {
			t.Errorf("%s: %v", name, err)
		}
	}
	c.Settings++
	if err := Run(context.Background(), c, parts, only, io.Discard); err == nil || !strings.Contains(err.Error(), "another configuration") {
		t.Errorf("another study shared the folder: %v", err)
	}
}

// The arms that need no training, and the paper's form, fly; the flagship is
// better than the paper's form of sixty steps, and random is the worst.
func TestArms(t *testing.T) {
	if testing.Short() {
		t.Skip("flies ten arms")
	}
	c := tinyConfig()
	dir := t.TempDir()
	only := []string{"dispatch-teacher", "flagship-heads", "rules-50", "random", "dispatch-centroid", "paper-form", "unconditioned", "omega-bc"}
	if err := Run(context.Background(), c, dir, only, io.Discard); err != nil {
		t.Fatal(err)
	}
	results := map[string]Metrics{}
	var list []*Result
	arms := c.arms()
	for i := range arms {
		raw, err := os.ReadFile(filepath.Join(dir, arms[i].Name, "result.json"))
		if err != nil {
			continue
		}
		r := &Result{arm: &arms[i]}
		if err := json.Unmarshal(raw, r); err != nil {
			t.Fatal(err)
		}
		list = append(list, r)
	}
	if len(list) != len(only) {
		t.Fatalf("%d arms have results, want %d", len(list), len(only))
	}
	reference := poolFronts(list)
	for _, r := range list {
		results[r.arm.Name] = computeMetrics(list, r, &reference, "flagship-heads")
	}
	if x := results["dispatch-teacher"]; x.HypervolumeRatio != 1 || x.Hypervolume.Mean < 95e6 {
		t.Errorf("teacher: %+v", x)
	}
	if a, b := results["random"].HypervolumeRatio, results["rules-50"].HypervolumeRatio; !(a < b && b < 1) {
		t.Errorf("ratios: random %v, rules %v", a, b)
	}
	if x := results["unconditioned"]; x.Settings != 1 || x.ReachS != 0 || !math.IsNaN(x.Fidelity) || len(x.BudgetAbsError) != 0 {
		t.Errorf("unconditioned: %+v", x)
	}
	if x := results["paper-form"]; !(x.HypervolumeDiff < 0) || x.PairedSeeds != 3 || !(x.BudgetAbsError[perturbationNone] > 0) {
		t.Errorf("paper form: %+v", x)
	}
	if findResult(list, "paper-form").LinkRetentions[0].HypervolumeRetained <= 0 {
		t.Error("the paper form was not flown over a link")
	}
	md, err := os.ReadFile(filepath.Join(dir, "report", "study.md"))
	if err != nil || !strings.Contains(string(md), "| paper-form |") || !strings.Contains(string(md), reference.Hash[:12]) {
		t.Errorf("study.md: %v\n%s", err, md)
	}
}

// The budgets that are drawn can be kept: under the shock the flagship ends a little
// below them.
func TestTracedBudgetsAreKept(t *testing.T) {
	c := Default()
	s := &study{Config: c, world: world.Standard()}
	var err error
	if s.flagship, err = checkpoint.Load("../../configs/checkpoint"); err != nil {
		t.Fatal(err)
	}
	p, err := s.prepareArm(t.Context(), &Arm{Kind: kindFlagship, Decoder: inference.DecoderDispatch})
	if err != nil {
		t.Fatal(err)
	}
	at := s.world
	at.Shock = world.Shock{FromSlot: shockSlot, Factor: shockFactor}
	traces, err := traceBudgets(p, at, evaluationSeeds(5))
	if err != nil {
		t.Fatal(err)
	}
	for _, trace := range traces {
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

// The interval of the error in gusts is that of the means over budgets by seed,
// and there is none where errors by seed are missing.
func TestGustInterval(t *testing.T) {
	m := Metrics{BudgetAbsError: map[string]float64{}, BudgetBias: map[string]float64{}, OverBudgetRate: map[string]float64{}, GustErrorLow: math.NaN(), GustErrorHigh: math.NaN()}
	m.addBudgets([]BudgetResult{{Perturbation: perturbationGusts, MeanAbsError: 0.02}, {Perturbation: perturbationNone, AbsErrors: []float64{1, 2}}})
	if !math.IsNaN(m.GustErrorLow + m.GustErrorHigh) {
		t.Errorf("an interval [%v, %v] of nothing", m.GustErrorLow, m.GustErrorHigh)
	}
	m.BudgetAbsError = map[string]float64{}
	m.addBudgets([]BudgetResult{
		{Perturbation: perturbationGusts, MeanAbsError: 0.02, AbsErrors: []float64{0.01, 0.02, 0.03}},
		{Perturbation: perturbationGusts, MeanAbsError: 0.04, AbsErrors: []float64{0.03, 0.04, 0.05}},
	})
	if mean := m.BudgetAbsError[perturbationGusts]; math.Abs(mean-0.03) > 1e-12 || !(m.GustErrorLow >= 0.02 && m.GustErrorLow < mean && m.GustErrorHigh > mean && m.GustErrorHigh <= 0.04) {
		t.Errorf("mean %v in [%v, %v]", mean, m.GustErrorLow, m.GustErrorHigh)
	}
}

// Every size with an interval is drawn, and one without is not.
func TestBySize(t *testing.T) {
	s := &study{Config: Default()}
	row := func(arm string, diff float64) Metrics {
		return Metrics{Arm: arm, Parameters: 1000, HypervolumeDiff: diff, HypervolumeDiffLow: diff - 1e3, HypervolumeDiffHigh: diff + 1e3}
	}
	if panels := s.sizePanels([]Metrics{row(smallestSize, math.NaN())}); panels != nil {
		t.Error("a size without an interval was drawn")
	}
	panels := s.sizePanels([]Metrics{row("base", math.NaN()), row(smallestSize, 2e3), row(s.contextArmName(5), -5e3)})
	if len(panels) != 1 || panels[0].Y.Min > -0.006 || panels[0].Y.Max < 0.003 {
		t.Fatalf("%d panels; the axis does not hold the intervals", len(panels))
	}
	if ticks := panels[0].X.Tick.Marker.Ticks(0, 1); len(ticks) != 2 {
		t.Errorf("%d columns, want one for each width and depth: %v", len(ticks), ticks)
	}
}

// A pool carries its contributors' hash: one more arm, or one more joule, is
// another reference.
func TestReferenceHash(t *testing.T) {
	one := func(name string, j float64) *Result {
		return &Result{arm: &Arm{Name: name}, Outcomes: [][]pareto.Point{{{DelayS: 100, EnergyJ: j}}, {{DelayS: 200, EnergyJ: j / 2}}}}
	}
	a, b := one("a", 4e4), one("b", 3e4)
	first := poolFronts([]*Result{a, b})
	if len(first.BySeed) != 1 || len(first.BySeed[0]) != 2 {
		t.Errorf("pool %+v", first.BySeed)
	}
	for _, other := range [][]*Result{{a}, {a, one("b", 3e4+1e-3)}, {a, one("c", 3e4)}} {
		if poolFronts(other).Hash == first.Hash {
			t.Error("another pool has the same hash")
		}
	}
	if poolFronts([]*Result{one("a", 4e4), one("b", 3e4)}).Hash != first.Hash {
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
	if err := g.SetBudget(34e3, goal.Target); err != nil {
		t.Fatal(err)
	}
	recorder := &recordingPolicy{}
	b := &preferenceWithBudget{policy: recorder, scales: &scales}
	b.Decide(&slot.Snapshot{}, g, &slot.Decision{})
	if x := recorder.objective; x.Budgeted() || math.Abs(x.Omega()-0.25) > 1e-9 || math.Abs(x.DelayToGoS()-145) > 1e-6 || x.EnergyToGoJ() != 34e3 {
		t.Errorf("its objective is %+v", x.State())
	}
	g.Settle(goal.Settlement{DelayS: 5, EnergyJ: 400, Flying: 2})
	if err := g.SetBudget(30e3, goal.Target); err != nil {
		t.Fatal(err)
	}
	b.Decide(&slot.Snapshot{}, g, &slot.Decision{})
	if x := recorder.objective; math.Abs(x.Omega()-0.25) > 1e-9 || math.Abs(x.DelayToGoS()-140) > 1e-6 || math.Abs(x.EnergyToGoJ()-29.6e3) > 1e-6 {
		t.Errorf("after a slot and a revision its objective is %+v", x.State())
	}
}

type recordingPolicy struct{ objective goal.Objective }

func (s *recordingPolicy) Reset() {}
func (s *recordingPolicy) Decide(_ *slot.Snapshot, o goal.Objective, _ *slot.Decision) goal.Observation {
	s.objective = o
	return goal.Observation{}
}

type writerFunc func(p []byte)

func (w writerFunc) Write(p []byte) (int, error) { w(p); return len(p), nil }

func TestCommandMistakes(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "study.json"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-only", "flagship,best"}, `no arm is called "best"`},
		{[]string{"-out", dir}, "add -resume"},
		{[]string{"-config", filepath.Join(dir, "none.yaml")}, "none.yaml"},
		{[]string{"-seeds", "1"}, "study seeds is 1"},
	} {
		if err := Command(t.Context(), cli.NewCall("offline study", c.args, io.Discard, io.Discard)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.args, err, c.want)
		}
	}
	var out bytes.Buffer
	if err := Command(t.Context(), cli.NewCall("offline study", []string{"-list"}, &out, io.Discard)); err != nil || !strings.Contains(out.String(), "paper-form ") {
		t.Errorf("-list: %v\n%s", err, &out)
	}
}
