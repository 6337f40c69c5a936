package paper

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"prefdt/offline/pareto"
	"prefdt/offline/study"
)

// table is one of the report's, in markdown and as CSV.
type table struct {
	file, title, intro string
	head               []string
	rows               [][]string // as long as head; an empty cell has no figure
	after              []string   // sentences
}

const notRun = "not run"

// number formats a figure, an empty cell if there is none.
func number(format string, x float64) string {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return ""
	}
	return fmt.Sprintf(format, x)
}

// add adds a row; cells that are missing are empty.
func (t *table) add(cells ...string) {
	t.rows = append(t.rows, append(cells, make([]string, len(t.head)-len(cells))...))
}

// against are the cells of a paired comparison.
func against(own, base []float64) []string {
	c := pareto.Compare(own, base)
	if c.N == 0 {
		return []string{"", "", "", "", ""}
	}
	return []string{number("%+.3f", c.Mean), number("%+.3f", c.Low), number("%+.3f", c.High), number("%.1e", c.P), fmt.Sprint(c.N)}
}

func againstHead(base string) []string {
	return []string{"HV less " + base, "low", "high", "p", "pairs"}
}

// declaredArm is PrefDT as published at the budget that all methods have.
const declaredArm = "published"

// methodTable is the table of methods.
func (t *tables) methodTable() table {
	x := table{file: "methods", title: "Methods under one protocol",
		intro: "Hypervolume (HV) in 1e6 s J to 1000 s and 141 kJ, IGD in seconds and joules without scales against the pooled front of all arms here, fidelity and reach at settings even over what may be asked for. The difference is ours less the paper's, with our mean's 95 % interval; p and its interval are of HV paired by seed with `" + declaredArm + "` (exact Wilcoxon, bootstrap). * is our instantiation: the paper's text leaves much of it open ([methods](../../../docs/methods.md#our-instantiation)).",
		head:  append(append([]string{"class", "method", "arm", "n", "HV", "std", "paper's HV", "difference", "its low", "its high", "IGD", "paper's IGD", "fidelity", "paper's fidelity", "reach, s", "paper's reach", "criterion", "paper's criterion"}, againstHead(declaredArm)...), "spends")}
	base := t.hypervolumesOf(declaredArm)
	line := func(r row, f *figures, star, spends string) {
		p := r.printed
		if p == nil {
			p = &printed{none, none, none, none, none, none, 0, ""}
		}
		cells := []string{r.class, r.name + star, r.arm}
		if f == nil {
			cells = append(cells, "", notRun, "", number("%.2f", p.hv), "", "", "", "", number("%.0f", p.igd), "", number("%.2f", p.fidelity), "", number("%.0f", p.reachS), "", p.verdict, "", "", "", "", "", spends)
			x.add(cells...)
			return
		}
		hv := pareto.Summarise(f.hypervolumes)
		low, high := pareto.MeanInterval(f.hypervolumes)
		cells = append(cells, fmt.Sprint(hv.N), number("%.3f", hv.Mean), number("%.2f", hv.Std), number("%.2f", p.hv), number("%+.2f", hv.Mean-p.hv), number("%+.2f", low-p.hv), number("%+.2f", high-p.hv),
			number("%.0f", mean(f.igds)), number("%.0f", p.igd), number("%.3f", mean(f.fidelities)), number("%.2f", p.fidelity), number("%.0f", mean(f.reaches)), number("%.0f", p.reachS), f.verdict, p.verdict)
		if r.arm == declaredArm {
			cells = append(cells, "", "", "", "", "")
		} else {
			cells = append(cells, against(f.hypervolumes, base)...)
		}
		x.add(append(cells, spends)...)
		x.after = append(x.after, t.difference(r, f))
	}
	for _, r := range methodRows {
		star := ""
		if m := t.findMaker(r.arm); m.ours && m.Form == nil {
			star = " *"
		}
		line(r, t.figures[r.arm], star, t.arm(r.arm).Spends)
	}
	for _, a := range studyArms {
		r := t.study[a.arm]
		if r == nil || len(r.Uniform.Points) == 0 {
			if strings.HasPrefix(a.arm, "flagship") {
				line(row{class: "ours", name: a.name, arm: a.arm}, nil, "", "see docs/results.md")
			}
			continue
		}
		line(row{class: "ours", name: a.name, arm: a.arm}, t.figuresOf(r.Uniform.Omegas, r.Uniform.Points, 2, true, t.span()), "", "see docs/results.md")
	}
	return x
}

// span is the teacher's reach.
func (t *tables) span() float64 {
	if f := t.figures[teacherArm]; f != nil {
		return mean(f.reaches)
	}
	return none
}

// difference says in a sentence where our figures and the paper's differ.
func (t *tables) difference(r row, f *figures) string {
	text := fmt.Sprintf("`%s`: ", r.arm)
	switch {
	case r.printed == nil:
		return text + "the paper has no such row" + because(r.note) + "."
	}
	hv := mean(f.hypervolumes)
	low, high := pareto.MeanInterval(f.hypervolumes)
	switch {
	case low <= r.printed.hv && r.printed.hv <= high:
		text += "the hypervolume agrees within our interval"
	case hv > r.printed.hv:
		text += fmt.Sprintf("%.2fe6 above the paper's hypervolume", hv-r.printed.hv)
	default:
		text += fmt.Sprintf("%.2fe6 below the paper's hypervolume", r.printed.hv-hv)
	}
	if f.verdict != r.printed.verdict && f.verdict != "—" {
		text += fmt.Sprintf("; by the criterion it is %q, the paper's %q", f.verdict, r.printed.verdict)
	}
	return text + because(r.note) + "."
}

func because(note string) string {
	if note == "" {
		return ""
	}
	return "; " + note
}

// orderLines compare the order of the methods with the paper's, by the row at the declared
// budget.
func (t *tables) orderLines() (lines []string) {
	var ours, theirs []float64
	var disagree, missing []string
	judged := 0
	for _, r := range methodRows {
		if r.printed == nil {
			continue
		}
		arm := r.arm
		if arm == "published-full" {
			arm = declaredArm
		}
		f := t.figures[arm]
		if f == nil {
			missing = append(missing, arm)
			continue
		}
		ours, theirs = append(ours, mean(f.hypervolumes)), append(theirs, r.printed.hv)
		if f.verdict != "—" && r.printed.verdict != "—" {
			judged++
			if f.verdict != r.printed.verdict {
				disagree = append(disagree, fmt.Sprintf("%s is %q here and %q in the paper (fidelity %.3f, reach %.0f s)", arm, f.verdict, r.printed.verdict, mean(f.fidelities), mean(f.reaches)))
			}
		}
	}
	if rho := pareto.Spearman(ours, theirs); !math.IsNaN(rho) {
		lines = append(lines, fmt.Sprintf("By hypervolume the rank correlation of our order with the paper's is %.2f over %d rows.", rho, len(ours)))
	}
	if judged > 0 {
		lines = append(lines, fmt.Sprintf("The criterion, fidelity of 0.9 and 0.8 of the teacher's reach of %.0f s (the paper's 616 s), gives the paper's verdict in %d of %d rows.", t.span(), judged-len(disagree), judged))
	}
	for _, d := range disagree {
		lines = append(lines, "Not the paper's: "+d+".")
	}
	if len(missing) > 0 {
		lines = append(lines, "Not run, and so not in the order: "+strings.Join(missing, ", ")+".")
	}
	return lines
}

// teacherTable is the teacher's populations.
func (t *tables) teacherTable() table {
	x := table{file: "teachers", title: "PrefDT against the teacher's population scan",
		intro: "HV in 1e6 s J; corner: the least delay that a setting or a member attains, the mean over seeds. Paired with `rules-101`.",
		head:  append([]string{"method", "arm", "n", "HV", "paper's HV", "difference", "corner, s", "paper's corner"}, append(againstHead("rules-101"), "spends")...)}
	base := t.hypervolumesOf("rules-101")
	for _, r := range teacherRows {
		f, p := t.figures[r.arm], r.printed
		if f == nil {
			x.add(r.name, r.arm, "", notRun, number("%.3f", p.hv), "", "", number("%.1f", p.cornerS), "", "", "", "", "", t.arm(r.arm).Spends)
			continue
		}
		hv := mean(f.hypervolumes)
		cells := []string{r.name, r.arm, fmt.Sprint(len(f.hypervolumes)), number("%.3f", hv), number("%.3f", p.hv), number("%+.3f", hv-p.hv), number("%.1f", mean(f.corners)), number("%.1f", p.cornerS)}
		if r.arm == "rules-101" {
			cells = append(cells, "", "", "", "", "")
		} else {
			cells = append(cells, against(f.hypervolumes, base)...)
		}
		x.add(append(cells, t.arm(r.arm).Spends)...)
	}
	return x
}

// ablationTable is the eleven removals.
func (t *tables) ablationTable() table {
	x := table{file: "ablations", title: "Components and what their removal costs",
		intro: "Each arm paired by seed with the one that it is taken from, on the corpus that the paper names; all have the declared budget.",
		head: append([]string{"module", "how it is removed", "the paper", "arm", "taken from", "n", "HV", "HV there"}, append(againstHead("there"),
			"fidelity", "fidelity there", "reach, s", "reach there, s", "criterion")...)}
	for _, r := range removals {
		for k, c := range r.comparisons {
			cells := []string{r.module, r.how, r.result}
			if k > 0 {
				cells = []string{"", "", ""}
			}
			f, b := t.figures[c.arm], t.figures[c.base]
			if f == nil || b == nil {
				x.add(append(cells, c.arm, c.base, "", notRun)...)
				continue
			}
			cells = append(cells, c.arm, c.base, fmt.Sprint(min(len(f.hypervolumes), len(b.hypervolumes))), number("%.3f", mean(f.hypervolumes)), number("%.3f", mean(b.hypervolumes)))
			cells = append(cells, against(f.hypervolumes, b.hypervolumes)...)
			x.add(append(cells, number("%.3f", mean(f.fidelities)), number("%.3f", mean(b.fidelities)), number("%.0f", mean(f.reaches)), number("%.0f", mean(b.reaches)), f.verdict)...)
		}
		if r.more != nil {
			x.after = append(x.after, r.more(t)...)
		}
	}
	return x
}

// budgetPaper is what the paper says of each arm's budgets.
var budgetPaper = map[string]string{
	"published-full": "gain 0.75 to 0.99; violations 0.00; x1.5 ends +0.6 % over, 0.70 of flights; re-issued within 4e-4 J; error 0.178",
	"rules-50":       "x1.5 ends +17 % over, every flight",
	"cmdp":           "error 0.107 at its three budgets",
}

// budgetTable is budgets in joules.
func (t *tables) budgetTable() table {
	x := table{file: "budgets", title: "Budgets in joules",
		intro: fmt.Sprintf("Targets on %d seeds. End: energy over the budget, less one, on seeds on which the even pacer keeps it; over: flights that pass it. Gain is dE/dB in calm air; re-issued: the largest change of a flight whose total is issued again at slot %d; error: the mean of |E/B - 1| at the budgets that the CMDP is trained for.", t.BudgetSeeds, revisedSlot),
		head:  []string{"arm", "gain", "calm: end, %", "calm: over", "x1.5: end, %", "x1.5: over", "even pacer's end, %", "less the pacer's, points", "revised: end, %", "re-issued, J", "below the floor: spent, kJ", "error", "the paper"}}
	var even []study.BudgetResult
	if r := t.results["even-budgets"]; r != nil {
		even = r.Budgets
	} else if r := t.study["even"]; r != nil {
		even = r.Budgets
	}
	pacer, _ := study.MeanBudget(judge(even, even), study.PerturbationShock)
	line := func(name string, budgets []study.BudgetResult, r *Result, paper string) {
		judged := judge(budgets, even)
		calm, _ := study.MeanBudget(judged, study.PerturbationNone)
		shock, _ := study.MeanBudget(judged, study.PerturbationShock)
		revised, _ := study.MeanBudget(judged, study.PerturbationRevision)
		reissued, floor := none, none
		if once, twice := r.sweep(issuedOnce), r.sweep(issuedTwice); once != nil && twice != nil {
			reissued = 0
			for s := range once.Outcomes[0] {
				reissued = max(reissued, math.Abs(once.Outcomes[0][s].EnergyJ-twice.Outcomes[0][s].EnergyJ))
			}
		}
		if f := r.sweep(belowFloor); f != nil {
			floor = energyJ(f.Outcomes[0]) / 1e3
		}
		x.add(name, number("%.2f", gain(budgets)), number("%+.2f", 100*calm.End), number("%.2f", calm.OverrunRate), number("%+.2f", 100*shock.End), number("%.2f", shock.OverrunRate),
			number("%+.2f", 100*pacer.End), number("%+.2f", 100*(shock.End-pacer.End)), number("%+.2f", 100*revised.End), number("%.1e", reissued), number("%.2f", floor), number("%.3f", relativeError(r.sweep(trainedBudgets))), paper)
	}
	for _, m := range t.makers {
		if !slices.Contains(m.measurements(), budgets) {
			continue
		}
		if r := t.results[armName(m.Name, budgets)]; r != nil {
			line(m.Name, r.Budgets, r, budgetPaper[m.Name])
		} else {
			x.add(m.Name, notRun, "", "", "", "", "", "", "", "", "", "", budgetPaper[m.Name])
		}
	}
	if r := t.results["cmdp"]; r != nil {
		x.add("cmdp", "", "", "", "", "", "", "", "", "", "", number("%.3f", relativeError(r.sweep(nominal))), budgetPaper["cmdp"])
	} else {
		x.add("cmdp", notRun, "", "", "", "", "", "", "", "", "", "", budgetPaper["cmdp"])
	}
	for _, a := range studyArms {
		if r := t.study[a.arm]; r != nil && len(r.Budgets) > 0 {
			line(a.name, r.Budgets, nil, "")
		} else {
			x.add(a.name, notRun)
		}
	}
	return x
}

// judge judges budgets by the even pacer's; without these there is nothing to judge by.
func judge(flown, even []study.BudgetResult) []study.BudgetFigures {
	if len(even) == 0 {
		return nil
	}
	return study.JudgeBudgets(flown, even)
}

// linkTable is what lost reports and snapshots of other slots leave.
func (t *tables) linkTable() table {
	x := table{file: "link", title: "What the link leaves of the front",
		intro: "HV in % of the same flights over a perfect link, by seed. A user whose report is lost computes locally unless its last report stands in.",
		head:  []string{"condition", "published-full", "low", "high", "the paper", "rules-50", "its low", "its high", "the paper's rule", "pairs", "p of the two"}}
	full, rules := t.results[armName("published-full", link)], t.results[armName(teacherArm, link)]
	line := func(name string, own, other []float64, paper, paperRules string) {
		cells := []string{name}
		for _, y := range []struct {
			x     []float64
			paper string
		}{{own, paper}, {other, paperRules}} {
			if len(y.x) == 0 {
				cells = append(cells, notRun, "", "", y.paper)
				continue
			}
			low, high := pareto.MeanInterval(y.x)
			cells = append(cells, number("%.1f", 100*mean(y.x)), number("%.1f", 100*low), number("%.1f", 100*high), y.paper)
		}
		if c := pareto.Compare(own, other); c.N > 0 {
			cells = append(cells, fmt.Sprint(c.N), number("%.1e", c.P))
		}
		x.add(cells...)
	}
	for _, r := range linkRows {
		line(r.name, retained(full, r.name, 2), retained(rules, r.name, 2), number("%.1f", r.published), number("%.1f", r.rules))
	}
	for _, r := range substitutionRows {
		gained := func(from *Result) []float64 {
			return differences(retained(from, lossName(r.rate, true), 2), retained(from, lossName(r.rate, false), 2))
		}
		line(fmt.Sprintf("what the last report adds at %g %% lost", 100*r.rate), gained(full), gained(rules), number("%+.1f", r.published), number("%+.1f", r.rules))
	}
	line("a snapshot of one slot before, less one of the slot after", differences(retained(full, displacementName(1), 2), retained(full, displacementName(-1), 2)),
		differences(retained(rules, displacementName(1), 2), retained(rules, displacementName(-1), 2)), "0.007", "")
	return x
}

// fleetTable is other fleets, retrained.
func (t *tables) fleetTable() table {
	x := table{file: "fleets", title: "Other fleets, retrained", intro: "HV over that of the teacher searched for the same fleet, per seed.", head: []string{"M", "arm", "n", "HV", "teacher's HV", "ratio", "the paper", "spends"}}
	for _, f := range []struct {
		aircraft     int
		arm, teacher string
	}{{2, "published", "rules-50"}, {4, "published-fleet4", "rules-50-fleet4"}, {8, "published-fleet8", "rules-50-fleet8"}} {
		a, b := t.figures[f.arm], t.figures[f.teacher]
		if a == nil || b == nil {
			x.add(fmt.Sprint(f.aircraft), f.arm, "", notRun, "", "", "0.78 to 0.80", t.arm(f.arm).Spends)
			continue
		}
		x.add(fmt.Sprint(f.aircraft), f.arm, fmt.Sprint(len(a.hypervolumes)), number("%.3f", mean(a.hypervolumes)), number("%.3f", mean(b.hypervolumes)), number("%.4f", pareto.MeanRatio(a.hypervolumes, b.hypervolumes)), "0.78 to 0.80", t.arm(f.arm).Spends)
	}
	return x
}

// disturbedTable is fronts in other worlds, in % of the undisturbed one.
func (t *tables) disturbedTable(x table, m measurement, makers []string, paper map[string]string) table {
	x.head = []string{"condition"}
	for _, name := range makers {
		if x.head = append(x.head, name); name != teacherArm {
			x.head = append(x.head, name+" less "+teacherArm)
		}
	}
	teacherResult := t.results[armName(teacherArm, m)]
	least, sum, n := map[string]float64{}, map[string]float64{}, 0.0
	for _, c := range conditions(m)[1:] {
		cells := []string{c.name}
		n++
		for _, name := range makers {
			own := retained(t.results[armName(name, m)], c.name, 2)
			if len(own) == 0 {
				cells = append(cells, notRun)
				if name != teacherArm {
					cells = append(cells, "")
				}
				continue
			}
			kept := mean(own)
			if worst, known := least[name]; !known || kept < worst {
				least[name] = kept
			}
			sum[name] += kept
			if cells = append(cells, number("%.2f", 100*kept)); name != teacherArm {
				cells = append(cells, number("%+.2f", 100*mean(differences(own, retained(teacherResult, c.name, 2)))))
			}
		}
		x.add(cells...)
	}
	for _, name := range makers {
		if _, run := least[name]; run {
			x.after = append(x.after, fmt.Sprintf("`%s` keeps %.1f %% in the mean and %.1f %% in the worst%s.", name, 100*sum[name]/n, 100*least[name], because(paper[name])))
		} else {
			x.after = append(x.after, fmt.Sprintf("`%s`: not run%s.", name, because(paper[name])))
		}
	}
	return x
}

// instantiationTable is what half and double the budget give.
func (t *tables) instantiationTable() table {
	x := table{file: "instantiations", title: "Our instantiations at half and at double their budgets",
		intro: "What the paper's text says of each, what we chose and why: [methods](../../../docs/methods.md#our-instantiation). HV in 1e6 s J, fidelity, reach in s.",
		head:  []string{"arm", "spends", "HV", "fidelity", "reach", "half: HV", "half: fidelity", "half: reach", "double: HV", "double: fidelity", "double: reach"}}
	for _, m := range t.makers {
		if !m.ours || m.Method == "cmdp" {
			continue
		}
		cells := []string{m.Name, t.arm(m.Name).Spends}
		for _, suffix := range []string{"", "-half", "-double"} {
			if f := t.figures[m.Name+suffix]; f != nil {
				cells = append(cells, number("%.3f", mean(f.hypervolumes)), number("%.3f", mean(f.fidelities)), number("%.0f", mean(f.reaches)))
			} else {
				cells = append(cells, notRun, "", "")
			}
		}
		x.add(cells...)
	}
	cells := []string{"cmdp (error of its budgets)", t.arm("cmdp").Spends}
	for _, suffix := range []string{"", "-half", "-double"} {
		if r := t.results["cmdp"+suffix]; r != nil {
			cells = append(cells, number("%.3f", relativeError(r.sweep(nominal))), "", "")
		} else {
			cells = append(cells, notRun, "", "")
		}
	}
	x.add(cells...)
	return x
}

// temperatureTable is IQL's inverse temperatures.
func (t *tables) temperatureTable() table {
	x := table{file: "temperatures", title: "IQL's inverse temperatures on the archive's corpus",
		intro: fmt.Sprintf("The paper: over two and a half orders of magnitude the reach stays at least 97 s short of 493 s. Here 0.8 of the teacher's reach is %s s.", number("%.0f", 0.8*t.span())),
		head:  []string{"inverse temperature", "arm", "n", "HV", "fidelity", "reach, s", "short of it, s", "criterion"}}
	for k, beta := range append([]float64{t.Methods.IQL.Beta}, t.Methods.IQLBetas...) {
		arm := "iql-archive"
		if k > 0 {
			arm += fmt.Sprintf("-beta%v", beta)
		}
		f := t.figures[arm]
		if f == nil {
			x.add(fmt.Sprint(beta), arm, "", notRun)
			continue
		}
		x.add(fmt.Sprint(beta), arm, fmt.Sprint(len(f.hypervolumes)), number("%.3f", mean(f.hypervolumes)), number("%.3f", mean(f.fidelities)), number("%.0f", mean(f.reaches)), number("%.0f", 0.8*t.span()-mean(f.reaches)), f.verdict)
	}
	return x
}

// costTable is what one new setting costs.
func (t *tables) costTable() table {
	x := table{file: "cost", title: "What one new setting costs, by route",
		intro: "Seconds of one core, the routes one after another; ratios are to the rollout. Training and search are timed in part, and multiplied: their steps cost the same.",
		head:  []string{"route", "interaction", "core-s", "ratio", "paper's core-s", "paper's ratio", "its n"}}
	for k, r := range costRows {
		s, ratio := none, none
		if t.costs != nil {
			s, ratio = t.costs[k], t.costs[k]/t.costs[0]
		}
		cell := number("%.3g", s)
		if cell == "" {
			cell = "not timed"
		}
		x.add(r.name, r.interaction, cell, number("%.3g", ratio), number("%.1f", r.coreS), number("%.3g", r.coreS/costRows[0].coreS), fmt.Sprint(r.n))
	}
	return x
}

// all returns the report's tables.
func (t *tables) all() []table {
	return []table{
		t.methodTable(), t.teacherTable(), t.ablationTable(), t.budgetTable(), t.linkTable(), t.fleetTable(),
		t.disturbedTable(table{file: "shifts", title: "Fifteen shifted operating points", intro: "HV in % of that at the trained point, both to 1000 s and 141 kJ. The paper's fifteen are in its appendix; these are ours."}, shifts,
			[]string{"published-full", teacherArm}, map[string]string{"published-full": "the paper loses 4.3 % in the worst case on average", teacherArm: "the paper's rule loses 2.6 %"}),
		t.disturbedTable(table{file: "arrivals", title: "Another arrival process from half time on", intro: "HV in % of that without the switch. The paper: it degrades neither at any context length."}, arrivals,
			[]string{"prefdt-context1", "prefdt-context10", "prefdt", "prefdt-context50", teacherArm}, nil),
		t.temperatureTable(), t.instantiationTable(), t.costTable(),
	}
}
