package paper

import (
	"cmp"
	_ "embed"
	"fmt"
	"math"
	"slices"
	"strings"

	"prefdt/offline/experiment"
	"prefdt/offline/pareto"
)

const notRun = "not run"

// number formats a figure, an empty cell if there is none.
var number = experiment.Number

// orNotRun is a figure, or says that there is none.
func orNotRun(x float64) any {
	if math.IsNaN(x) {
		return notRun
	}
	return x
}

// count is a number of what has been measured, nothing if that has not been.
func count(n int) any {
	if n == 0 {
		return nil
	}
	return n
}

//go:embed tables.yaml
var tablesYAML []byte

// all returns the report's tables.
func (t *tables) all() ([]*experiment.Table, error) {
	read, err := experiment.ReadTables(tablesYAML)
	if err != nil {
		return nil, err
	}
	names := strings.NewReplacer(
		"{full tokens}", fmt.Sprintf("%.3g", t.FullTokens/1e6), "{settings}", fmt.Sprint(t.Settings), "{budget seeds}",
		fmt.Sprint(t.BudgetSeeds),
		"{few seeds}", fmt.Sprint(t.FewSeeds), "{revised slot}", fmt.Sprint(revisedSlot), "{operable reach}", number("%.0f",
			0.8*t.fewSpan()))
	var list []*experiment.Table
	for _, x := range []struct {
		name string
		fill func(*tables, *experiment.Table)
	}{
		{"methods", (*tables).methodTable}, {"teachers", (*tables).teacherTable}, {"ablations", (*tables).ablationTable},
		{"references", (*tables).referenceTable}, {"conclusions", (*tables).conclusionTable},
		{"budgets", (*tables).budgetTable}, {"ends", (*tables).endTable}, {"link", (*tables).linkTable}, {"fleets", (*tables).fleetTable},
		{"shifts", (*tables).shiftTable}, {"arrivals", (*tables).arrivalTable}, {"temperatures", (*tables).temperatureTable},
		{"cost", (*tables).costTable}, {"artifact", (*tables).artifactTable},
	} {
		table := read[x.name]
		table.Intro = names.Replace(table.Intro)
		x.fill(t, &table)
		list = append(list, &table)
	}
	return list, nil
}

// against fills in the cells of a paired comparison; difference is the column of the mean. Where two networks are compared, a
// test over seeds says nothing of how another training run would come out, and so there is no p.
func against(r experiment.Row, difference string, c pareto.Paired) {
	if c.N > 0 {
		r[difference], r["low"], r["high"], r["pairs"] = c.Mean, c.Low, c.High, c.N
	}
}

// pairedCell is a paired comparison in one cell: the mean difference and its interval.
func pairedCell(format string, own, base []float64) string {
	c := pareto.Compare(own, base)
	if c.N == 0 {
		return ""
	}
	return fmt.Sprintf(format+" ["+format+", "+format+"]", c.Mean, c.Low, c.High)
}

// methodTable is the table of methods.
func (t *tables) methodTable(x *experiment.Table) {
	base := t.of(declaredArm)
	add := func(r row, f *figures, star, spends string) {
		p := cmp.Or(r.Printed, &printed{})
		hv, printedHV := pareto.Summarise(f.Hypervolumes), figure(p.HV)
		low, high := interval(f.Hypervolumes)
		cells := experiment.Row{
			"class": r.Class, "method": r.Name + star, "arm": r.Arm, "record": t.measuredBy(r.Arm), "n": count(hv.N),
			"K": count(f.Settings), "HV": notRun,
			"tight HV": mean(f.Tight), "paper's HV": printedHV,
			"IGD": mean(f.igds), "IGD to 45 kJ": mean(f.calmIGDs), "paper's IGD": figure(p.IGD),
			"fidelity": mean(f.Fidelities), "paper's fidelity": figure(p.Fidelity), "reach, s": mean(f.Reaches),
			"paper's reach": figure(p.ReachS),
			"criterion":     f.verdict, "paper's criterion": p.Verdict, "spends": spends,
		}
		if hv.N > 0 {
			cells["HV"], cells["std"], cells["difference"] = hv.Mean, hv.Std, hv.Mean-printedHV
			cells["its low"], cells["its high"] = low-printedHV, high-printedHV
			if t.recorded(r.Arm) {
				x.After = append(x.After, t.difference(r, f))
			}
		}
		if r.Arm != declaredArm {
			against(cells, "HV less published", pareto.Compare(f.Hypervolumes, base.Hypervolumes))
			cells["tight HV less published"] = pareto.Compare(f.Tight, base.Tight).Mean
		}
		x.Add(cells)
	}
	for _, r := range t.rows(paperRows.Methods) {
		star := ""
		if slices.ContainsFunc(t.policies, func(p *policy) bool { return p.Name == r.Arm && p.Ours && p.Form == nil }) {
			star = " *"
		}
		add(r, t.of(r.Arm), star, t.Arm(r.Arm).Spends)
	}
	for _, r := range paperRows.Ours {
		if f := t.figures[r.Arm]; f != nil || strings.HasPrefix(r.Arm, "flagship") {
			add(r, t.of(r.Arm), "", "see docs/results.md")
		}
	}
}

// rows returns a table's with the arms under the names that they are measured under; where two are one
// the first, which has the paper's figures, stands.
func (c *Config) rows(list []row) (resolved []row) {
	for _, r := range list {
		r.Arm = c.resolve(r.Arm)
		if !slices.ContainsFunc(resolved, func(x row) bool { return x.Arm == r.Arm }) {
			resolved = append(resolved, r)
		}
	}
	return resolved
}

// difference says in a sentence where our figures and the paper's differ.
func (t *tables) difference(r row, f *figures) string {
	text := fmt.Sprintf("`%s`: ", r.Arm)
	if r.Printed == nil {
		return text + "the paper has no such row" + because(r.Note) + "."
	}
	hv, printed := mean(f.Hypervolumes), *r.Printed.HV
	low, high := interval(f.Hypervolumes)
	switch {
	case low <= printed && printed <= high:
		text += "the hypervolume agrees within our interval"
	case hv > printed:
		text += fmt.Sprintf("%.2fe6 above the paper's hypervolume", hv-printed)
	default:
		text += fmt.Sprintf("%.2fe6 below the paper's hypervolume", printed-hv)
	}
	if v := r.Printed.Verdict; f.verdict != v && f.verdict != experiment.None && v != "" {
		text += fmt.Sprintf("; by the criterion it is %q, the paper's %q", f.verdict, v)
	}
	return text + because(r.Note) + "."
}

func because(note string) string {
	if note == "" {
		return ""
	}
	return "; " + note
}

// teacherTable is the teacher's populations.
func (t *tables) teacherTable(x *experiment.Table) {
	x.SetHead("HV at equal K", fmt.Sprintf("HV at K=%d", t.Settings))
	base := t.of("rules-101").Hypervolumes
	var ours, theirs []string
	for _, r := range t.rows(paperRows.Teachers) {
		f, p := t.of(r.Arm), r.Printed
		hv := mean(f.Hypervolumes)
		cells := experiment.Row{
			"method": r.Name, "arm": r.Arm, "n": count(len(f.Hypervolumes)), "K": count(f.Settings), "HV": orNotRun(hv),
			"record": t.measuredBy(r.Arm), "tight HV": mean(f.Tight), "HV at equal K": mean(t.thinned(r.Arm, pareto.Reference)),
			"paper's HV": *p.HV, "difference": hv - *p.HV,
			"corner, s": mean(f.corners), "paper's corner": figure(p.CornerS), "spends": t.Arm(r.Arm).Spends,
		}
		if r.Arm != "rules-101" {
			against(cells, "HV less rules-101", pareto.Compare(f.Hypervolumes, base))
		}
		x.Add(cells)
		if len(f.Hypervolumes) == 0 {
			continue
		}
		if t.recorded(r.Arm) {
			x.After = append(x.After, t.difference(r, f))
		}
		if strings.HasPrefix(r.Arm, "rules-") {
			ours, theirs = append(ours, fmt.Sprintf("%s %.3f", r.Arm, hv)), append(theirs, fmt.Sprintf("%s %.3f", r.Arm, *p.HV))
		}
	}
	if len(ours) > 0 {
		x.After = append(x.After, fmt.Sprintf("Populations here: %s; in the paper: %s.", strings.Join(ours, ", "),
			strings.Join(theirs, ", ")))
	}
}

// thinned returns the hypervolumes by seed, in 1e6 s J to a reference point, of as many of an archive's members as others
// have settings, spread evenly over it; none of what has no more.
func (t *tables) thinned(arm string, reference pareto.Point) []float64 {
	r := t.results[arm].Sweep(nominal)
	if r == nil || len(r.Outcomes) <= t.Settings {
		return nil
	}
	var some [][]pareto.Point
	for k := range t.Settings {
		some = append(some, r.Outcomes[k*(len(r.Outcomes)-1)/(t.Settings-1)])
	}
	return millions(pareto.Hypervolumes(some, reference))
}

// ablationTable is the eleven removals.
func (t *tables) ablationTable(x *experiment.Table) {
	for _, r := range paperRows.Removals {
		for k, c := range r.Comparisons {
			c.Arm, c.Base = t.resolve(c.Arm), t.resolve(c.Base)
			printed := number("%+.2f", figure(c.Paper))
			if c.Derived {
				printed += " (derived)"
			}
			cells := experiment.Row{"arm": c.Arm, "taken from": c.Base, "record": t.measuredBy(c.Arm, c.Base), "HV": notRun,
				"paper's difference": printed}
			if k == 0 {
				cells["module"], cells["how it is removed"], cells["the paper"] = r.Module, r.How, r.Result
			}
			x.Add(cells)
			f, b := t.figures[c.Arm], t.figures[c.Base]
			if f == nil || b == nil {
				continue
			}
			n := min(len(f.Hypervolumes), len(b.Hypervolumes)) // all begin with the same seeds
			there := func(x []float64) float64 { return mean(x[:min(len(x), len(f.Hypervolumes))]) }
			cells["n"], cells["HV"], cells["HV there"], cells["criterion"] = n, mean(f.Hypervolumes), there(b.Hypervolumes), f.verdict
			cells["fidelity"], cells["fidelity there"] = mean(f.Fidelities), there(b.Fidelities)
			cells["reach, s"], cells["reach there, s"] = mean(f.Reaches), there(b.Reaches)
			cells["corner, s"], cells["corner there, s"] = mean(f.corners), there(b.corners)
			against(cells, "HV less there", pareto.Compare(f.Hypervolumes, b.Hypervolumes))
			tight := pareto.Compare(f.Tight, b.Tight)
			cells["tight HV less there"], cells["its low"], cells["its high"] = tight.Mean, tight.Low, tight.High
		}
		if more := moreOf[r.Module]; more != nil {
			x.After = append(x.After, more(t)...)
		}
	}
}

// moreOf are sentences of figures that no comparison has, by the module that is removed.
var moreOf = map[string]func(*tables) []string{
	"Vector return-to-go": (*tables).scalarBudgets, "Setting-axis recalibration": (*tables).distinctSettings,
}

// few returns the figures of the seeds that all of IQL's temperatures flew.
func (t *tables) few(x []float64) []float64 { return x[:min(t.FewSeeds, len(x))] }

// fewSpan is the teacher's reach on these.
func (t *tables) fewSpan() float64 { return mean(t.few(t.of(teacherArm).Reaches)) }

// temperatureTable is IQL's inverse temperatures.
func (t *tables) temperatureTable(x *experiment.Table) {
	base, span := t.few(t.of("iql-archive").Hypervolumes), t.fewSpan()
	for k, beta := range append([]float64{t.Methods.IQL.Beta}, t.Methods.IQLBetas...) {
		arm := "iql-archive"
		if k > 0 {
			arm += fmt.Sprintf("-beta%v", beta)
		}
		f := t.of(arm)
		hv, fidelity, reach := t.few(f.Hypervolumes), mean(t.few(f.Fidelities)), mean(t.few(f.Reaches))
		cells := experiment.Row{"inverse temperature": fmt.Sprint(beta), "arm": arm, "n": count(len(hv)), "HV": orNotRun(mean(hv)),
			"tight HV": mean(t.few(f.Tight)), "record": t.measuredBy(arm),
			"fidelity": fidelity, "reach, s": reach, "short of it, s": 0.8*span - reach}
		if len(hv) > 0 {
			cells["criterion"] = pareto.Operable(fidelity, reach/span)
		}
		if k > 0 {
			cells["HV less the first"] = pairedCell("%+.3f", hv, base)
		}
		x.Add(cells)
	}
}
