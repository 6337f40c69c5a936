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
	"prefdt/inference/physics"
	"prefdt/inference/slot"
	"prefdt/inference/token"
	"prefdt/offline/experiment"
	"prefdt/offline/pareto"
	"prefdt/offline/rollout"
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

// run measures a part of a study.
func run(ctx context.Context, c Config, out string, p experiment.Part, log io.Writer) error {
	s, err := open(c, out, log)
	if err != nil {
		return cli.BadInput(err)
	}
	return s.Run(ctx, p, s.report)
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
			if a.TrainingRun != "" && a.Kind != kindPaper && !slices.ContainsFunc(runs, func(r trainingRun) bool { return r.name == a.TrainingRun }) {
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
	if err := run(context.Background(), c, whole, experiment.Part{Only: only}, io.Discard); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	cut := writerFunc(func(p []byte) {
		if bytes.Contains(p, []byte("step 50/60")) {
			stop()
		}
	})
	if err := run(ctx, c, parts, experiment.Part{Only: only}, cut); err == nil || !strings.Contains(err.Error(), "-resume continues") {
		t.Fatalf("interrupted: %v", err)
	}
	if p, err := os.ReadFile(filepath.Join(parts, "train", "base", "log.csv")); err != nil || bytes.Count(p, []byte("\n")) != 51 {
		t.Fatalf("the log of a run cut at step 50: %v\n%s", err, p)
	}
	if err := run(context.Background(), c, parts, experiment.Part{Only: only}, io.Discard); err != nil {
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
	if err := run(context.Background(), c, parts, experiment.Part{Only: only}, &log); err != nil || strings.Count(log.String(), "done before") != 2 {
		t.Errorf("it was done again: %v\n%s", err, &log)
	}
	for _, name := range []string{"study.md", "study.csv", "departures.csv", "reference.json", "fronts.png"} {
		if info, err := os.Stat(filepath.Join(parts, "report", name)); err != nil || info.Size() < 100 {
			t.Errorf("%s: %v", name, err)
		}
	}
	c.Settings++
	if err := run(context.Background(), c, parts, experiment.Part{Only: only}, io.Discard); err == nil || !strings.Contains(err.Error(), "another configuration") {
		t.Errorf("another study shared the folder: %v", err)
	}
}

// The arms that need no training, and the paper's form, fly; the flagship is
// better than the published form of so few steps, and random is the worst.
func TestArms(t *testing.T) {
	if testing.Short() {
		t.Skip("flies sixteen arms")
	}
	c := tinyConfig()
	dir := t.TempDir()
	only := []string{"dispatch-teacher", "dispatch-teacher-256", "flagship-heads", "rules-50", "random", "dispatch-centroid", "paper-form", "unconditioned", "omega-bc",
		"even", "capped-even", "constant-price", "controller", "controller-reserve", "greedy", "flagship-price"}
	if err := run(context.Background(), c, dir, experiment.Part{Only: only}, io.Discard); err != nil {
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
	if x := results["dispatch-teacher-256"]; x.HypervolumeRatio != 1 || x.TightRatio != 1 || x.GustRatio != 1 || x.Settings != 256 || x.Hypervolume.Mean < 95e6 {
		t.Errorf("teacher: %+v", x)
	}
	if x := results["dispatch-teacher"]; !(x.HypervolumeRatio < 0.999) || !(x.TightRatio < 0.999) || x.Settings != c.Prices {
		t.Errorf("the teacher at %d prices has ratios %v and %v to its finest front", c.Prices, x.HypervolumeRatio, x.TightRatio)
	}
	if a, b := results["random"].HypervolumeRatio, results["rules-50"].HypervolumeRatio; !(a < b && b < 1) {
		t.Errorf("ratios: random %v, rules %v", a, b)
	}
	if x := results["unconditioned"]; x.Settings != 1 || x.ReachS != 0 || !math.IsNaN(x.Fidelity) || len(x.Budgets) != 0 {
		t.Errorf("unconditioned: %+v", x)
	}
	if x := results["paper-form"]; !(x.Paired.Mean < 0) || x.Paired.N != 3 || len(x.Budgets) != len(results["even"].Budgets) {
		t.Errorf("paper form: %+v", x)
	}
	if findResult(list, "paper-form").LinkRetentions[0].HypervolumeRetained <= 0 {
		t.Error("the paper form was not flown over a link")
	}
	for _, r := range list { // the plan counts the flights that were flown
		flown := r.GridSettings*c.CalibrationSeeds + len(r.EnergyTraces)*c.AblationSeeds + len(r.LinkRetentions)*len(r.Omegas)*c.LinkSeeds
		for _, outcomes := range slices.Concat(r.Outcomes, r.Uniform.Points, r.GustOutcomes) {
			flown += len(outcomes)
		}
		for _, b := range r.Budgets {
			flown += len(b.Outcomes)
		}
		if planned := c.flights(r.arm); planned != flown && r.arm.Kind != kindRules && r.arm.Kind != kindDispatch { // a front has some members less
			t.Errorf("%s: %d flights are planned, %d were flown", r.arm.Name, planned, flown)
		}
	}
	for _, a := range arms {
		if x, flown := results[a.Name]; flown && a.BudgetsOnly {
			mean, measured := x.meanBudget(PerturbationNone)
			if !measured || !(mean.DelayS > 50 && mean.DelayS < 1000) || a.Name == evenArm && mean.DelayS != mean.EvenDelayS {
				t.Errorf("%s: %+v", a.Name, mean)
			}
			if !math.IsNaN(x.Hypervolume.Mean) || !math.IsNaN(x.DecisionUS) || x.Settings != 0 {
				t.Errorf("%s has a front: %+v", a.Name, x)
			}
		}
	}
	if pooled := len(reference.Contributors); pooled != len(only)-7 {
		t.Errorf("%d arms in the pool, want those with a front", pooled)
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
	s := &study{Config: c, Set: &experiment.Set{Log: io.Discard}, world: world.Standard()}
	var err error
	if s.flagship, err = checkpoint.Load("../../configs/checkpoint"); err != nil {
		t.Fatal(err)
	}
	p, err := s.prepareArm(t.Context(), &Arm{Kind: kindFlagship, Decoder: inference.DecoderDispatch})
	if err != nil {
		t.Fatal(err)
	}
	at := s.world
	at.Shock = Shock
	runner, err := p.runner(at, rollout.ReportLink{})
	if err != nil {
		t.Fatal(err)
	}
	for _, trace := range rollout.TraceEnergy(runner, evaluationSeeds(5), traceRequests) {
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

// dashUntilShock flies as the even pacer does, but fast until the shock: more than any
// budget of the test has for these slots.
type dashUntilShock struct{ rollout.Policy }

func (p *dashUntilShock) Decide(s *slot.Snapshot, g goal.Objective, d *slot.Decision) goal.Observation {
	o := p.Policy.Decide(s, g, d)
	for m := range d.Move {
		if s.Slot < Shock.FromSlot {
			d.Move[m] = physics.Position{EastM: 25 * float64(1-2*(s.Slot%2))}
		}
	}
	return o
}

// A budget is judged by itself: what a flight spends before a shock is no excuse for
// passing it, where the even pacer shows that it can be kept.
func TestEarlySpendingIsNoExcuse(t *testing.T) {
	s := &study{Config: Default(), Set: &experiment.Set{Log: io.Discard}, world: world.Standard(), workers: 2}
	var err error
	if s.flagship, err = checkpoint.Load("../../configs/checkpoint"); err != nil {
		t.Fatal(err)
	}
	even, err := s.prepareArm(t.Context(), &Arm{Kind: kindPacer, Scheduler: "even"})
	if err != nil {
		t.Fatal(err)
	}
	dash := &armPolicy{scales: even.scales, newPolicy: func() (rollout.Policy, error) {
		p, err := even.newPolicy()
		return &dashUntilShock{p}, err
	}}
	var results []*Result
	for name, p := range map[string]*armPolicy{evenArm: even, "dash": dash} {
		r := &Result{arm: &Arm{Name: name, BudgetsOnly: true}}
		if err := s.measureBudgets(t.Context(), p, r.arm, evaluationSeeds(2), r); err != nil {
			t.Fatal(err)
		}
		results = append(results, r)
	}
	figures := func(name string) BudgetFigures {
		m := computeMetrics(results, findResult(results, name), &pareto.ReferenceFronts{}, "")
		x, measured := m.meanBudget(PerturbationShock)
		if !measured {
			t.Fatalf("under the shock nothing was measured: %+v", m.Budgets)
		}
		return x
	}
	if x := figures(evenArm); x.MeanOverrun > 0.0005 || x.DelayS != x.EvenDelayS {
		t.Errorf("the even pacer: %+v", x)
	}
	if x := figures("dash"); x.End < 0.05 || x.End != x.MeanOverrun || x.OverrunRate != 1 {
		t.Errorf("spending before the shock was excused: %+v", x)
	}
}

// Seeds on which the even pacer passes the budget do not count; with fewer than half
// left, nor does the budget. The interval is of the mean over what counts.
func TestJudgeBudgets(t *testing.T) {
	flown := func(perturbation string, budgetJ float64, energiesJ ...float64) BudgetResult {
		b := BudgetResult{Perturbation: perturbation, BudgetJ: budgetJ}
		for _, j := range energiesJ {
			b.Outcomes = append(b.Outcomes, pareto.Point{DelayS: j / 10, EnergyJ: j})
		}
		return b
	}
	even := []BudgetResult{
		flown(PerturbationGusts, 1000, 999, 1000.4, 990, 1001), // the last seed is not keepable
		flown(PerturbationGusts, 2000, 2000, 2002, 2002, 2002), // one seed is
	}
	m := Metrics{Budgets: JudgeBudgets([]BudgetResult{
		flown(PerturbationGusts, 1000, 990, 1020, 1000, 5000),
		flown(PerturbationGusts, 2000, 9000, 9000, 9000, 9000),
	}, even)}
	if a, b := m.Budgets[0], m.Budgets[1]; a.Keepable != 3 || !a.Measured() || b.Keepable != 1 || b.Measured() {
		t.Errorf("keepable: %+v, %+v", a, b)
	}
	x, measured := m.meanBudget(PerturbationGusts)
	for _, c := range []struct {
		name      string
		got, want float64
	}{
		{"end", x.End, 0.01 / 3}, {"mean overrun", x.MeanOverrun, 0.02 / 3}, {"overrun rate", x.OverrunRate, 1.0 / 3},
		{"delay", x.DelayS, 301.0 / 3}, {"even pacer's delay", x.EvenDelayS, 298.94 / 3},
	} {
		if !measured || math.Abs(c.got-c.want) > 1e-9 {
			t.Errorf("%s %v, want %v", c.name, c.got, c.want)
		}
	}
	if low, high := m.endInterval(PerturbationGusts); !(low > -0.0101 && low < x.End && high > x.End && high < 0.0201) {
		t.Errorf("mean %v in [%v, %v]", x.End, low, high)
	}
	if cell := columns[PerturbationGusts].cell(&m); cell != "+0.33 % / 0.33" {
		t.Errorf("cell %q", cell)
	}
	unmeasured := Metrics{Budgets: m.Budgets[1:]}
	if low, high := unmeasured.endInterval(PerturbationGusts); !math.IsNaN(low + high) {
		t.Errorf("an interval [%v, %v] of nothing", low, high)
	}
	if cell := columns[PerturbationGusts].cell(&unmeasured); cell != "not measured" {
		t.Errorf("cell %q", cell)
	}
}

// No ratio is taken to a front of fewer points than the arm's own.
func TestRatioToFinestFront(t *testing.T) {
	front := func(name string, settings int) *Result {
		r := &Result{arm: &Arm{Name: name}, Omegas: make([]float64, settings)}
		for i := range settings {
			r.Outcomes = append(r.Outcomes, []pareto.Point{{DelayS: 100 + float64(i), EnergyJ: 35e3 - float64(i)}})
		}
		r.GustOutcomes = r.Outcomes
		return r
	}
	expert := front(finestTeacherArm, 3)
	for settings, want := range map[int]bool{3: true, 4: false} {
		r := front("arm", settings)
		if m := computeMetrics([]*Result{expert, r}, r, &pareto.ReferenceFronts{}, ""); !math.IsNaN(m.HypervolumeRatio) != want || !math.IsNaN(m.TightRatio) != want || !math.IsNaN(m.GustRatio) != want {
			t.Errorf("%d settings against %d: %+v", settings, len(expert.Omegas), m)
		}
	}
}

// Every size with an interval is drawn, and one without is not.
func TestBySize(t *testing.T) {
	s := &study{Config: Default()}
	row := func(arm string, diff float64) Metrics {
		return Metrics{Arm: arm, Parameters: 1000, Paired: pareto.Paired{Mean: diff, Low: diff - 1e3, High: diff + 1e3}}
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
