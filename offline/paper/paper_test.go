package paper

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/csv"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"prefdt/configs"
	"prefdt/configs/cli"
	"prefdt/offline/command"
	"prefdt/offline/experiment"
	"prefdt/offline/methods"
	"prefdt/offline/offlinetest"
	"prefdt/offline/pareto"
)

// Methods and the published form are declared the same tokens.
func TestTokens(t *testing.T) {
	c := Default()
	if err := c.Check(); err != nil {
		t.Error(err)
	}
	p := c.policies()
	i := slices.IndexFunc(p, func(p *policy) bool { return p.Name == "prefdt" })
	if b := p[i].budget; float64(b.Tokens) != c.Tokens {
		t.Errorf("methods have %d tokens, the published form %v", b.Tokens, c.Tokens)
	}
}

// Every row of the paper's tables has an arm.
func TestRows(t *testing.T) {
	c := Default()
	arms := map[string]bool{}
	for _, a := range c.arms(nil) {
		if arms[a.Name] {
			t.Errorf("two arms are called %q", a.Name)
		}
		// an optional one may not have been measured yet
		if arms[a.Name] = true; a.Description == "" || a.Spends == "" || a.CoreS < 1 && !a.Optional {
			t.Errorf("%+v", a)
		}
	}
	printed := func(rows []row) (n int) {
		for _, r := range rows {
			if !arms[r.Arm] {
				t.Errorf("%s: there is no arm %q", r.Name, r.Arm)
			}
			if r.Printed != nil {
				n++
			}
		}
		return n
	}
	if n, teachers := printed(paperRows.Methods), printed(paperRows.Teachers); n != 15 || teachers != 7 {
		t.Errorf("tab:family has %d rows, tab:incumbent %d", n, teachers)
	}
	for _, r := range paperRows.Removals {
		for _, x := range r.Comparisons {
			if !arms[x.Arm] || !arms[x.Base] {
				t.Errorf("%s compares %+v", r.Module, x)
			}
		}
	}
	if len(paperRows.Removals) != 11 || len(paperRows.Cost) != 5 {
		t.Errorf("tab:ablation has %d rows, tab:unifiedcost %d", len(paperRows.Removals), len(paperRows.Cost))
	}
	conditionsOf := map[string]bool{}
	for _, x := range conditions(link) {
		conditionsOf[x.Name] = true
	}
	for _, r := range paperRows.Link {
		if !conditionsOf[r.Name] {
			t.Errorf("nobody flies %q", r.Name)
		}
	}
	for _, r := range paperRows.Substitution {
		if !conditionsOf[lossName(r.Rate, true)] || !conditionsOf[lossName(r.Rate, false)] {
			t.Errorf("nobody flies %v", r)
		}
	}
	if n := len(conditions(shifts)) - 1; n != 15 || n != len(experiment.Shifts) {
		t.Errorf("%d shifted points", n)
	}
	for _, name := range []string{"published-full-link", "published-full-shifts", "rules-50-link", "rules-50-shifts", "published-fleet4",
		"published-fleet8", "rules-50-fleet4", "rules-50-fleet8",
		"published-full-replan", "published-full-whole", "published-replan", "rules-50-replan",
		"prefdt-arrivals", "prefdt-context1-arrivals", "prefdt-context10-arrivals", "prefdt-context50-arrivals", "even-budgets", "cmdp"} {
		if !arms[name] {
			t.Errorf("there is no arm %q", name)
		}
	}
}

// What an arm learns from is among its needs, in the folder where that is trained as an arm.
func TestNeeds(t *testing.T) {
	c := Default()
	for _, a := range c.arms(nil) {
		var paths []string
		for _, n := range a.Needs {
			paths = append(paths, n.Path)
		}
		if want, checked := map[string][]string{
			"peda": {"train/ppo-plain", "train/peda"}, "peda-weaker": {"train/ppo-weaker", "train/peda-weaker"},
			"ppo-weaker": {"train/ppo-weaker"}, "iql-ppo": {"train/ppo-plain", "train/iql-ppo"},
			"prefdt-rules": {"train/prefdt-rules"}, "iql-archive": {"train/iql-archive"},
			"prefdt-ideal": {"train/ppo-plain", "train/prefdt"},
		}[a.Name]; checked && !slices.Equal(paths, want) {
			t.Errorf("%s needs %q, want %q", a.Name, paths, want)
		}
	}
}

// miniature is a set of seconds, on calibration seeds.
//
//go:embed testdata/miniature.yaml
var miniature string

// run runs the command on a configuration's text.
func run(t *testing.T, ctx context.Context, config string, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	file := offlinetest.Write(t, config, t.TempDir(), "paper.yaml")
	var out, errs bytes.Buffer
	p := cli.Program{Name: "offline", Commands: []cli.Command{{Name: "paper", Run: Command}}}
	status = p.Run(ctx, append([]string{"paper", "-config", file, "-times=false", "-study", t.TempDir()}, args...), &out, &errs)
	return status, out.String(), errs.String()
}

// miniatureConfig is the miniature's configuration.
func miniatureConfig() Config {
	c := Default()
	configs.MustDecode([]byte(miniature), &c)
	return c
}

// A network of other settings is not flown for one of these: its folder is refused.
func TestOtherTraining(t *testing.T) {
	c, dir := miniatureConfig(), t.TempDir()
	offlinetest.Write(t, `"of other settings"`, dir, "train", "iql-archive", "method.json")
	err := newSet(c, nil, dir, io.Discard).Run(t.Context(), experiment.Part{Only: []string{"iql-archive"}, NoTimes: true}, nil)
	call := cli.NewCall("offline paper", nil, io.Discard, io.Discard)
	if status := call.Exit(err); status != cli.ExitUsage || !strings.Contains(err.Error(), "another method, world or settings") {
		t.Errorf("status %d, %v", status, err)
	}
}

// Bad input is one line and status 2, before anything is written.
func TestRefusals(t *testing.T) {
	dir := t.TempDir()
	offlinetest.Write(t, newSet(miniatureConfig(), nil, "", io.Discard).Key, dir, "comparison.json")
	other := strings.Replace(miniature, "seeds: 2", "seeds: 3", 1)
	for name, bad := range map[string]struct {
		config string
		args   []string
		want   string
	}{
		"without -resume":   {miniature, []string{"-out", dir}, "holds a comparison: add -resume"},
		"another key":       {other, []string{"-out", dir, "-resume"}, "is a comparison with another configuration"},
		"another fleet":     {strings.Replace(miniature, "context: 4", "context: 4, aircraft: 4", 1), nil, "the mission has 2 aircraft"},
		"nothing to merge":  {miniature, []string{"merge", "-out", filepath.Join(t.TempDir(), "new")}, "holds no comparison"},
		"training seeds":    {strings.Replace(miniature, "100000", "5", 1), nil, "first_seed is 5"},
		"unknown key":       {"sedes: 3\n", nil, "sedes"},
		"no checkpoint":     {miniature, []string{"-published", dir}, "manifest.json"},
		"another form's":    {miniature, []string{"-published", "../../configs/checkpoint"}, "is no checkpoint of the published form"},
		"a word":            {miniature, []string{"merged"}, `unexpected "merged"`},
		"seeds that wrap":   {strings.Replace(miniature, "100000", "18446744073709551615", 1), nil, "first_seed is"},
		"one arm twice":     {miniature + "  iql_betas: [1, 1]\n", nil, "each once"},
		"no study":          {miniature, []string{"-study", filepath.Join(dir, "nowhere")}, "nowhere"},
		"a list of no form": {miniature, []string{"-list", "-published", dir}, "manifest.json"},
	} {
		before := offlinetest.FolderHash(t, dir, bytes.Clone)
		args := bad.args
		if !slices.Contains(args, "-out") {
			args = append(args, "-out", filepath.Join(dir, "none"))
		}
		status, stdout, stderr := run(t, t.Context(), bad.config, args...)
		if status != cli.ExitUsage || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, bad.want) || stdout != "" {
			t.Errorf("%s: status %d, %q, %q, want %q", name, status, stderr, stdout, bad.want)
		}
		if offlinetest.FolderHash(t, dir, bytes.Clone) != before {
			t.Errorf("%s: a file was changed", name)
		}
	}
}

// A form that is trained longest with the declared tokens is the declared one, under one name.
func TestOneForm(t *testing.T) {
	c := Default()
	c.FullTokens = c.Tokens
	for _, a := range c.arms(nil) {
		if strings.HasPrefix(a.Name, fullArm) {
			t.Errorf("%s is %s trained for as long", a.Name, declaredArm)
		}
	}
	if rows := c.rows(paperRows.Methods); len(rows) != len(paperRows.Methods)-1 || rows[0].Arm != declaredArm || rows[0].Printed == nil ||
		rows[1].Arm != "published-whole" {
		t.Errorf("rows of one network under two names: %+v", rows[:2])
	}
}

// What is trained longest, and for how long, changes the key of its own arms alone: others'
// results stand when it has been trained on.
func TestFullTokens(t *testing.T) {
	keys := func(tokens float64) (set string, arms map[string]string) {
		c := Default()
		c.FullTokens = tokens
		s := newSet(c, nil, t.TempDir(), io.Discard)
		arms = map[string]string{}
		for _, a := range s.Arms {
			arms[a.Name] = a.Key()
		}
		return s.Key, arms
	}
	set, before := keys(100e6)
	again, after := keys(440e6)
	if set != again {
		t.Error("the comparison has another key")
	}
	for name := range before {
		if full := strings.HasPrefix(name, "published-full"); full == (before[name] == after[name]) {
			t.Errorf("%s: of what is trained longest: %v, the same key: %v", name, full, !full)
		}
	}
}

// synthetic returns a set with results of a line of outcomes from the least delay on, for each
// arm: its least and its largest delay, and how much energy it takes above the line.
func synthetic(t *testing.T, arms map[string][3]float64) *set {
	c := Default()
	c.Seeds, c.FewSeeds, c.BudgetSeeds, c.Settings = 4, 4, 4, 5
	return syntheticOf(t, c, arms)
}

// syntheticOf is the same with a configuration.
func syntheticOf(t *testing.T, c Config, arms map[string][3]float64) *set {
	s := newSet(c, nil, t.TempDir(), io.Discard)
	for _, p := range s.policies {
		x, made := arms[p.Name]
		if !made {
			continue
		}
		sweep := experiment.Sweep{Name: nominal, SpeedMPS: make([]float64, c.Settings)}
		for k := range c.Settings {
			w := float64(k) / float64(c.Settings-1)
			var row []pareto.Point
			for seed := range c.Seeds {
				row = append(row, pareto.Point{DelayS: x[0] + w*(x[1]-x[0]) + float64(seed),
					EnergyJ: 40e3 - 13e3*w + x[2] + 10*float64(seed*seed)*x[2]})
			}
			sweep.Settings, sweep.Outcomes = append(sweep.Settings, w), append(sweep.Outcomes, row)
		}
		r := experiment.Result{Key: s.key(p, ownSettings), Record: &experiment.Record{Version: experiment.Before},
			Sweeps: []experiment.Sweep{sweep}}
		if err := command.ReplaceJSON(filepath.Join(s.Dir, p.Name, "result.json"), "", r); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// readTable reads a CSV of a report: of each row the cells by column.
func readTable(t *testing.T, path string) (rows []map[string]string) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := csv.NewReader(bytes.NewReader(raw)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range lines[1:] {
		row := map[string]string{}
		for i, head := range lines[0] {
			if _, twice := row[head]; twice {
				t.Errorf("%s has two columns %q", path, head)
			}
			row[head] = line[i]
		}
		rows = append(rows, row)
	}
	return rows
}

// The report has the paper's figures beside ours, the difference and the test, the verdicts of
// the criterion against the paper's, and says what was not run.
func TestReport(t *testing.T) {
	s := synthetic(t, map[string][3]float64{"rules-50": {100, 700, 0}, "published": {100, 690, 20}, "prefdt": {120, 400, 50},
		"prefdt-padded": {130, 390, 80}, "iql-archive": {110, 500, 30}, "random": {500, 600, 30e3}})
	// A study's folder, whose flagship ends 1 % below its budget, and the pacer on it.
	studied := t.TempDir()
	for arm, energyJ := range map[string]float64{"flagship": 32.67e3, "even": 33e3} {
		r := experiment.Result{Key: "of " + arm, Record: &experiment.Record{Version: experiment.Before}}
		r.Budgets = []experiment.BudgetResult{{Perturbation: experiment.PerturbationNone, BudgetJ: 33e3,
			Outcomes: []pareto.Point{{DelayS: 90, EnergyJ: energyJ}}}}
		if arm == "flagship" {
			r.Sweeps = []experiment.Sweep{{Name: experiment.EvenSettings, Settings: []float64{0, 1},
				Outcomes: [][]pareto.Point{{{DelayS: 80, EnergyJ: 40e3}}, {{DelayS: 700, EnergyJ: 27e3}}}}}
		}
		if err := command.ReplaceJSON(filepath.Join(studied, arm, "result.json"), "", r); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if s.study, err = readStudy(studied); err != nil {
		t.Fatal(err)
	}
	if err := s.report(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	report := filepath.Join(s.Dir, "report")
	table := func(name string) []map[string]string { return readTable(t, filepath.Join(report, name)) }
	methods := table("methods.csv")
	find := func(arm string) map[string]string {
		i := slices.IndexFunc(methods, func(r map[string]string) bool { return r["arm"] == arm })
		return methods[i]
	}
	if r := find("sca-mpc"); r["HV"] != notRun || r["paper's HV"] != "99.94" || r["difference"] != "" || r["record"] != "" {
		t.Errorf("what was not run: %v", r)
	}
	r := find("prefdt")
	figures := s.newTables(mustResults(t, s)).figures
	hv := mean(figures["prefdt"].Hypervolumes)
	if r["HV"] != fmt.Sprintf("%.3f", hv) || r["difference"] != fmt.Sprintf("%+.2f", hv-90.28) || r["n"] != "4" ||
		r["criterion"] != "no (reach)" || r["pairs"] != "4" {
		t.Errorf("%v, hypervolume %v", r, hv)
	}
	if want := pareto.Compare(figures["prefdt"].Hypervolumes, figures["published"].Hypervolumes); r["HV less published"] != fmt.Sprintf(
		"%+.3f", want.Mean) || r["record"] != experiment.Before || r["low"] != fmt.Sprintf("%+.3f", want.Low) {
		t.Errorf("against the published form: %v, want %v", r, want)
	}
	if r := find("published"); r["criterion"] != "yes" || r["paper's HV"] != "-" || r["low"] != "" {
		t.Errorf("%v", r)
	}
	// 920 s x 101 kJ and, below 40 kJ, 300 s x 13 kJ.
	if r := find("flagship"); r["class"] != "ours" || r["HV"] != "96.820" || r["criterion"] != "yes" || r["paper's HV"] != "-" {
		t.Errorf("our own policy: %v", r)
	}
	shown := 0
	for _, r := range table("budgets.csv") {
		if shown++; strings.HasPrefix(r["arm"], "our shipped policy") && (r["calm: |end|, %"] != "1.00" || r["calm: over"] != "0.00") {
			t.Errorf("its budgets: %v", r)
		}
	}
	if shown < len(paperRows.Ours) {
		t.Errorf("%d rows of budgets", shown)
	}
	if len(methods) != len(paperRows.Methods)+3 {
		t.Errorf("%d rows", len(methods))
	}
	raw, err := os.ReadFile(filepath.Join(report, "paper.md"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(raw)
	for _, want := range []string{
		"IQL+omega (archive corpus) *", "The paper's sign at all points: ", "![Fronts of the methods up to 45 kJ](fronts.png)",
		"| not run |", "not timed", s.newTables(mustResults(t, s)).reference.Hash[:12],
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the report lacks %q", want)
		}
	}
	if strings.Contains(text, "- `prefdt`: ") {
		t.Error("a sentence rests on a result of a version before")
	}
	x := s.newTables(mustResults(t, s))
	x.results["prefdt"].Record.Version = "v1"
	var recorded experiment.Table
	if x.methodTable(&recorded); !strings.Contains(strings.Join(recorded.After, "\n"),
		"; by the criterion it is \"no (reach)\", the paper's \"yes\"") {
		t.Errorf("no sentence on what has a record: %q", recorded.After)
	}
	nothing, err := s.newTables(nil).all() // nothing has been measured at all
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range nothing {
		table(x.Name + ".csv")
	}
	ablations := table("ablations.csv")
	if r := ablations[0]; r["arm"] != "prefdt-padded" || r["taken from"] != "prefdt" || !strings.HasPrefix(r["HV less there"], "-") ||
		r["the paper"] == "" {
		t.Errorf("%v", r)
	}
	measured, err := s.newTables(mustResults(t, s)).all()
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range append(nothing, measured...) { // every cell has a column
		for _, cells := range x.Rows {
			for key := range cells {
				if !slices.ContainsFunc(x.Columns, func(c experiment.Column) bool { return c.Key == key }) {
					t.Errorf("%s has no column %q", x.Name, key)
				}
			}
		}
	}
}

// The stored results are those that the committed table of methods is made of. No network is with them.
func TestStoredResults(t *testing.T) {
	if testing.Short() {
		t.Skip("ten seconds")
	}
	dir, archive := t.TempDir(), "results/results.tar.gz"
	var out, errs bytes.Buffer
	call := cli.NewCall("offline paper", []string{"merge", "-out", dir, "-times=false", "-published", "../../configs/paper", "-study",
		archive + "/study", archive + "/arms"}, &out, &errs)
	if status := call.Exit(Command(t.Context(), call)); status != 1 ||
		!strings.Contains(errs.String(), "2 of 80 arms are not measured yet, and the report is without them: rules-50-link, "+
			"rules-50-shifts") {
		t.Fatalf("status %d, %s", status, &errs)
	}
	made, committed := readTable(t, filepath.Join(dir, "report", "methods.csv")), readTable(t, "results/methods.csv")
	if len(made) != len(committed) {
		t.Fatalf("%d rows, in the committed table %d", len(made), len(committed))
	}
	for i, r := range made {
		for _, column := range []string{"arm", "HV", "std", "tight HV", "fidelity", "reach, s", "HV less published"} {
			if r[column] != committed[i][column] {
				t.Errorf("%s: %s is %q, in the committed table %q", r["arm"], column, r[column], committed[i][column])
			}
		}
	}
}

// The committed differences and methods over training runs are those of the stored runs.
func TestStoredRuns(t *testing.T) {
	if testing.Short() {
		t.Skip("ten seconds")
	}
	t.Chdir("../..") // the arms with the whole budget name a checkpoint from there
	const results = "offline/paper/results"
	out := t.TempDir()
	args := []string{"runs", "-out", out, "-beside", results + "/variants/whole/paper.yaml=" + results + "/results.tar.gz/arms"}
	for _, run := range []string{"run-1", "run-2", "run-3"} {
		args = append(args, results+"/variants/"+run+"/paper.yaml="+results+"/results.tar.gz/runs/"+run)
	}
	var stdout, errs bytes.Buffer
	call := cli.NewCall("offline paper", args, &stdout, &errs)
	if status := call.Exit(Command(t.Context(), call)); status != 0 {
		t.Fatalf("status %d, %s", status, &errs)
	}
	report := offlinetest.Must(os.ReadFile(filepath.Join(out, "report", "runs.md")))(t)
	if committed := offlinetest.Must(os.ReadFile(results + "/runs.md"))(t); !bytes.Equal(report, committed) {
		t.Error("runs.md is not the committed one")
	}
	for name, rows := range map[string]int{"runs.csv": 18, "run-methods.csv": 12} {
		made, committed := readTable(t, filepath.Join(out, "report", name)), readTable(t, results+"/"+name)
		if len(made) != rows || !slices.EqualFunc(made, committed, maps.Equal) {
			t.Errorf("%s: %v\nin the committed table %v", name, made, committed)
		}
	}
}

func mustResults(t *testing.T, s *set) map[string]*experiment.Result {
	results, err := s.Results()
	if err != nil {
		t.Fatal(err)
	}
	return results
}

// Budgets, the link and interactions follow from their sweeps by hand.
func TestFigures(t *testing.T) {
	point := func(delayS, energyJ float64) []pareto.Point {
		return []pareto.Point{{DelayS: delayS, EnergyJ: energyJ}}
	}
	r := &experiment.Result{Sweeps: []experiment.Sweep{
		// 500 s x 100 kJ
		{Name: nominal, Settings: []float64{0}, Outcomes: [][]pareto.Point{point(500, 41e3)}},
		// four fifths of it
		{Name: lossName(0.4, false), Settings: []float64{0}, Outcomes: [][]pareto.Point{point(600, 41e3)}},
		{Name: trainedBudgets, Settings: []float64{30e3, 40e3}, Outcomes: [][]pareto.Point{point(1, 33e3), point(1, 38e3)}}, // +10 %, -5 %
	}}
	if kept := retained(r, lossName(0.4, false), pareto.Reference); len(kept) != 1 || math.Abs(kept[0]-0.8) > 1e-12 {
		t.Errorf("retained %v", kept)
	}
	if kept := retained(r, lossName(0.2, false), pareto.Reference); kept != nil {
		t.Errorf("what was not flown retained %v", kept)
	}
	if e := relativeError(r.Totals(trainedBudgets), 1); math.Abs(e-0.075) > 1e-12 {
		t.Errorf("error %v", e)
	}
	calm := func(budgetJ, energyJ float64) experiment.BudgetResult {
		return experiment.BudgetResult{Perturbation: experiment.PerturbationNone, BudgetJ: budgetJ, Outcomes: point(1, energyJ)}
	}
	r.Budgets = []experiment.BudgetResult{calm(33e3, 1), calm(29e3, 30e3), calm(39e3, 35e3)}
	if g := gain(r); math.Abs(g-0.5) > 1e-12 {
		t.Errorf("gain %v", g)
	}
	// An arm is measured against the front of the others, which the better of two does not reach itself.
	alone := &tables{pool: []pareto.Contributor{{Arm: "good", Outcomes: [][]pareto.Point{point(10, 10)}},
		{Arm: "bad", Outcomes: [][]pareto.Point{point(13, 14)}}}}
	if f := alone.figuresOf("good", &experiment.Sweep{Settings: []float64{0}, Outcomes: alone.pool[0].Outcomes}, 2, false,
		none); mean(f.igds) != 5 {
		t.Errorf("distance from the others' front: %v, want 5", f.igds)
	}
	reference := []pareto.Point{{DelayS: 3, EnergyJ: 4}, {DelayS: 0, EnergyJ: 1}}
	if d := pareto.Distance([]pareto.Point{{DelayS: 0, EnergyJ: 0}}, reference, 1, 1); d != 3 {
		t.Errorf("distance %v", d)
	}
}

// Differences follow from the arms by hand, at each reference point; and the rank by it is another one where the volumes say so.
func TestReferences(t *testing.T) {
	// The corner of a lies at 100 s and 130 kJ, which counts at the wide point alone; that of b at 200 s and 35 kJ everywhere.
	s := synthetic(t, map[string][3]float64{"published-full": {100, 110, 88e3}, "prefdt": {200, 700, 0}, "peda": {300, 700, 0}})
	x, err := s.newTables(mustResults(t, s)).all()
	if err != nil {
		t.Fatal(err)
	}
	find := func(table, column, name string) experiment.Row {
		i := slices.IndexFunc(x, func(x *experiment.Table) bool { return x.Name == table })
		k := slices.IndexFunc(x[i].Rows, func(r experiment.Row) bool { return r[column] == name })
		if k < 0 {
			t.Fatalf("%s has no row %q", table, name)
		}
		return x[i].Rows[k]
	}
	wide, tight := referenceName(pareto.Reference), referenceName(pareto.TightReference)
	if r := find("references", "arm", "published-full"); r[tight] != "0.000 (3)" ||
		r["record"] != experiment.Before || r["paper's HV"] != 99.47 {
		t.Errorf("%v", r)
	}
	if r := find("references", "arm", "peda"); r["rank"] != "2" && r["rank"] != "2 to 3, depends on the point" {
		t.Errorf("%v", r)
	}
	if r := find("references", "arm", "prefdt"); !strings.HasSuffix(r[wide].(string), "(1)") ||
		!strings.HasSuffix(r[tight].(string), "(1)") {
		t.Errorf("%v", r)
	}
	// The paper has published, prefdt, peda in this order; here it is prefdt, peda, published at both points.
	if r := find("references", "arm", "rank correlation with the paper, 3 rows"); r[wide] != "-0.50" || r[tight] != "-0.50" {
		t.Errorf("%v", r)
	}
	if r := find("conclusions", "difference", "`peda` less `published-full`"); r["the paper's sign at"] != "0 of 9" ||
		r[tight].(float64) <= 0 || r["n"] != 4 {
		t.Errorf("%v", r)
	}
	if r := find("conclusions", "difference", "`sca-mpc` less `published-full`"); r["the paper's sign at"] != notRun {
		t.Errorf("%v", r)
	}
	other := s.newTables(mustResults(t, s))
	for arm, hv := range map[string]float64{"prefdt-context50": 9, "omega-bc-context1": 5, "prefdt-context1": 5.5,
		"omega-bc-context50": 4} {
		other.results[arm] = &experiment.Result{Record: &experiment.Record{Version: experiment.Before}, Sweeps: []experiment.Sweep{{
			Name: nominal, Settings: []float64{0},
			Outcomes: [][]pareto.Point{{{DelayS: 719, EnergyJ: 39e3 - 1e6*hv}, {DelayS: 719, EnergyJ: 39e3 - 1e6*hv}}}}}}
	}
	var y experiment.Table
	other.conclusionTable(&y)
	k := slices.IndexFunc(y.Rows, func(r experiment.Row) bool { return strings.HasPrefix(r["difference"].(string), "Context of 50") })
	if r := y.Rows[k]; math.Abs(r[tight].(float64)-4.5) > 1e-9 || r["the paper's sign at"] != "9 of 9" {
		t.Errorf("(9-5.5) less (4-5): %v", r)
	}
}

// No sentence rests on a result that nobody can say how it was measured, and none on one beside such a result.
func TestRecorded(t *testing.T) {
	of := func(version string) *experiment.Result {
		return &experiment.Result{Record: &experiment.Record{Version: version}}
	}
	x := &tables{set: &set{}, results: map[string]*experiment.Result{
		"old": of(experiment.Before), "new": of("v1, commit 0123456789abcdef of today, go"), "devel": of("(devel)"),
	}}
	for want, arms := range map[string][]string{
		"0123456789ab": {"new"}, experiment.Before: {"new", "old"}, "": {"none"}, "(devel), 0123456789ab": {"new", "devel"},
	} {
		if by := x.measuredBy(arms...); by != want {
			t.Errorf("%v was measured by %q, want %q", arms, by, want)
		}
		if x.recorded(arms...) != (want != "" && want != experiment.Before) {
			t.Errorf("%v: recorded %v", arms, x.recorded(arms...))
		}
	}
	if x.recorded("new", "none") {
		t.Error("a sentence on what was not measured")
	}
}

// What has been spent counts a training run once, however many arms fly its network.
func TestSpent(t *testing.T) {
	s := newSet(Default(), nil, t.TempDir(), io.Discard)
	x := &tables{set: s, results: map[string]*experiment.Result{"prefdt": {}, "prefdt-budgets": {}, "prefdt-ideal": {}, "iql-archive": {},
		"rules-50": {}, "rules-50-link": {}, "random": {}}}
	learned, coreS := x.spent()
	if want := (methods.Budget{EnvironmentSteps: 600_000, Transitions: 76_800_000, Tokens: 31_200_000}); learned != want {
		t.Errorf("spent %+v, want %+v", learned, want)
	}
	want := 0
	paths := map[string]bool{}
	for _, a := range s.Arms {
		if x.results[a.Name] != nil {
			want += a.CoreS
			for _, n := range a.Needs {
				if !paths[n.Path] {
					want += n.CoreS
				}
				paths[n.Path] = true
			}
		}
	}
	if coreS != want {
		t.Errorf("took %d s of a core, want %d", coreS, want)
	}
}
