package study

import (
	_ "embed"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/template"

	"prefdt/offline/baseline"
	"prefdt/offline/command"
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
	dir := filepath.Join(r.Dir, "report")
	if err := command.ReplaceJSON(filepath.Join(dir, "reference.json"), "", r.reference); err != nil {
		return err
	}
	list := append([]table{{Name: "study", Baseline: "flagship", Arms: names, Columns: []string{"n"}}}, r.tables()...)
	tables := map[string][]*figures{}
	for i := range list {
		t := &list[i]
		for _, name := range t.Arms {
			if f := r.figuresOf(name, t.Baseline); f != nil {
				tables[t.Name] = append(tables[t.Name], f)
			}
		}
		figuresTable := csvTable(tables[t.Name])
		if t.Columns == nil {
			figuresTable = budgetCSVTable(tables[t.Name])
		}
		if err := command.ReplaceFile(filepath.Join(dir, t.Name+".csv"), figuresTable.WriteCSV); err != nil {
			return err
		}
	}
	pictures, err := r.drawPictures(dir, tables)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, "study.md")
	if err := command.ReplaceFile(path, func(w io.Writer) error { return r.writeMarkdown(w, tables, pictures) }); err != nil {
		return err
	}
	r.Logf("%d arms in %s, with CSV tables, reference.json and %d pictures", len(r.arms), path, len(pictures))
	return nil
}

// ofPrices follows each ratio's name: at how many prices the teacher's front is.
var ofPrices = fmt.Sprintf(" (to %d prices)", finestPrices)

// column is how one figure is printed.
type column struct {
	head string
	cell func(r *figures) string
}

var columns = map[string]column{
	"n":      {"seeds", func(r *figures) string { return strconv.Itoa(r.Seeds) }},
	"points": {"settings: on a front / requested", func(r *figures) string { return fmt.Sprintf("%d / %d", r.Distinct, r.Settings) }},
	"hv": {"HV, 1e6", func(r *figures) string {
		return fmt.Sprintf("%.3f ± %.2f", r.Hypervolume.Mean/1e6, r.Hypervolume.Std/1e6)
	}},
	"ratio": {"HV ratio" + ofPrices, func(r *figures) string {
		return experiment.Number("%.4f", r.HypervolumeRatio)
	}},
	"tight":    {"tight ratio" + ofPrices, func(r *figures) string { return experiment.Number("%.4f", r.TightRatio) }},
	"igd":      {"IGD, 1e-3 of the span", func(r *figures) string { return experiment.Number("%.2f", 1e3*r.IGD) }},
	"corner":   {"corner, s", func(r *figures) string { return experiment.Number("%.1f", r.CornerS) }},
	"reach":    {"reach, s", func(r *figures) string { return experiment.Number("%.0f", r.ReachS) }},
	"fidelity": {"fidelity", func(r *figures) string { return experiment.Number("%.4f", r.Fidelity) }},
	"axis":     {"on its axis", func(r *figures) string { return experiment.Number("%.4f", r.FidelityRecalibrated) }},
	"operable": {"operable", func(r *figures) string { return r.Operable }},
	"us":       {"decision, µs", func(r *figures) string { return experiment.Number("%.0f", r.DecisionUS) }},
	"gust ratio": {"HV ratio in gusts" + ofPrices, func(r *figures) string {
		return experiment.Number("%.4f", r.GustRatio)
	}},
	"parameters":                    {"parameters", func(r *figures) string { return formatThousands(r.Parameters) }},
	"diff":                          {"HV difference, 1e6 [95 %]", func(r *figures) string { return formatDifference(r) }},
	experiment.PerturbationNone:     budgetColumn(experiment.PerturbationNone),
	experiment.PerturbationShock:    budgetColumn(experiment.PerturbationShock),
	experiment.PerturbationGusts:    budgetColumn(experiment.PerturbationGusts),
	experiment.PerturbationRevision: budgetColumn(experiment.PerturbationRevision),
}

// budgetColumns returns the columns of a table of budgets under one perturbation.
func budgetColumns(perturbation string) []column {
	figure := func(head, format string, value func(b *experiment.BudgetFigures) float64) column {
		return column{head, func(r *figures) string {
			return formatBudget(r, perturbation, func(b *experiment.BudgetFigures) string { return fmt.Sprintf(format, value(b)) })
		}}
	}
	return []column{
		figure("end", "%+.2f %%", func(b *experiment.BudgetFigures) float64 { return 100 * b.End }),
		figure("overrun, mean", "%.2f %%", func(b *experiment.BudgetFigures) float64 { return 100 * b.MeanOverrun }),
		figure("flights over", "%.2f", func(b *experiment.BudgetFigures) float64 { return b.OverrunRate }),
		figure("delay, s", "%.1f", func(b *experiment.BudgetFigures) float64 { return b.DelayS }),
		figure("even pacer's delay, s", "%.1f", func(b *experiment.BudgetFigures) float64 { return b.EvenDelayS }),
	}
}

// budgetColumn is the column of a perturbation in a table of other figures.
func budgetColumn(perturbation string) column {
	return column{perturbation + ": end / flights over", func(r *figures) string {
		return formatBudget(r, perturbation, func(b *experiment.BudgetFigures) string {
			return fmt.Sprintf("%+.2f %% / %.2f", 100*b.End, b.OverrunRate)
		})
	}}
}

// formatBudget formats the mean over a perturbation's measured budgets.
func formatBudget(r *figures, perturbation string, format func(b *experiment.BudgetFigures) string) string {
	mean := r.Budgets.Mean(perturbation)
	switch {
	case len(r.Budgets) == 0:
		return experiment.None
	case math.IsNaN(mean.End):
		return "not measured"
	}
	return format(&mean)
}

func formatThousands(n int) string {
	if n == 0 {
		return experiment.None
	}
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

func formatDifference(r *figures) string {
	if math.IsNaN(r.Paired.Mean) {
		return experiment.None
	}
	return fmt.Sprintf("%+.3f [%+.3f, %+.3f]", r.Paired.Mean/1e6, r.Low/1e6, r.High/1e6)
}

//go:embed study.md.tmpl
var markdown string

// writeMarkdown writes the report that people read.
func (r *report) writeMarkdown(w io.Writer, tables map[string][]*figures, pictures []plots.Picture) error {
	var sections []string
	for _, t := range r.tables() {
		b := &strings.Builder{}
		if t.Columns == nil {
			writeBudgetTables(b, t, tables[t.Name])
		} else {
			writeTable(b, t, tables[t.Name])
		}
		plots.WriteMarkdown(b, pictures, t.Name)
		sections = append(sections, b.String())
	}
	text, err := template.New("study.md").Funcs(template.FuncMap{
		"row": r.figuresOf, "number": experiment.Number, "cell": func(f *figures, column string) string { return columns[column].cell(f) },
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

// writeTable writes one table.
func writeTable(b *strings.Builder, t table, rows []*figures) {
	if len(rows) == 0 {
		return
	}
	fmt.Fprintf(b, "\n## %s\n\n", t.Title)
	var list []column
	for _, name := range t.Columns {
		c := columns[name]
		if name == "diff" {
			c.head = fmt.Sprintf("HV less %s's, 1e6 [95 %%]", t.Baseline)
		}
		list = append(list, c)
	}
	writeRows(b, list, rows)
	writeNotes(b, t, rows)
}

// writeBudgetTables writes a table for each perturbation.
func writeBudgetTables(b *strings.Builder, t table, rows []*figures) {
	if len(rows) == 0 {
		return
	}
	fmt.Fprintf(b, "\n## %s\n\n", t.Title)
	i := slices.IndexFunc(rows, func(r *figures) bool { return len(r.Budgets) > 0 })
	if i < 0 {
		fmt.Fprintf(b, "The arm `%s`, which defines what can be kept, has not been measured.\n", evenArm)
		return
	}
	fmt.Fprintf(b, "Keepable seeds are those on which the even pacer ends within %.2f %% of the budget; a budget counts as not "+
		"measured with fewer than half of the seeds. Figures are means over keepable seeds, then over the perturbation's measured "+
		"budgets (each by itself: budgets.csv). End: energy over the budget, less one; overrun, mean: of what is above; flights "+
		"over: the share that ends above.\n", 100*(baseline.KeepableWithin-1))
	for _, perturbation := range experiment.Perturbations {
		fmt.Fprintf(b, "\n### %s\n\nKeepable:", perturbation)
		separator := " "
		for _, f := range rows[i].Budgets {
			if f.Perturbation == perturbation {
				fmt.Fprintf(b, "%s%.4g kJ on %d of %d seeds", separator, f.BudgetJ/1e3, f.Keepable, f.Seeds)
				if !f.Measured() {
					b.WriteString(" (not measured)")
				}
				separator = ", "
			}
		}
		b.WriteString(".\n\n")
		writeRows(b, budgetColumns(perturbation), rows)
	}
	writeNotes(b, t, rows)
}

// writeRows writes one row for each arm.
func writeRows(b *strings.Builder, columns []column, rows []*figures) {
	b.WriteString("| arm |")
	for _, c := range columns {
		fmt.Fprintf(b, " %s |", c.head)
	}
	fmt.Fprintf(b, "\n|---%s|\n", strings.Repeat("|---:", len(columns)))
	for i := range rows {
		fmt.Fprintf(b, "| %s |", rows[i].Name)
		for _, c := range columns {
			fmt.Fprintf(b, " %s |", c.cell(rows[i]))
		}
		fmt.Fprintln(b)
	}
}

// writeNotes writes what a table's arms are.
func writeNotes(b *strings.Builder, t table, rows []*figures) {
	fmt.Fprintln(b)
	if t.Note != "" {
		fmt.Fprintf(b, "%s\n\n", t.Note)
	}
	for i := range rows {
		fmt.Fprintf(b, "- `%s`: %s\n", rows[i].Name, rows[i].Description)
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
		whole := r.results[a.Name].Sweep(experiment.Nominal)
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
						cell = 100 * pareto.MeanRatio(pareto.Hypervolumes(left.Outcomes, reference), pareto.Hypervolumes(whole.Outcomes,
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

// csvTable has every figure of some arms.
func csvTable(rows []*figures) experiment.Table {
	t := experiment.Table{Columns: experiment.Columns("arm", "seeds", "settings", "distinct", "parameters", "decision_us", "hypervolume",
		"hypervolume_std", "tight", "tight_std",
		"ratio", "tight_ratio", "igd", "fidelity", "fidelity_axis", "corner_s", "reach_s", "operable", "gust_ratio", "versus", "pairs",
		"hypervolume_difference", "low95", "high95")}
	slug := strings.NewReplacer(" ", "_", "%", "percent")
	for _, p := range experiment.Perturbations {
		p = slug.Replace(p)
		t.Columns = append(t.Columns, experiment.Columns("budget_end_"+p, "budget_overrun_"+p, "budget_over_"+p, "budget_delay_s_"+p,
			"budget_even_delay_s_"+p)...)
	}
	for _, r := range rows {
		row := experiment.Row{
			"arm": r.Name, "seeds": r.Seeds, "settings": r.Settings, "distinct": r.Distinct, "parameters": r.Parameters,
			"decision_us": r.DecisionUS,
			"hypervolume": r.Hypervolume.Mean, "hypervolume_std": r.Hypervolume.Std, "tight": r.Tight.Mean, "tight_std": r.Tight.Std,
			"ratio": r.HypervolumeRatio, "tight_ratio": r.TightRatio, "igd": r.IGD, "fidelity": r.Fidelity,
			"fidelity_axis": r.FidelityRecalibrated,
			"corner_s":      r.CornerS, "reach_s": r.ReachS, "operable": r.Operable, "gust_ratio": r.GustRatio,
			"versus": r.Baseline, "pairs": r.Paired.N, "hypervolume_difference": r.Paired.Mean, "low95": r.Low, "high95": r.High,
		}
		for _, p := range experiment.Perturbations {
			mean, p := r.Budgets.Mean(p), slug.Replace(p)
			row["budget_end_"+p], row["budget_overrun_"+p], row["budget_over_"+p] = mean.End, mean.MeanOverrun, mean.OverrunRate
			row["budget_delay_s_"+p], row["budget_even_delay_s_"+p] = mean.DelayS, mean.EvenDelayS
		}
		t.Add(row)
	}
	return t
}

// budgetCSVTable has every arm's figures for every budget; they are left out where a
// budget counts as not measured.
func budgetCSVTable(rows []*figures) experiment.Table {
	t := experiment.Table{Columns: experiment.Columns("arm", "perturbation", "budget_j", "seeds", "keepable", "end", "overrun", "over",
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
