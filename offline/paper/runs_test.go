package paper

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"prefdt/configs"
	"prefdt/configs/cli"
	"prefdt/offline/experiment"
	"prefdt/offline/offlinetest"
	"prefdt/offline/pareto"
)

// runConfig is the configuration of a training run with these seeds of PPO and of what learns from its flights.
func runConfig(ppo, peda int) string {
	return fmt.Sprintf("seeds: 4\nfew_seeds: 4\nbudget_seeds: 4\nsettings: 5\nform: {flights: 50000}\n"+
		"methods: {iql_betas: [0.3, 1], ppo: {seed: %d}, peda: {steps: 3250, seed: %d, corpus: {seed: %d}}}\n", ppo, peda, peda)
}

// runOf makes the folder of a training run, as CONFIG=FOLDER, and returns it with its tables.
func runOf(t *testing.T, config string, arms map[string][3]float64) (word string, x *tables) {
	c := Default()
	configs.MustDecode([]byte(config), &c)
	s := syntheticOf(t, c, arms)
	return offlinetest.Write(t, config, t.TempDir(), "run.yaml") + "=" + s.Dir, &tables{set: s, results: mustResults(t, s)}
}

// runs runs "offline paper runs" and returns the rows of its tables, by difference and by arm, and the report.
func runs(t *testing.T, words ...string) (status int, rows map[string]map[string]string, text, stderr string) {
	out := t.TempDir()
	var stdout, errs bytes.Buffer
	call := cli.NewCall("offline paper", append([]string{"runs", "-out", out}, words...), &stdout, &errs)
	if status = call.Exit(Command(t.Context(), call)); status != 0 {
		if files, err := os.ReadDir(out); err != nil || len(files) > 0 {
			t.Errorf("files of a refused command: %v, %v", files, err)
		}
		return status, nil, "", errs.String()
	}
	rows = map[string]map[string]string{}
	for _, x := range [][2]string{{"runs.csv", "difference"}, {"run-methods.csv", "arm"}} {
		for _, row := range readTable(t, filepath.Join(out, "report", x[0])) {
			rows[row[x[1]]] = row
		}
	}
	return status, rows, stdout.String(), ""
}

// A difference over three runs is the mean of theirs with the interval of Student's t; a run without one of its methods does not
// count, and what a single run has is no row.
func TestRuns(t *testing.T) {
	var words []string
	var each []*tables
	for i, worseJ := range []float64{100, 300, 800} { // what peda-weaker takes above prefdt-weaker
		arms := map[string][3]float64{"prefdt-weaker": {120, 600, 0}, "peda-weaker": {120, 600, worseJ}}
		if i > 0 {
			arms["omega-bc-weaker"] = [3]float64{130, 500, 50}
		}
		if i == 2 {
			arms["prefdt"], arms["omega-bc"] = [3]float64{120, 600, 0}, [3]float64{120, 600, 10}
		}
		word, x := runOf(t, runConfig(1001+i, 101+i), arms)
		words, each = append(words, word), append(each, x)
	}
	status, rows, text, stderr := runs(t, words...)
	if status != 0 {
		t.Fatal(stderr)
	}
	const name = "`prefdt-weaker` less `peda-weaker`"
	r := rows[name]
	if r["runs"] != "3" || r["n"] != "4" || r["the paper"] != "+7.41" || len(rows) != 2+3 { // and three arms
		t.Errorf("%d differences, %v", len(rows), r)
	}
	for _, p := range references {
		var d []float64
		for _, x := range each {
			d = append(d, mean(pareto.Differences(x.at("prefdt-weaker", p), x.at("peda-weaker", p))))
		}
		m := (d[0] + d[1] + d[2]) / 3
		s := math.Sqrt(((d[0]-m)*(d[0]-m) + (d[1]-m)*(d[1]-m) + (d[2]-m)*(d[2]-m)) / 2)
		// 4.302653 is the quantile of Student's t with two degrees of freedom at 0.975.
		if want := fmt.Sprintf("%+.2f ± %.2f", m, 4.302653*s/math.Sqrt(3)); r[referenceName(p)] != want {
			t.Errorf("%s: %q, want %q of %v", referenceName(p), r[referenceName(p)], want, d)
		}
	}
	if r := rows["`prefdt-weaker` less `omega-bc-weaker`"]; r["runs"] != "2" {
		t.Errorf("what two runs have: %v", r)
	}
	for _, want := range []string{"`prefdt-weaker` 7.8M tokens", "methods.peda.corpus.seed, methods.peda.seed, methods.ppo.seed."} {
		if !strings.Contains(text, want) {
			t.Errorf("the report lacks %q: %s", want, text)
		}
	}
}

// A method's figures over runs are their mean and interval; ranks are among the arms that the paper and all runs have, over all
// points; and beside them stands one run of another budget, with the interval that holds one more run.
func TestRunMethods(t *testing.T) {
	var words []string
	var each []*tables
	for i, worseJ := range []float64{100, 300, 800} {
		arms := map[string][3]float64{"prefdt": {120, 600, 0}, "peda": {120, 600, worseJ}, "ppo-plain": {110, 600, 0},
			"omega-bc": {120, 600, 200}, "rules-21": {100, 600, 0}}
		if i == 0 {
			arms["iql-ppo"] = [3]float64{120, 600, 0}
		}
		word, x := runOf(t, runConfig(1001+i, 101+i), arms)
		words, each = append(words, word), append(each, x)
	}
	longer := strings.Replace(runConfig(1, 1), "3250", "13000", 1)
	beside, whole := runOf(t, longer, map[string][3]float64{"peda": {120, 600, 50}, "ppo-plain": {110, 600, 0}})
	status, rows, text, stderr := runs(t, append([]string{"-beside", beside}, words...)...)
	if status != 0 {
		t.Fatal(stderr)
	}
	for arm, rank := range map[string]string{"ppo-plain": "1", "prefdt": "2", "peda": "3 to 4", "omega-bc": "3 to 4"} {
		if got := rows[arm]["rank"]; got != rank {
			t.Errorf("%s: rank %q, want %q", arm, got, rank)
		}
	}
	if rows["iql-ppo"] != nil || rows["rules-21"] != nil {
		t.Errorf("arms of a single run, or without training: %v, %v", rows["iql-ppo"], rows["rules-21"])
	}
	peda := rows["peda"]
	for _, p := range []pareto.Point{pareto.Reference, pareto.TightReference} {
		var hv [3]float64
		for i, x := range each {
			hv[i] = mean(x.at("peda", p))
		}
		m := (hv[0] + hv[1] + hv[2]) / 3
		s := math.Sqrt(((hv[0]-m)*(hv[0]-m) + (hv[1]-m)*(hv[1]-m) + (hv[2]-m)*(hv[2]-m)) / 2)
		if want := fmt.Sprintf("%.2f ± %.2f", m, 4.302653*s/math.Sqrt(3)); peda[referenceName(p)] != want {
			t.Errorf("%s: %q, want %q", referenceName(p), peda[referenceName(p)], want)
		}
		there := mean(whole.at("peda", p))
		want := fmt.Sprintf("%.2f, %+.2f ± %.2f", there, there-m, 4.302653*s*math.Sqrt(1+1.0/3))
		if got := peda["there at "+referenceName(p)]; got != want {
			t.Errorf("there at %s: %q, want %q", referenceName(p), got, want)
		}
	}
	if peda["spends"] != "7.8M tokens" || peda["spends there"] != "31.2M tokens" || rows["ppo-plain"]["spends there"] != "" {
		t.Errorf("%q, there %q; of the same budget %q", peda["spends"], peda["spends there"], rows["ppo-plain"]["spends there"])
	}
	if !strings.Contains(text, "rank correlation with the paper, 4 arms") {
		t.Error(text)
	}
}

// An interval that holds 0 has no sign, whatever the mean.
func TestRunsSign(t *testing.T) {
	var words []string
	for i, worseJ := range []float64{-20, 400} {
		word, _ := runOf(t, runConfig(1+i, 1+i), map[string][3]float64{"prefdt": {120, 600, 0}, "omega-bc": {120, 600, worseJ}})
		words = append(words, word)
	}
	status, rows, _, stderr := runs(t, words...)
	r := rows["Vector return-to-go: `prefdt` less `omega-bc`"]
	if status != 0 || r["the paper's sign at"] != "0 of 9" || !strings.HasPrefix(r[referenceName(pareto.Reference)], "+") {
		t.Errorf("status %d, %s, %v", status, stderr, r)
	}
}

// Runs of different recipes, one run given twice, and what is no run are refused before anything is written.
func TestRunsRefused(t *testing.T) {
	arms := map[string][3]float64{"prefdt": {120, 600, 0}, "omega-bc": {120, 600, 10}}
	first, _ := runOf(t, runConfig(1, 1), arms)
	second, _ := runOf(t, runConfig(2, 2), arms)
	longer, _ := runOf(t, strings.Replace(runConfig(3, 3), "3250", "6500", 1), arms)
	others, _ := runOf(t, runConfig(4, 4), map[string][3]float64{"prefdt": {120, 600, 0}})
	config, folder, _ := strings.Cut(first, "=")
	_, foreign, _ := strings.Cut(second, "=")
	for name, bad := range map[string]struct {
		words []string
		want  string
	}{
		"one run":                {[]string{first}, "1 training runs: want two"},
		"one run twice":          {[]string{first, first}, "the same training run of"},
		"another recipe":         {[]string{first, longer}, "differ in more than seeds of training"},
		"another configuration":  {[]string{first, config + "=" + foreign}, "was measured with other flags"},
		"no configuration":       {[]string{first, folder}, "is no training run"},
		"no folder":              {[]string{first, config + "=" + filepath.Join(folder, "nowhere")}, "nowhere"},
		"nothing in common":      {[]string{first, others}, "no difference has both of its methods"},
		"no run beside":          {[]string{"-beside", "nothing", first, second}, "is no training run"},
		"a configuration of all": {[]string{"-config", config, first, second}, "runs takes no -config"},
	} {
		status, _, _, stderr := runs(t, bad.words...)
		if status != cli.ExitUsage || !strings.Contains(stderr, bad.want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: status %d, %q, want %q", name, status, stderr, bad.want)
		}
	}
}

// What learns among the differences over runs is in the paper's table of methods.
func TestRunConclusions(t *testing.T) {
	s := newSet(Default(), nil, t.TempDir(), &bytes.Buffer{})
	x := &tables{set: s}
	var texts []string
	for _, c := range x.runConclusions() {
		for _, arm := range slices.Concat(c.Plus, c.Minus) {
			if !slices.ContainsFunc(s.Arms, func(a experiment.Arm) bool { return a.Name == arm }) {
				t.Errorf("%s: there is no arm %q", c.Text, arm)
			}
		}
		if math.IsNaN(c.Paper) || slices.Contains(texts, c.Text) {
			t.Errorf("%+v", c)
		}
		texts = append(texts, c.Text)
	}
	if len(texts) != len(x.conclusions())+len(paperRows.AmongPPO)+len(weakerRows)-1 {
		t.Errorf("%d differences", len(texts))
	}
}
