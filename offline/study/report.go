package study

import (
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

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
	list := append([]table{{name: "study", baseline: "flagship", arms: names, columns: []string{"n"}}}, r.tables()...)
	tables := map[string][]*figures{}
	for i := range list {
		t := &list[i]
		for _, name := range t.arms {
			if f := r.figuresOf(name, t.baseline); f != nil {
				tables[t.name] = append(tables[t.name], f)
			}
		}
		figuresTable := csvTable(tables[t.name])
		if t.columns == nil {
			figuresTable = budgetCSVTable(tables[t.name])
		}
		if err := command.ReplaceFile(filepath.Join(dir, t.name+".csv"), figuresTable.WriteCSV); err != nil {
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
	"ratio":                         {"HV ratio" + ofPrices, func(r *figures) string { return formatNumber("%.4f", r.HypervolumeRatio) }},
	"tight":                         {"tight ratio" + ofPrices, func(r *figures) string { return formatNumber("%.4f", r.TightRatio) }},
	"igd":                           {"IGD, 1e-3 of the span", func(r *figures) string { return formatNumber("%.2f", 1e3*r.IGD) }},
	"corner":                        {"corner, s", func(r *figures) string { return formatNumber("%.1f", r.CornerS) }},
	"reach":                         {"reach, s", func(r *figures) string { return formatNumber("%.0f", r.ReachS) }},
	"fidelity":                      {"fidelity", func(r *figures) string { return formatNumber("%.4f", r.Fidelity) }},
	"axis":                          {"on its axis", func(r *figures) string { return formatNumber("%.4f", r.FidelityRecalibrated) }},
	"operable":                      {"operable", func(r *figures) string { return r.Operable }},
	"us":                            {"decision, µs", func(r *figures) string { return formatNumber("%.0f", r.DecisionUS) }},
	"gust ratio":                    {"HV ratio in gusts" + ofPrices, func(r *figures) string { return formatNumber("%.4f", r.GustRatio) }},
	"parameters":                    {"parameters", func(r *figures) string { return formatThousands(r.Parameters) }},
	"diff":                          {"HV difference, 1e6 [95 %]", func(r *figures) string { return formatDifference(r) }},
	"p":                             {"p", func(r *figures) string { return formatNumber("%.1e", r.P) }},
	experiment.PerturbationNone:     budgetColumn(experiment.PerturbationNone),
	experiment.PerturbationShock:    budgetColumn(experiment.PerturbationShock),
	experiment.PerturbationGusts:    budgetColumn(experiment.PerturbationGusts),
	experiment.PerturbationRevision: budgetColumn(experiment.PerturbationRevision),
}

func formatNumber(format string, x float64) string {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return "—"
	}
	return fmt.Sprintf(format, x)
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
		return "—"
	case math.IsNaN(mean.End):
		return "not measured"
	}
	return format(&mean)
}

func formatThousands(n int) string {
	if n == 0 {
		return "—"
	}
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

func formatDifference(r *figures) string {
	if math.IsNaN(r.Paired.Mean) {
		return "—"
	}
	return fmt.Sprintf("%+.3f [%+.3f, %+.3f]", r.Paired.Mean/1e6, r.Low/1e6, r.High/1e6)
}

// writeMarkdown writes the report that people read.
func (r *report) writeMarkdown(w io.Writer, tables map[string][]*figures, pictures []plots.Picture) error {
	b := &strings.Builder{}
	fmt.Fprintf(b, "# The study: what each part of the policy contributes\n\n")
	fmt.Fprintf(b, "Made by `offline study`. Two aircraft, ten users, 100 slots; evaluation seeds from 1,000,000, %d for the headline arms and the first %d of them for the others; %d settings of each arm but archives and teachers, spread on calibration seeds of their own. Hypervolume (HV) has its reference point at 1000 s and 141 kJ, the tight one at 720 s and 39 kJ; ratios are to the exact-dispatch teacher's front at %d prices on the same seed. IGD is measured on %d seeds against the pooled front of all %d arms (`%.12s`, reference.json). Differences are paired by seed: mean, 95 %% bootstrap interval, exact Wilcoxon signed-rank p. Arms that the study trains had %d steps of %d flights each, a small part of the flagship's training: compare them with `base`.\n\n",
		r.Seeds, r.AblationSeeds, r.Settings, finestPrices, len(r.reference.BySeed), len(r.reference.Contributors), r.reference.Hash, r.Train.Schedule.Steps, r.Train.Batch)
	for _, line := range r.summaryLines() {
		fmt.Fprintf(b, "- %s\n", line)
	}
	for _, t := range r.tables() {
		if t.columns == nil {
			writeBudgetTables(b, t, tables[t.name])
		} else {
			writeTable(b, t, tables[t.name])
		}
		plots.WriteMarkdown(b, pictures, t.name)
	}
	r.writeLinkTables(b)
	_, err := io.WriteString(w, b.String())
	return err
}

// writeTable writes one table.
func writeTable(b *strings.Builder, t table, rows []*figures) {
	if len(rows) == 0 {
		return
	}
	fmt.Fprintf(b, "\n## %s\n\n", t.title)
	var list []column
	for _, name := range t.columns {
		c := columns[name]
		if name == "diff" {
			c.head = fmt.Sprintf("HV less %s's, 1e6 [95 %%]", t.baseline)
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
	fmt.Fprintf(b, "\n## %s\n\n", t.title)
	i := slices.IndexFunc(rows, func(r *figures) bool { return len(r.Budgets) > 0 })
	if i < 0 {
		fmt.Fprintf(b, "The arm `%s`, which defines what can be kept, has not been measured.\n", evenArm)
		return
	}
	fmt.Fprintf(b, "Keepable seeds are those on which the even pacer ends within %.2f %% of the budget; a budget counts as not measured with fewer than half of the seeds. Figures are means over keepable seeds, then over the perturbation's measured budgets (each by itself: budgets.csv). End: energy over the budget, less one; overrun, mean: of what is above; flights over: the share that ends above.\n", 100*(baseline.KeepableWithin-1))
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
	if t.note != "" {
		fmt.Fprintf(b, "%s\n\n", t.note)
	}
	for i := range rows {
		fmt.Fprintf(b, "- `%s`: %s\n", rows[i].Name, rows[i].Description)
	}
}

// writeLinkTables writes what a lossy link leaves.
func (r *report) writeLinkTables(b *strings.Builder) {
	for _, a := range r.arms {
		if !a.LossyLink {
			continue
		}
		fmt.Fprintf(b, "\n## Hypervolume retained on a bad link: %s\n\nThe hypervolume to 1000 s and 141 kJ, and the tight one to 720 s and 39 kJ.\n\n"+
			"| reports lost | users compute locally | tight | last report stands in | tight | standing offer | tight |\n|---|---:|---:|---:|---:|---:|---:|\n", a.Name)
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
						cell = 100 * pareto.MeanRatio(pareto.Hypervolumes(left.Outcomes, reference), pareto.Hypervolumes(whole.Outcomes, reference))
					}
					fmt.Fprintf(b, " %s |", formatNumber("%.1f %%", cell))
				}
			}
			fmt.Fprintln(b)
		}
	}
}

// summaryLines puts the main results of the tables into sentences.
func (r *report) summaryLines() (lines []string) {
	row := r.figuresOf
	add := func(format string, a ...any) { lines = append(lines, fmt.Sprintf(format, a...)) }
	flagship, paper, rules := row("flagship", ""), row("paper-form", "flagship"), row("rules-101", "flagship")
	if flagship != nil {
		add("The **flagship** reaches HV %.3fe6 at %d settings, %s of the teacher's at %d prices per seed (tight: %s), at fidelity %s; of keepable budgets, it ends on (flights over) %s in calm air, %s under x1.5 from half time, %s in gusts of 15 %%.",
			flagship.Hypervolume.Mean/1e6, flagship.Settings, formatNumber("%.4f", flagship.HypervolumeRatio), finestPrices, formatNumber("%.4f", flagship.TightRatio), formatNumber("%.4f", flagship.Fidelity),
			columns[experiment.PerturbationNone].cell(flagship), columns[experiment.PerturbationShock].cell(flagship), columns[experiment.PerturbationGusts].cell(flagship))
	}
	if rules != nil && flagship != nil {
		add("The paper's strongest **rule teacher** (population 101) reaches %.3fe6: %s against the flagship, p = %s on %d seeds.", rules.Hypervolume.Mean/1e6, formatDifference(rules), formatNumber("%.1e", rules.P), rules.Paired.N)
	}
	if paper != nil {
		add("The **paper's own form**, trained with the study's number of tokens, reaches %.3fe6 at fidelity %s and ends on %s of keepable budgets in calm air and %s under the shock.",
			paper.Hypervolume.Mean/1e6, formatNumber("%.3f", paper.Fidelity), columns[experiment.PerturbationNone].cell(paper), columns[experiment.PerturbationShock].cell(paper))
		if x := row("paper-form-dispatch", "paper-form"); x != nil {
			add("From the dispatch teacher's flights the same form reaches %.3fe6 (%s): that much is the **corpus**; the rest of the way to `base` is the form.", x.Hypervolume.Mean/1e6, formatDifference(x))
		}
	}
	long, base := row("remembering", "base"), row("base", "")
	if long != nil && base != nil {
		add("**What the sequence model gains over a context of one slot**: a network that sees %d slots and its actions in them against one that sees its own slot alone, trained alike: HV ratio (to %d prices) %s against %s (difference of HV %s, p = %s on %d seeds), tight ratio %s against %s; keepable budgets end on %s against %s in calm air, %s against %s under x1.5, %s against %s in gusts. %s",
			historySlots, finestPrices, formatNumber("%.4f", long.HypervolumeRatio), formatNumber("%.4f", base.HypervolumeRatio), formatDifference(long)+" for the long one", formatNumber("%.1e", long.P), long.Paired.N,
			formatNumber("%.4f", long.TightRatio), formatNumber("%.4f", base.TightRatio), columns[experiment.PerturbationNone].cell(long), columns[experiment.PerturbationNone].cell(base), columns[experiment.PerturbationShock].cell(long), columns[experiment.PerturbationShock].cell(base),
			columns[experiment.PerturbationGusts].cell(long), columns[experiment.PerturbationGusts].cell(base), historyVerdict(long))
	}
	for _, decoder := range []struct{ suffix, name string }{{"", "exact dispatch"}, {headsSuffix, "the paper's heads"}} {
		if small, base := row(smallestSize+decoder.suffix, "base"+decoder.suffix), row("base"+decoder.suffix, ""); small != nil && base != nil {
			add("**Size**, with %s: %s parameters (`%s`) reach %s of the teacher's HV at %d prices, %s of the tight one, and decide in %s µs; the base's %s reach %s and %s in %s µs (difference of HV %s for the small one, p = %s on %d seeds).",
				decoder.name, formatThousands(small.Parameters), smallestSize, formatNumber("%.4f", small.HypervolumeRatio), finestPrices, formatNumber("%.4f", small.TightRatio), formatNumber("%.0f", small.DecisionUS),
				formatThousands(base.Parameters), formatNumber("%.4f", base.HypervolumeRatio), formatNumber("%.4f", base.TightRatio), formatNumber("%.0f", base.DecisionUS), formatDifference(small), formatNumber("%.1e", small.P), small.Paired.N)
		}
	}
	if streamed := row(r.contextArmName(historySlots), ""); paper != nil && streamed != nil {
		add("**Streaming context**: a slot's new tokens against a cache of %d slots cost %s µs a decision; the paper's window of sixty tokens, computed anew, %s µs.", historySlots, formatNumber("%.0f", streamed.DecisionUS), formatNumber("%.0f", paper.DecisionUS))
	}
	return lines
}

// historyVerdict states whether the front with a history differs significantly from
// the base's.
func historyVerdict(long *figures) string {
	switch {
	case math.IsNaN(long.P):
		return ""
	case long.P > 0.05:
		return "In the front that is no significant difference."
	case long.Paired.Mean > 0:
		return "The front is significantly better with the history."
	}
	return "The front is significantly better without the history."
}

// csvTable has every figure of some arms.
func csvTable(rows []*figures) experiment.Table {
	t := experiment.Table{Columns: experiment.Columns("arm", "seeds", "settings", "distinct", "parameters", "decision_us", "hypervolume", "hypervolume_std", "tight", "tight_std",
		"ratio", "tight_ratio", "igd", "fidelity", "fidelity_axis", "corner_s", "reach_s", "operable", "gust_ratio", "versus", "pairs", "hypervolume_difference", "low95", "high95", "p")}
	slug := strings.NewReplacer(" ", "_", "%", "percent")
	for _, p := range experiment.Perturbations {
		p = slug.Replace(p)
		t.Columns = append(t.Columns, experiment.Columns("budget_end_"+p, "budget_overrun_"+p, "budget_over_"+p, "budget_delay_s_"+p, "budget_even_delay_s_"+p)...)
	}
	for _, r := range rows {
		row := experiment.Row{
			"arm": r.Name, "seeds": r.Seeds, "settings": r.Settings, "distinct": r.Distinct, "parameters": r.Parameters, "decision_us": r.DecisionUS,
			"hypervolume": r.Hypervolume.Mean, "hypervolume_std": r.Hypervolume.Std, "tight": r.Tight.Mean, "tight_std": r.Tight.Std,
			"ratio": r.HypervolumeRatio, "tight_ratio": r.TightRatio, "igd": r.IGD, "fidelity": r.Fidelity, "fidelity_axis": r.FidelityRecalibrated,
			"corner_s": r.CornerS, "reach_s": r.ReachS, "operable": r.Operable, "gust_ratio": r.GustRatio,
			"versus": r.Baseline, "pairs": r.Paired.N, "hypervolume_difference": r.Paired.Mean, "low95": r.Low, "high95": r.High, "p": r.P,
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
	t := experiment.Table{Columns: experiment.Columns("arm", "perturbation", "budget_j", "seeds", "keepable", "end", "overrun", "over", "delay_s", "even_delay_s")}
	for _, r := range rows {
		for _, b := range r.Budgets {
			row := experiment.Row{"arm": r.Name, "perturbation": b.Perturbation, "budget_j": b.BudgetJ, "seeds": b.Seeds, "keepable": b.Keepable}
			if b.Measured() {
				row["end"], row["overrun"], row["over"], row["delay_s"], row["even_delay_s"] = b.End, b.MeanOverrun, b.OverrunRate, b.DelayS, b.EvenDelayS
			}
			t.Add(row)
		}
	}
	return t
}
