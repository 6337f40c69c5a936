package paper

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"prefdt/offline/pareto"
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
func (x *table) add(cells ...string) {
	x.rows = append(x.rows, append(cells, make([]string, len(x.head)-len(cells))...))
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

// pairedCell is a paired comparison in one cell: the mean difference, its interval, and p.
func pairedCell(format string, own, base []float64) string {
	c := pareto.Compare(own, base)
	if c.N == 0 {
		return ""
	}
	return fmt.Sprintf(format+" ["+format+", "+format+"], %s", c.Mean, c.Low, c.High, cmp.Or(number("p = %.1e", c.P), "no difference"))
}

// methodTable is the table of methods.
func (t *tables) methodTable() table {
	x := table{file: "methods", title: "Methods under one protocol",
		intro: "Hypervolume (HV) in 1e6 s J to 1000 s and 141 kJ, IGD in seconds and joules without scales (our reading: the paper does not say) against the pooled front of all other arms here, and against its points up to 45 kJ, since most of the first is of the few above, which the solvers alone have; fidelity and reach at K settings even over what may be asked for, of the sequence models and the published form the preferences that flights are stored under. HV grows with K: a teacher's members are compared at equal K in its own table. The difference is ours less the paper's, with our mean's 95 % interval; p and its interval are of HV paired by seed with `" + declaredArm + "` on the n seeds of the row (exact Wilcoxon, bootstrap). All intervals are over evaluation seeds: each arm has been trained once. * is our instantiation: the paper's text leaves much of it open ([methods](../../../docs/methods.md#our-instantiation)).",
		head:  append(append([]string{"class", "method", "arm", "n", "K", "HV", "std", "paper's HV", "difference", "its low", "its high", "IGD", "IGD to 45 kJ", "paper's IGD", "fidelity", "paper's fidelity", "reach, s", "paper's reach", "criterion", "paper's criterion"}, againstHead(declaredArm)...), "spends")}
	base := t.hypervolumesOf(declaredArm)
	line := func(r row, f *figures, star, spends string) {
		p := r.printed
		if p == nil {
			p = &printed{none, none, none, none, none, none, 0, ""}
		}
		cells := []string{r.class, r.name + star, r.arm}
		if f == nil {
			cells = append(cells, "", "", notRun, "", number("%.2f", p.hv), "", "", "", "", "", number("%.0f", p.igd), "", number("%.2f", p.fidelity), "", number("%.0f", p.reachS), "", p.verdict, "", "", "", "", "", spends)
			x.add(cells...)
			return
		}
		hv := pareto.Summarise(f.hypervolumes)
		low, high := pareto.MeanInterval(f.hypervolumes)
		cells = append(cells, fmt.Sprint(hv.N), fmt.Sprint(f.settings), number("%.3f", hv.Mean), number("%.2f", hv.Std), number("%.2f", p.hv), number("%+.2f", hv.Mean-p.hv), number("%+.2f", low-p.hv), number("%+.2f", high-p.hv),
			number("%.0f", mean(f.igds)), number("%.0f", mean(f.calmIGDs)), number("%.0f", p.igd), number("%.3f", mean(f.fidelities)), number("%.2f", p.fidelity), number("%.0f", mean(f.reaches)), number("%.0f", p.reachS), f.verdict, p.verdict)
		if r.arm == declaredArm {
			cells = append(cells, "", "", "", "", "")
		} else {
			cells = append(cells, against(f.hypervolumes, base)...)
		}
		x.add(append(cells, spends)...)
		x.after = append(x.after, t.difference(r, f))
	}
	for _, r := range t.rows(methodRows) {
		star := ""
		if slices.ContainsFunc(t.makers, func(m maker) bool { return m.Name == r.arm && m.ours && m.Form == nil }) {
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
		line(row{class: "ours", name: a.name, arm: a.arm}, t.figuresOf(a.arm, r.Uniform.Omegas, r.Uniform.Points, 2, true, t.span()), "", "see docs/results.md")
	}
	return x
}

// rows returns a table's with the arms under the names that they are measured under; where two are one
// the first, which has the paper's figures, stands.
func (c *Config) rows(list []row) (resolved []row) {
	for _, r := range list {
		r.arm = c.resolve(r.arm)
		if !slices.ContainsFunc(resolved, func(x row) bool { return x.arm == r.arm }) {
			resolved = append(resolved, r)
		}
	}
	return resolved
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
	if f.verdict != r.printed.verdict && f.verdict != "—" && r.printed.verdict != "" {
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
	o := t.order()
	if rho := pareto.Spearman(o.ours, o.theirs); !math.IsNaN(rho) {
		lines = append(lines, fmt.Sprintf("By hypervolume the rank correlation of our order with the paper's is %.2f over %d rows, and %s over the %d learned ones.", rho, len(o.ours), cmp.Or(number("%.2f", pareto.Spearman(o.learned, o.theirLearned)), "none"), len(o.learned)))
	}
	if len(o.above) > 0 {
		lines = append(lines, fmt.Sprintf("Above `%s`, in 1e6: %s. In the paper no learned method is, and the solvers' lead, 0.64 and 0.67, is on 7 of 10 seeds (p = 0.16).", declaredArm, strings.Join(o.above, ", ")))
	}
	if n := len(o.ourJudged); n > 0 {
		lines = append(lines, fmt.Sprintf("The criterion, fidelity of 0.9 and 0.8 of the teacher's reach of %.0f s (the paper's %.0f s), gives the paper's verdict in %d of %d rows.", t.span(), printedOf(teacherArm).reachS, n-len(o.disagree), n))
	}
	var literal []string
	for _, r := range methodRows {
		arm := t.resolve(r.arm)
		if f := t.figures[armName(arm, whole)]; f != nil && r.printed != nil {
			literal = append(literal, fmt.Sprintf("%s %v (the paper %v)", arm, f, r.printed))
		}
	}
	if len(literal) > 0 {
		lines = append(lines, "Asked for preferences even from 0 to 1, most of which no flight of their corpus is stored under, HV, fidelity, reach and verdict are: "+strings.Join(literal, "; ")+".")
	}
	lines = append(lines, t.weakerLines()...)
	if len(o.ourJudged) > 1 {
		lines = append(lines, fmt.Sprintf("Operable ones first, then by hypervolume. Ours: %s. The paper's: %s.", inOrder(o.ourJudged), inOrder(o.paperJudged)))
	}
	for _, d := range o.disagree {
		lines = append(lines, "Not the paper's: "+d+".")
	}
	if len(o.missing) > 0 {
		lines = append(lines, "Not run, and so not in the order: "+strings.Join(o.missing, ", ")+".")
	}
	return lines
}

// order is the rows of methodRows that both the paper and we have.
type order struct {
	ours, theirs           []float64 // hypervolumes
	learned, theirLearned  []float64 // those of learned methods
	ourJudged, paperJudged []placed  // rows with a verdict
	disagree               []string  // verdicts that are not the paper's
	above                  []string  // methods above the published form at the declared budget
	missing                []string  // arms that have not been flown
}

func (t *tables) order() (o order) {
	declared := t.figures[declaredArm]
	for _, r := range methodRows {
		if r.printed == nil {
			continue
		}
		arm := r.arm
		if arm == fullArm {
			arm = declaredArm // by the row at the budget of all
		}
		f := t.figures[arm]
		if f == nil {
			o.missing = append(o.missing, arm)
			continue
		}
		hv := mean(f.hypervolumes)
		o.ours, o.theirs = append(o.ours, hv), append(o.theirs, r.printed.hv)
		if strings.Contains(r.class, "learned") {
			o.learned, o.theirLearned = append(o.learned, hv), append(o.theirLearned, r.printed.hv)
		}
		if declared != nil && arm != declaredArm && r.class != "floors" {
			if c := pareto.Compare(f.hypervolumes, declared.hypervolumes); c.Low > 0 {
				o.above = append(o.above, fmt.Sprintf("%s by %.2f (p = %.1e on %d seeds)", arm, c.Mean, c.P, c.N))
			}
		}
		if f.verdict == "—" || r.printed.verdict == "—" {
			continue
		}
		o.ourJudged, o.paperJudged = append(o.ourJudged, placed{arm, f.verdict, hv}), append(o.paperJudged, placed{arm, r.printed.verdict, r.printed.hv})
		if f.verdict != r.printed.verdict {
			o.disagree = append(o.disagree, fmt.Sprintf("%s is %q here and %q in the paper (fidelity %.3f, reach %.0f s)", arm, f.verdict, r.printed.verdict, mean(f.fidelities), mean(f.reaches)))
		}
	}
	return o
}

// weakerLines compare the order of what learns from the flights of weaker PPO policies, once all of it
// has been flown.
func (t *tables) weakerLines() (lines []string) {
	declared := t.figures[declaredArm]
	if declared == nil {
		return nil
	}
	theirs, strong := []float64{printedOf(fullArm).hv}, []float64{mean(declared.hypervolumes)}
	weak := slices.Clone(strong)
	var each []string
	for _, x := range weakerRows {
		f, s := t.figures[x.weak], t.figures[x.strong]
		if f == nil || s == nil {
			return nil
		}
		theirs, strong, weak = append(theirs, printedOf(x.strong).hv), append(strong, mean(s.hypervolumes)), append(weak, mean(f.hypervolumes))
		each = append(each, fmt.Sprintf("`%s` %v (the paper's `%s` %v)", x.weak, f, x.strong, printedOf(x.strong)))
	}
	lines = append(lines,
		"On the flights of weaker PPO policies, nearer to the paper's in hypervolume, not in fidelity or reach, these are: "+strings.Join(each, "; ")+".",
		fmt.Sprintf("The rank correlation with the paper's over `%s`, PPO and these three is %.2f with the weaker policies, and %.2f with the good ones.", declaredArm, pareto.Spearman(weak, theirs), pareto.Spearman(strong, theirs)))
	for _, x := range []struct{ base, differs string }{{"omega-bc", "the returns"}, {"peda", "pooling, a path of each user's own, and the quadratic conditioner"}} {
		good := pareto.Compare(t.hypervolumesOf("prefdt"), t.hypervolumesOf(x.base))
		poor := pareto.Compare(t.hypervolumesOf("prefdt-weaker"), t.hypervolumesOf(x.base+"-weaker"))
		lines = append(lines, fmt.Sprintf("`prefdt` less `%s`, 1e6: %+.2f [%+.2f, %+.2f] on the flights of the good policies, %+.2f [%+.2f, %+.2f] (p = %.1e, n = %d) on those of the weaker; the paper %+.2f; what differs is %s.",
			x.base, good.Mean, good.Low, good.High, poor.Mean, poor.Low, poor.High, poor.P, poor.N, printedOf("prefdt").hv-printedOf(x.base).hv, x.differs))
	}
	return lines
}

// placed is a method with what it is ordered by.
type placed struct {
	arm, verdict string
	hypervolume  float64
}

// inOrder lists methods, the operable ones first, then by hypervolume.
func inOrder(list []placed) string {
	rank := func(x placed) int {
		if x.verdict == "yes" {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(list, func(a, b placed) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(b.hypervolume, a.hypervolume))
	})
	parts := [2][]string{}
	for _, x := range list {
		parts[rank(x)] = append(parts[rank(x)], x.arm)
	}
	return cmp.Or(strings.Join(parts[0], ", "), "none") + "; not operable: " + cmp.Or(strings.Join(parts[1], ", "), "none")
}

// teacherTable is the teacher's populations.
func (t *tables) teacherTable() table {
	x := table{file: "teachers", title: "PrefDT against the teacher's population scan",
		intro: fmt.Sprintf("HV in 1e6 s J, of K settings or members, and of %d members spread evenly over an archive's; corner: the least delay that a setting or a member attains, the mean over seeds. Paired with `rules-101`.", t.Settings),
		head:  append([]string{"method", "arm", "n", "K", "HV", fmt.Sprintf("HV at K=%d", t.Settings), "paper's HV", "difference", "corner, s", "paper's corner"}, append(againstHead("rules-101"), "spends")...)}
	base := t.hypervolumesOf("rules-101")
	for _, r := range t.rows(teacherRows) {
		f, p := t.figures[r.arm], r.printed
		if f == nil {
			x.add(r.name, r.arm, "", "", notRun, "", number("%.3f", p.hv), "", "", number("%.1f", p.cornerS), "", "", "", "", "", t.arm(r.arm).Spends)
			continue
		}
		hv := mean(f.hypervolumes)
		cells := []string{r.name, r.arm, fmt.Sprint(len(f.hypervolumes)), fmt.Sprint(f.settings), number("%.3f", hv), number("%.3f", mean(t.thinned(r.arm, 2))), number("%.3f", p.hv), number("%+.3f", hv-p.hv), number("%.1f", mean(f.corners)), number("%.1f", p.cornerS)}
		if r.arm == "rules-101" {
			cells = append(cells, "", "", "", "", "")
		} else {
			cells = append(cells, against(f.hypervolumes, base)...)
		}
		x.add(append(cells, t.arm(r.arm).Spends)...)
		x.after = append(x.after, t.difference(r, f))
	}
	var ours, theirs []string
	for _, r := range teacherRows {
		if f := t.figures[r.arm]; f != nil && strings.HasPrefix(r.arm, "rules-") {
			ours, theirs = append(ours, fmt.Sprintf("%s %.3f", r.arm, mean(f.hypervolumes))), append(theirs, fmt.Sprintf("%s %.3f", r.arm, r.printed.hv))
		}
	}
	x.after = append(x.after, fmt.Sprintf("Populations here: %s; in the paper: %s.", strings.Join(ours, ", "), strings.Join(theirs, ", ")))
	return x
}

// thinned returns the hypervolumes by seed, in 1e6 s J, of as many of an archive's members as others
// have settings, spread evenly over it; none of what has no more.
func (t *tables) thinned(arm string, aircraft int) []float64 {
	r := t.results[arm].sweep(nominal)
	if r == nil || len(r.Outcomes) <= t.Settings {
		return nil
	}
	var some [][]pareto.Point
	for k := range t.Settings {
		some = append(some, r.Outcomes[k*(len(r.Outcomes)-1)/(t.Settings-1)])
	}
	list := pareto.Hypervolumes(some, referenceOf(aircraft))
	for i := range list {
		list[i] /= 1e6
	}
	return list
}

// ablationTable is the eleven removals.
func (t *tables) ablationTable() table {
	x := table{file: "ablations", title: "Components and what their removal costs",
		intro: "Each arm paired by seed with the one that it is taken from, on the corpus that the paper names; all have the declared budget. Corner: the delay of the setting that has the least in the mean. Differences of the paper's that its text does not print, but other figures of it that were measured on the same seeds, are derived.",
		head: append([]string{"module", "how it is removed", "the paper", "arm", "taken from", "n", "HV", "HV there"}, append(againstHead("there"), "paper's difference",
			"fidelity", "fidelity there", "reach, s", "reach there, s", "corner, s", "corner there, s", "criterion")...)}
	for _, r := range removals {
		for k, c := range r.comparisons {
			c.arm, c.base = t.resolve(c.arm), t.resolve(c.base)
			printed := number("%+.2f", c.printed)
			if c.derived {
				printed += " (derived)"
			}
			cells := []string{r.module, r.how, r.result}
			if k > 0 {
				cells = []string{"", "", ""}
			}
			f, b := t.figures[c.arm], t.figures[c.base]
			if f == nil || b == nil {
				x.add(append(cells, c.arm, c.base, "", notRun, "", "", "", "", "", "", printed)...)
				continue
			}
			cells = append(cells, c.arm, c.base, fmt.Sprint(min(len(f.hypervolumes), len(b.hypervolumes))), number("%.3f", mean(f.hypervolumes)), number("%.3f", mean(shared(b.hypervolumes, f.hypervolumes))))
			cells = append(append(cells, against(f.hypervolumes, b.hypervolumes)...), printed)
			x.after = append(x.after, c.sentence(pareto.Compare(f.hypervolumes, b.hypervolumes)))
			x.add(append(cells, number("%.3f", mean(f.fidelities)), number("%.3f", mean(shared(b.fidelities, f.hypervolumes))), number("%.0f", mean(f.reaches)), number("%.0f", mean(shared(b.reaches, f.hypervolumes))),
				number("%.1f", mean(f.corners)), number("%.1f", mean(shared(b.corners, f.hypervolumes))), f.verdict)...)
		}
		if r.more != nil {
			x.after = append(x.after, r.more(t)...)
		}
	}
	return x
}

// shared returns the figures of the seeds that another arm flew as well: all begin with the same.
func shared(x, other []float64) []float64 { return x[:min(len(x), len(other))] }

// sentence says where a difference of ours and the paper's differ.
func (c *comparison) sentence(ours pareto.Paired) string {
	text := fmt.Sprintf("`%s` against `%s`: ", c.arm, c.base)
	switch {
	case math.IsNaN(c.printed):
		return text + "the paper prints no difference of hypervolume."
	case ours.Low <= c.printed && c.printed <= ours.High:
		return text + "the paper's difference is within our interval."
	case fewLarge(ours):
		return text + fmt.Sprintf("ours is not distinguished from none in the mean, but it is on more than half of the seeds (p = %.1e): few seeds have large ones of the other sign.", ours.P)
	case ours.Low <= 0 && ours.High >= 0:
		return text + "ours is not distinguished from none."
	case ours.Mean*c.printed > 0:
		return text + "the same sign, another size."
	}
	return text + "the other sign."
}

// fewLarge reports whether mean and test disagree: most seeds have small differences of one sign, and few
// have large ones of the other.
func fewLarge(c pareto.Paired) bool { return c.Low <= 0 && c.High >= 0 && c.P < 0.05 }

// instantiationTable is what half and double the budget give.
func (t *tables) instantiationTable() table {
	x := table{file: "instantiations", title: "Our instantiations at half and at double their budgets",
		intro: "What the paper's text says of each, what we chose and why: [methods](../../../docs/methods.md#our-instantiation). HV in 1e6 s J, fidelity, reach in s; HV less that at the declared budget is paired by seed, with its 95 % interval. A solver's budget is its iterations of a plan, and its restarts stay: half of three is one.",
		head:  []string{"arm", "spends", "HV", "fidelity", "reach"}}
	for _, scale := range []string{"half", "double"} {
		for _, figure := range []string{"HV", "HV less", "fidelity", "reach"} {
			x.head = append(x.head, scale+": "+figure)
		}
	}
	for _, m := range t.makers {
		if !m.ours || m.Method == "cmdp" {
			continue
		}
		cells := []string{m.Name, t.arm(m.Name).Spends}
		for _, suffix := range []string{"", "-half", "-double"} {
			f := t.figures[m.Name+suffix]
			if f == nil {
				cells = append(cells, notRun, "", "")
			} else {
				cells = append(cells, number("%.3f", mean(f.hypervolumes)), number("%.3f", mean(f.fidelities)), number("%.0f", mean(f.reaches)))
			}
			if suffix != "" {
				cells = slices.Insert(cells, len(cells)-2, pairedCell("%+.3f", t.hypervolumesOf(m.Name+suffix), t.hypervolumesOf(m.Name)))
			}
		}
		x.add(cells...)
	}
	cells := []string{"cmdp (error of its budgets)", t.arm("cmdp").Spends, t.cmdpError(""), "", "", t.cmdpError("-half"), "", "", "", t.cmdpError("-double")}
	x.add(cells...)
	return x
}

// cmdpError is how far the CMDP ends from the budgets that it is trained for.
func (t *tables) cmdpError(suffix string) string {
	return cmp.Or(number("%.3f", relativeError(t.results["cmdp"+suffix].sweep(nominal).first(t.BudgetSeeds))), notRun)
}

// temperatureTable is IQL's inverse temperatures, on the seeds that all of them flew.
func (t *tables) temperatureTable() table {
	first := func(x []float64) []float64 { return x[:min(t.FewSeeds, len(x))] }
	span := none
	if f := t.figures[teacherArm]; f != nil {
		span = mean(first(f.reaches))
	}
	x := table{file: "temperatures", title: "IQL's inverse temperatures on the archive's corpus",
		intro: fmt.Sprintf("The paper: over two and a half orders of magnitude the reach stays at least 97 s short of 493 s. Here 0.8 of the teacher's reach is %s s, on the same %d seeds. HV less that of the first row is paired by seed, with its 95 %% interval.", number("%.0f", 0.8*span), t.FewSeeds),
		head:  []string{"inverse temperature", "arm", "n", "HV", "HV less the first", "fidelity", "reach, s", "short of it, s", "criterion"}}
	base := first(t.hypervolumesOf("iql-archive"))
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
		hv, fidelity, reach, less := first(f.hypervolumes), mean(first(f.fidelities)), mean(first(f.reaches)), ""
		if k > 0 {
			less = pairedCell("%+.3f", hv, base)
		}
		x.add(fmt.Sprint(beta), arm, fmt.Sprint(len(hv)), number("%.3f", mean(hv)), less, number("%.3f", fidelity), number("%.0f", reach), number("%.0f", 0.8*span-reach), pareto.Operable(fidelity, reach/span))
	}
	return x
}

// all returns the report's tables.
func (t *tables) all() []table {
	return []table{
		t.aimTable(), t.methodTable(), t.teacherTable(), t.ablationTable(), t.budgetTable(), t.endTable(), t.linkTable(), t.fleetTable(),
		t.shiftTable(),
		t.arrivalTable(),
		t.temperatureTable(), t.instantiationTable(), t.costTable(), t.artifactTable(),
	}
}
