package study

import (
	_ "embed"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/template"

	"prefdt/offline/baseline"
	"prefdt/offline/experiment"
	"prefdt/offline/pareto"
	"prefdt/offline/plots"
)

// write writes all that follows from the results into the folder report:
// study.md, a CSV of every arm and of every table, the reference front, and the
// pictures.
func (r *report) write() error {
	if len(r.arms) == 0 {
		r.Logf("nothing measured yet")
		return nil
	}
	var names []string
	for _, a := range r.arms {
		names = append(names, a.Name)
	}
	made := plots.Report{Name: "study.md", Measured: fmt.Sprintf("%d arms", len(r.arms)), Reference: r.reference, Pictures: r.pictures()}
	tables := map[string][]*figures{}
	for _, t := range append([]table{{Name: "study", Baseline: "flagship", Arms: names, Columns: []string{"seeds"}}}, r.tables()...) {
		csv := &experiment.Table{Columns: csvColumns()}
		for _, name := range t.Arms {
			if f := r.figuresOf(name, t.Baseline); f != nil {
				tables[t.Name] = append(tables[t.Name], f)
				csv.Add(f.Cells)
			}
		}
		if t.Columns == nil {
			csv = budgetCSVTable(tables[t.Name])
		}
		csv.Name = t.Name
		made.Tables = append(made.Tables, csv)
	}
	made.Text = func(w io.Writer, drawn []plots.Picture) error { return r.writeMarkdown(w, tables, drawn) }
	return made.Write(r.Set)
}

func (r *report) pictures() []plots.Picture {
	constants := &r.world.Physics
	return []plots.Picture{
		{Table: "headline", File: "fronts.png", Title: "Fronts of the arms", Panels: plots.Fronts(plots.Of(r.results, experiment.Nominal,
			"dispatch-teacher", "flagship", "base", "flagship-heads", "rules-101", "paper-form", "omega-bc", "unconditioned"))},
		{Table: "headline", File: "fidelity.png", Title: "Requested and achieved", Panels: plots.Requested(plots.Of(r.results,
			experiment.EvenSettings, "flagship", "base", "flagship-heads", "paper-form", "paper-form-dispatch", "omega-bc"))},
		{Table: "headline", File: "propulsion.png", Title: "Propulsion power against speed", Panels: plots.Propulsion(constants)},
		{Table: "headline", File: "speed.png", Title: "Mean speed flown at each setting",
			Panels: plots.Speeds(plots.Of(r.results, experiment.EvenSettings, "flagship", "omega-bc", "paper-form", "paper-form-dispatch"),
				constants)},
		{Table: "budgets", File: "budget.png", Title: "Energy and delay under a shock and a revision, the mean over seeds",
			Panels: plots.Consumption(r.results[evenArm], plots.Traced{Label: "flagship", Result: r.results["flagship"]},
				plots.Traced{Label: "even pacer", Result: r.results[evenArm]},
				plots.Traced{Label: "flagship", Result: r.results["flagship"], Trace: 1},
				plots.Traced{Label: "rule of nearest energy", Result: r.results["rules-50"]},
				plots.Traced{Label: "paper form", Result: r.results["paper-form"]})},
	}
}

// ifMeasured is a cell of the mean over a perturbation's measured budgets, or says that there are none.
func (f *figures) ifMeasured(mean *experiment.BudgetFigures, cell any) any {
	switch {
	case len(f.Budgets) == 0:
		return experiment.None
	case math.IsNaN(mean.End):
		return "not measured"
	}
	return cell
}

func groupThousands(n int) string {
	if n == 0 {
		return experiment.None
	}
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

//go:embed study.md.tmpl
var markdown string

// writeMarkdown writes the report that people read.
func (r *report) writeMarkdown(w io.Writer, tables map[string][]*figures, pictures []plots.Picture) error {
	var sections []string
	for _, t := range r.tables() {
		b := &strings.Builder{}
		r.writeTable(b, t, tables[t.Name])
		plots.WriteMarkdown(b, pictures, t.Name)
		sections = append(sections, b.String())
	}
	text, err := template.New("study.md").Funcs(template.FuncMap{
		"row": r.figuresOf, "number": experiment.Number, "cell": func(f *figures, key string) string {
			return reportColumns([]string{key}, "")[1].Text(f.Cells)
		},
	}).Parse(markdown)
	if err != nil {
		return err
	}
	recorded := true
	for _, x := range r.results {
		recorded = recorded && x.By() != experiment.Before
	}
	type decoder struct{ Name, Small, Base string }
	return text.Execute(w, struct {
		Config
		Reference              pareto.ReferenceFronts
		Prices, History        int
		Recorded               bool // no arm is of a version before there were records
		SmallestSize, Streamed string
		Decoders               []decoder
		Sections               []string
	}{
		r.Config, r.reference, finestPrices, historySlots, recorded, smallestSize, r.contextArmName(historySlots),
		[]decoder{{"exact dispatch", smallestSize, "base"}, {"the paper's heads", smallestSize + headsSuffix, "base" + headsSuffix}},
		append(sections, r.linkTables()),
	})
}

// budgetColumns are those of a table of budgets under one perturbation.
var budgetColumns = []string{"end", "overrun", "over", "delay", "even delay"}

// writeTable writes one table, or for one of budgets a table for each perturbation, and what its arms are.
func (r *report) writeTable(b *strings.Builder, t table, rows []*figures) {
	if len(rows) == 0 {
		return
	}
	fmt.Fprintf(b, "\n## %s\n\n", t.Title)
	x := experiment.Table{Columns: reportColumns(t.Columns, t.Baseline)}
	for _, f := range rows {
		x.Add(f.Cells)
	}
	judged := slices.IndexFunc(rows, func(f *figures) bool { return len(f.Budgets) > 0 })
	switch {
	case t.Columns != nil:
		x.WriteRows(b, "---:")
	case judged < 0:
		fmt.Fprintf(b, "The arm `%s`, which defines what can be kept, has not been measured.\n", evenArm)
		return
	default:
		writeBudgets(b, rows, rows[judged].Budgets)
	}
	fmt.Fprintln(b)
	if t.Note != "" {
		fmt.Fprintf(b, "%s\n\n", t.Note)
	}
	for _, f := range rows {
		fmt.Fprintf(b, "- `%s`: %s\n", f.Name, f.Description)
	}
}

// writeBudgets writes a table for each perturbation; judged are the budgets of an arm that flew them.
func writeBudgets(b *strings.Builder, rows []*figures, judged experiment.BudgetList) {
	fmt.Fprintf(b, "Keepable seeds are those on which the even pacer ends within %.2f %% of the budget; a budget counts as not "+
		"measured with fewer than half of the seeds. Figures are means over keepable seeds, then over the perturbation's measured "+
		"budgets (each by itself: budgets.csv). End: energy over the budget, less one; overrun, mean: of what is above; flights "+
		"over: the share that ends above.\n", 100*(baseline.KeepableWithin-1))
	for _, perturbation := range experiment.Perturbations {
		fmt.Fprintf(b, "\n### %s\n\nKeepable:", perturbation)
		separator := " "
		for _, f := range judged {
			if f.Perturbation == perturbation {
				fmt.Fprintf(b, "%s%.4g kJ on %d of %d seeds", separator, f.BudgetJ/1e3, f.Keepable, f.Seeds)
				if !f.Measured() {
					b.WriteString(" (not measured)")
				}
				separator = ", "
			}
		}
		b.WriteString(".\n\n")
		x := experiment.Table{Columns: reportColumns(budgetColumns, "")}
		for _, f := range rows {
			mean := f.Budgets.Mean(perturbation)
			row := experiment.Row{"arm": f.Name}
			for i, v := range []float64{100 * mean.End, 100 * mean.MeanOverrun, mean.OverrunRate, mean.DelayS, mean.EvenDelayS} {
				row[budgetColumns[i]] = f.ifMeasured(&mean, v)
			}
			x.Add(row)
		}
		x.WriteRows(b, "---:")
	}
}

// linkTables are what a lossy link leaves.
func (r *report) linkTables() string {
	b := &strings.Builder{}
	for _, a := range r.arms {
		if !a.LossyLink {
			continue
		}
		fmt.Fprintf(b, "\n## Hypervolume retained on a bad link: %s\n\nThe hypervolume to 1000 s and 141 kJ, and the tight one to "+
			"720 s and 39 kJ.\n\n"+
			"| reports lost | users compute locally | tight | last report stands in | tight | standing offer | tight "+
			"|\n|---|---:|---:|---:|---:|---:|---:|\n", a.Name)
		nominal := r.results[a.Name].Sweep(experiment.Nominal)
		for _, l := range links {
			name := fmt.Sprintf("%.0f %%", 100*l.LossRate)
			if l.LateSlots > 0 {
				name = fmt.Sprintf("none, snapshot %d slot late", l.LateSlots)
			}
			fmt.Fprintf(b, "| %s |", name)
			for _, l.Fallback = range fallbacks {
				left := r.results[a.Name].Sweep(linkName(l))
				for _, reference := range []pareto.Point{pareto.Reference, pareto.TightReference} {
					cell := math.NaN()
					if left != nil {
						cell = 100 * pareto.MeanRatio(pareto.Hypervolumes(left.Outcomes, reference), pareto.Hypervolumes(nominal.Outcomes,
							reference))
					}
					fmt.Fprintf(b, " %s |", experiment.Number("%.1f %%", cell))
				}
			}
			fmt.Fprintln(b)
		}
	}
	return b.String()
}

// csvName makes the name of a perturbation part of a column's.
var csvName = strings.NewReplacer(" ", "_", "%", "percent")

// csvColumns are those of all figures.
func csvColumns() []experiment.Column {
	list := experiment.Columns("arm", "seeds", "settings", "distinct", "parameters", "decision_us", "hypervolume", "hypervolume_std",
		"tight", "tight_std", "ratio", "tight_ratio", "igd", "fidelity", "fidelity_axis", "corner_s", "reach_s", "operable", "gust_ratio",
		"versus", "pairs", "hypervolume_difference", "low95", "high95")
	for _, p := range experiment.Perturbations {
		p = csvName.Replace(p)
		list = append(list, experiment.Columns("budget_end_"+p, "budget_overrun_"+p, "budget_over_"+p, "budget_delay_s_"+p,
			"budget_even_delay_s_"+p)...)
	}
	return list
}

// budgetCSVTable has every arm's figures for every budget; they are left out where a
// budget counts as not measured.
func budgetCSVTable(rows []*figures) *experiment.Table {
	t := &experiment.Table{Columns: experiment.Columns("arm", "perturbation", "budget_j", "seeds", "keepable", "end", "overrun", "over",
		"delay_s", "even_delay_s")}
	for _, r := range rows {
		for _, b := range r.Budgets {
			row := experiment.Row{"arm": r.Name, "perturbation": b.Perturbation, "budget_j": b.BudgetJ, "seeds": b.Seeds,
				"keepable": b.Keepable}
			if b.Measured() {
				row["end"], row["overrun"], row["over"], row["delay_s"], row["even_delay_s"] = b.End, b.MeanOverrun, b.OverrunRate,
					b.DelayS, b.EvenDelayS
			}
			t.Add(row)
		}
	}
	return t
}
