package paper

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"prefdt/configs/cli"
	"prefdt/offline/command"
	"prefdt/offline/experiment"
	"prefdt/offline/pareto"
)

// trainingRun is what one run of the methods gave, from seeds of its own.
type trainingRun struct {
	folder string
	*tables
}

// runsCommand is "offline paper runs": differences between methods over training runs, each named CONFIG=FOLDER.
// besideWord, which may be "", names one of another budget in the same way, which the methods' table has beside them.
func runsCommand(call *cli.Call, words []string, besideWord, out string) error {
	for _, name := range []string{"config", "published", "study", "only", "shard", "limit", "resume", "list", "times"} {
		if call.Given(name) {
			return cli.BadInputf("runs takes no -%s: each run has a configuration and a folder, as in run1.yaml=out1", name)
		}
	}
	if len(words) < 2 {
		return cli.BadInputf("%d training runs: want two at least, as in run1.yaml=out1 run2.yaml=out2", len(words))
	}
	var runs []trainingRun
	for _, word := range words {
		r, err := readRun(call, word)
		if err != nil {
			return cli.BadInput(err)
		}
		runs = append(runs, r)
	}
	seeds, err := checkRuns(runs)
	if err != nil {
		return cli.BadInput(err)
	}
	var beside trainingRun
	if besideWord != "" {
		if beside, err = readRun(call, besideWord); err != nil {
			return cli.BadInput(err)
		}
	}
	read, err := experiment.ReadTables(tablesYAML)
	if err != nil {
		return err
	}
	differences, methods := read["runs"], read["run-methods"]
	fillRuns(&differences, runs, seeds)
	fillRunMethods(&methods, runs, beside.tables)
	if len(differences.Rows) == 0 {
		return cli.BadInputf("no difference has both of its methods in two runs")
	}
	b, paths := &strings.Builder{}, []string{}
	fmt.Fprint(b, "# The paper's methods over training runs\n\nMade by `offline paper runs`.\n")
	for _, x := range []*experiment.Table{&differences, &methods} {
		path := filepath.Join(out, "report", x.Name+".csv")
		if err := command.ReplaceFile(path, x.WriteCSV); err != nil {
			return err
		}
		x.WriteMarkdown(b)
		paths = append(paths, path)
	}
	if err := command.ReplaceFile(filepath.Join(out, "report", "runs.md"), func(w io.Writer) error {
		_, err := io.WriteString(w, b.String())
		return err
	}); err != nil {
		return err
	}
	if call.Given("json") {
		return call.PrintJSON(map[string]any{"runs": len(runs), "differences": len(differences.Rows), "table": paths[0],
			"methods": len(methods.Rows), "methods_table": paths[1]})
	}
	_, err = io.WriteString(call.Stdout, b.String())
	return err
}

// readRun reads a run's results, and refuses those that were not measured with its configuration.
func readRun(call *cli.Call, word string) (r trainingRun, err error) {
	config, folder, found := strings.Cut(word, "=")
	if !found || config == "" || folder == "" {
		return r, fmt.Errorf("%q is no training run: want its configuration and its folder, as in run1.yaml=out1", word)
	}
	c := Default()
	if err := call.Config(config, &c); err != nil {
		return r, err
	}
	full, err := c.loadPublished()
	if err != nil {
		return r, err
	}
	dir, done, err := experiment.OpenFolder(folder)
	if err != nil {
		return r, err
	}
	defer done()
	if _, err := os.Stat(dir); err != nil {
		return r, err
	}
	s := newSet(c, full, dir, io.Discard)
	results, err := s.Results()
	if err == nil && len(results) == 0 {
		err = fmt.Errorf("%s has no results", folder)
	}
	return trainingRun{folder, &tables{set: s, results: results}}, err
}

// checkRuns refuses runs of different recipes, and one that is given twice. It returns the names of the seeds that all runs have
// of their own, as in methods.ppo.seed.
func checkRuns(runs []trainingRun) (own []string, err error) {
	var recipes []string
	drawn := map[string]map[string]bool{} // by name of a seed, its values
	for _, r := range runs {
		recipe, seeds := splitSeeds(&r.Config)
		recipes = append(recipes, recipe)
		for name, value := range seeds {
			if drawn[name] == nil {
				drawn[name] = map[string]bool{}
			}
			drawn[name][value] = true
		}
	}
	for i, r := range runs {
		if recipes[i] != recipes[0] {
			return nil, fmt.Errorf("%s and %s differ in more than seeds of training: runs are of one configuration", runs[0].folder,
				r.folder)
		}
		for _, before := range runs[:i] {
			for name, x := range r.results {
				if y := before.results[name]; y != nil && x.Key == y.Key && learns(r.Arm(name)) {
					return nil, fmt.Errorf("%s and %s have the same training run of %s: give each run seeds of its own", before.folder,
						r.folder, name)
				}
			}
		}
	}
	for name, values := range drawn {
		if len(values) == len(runs) {
			own = append(own, name)
		}
	}
	slices.Sort(own)
	return own, nil
}

// learns reports whether an arm's policy is trained in the folder.
func learns(a *experiment.Arm) bool {
	return slices.ContainsFunc(a.Needs, func(n experiment.Need) bool { return strings.HasPrefix(n.Path, trainingPath("")) })
}

// splitSeeds returns a configuration as JSON without its seeds of training, and these by name.
func splitSeeds(c *Config) (recipe string, seeds map[string]string) {
	raw, err := json.Marshal(c)
	if err != nil {
		panic(err) // a checked configuration
	}
	var all any
	if err := json.Unmarshal(raw, &all); err != nil {
		panic(err)
	}
	seeds = map[string]string{}
	var take func(name string, x any)
	take = func(name string, x any) {
		fields, _ := x.(map[string]any) // nil, which has none, of what is no object
		for key, value := range fields {
			below := strings.TrimPrefix(name+"."+key, ".")
			if key == "seed" {
				seeds[below] = fmt.Sprint(value)
				delete(fields, key)
			}
			take(below, value)
		}
	}
	take("", all)
	rest, _ := json.Marshal(all) // of what was JSON
	return string(rest), seeds
}

// runConclusions are the differences that are shown over training runs, in whichever runs have their arms.
func (t *tables) runConclusions() []conclusion {
	list := t.conclusions()
	for _, x := range paperRows.AmongPPO {
		list = append(list, lessPrinted(x.Arm, x.Base))
	}
	for _, x := range weakerRows[1:] { // from the flights of weaker policies
		ppo := weakerRows[0]
		list = append(list, less("", x.weak, ppo.weak, lessPrinted(x.strong, ppo.strong).Paper))
	}
	return list
}

// fillRuns fills in each difference that two runs have at least: at each reference point its mean over the runs, with the
// interval of Student's t. seeds are those that the runs do not share.
func fillRuns(x *experiment.Table, runs []trainingRun, seeds []string) {
	spends := map[string]string{}
	for _, c := range runs[0].runConclusions() {
		var with []trainingRun
		episodes := 0
		for _, r := range runs {
			if n := len(c.bySeed(r.tables, pareto.Reference)); n > 0 {
				with, episodes = append(with, r), cmp.Or(min(episodes, n), n)
			}
		}
		if len(with) < 2 {
			continue
		}
		cells := experiment.Row{"difference": c.Text, "runs": len(with), "n": episodes, "the paper": c.Paper}
		same := 0
		for _, p := range references {
			var each []float64
			var texts []string
			for _, r := range with {
				each = append(each, mean(c.bySeed(r.tables, p)[:episodes]))
				texts = append(texts, number("%+.2f", each[len(each)-1]))
			}
			centre, half := pareto.StudentInterval(each)
			cells[referenceName(p)] = number("%+.2f", centre) + " ± " + number("%.2f", half)
			if (centre-half)*c.Paper > 0 && (centre+half)*c.Paper > 0 {
				same++
			}
			if p == pareto.Reference || p == pareto.TightReference {
				cells["each run at "+referenceName(p)] = strings.Join(texts, ", ")
			}
		}
		cells["the paper's sign at"] = fmt.Sprintf("%d of %d", same, len(references))
		x.Add(cells)
		for _, arm := range slices.Concat(c.Plus, c.Minus) {
			spends[arm] = with[0].Arm(arm).Spends
		}
	}
	var each []string
	for _, p := range runs[0].policies { // in the order of the tables
		if text := spends[p.Name]; text != "" {
			each = append(each, fmt.Sprintf("`%s` %s", p.Name, text))
		}
	}
	x.After = append(x.After, "In each run: "+strings.Join(each, ", ")+".",
		"Seeds that no two runs share: "+cmp.Or(strings.Join(seeds, ", "), "none")+".")
}

// fillRunMethods fills in each trained arm that two runs have at least: its hypervolumes, fidelity and reach as means over the
// runs, with the interval of Student's t. Ranks are among the arms that the paper and all runs have. beside, where it is not nil, is
// one run of another budget: beside it stands half of the interval in which one more run of this budget would lie.
func fillRunMethods(x *experiment.Table, runs []trainingRun, beside *tables) {
	var ranked []string
	var printedHV []float64
	var list []experiment.Row
	for _, r := range runs[0].rows(paperRows.Methods) {
		var with []trainingRun
		n := math.MaxInt // episodes that all of them have
		for _, run := range runs {
			if episodes := len(run.at(r.Arm, pareto.Reference)); episodes > 0 && learns(run.Arm(r.Arm)) {
				with, n = append(with, run), min(n, episodes)
			}
		}
		if len(with) < 2 {
			continue
		}
		cells := experiment.Row{"arm": r.Arm, "runs": len(with), "n": n, "spends": with[0].Arm(r.Arm).Spends}
		if r.Printed != nil {
			cells["paper's HV"] = figure(r.Printed.HV)
			if len(with) == len(runs) {
				ranked, printedHV = append(ranked, r.Arm), append(printedHV, *r.Printed.HV)
			}
		}
		for _, p := range references {
			var each []float64
			for _, run := range with {
				each = append(each, mean(run.at(r.Arm, p)[:n]))
			}
			name := referenceName(p)
			cells[name] = plusMinus("%.2f", each)
			if beside == nil || beside.Arm(r.Arm).Spends == cells["spends"] {
				continue
			}
			if there := beside.at(r.Arm, p); len(there) > 0 && (p == pareto.Reference || p == pareto.TightReference) {
				n := min(n, len(there))
				centre, half := pareto.StudentInterval(each)
				cells["spends there"] = beside.Arm(r.Arm).Spends
				cells["there at "+name] = number("%.2f", mean(there[:n])) + ", " + number("%+.2f", mean(there[:n])-centre) + " ± " +
					number("%.2f", half*math.Sqrt(float64(len(with)+1)))
			}
		}
		var fidelities, reaches []float64
		for _, run := range with {
			m := run.results[r.Arm].Sweep(nominal).Measure(pareto.Reference, pareto.TightReference)
			fidelities, reaches = append(fidelities, mean(m.Fidelities)), append(reaches, mean(m.Reaches))
		}
		cells["fidelity"], cells["reach, s"] = plusMinus("%.3f", fidelities), plusMinus("%.0f", reaches)
		list = append(list, cells)
	}
	ranks, correlation := rankOverRuns(runs, ranked, printedHV)
	for _, cells := range list {
		if r := ranks[cells["arm"].(string)]; len(r) > 0 {
			cells["rank"], _ = rankRange(r)
		}
		x.Add(cells)
	}
	if len(ranked) > 2 {
		x.Add(correlation)
	}
}

// rankOverRuns returns each arm's ranks by hypervolume, in every run at every reference point on the seeds that all arms have, and
// the row of the rank correlation with the paper's hypervolumes.
func rankOverRuns(runs []trainingRun, arms []string, printedHV []float64) (ranks map[string][]int, correlation experiment.Row) {
	ranks = map[string][]int{}
	n := math.MaxInt // episodes that all of them have
	for _, run := range runs {
		for _, arm := range arms {
			n = min(n, len(run.at(arm, pareto.Reference)))
		}
	}
	correlation = experiment.Row{"arm": fmt.Sprintf("rank correlation with the paper, %d arms", len(arms))}
	for _, p := range references {
		var each []float64
		for _, run := range runs {
			var ours []float64
			for _, arm := range arms {
				ours = append(ours, mean(run.at(arm, p)[:n]))
			}
			each = append(each, pareto.Spearman(ours, printedHV))
			order := slices.Clone(ours)
			slices.Sort(order)
			for i, arm := range arms {
				ranks[arm] = append(ranks[arm], len(order)-slices.Index(order, ours[i]))
			}
		}
		correlation[referenceName(p)] = plusMinus("%.2f", each)
	}
	return ranks, correlation
}

// plusMinus is the mean of runs and half of its interval.
func plusMinus(format string, each []float64) string {
	centre, half := pareto.StudentInterval(each)
	return number(format, centre) + " ± " + number(format, half)
}
