package study

import (
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"prefdt/offline/baseline"
	"prefdt/offline/command"
	"prefdt/offline/pareto"
	"prefdt/offline/rollout"
)

// writeReport writes all that follows from the results into the folder report:
// study.md, a CSV of every arm and of every table, the reference front, and the
// pictures.
func (s *study) writeReport(results []*Result) error {
	if len(results) == 0 {
		s.Logf("nothing measured yet")
		return nil
	}
	reference := poolFronts(results)
	var all []Metrics
	for _, r := range results {
		all = append(all, computeMetrics(results, r, &reference, "flagship"))
	}
	dir := filepath.Join(s.Dir, "report")
	write := func(name string, f func(w io.Writer) error) error {
		return command.ReplaceFile(filepath.Join(dir, name), f)
	}
	if err := command.ReplaceJSON(filepath.Join(dir, "reference.json"), "", reference); err != nil {
		return err
	}
	if err := write("study.csv", func(w io.Writer) error { return writeCSV(w, all) }); err != nil {
		return err
	}
	tables := map[string][]Metrics{}
	for _, t := range s.tables() {
		tables[t.name] = t.metrics(results, &reference)
		writeTableCSV := writeCSV
		if t.columns == nil {
			writeTableCSV = writeBudgetCSV
		}
		if err := write(t.name+".csv", func(w io.Writer) error { return writeTableCSV(w, tables[t.name]) }); err != nil {
			return err
		}
	}
	pictures, err := s.drawPictures(dir, results, tables)
	if err != nil {
		return err
	}
	if err := write("study.md", func(w io.Writer) error { return s.writeMarkdown(w, results, &reference, tables, pictures) }); err != nil {
		return err
	}
	s.Logf("%d arms in %s, with CSV tables, reference.json and %d pictures", len(results), filepath.Join(dir, "study.md"), len(pictures))
	return nil
}

// metrics returns the metrics of a table's arms; those not measured are left out.
func (t *table) metrics(results []*Result, reference *pareto.ReferenceFronts) (rows []Metrics) {
	for _, name := range t.arms {
		if r := findResult(results, name); r != nil {
			rows = append(rows, computeMetrics(results, r, reference, t.baseline))
		}
	}
	return rows
}

// ofPrices follows each ratio's name: at how many prices the teacher's front is.
var ofPrices = fmt.Sprintf(" (to %d prices)", finestPrices)

// column is how one figure is printed.
type column struct {
	head string
	cell func(r *Metrics) string
}

var columns = map[string]column{
	"n":      {"seeds", func(r *Metrics) string { return strconv.Itoa(r.Seeds) }},
	"points": {"settings: on a front / requested", func(r *Metrics) string { return fmt.Sprintf("%d / %d", r.NonDominatedSettings, r.Settings) }},
	"hv": {"HV, 1e6", func(r *Metrics) string {
		return fmt.Sprintf("%.3f ± %.2f", r.Hypervolume.Mean/1e6, r.Hypervolume.Std/1e6)
	}},
	"ratio":              {"HV ratio" + ofPrices, func(r *Metrics) string { return formatNumber("%.4f", r.HypervolumeRatio) }},
	"tight":              {"tight ratio" + ofPrices, func(r *Metrics) string { return formatNumber("%.4f", r.TightRatio) }},
	"igd":                {"IGD, 1e-3 of the span", func(r *Metrics) string { return formatNumber("%.2f", 1e3*r.IGD) }},
	"corner":             {"corner, s", func(r *Metrics) string { return formatNumber("%.1f", r.CornerS) }},
	"reach":              {"reach, s", func(r *Metrics) string { return formatNumber("%.0f", r.ReachS) }},
	"fidelity":           {"fidelity", func(r *Metrics) string { return formatNumber("%.4f", r.Fidelity) }},
	"axis":               {"on its axis", func(r *Metrics) string { return formatNumber("%.4f", r.FidelityRecalibrated) }},
	"operable":           {"operable", func(r *Metrics) string { return r.Operable }},
	"us":                 {"decision, µs", func(r *Metrics) string { return formatNumber("%.0f", r.DecisionUS) }},
	"gust ratio":         {"HV ratio in gusts" + ofPrices, func(r *Metrics) string { return formatNumber("%.4f", r.GustRatio) }},
	"parameters":         {"parameters", func(r *Metrics) string { return formatThousands(r.Parameters) }},
	"diff":               {"HV difference, 1e6 [95 %]", func(r *Metrics) string { return formatDifference(r) }},
	"p":                  {"p", func(r *Metrics) string { return formatNumber("%.1e", r.P) }},
	PerturbationNone:     budgetColumn(PerturbationNone),
	PerturbationShock:    budgetColumn(PerturbationShock),
	PerturbationGusts:    budgetColumn(PerturbationGusts),
	PerturbationRevision: budgetColumn(PerturbationRevision),
}

func formatNumber(format string, x float64) string {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return "—"
	}
	return fmt.Sprintf(format, x)
}

// budgetColumns returns the columns of a table of budgets under one perturbation.
func budgetColumns(perturbation string) []column {
	figure := func(head, format string, value func(b *BudgetFigures) float64) column {
		return column{head, func(r *Metrics) string {
			return formatBudget(r, perturbation, func(b *BudgetFigures) string { return fmt.Sprintf(format, value(b)) })
		}}
	}
	return []column{
		figure("end", "%+.2f %%", func(b *BudgetFigures) float64 { return 100 * b.End }),
		figure("overrun, mean", "%.2f %%", func(b *BudgetFigures) float64 { return 100 * b.MeanOverrun }),
		figure("flights over", "%.2f", func(b *BudgetFigures) float64 { return b.OverrunRate }),
		figure("delay, s", "%.1f", func(b *BudgetFigures) float64 { return b.DelayS }),
		figure("even pacer's delay, s", "%.1f", func(b *BudgetFigures) float64 { return b.EvenDelayS }),
	}
}

// budgetColumn is the column of a perturbation in a table of other figures.
func budgetColumn(perturbation string) column {
	return column{perturbation + ": end / flights over", func(r *Metrics) string {
		return formatBudget(r, perturbation, func(b *BudgetFigures) string { return fmt.Sprintf("%+.2f %% / %.2f", 100*b.End, b.OverrunRate) })
	}}
}

// formatBudget formats the mean over a perturbation's measured budgets.
func formatBudget(r *Metrics, perturbation string, format func(b *BudgetFigures) string) string {
	mean, measured := r.meanBudget(perturbation)
	switch {
	case len(r.Budgets) == 0:
		return "—"
	case !measured:
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

func formatDifference(r *Metrics) string {
	if math.IsNaN(r.Paired.Mean) {
		return "—"
	}
	return fmt.Sprintf("%+.3f [%+.3f, %+.3f]", r.Paired.Mean/1e6, r.Low/1e6, r.High/1e6)
}

// writeMarkdown writes the report that people read.
func (s *study) writeMarkdown(w io.Writer, results []*Result, reference *pareto.ReferenceFronts, tables map[string][]Metrics, pictures []picture) error {
	b := &strings.Builder{}
	fmt.Fprintf(b, "# The study: what each part of the policy contributes\n\n")
	fmt.Fprintf(b, "Made by `offline study`. Two aircraft, ten users, 100 slots; evaluation seeds from 1,000,000, %d for the headline arms and the first %d of them for the others; %d settings of each arm but archives and teachers, spread on calibration seeds of their own. Hypervolume (HV) has its reference point at 1000 s and 141 kJ, the tight one at 720 s and 39 kJ; ratios are to the exact-dispatch teacher's front at %d prices on the same seed. IGD is measured on %d seeds against the pooled front of all %d arms (`%.12s`, reference.json). Differences are paired by seed: mean, 95 %% bootstrap interval, exact Wilcoxon signed-rank p. Arms that the study trains had %d steps of %d flights each, a small part of the flagship's training: compare them with `base`.\n\n",
		s.Seeds, s.AblationSeeds, s.Settings, finestPrices, len(reference.BySeed), len(reference.Contributors), reference.Hash, s.Train.Schedule.Steps, s.Train.Batch)
	for _, line := range s.summaryLines(results, reference) {
		fmt.Fprintf(b, "- %s\n", line)
	}
	for _, t := range s.tables() {
		if t.columns == nil {
			writeBudgetTables(b, t, tables[t.name])
		} else {
			writeTable(b, t, tables[t.name])
		}
		for _, p := range pictures {
			if p.table == t.name {
				fmt.Fprintf(b, "\n![%s](%s)\n", p.title, p.file)
			}
		}
	}
	writeLinkTables(b, results)
	_, err := io.WriteString(w, b.String())
	return err
}

// writeTable writes one table.
func writeTable(b *strings.Builder, t table, rows []Metrics) {
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
func writeBudgetTables(b *strings.Builder, t table, rows []Metrics) {
	if len(rows) == 0 {
		return
	}
	fmt.Fprintf(b, "\n## %s\n\n", t.title)
	i := slices.IndexFunc(rows, func(r Metrics) bool { return len(r.Budgets) > 0 })
	if i < 0 {
		fmt.Fprintf(b, "The arm `%s`, which defines what can be kept, has not been measured.\n", evenArm)
		return
	}
	fmt.Fprintf(b, "Keepable seeds are those on which the even pacer ends within %.2f %% of the budget; a budget counts as not measured with fewer than half of the seeds. Figures are means over keepable seeds, then over the perturbation's measured budgets (each by itself: budgets.csv). End: energy over the budget, less one; overrun, mean: of what is above; flights over: the share that ends above.\n", 100*(baseline.KeepableWithin-1))
	for _, perturbation := range perturbations {
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
func writeRows(b *strings.Builder, columns []column, rows []Metrics) {
	b.WriteString("| arm |")
	for _, c := range columns {
		fmt.Fprintf(b, " %s |", c.head)
	}
	fmt.Fprintf(b, "\n|---%s|\n", strings.Repeat("|---:", len(columns)))
	for i := range rows {
		fmt.Fprintf(b, "| %s |", rows[i].Arm)
		for _, c := range columns {
			fmt.Fprintf(b, " %s |", c.cell(&rows[i]))
		}
		fmt.Fprintln(b)
	}
}

// writeNotes writes what a table's arms are.
func writeNotes(b *strings.Builder, t table, rows []Metrics) {
	fmt.Fprintln(b)
	if t.note != "" {
		fmt.Fprintf(b, "%s\n\n", t.note)
	}
	for i := range rows {
		fmt.Fprintf(b, "- `%s`: %s\n", rows[i].Arm, rows[i].Description)
	}
}

// writeLinkTables writes what a lossy link leaves.
func writeLinkTables(b *strings.Builder, results []*Result) {
	for _, r := range results {
		if len(r.LinkRetentions) == 0 {
			continue
		}
		fmt.Fprintf(b, "\n## Hypervolume retained on a bad link: %s\n\nThe hypervolume to 1000 s and 141 kJ, and the tight one to 720 s and 39 kJ.\n\n| reports lost | users compute locally | tight | last report stands in | tight | standing offer | tight |\n|---|---:|---:|---:|---:|---:|---:|\n", r.arm.Name)
		for _, l := range r.LinkRetentions {
			if l.Fallback != rollout.FallbackLocal {
				continue
			}
			name := fmt.Sprintf("%.0f %%", 100*l.LossRate)
			if l.LateSlots > 0 {
				name = fmt.Sprintf("none, snapshot %d slot late", l.LateSlots)
			}
			fmt.Fprintf(b, "| %s |", name)
			for _, f := range []rollout.Fallback{rollout.FallbackLocal, rollout.FallbackLastReport, rollout.FallbackOffer} {
				wide, tight := "—", "—"
				for _, x := range r.LinkRetentions {
					if x.LossRate == l.LossRate && x.LateSlots == l.LateSlots && x.Fallback == f {
						wide = fmt.Sprintf("%.1f %%", 100*x.HypervolumeRetained)
						if x.TightRetained != nil {
							tight = fmt.Sprintf("%.1f %%", 100**x.TightRetained)
						}
					}
				}
				fmt.Fprintf(b, " %s | %s |", wide, tight)
			}
			fmt.Fprintln(b)
		}
	}
}

// summaryLines puts the main results of the tables into sentences.
func (s *study) summaryLines(results []*Result, reference *pareto.ReferenceFronts) (lines []string) {
	row := func(name, versus string) *Metrics {
		if r := findResult(results, name); r != nil {
			x := computeMetrics(results, r, reference, versus)
			return &x
		}
		return nil
	}
	add := func(format string, a ...any) { lines = append(lines, fmt.Sprintf(format, a...)) }
	flagship, paper, rules := row("flagship", ""), row("paper-form", "flagship"), row("rules-101", "flagship")
	if flagship != nil {
		add("The **flagship** reaches HV %.3fe6 at %d settings, %s of the teacher's at %d prices per seed (tight: %s), at fidelity %s; of keepable budgets, it ends on (flights over) %s in calm air, %s under x1.5 from half time, %s in gusts of 15 %%.",
			flagship.Hypervolume.Mean/1e6, flagship.Settings, formatNumber("%.4f", flagship.HypervolumeRatio), finestPrices, formatNumber("%.4f", flagship.TightRatio), formatNumber("%.4f", flagship.Fidelity),
			columns[PerturbationNone].cell(flagship), columns[PerturbationShock].cell(flagship), columns[PerturbationGusts].cell(flagship))
	}
	if rules != nil && flagship != nil {
		add("The paper's strongest **rule teacher** (population 101) reaches %.3fe6: %s against the flagship, p = %s on %d seeds.", rules.Hypervolume.Mean/1e6, formatDifference(rules), formatNumber("%.1e", rules.P), rules.Paired.N)
	}
	if paper != nil {
		add("The **paper's own form**, trained with the study's number of tokens, reaches %.3fe6 at fidelity %s and ends on %s of keepable budgets in calm air and %s under the shock.",
			paper.Hypervolume.Mean/1e6, formatNumber("%.3f", paper.Fidelity), columns[PerturbationNone].cell(paper), columns[PerturbationShock].cell(paper))
		if x := row("paper-form-dispatch", "paper-form"); x != nil {
			add("From the dispatch teacher's flights the same form reaches %.3fe6 (%s): that much is the **corpus**; the rest of the way to `base` is the form.", x.Hypervolume.Mean/1e6, formatDifference(x))
		}
	}
	long, base := row("remembering", "base"), row("base", "")
	if long != nil && base != nil {
		add("**What the sequence model gains over a context of one slot**: a network that sees %d slots and its actions in them against one that sees its own slot alone, trained alike: HV ratio (to %d prices) %s against %s (difference of HV %s, p = %s on %d seeds), tight ratio %s against %s; keepable budgets end on %s against %s in calm air, %s against %s under x1.5, %s against %s in gusts. %s",
			historySlots, finestPrices, formatNumber("%.4f", long.HypervolumeRatio), formatNumber("%.4f", base.HypervolumeRatio), formatDifference(long)+" for the long one", formatNumber("%.1e", long.P), long.Paired.N,
			formatNumber("%.4f", long.TightRatio), formatNumber("%.4f", base.TightRatio), columns[PerturbationNone].cell(long), columns[PerturbationNone].cell(base), columns[PerturbationShock].cell(long), columns[PerturbationShock].cell(base),
			columns[PerturbationGusts].cell(long), columns[PerturbationGusts].cell(base), historyVerdict(long))
	}
	for _, decoder := range []struct{ suffix, name string }{{"", "exact dispatch"}, {headsSuffix, "the paper's heads"}} {
		if small, base := row(smallestSize+decoder.suffix, "base"+decoder.suffix), row("base"+decoder.suffix, ""); small != nil && base != nil {
			add("**Size**, with %s: %s parameters (`%s`) reach %s of the teacher's HV at %d prices, %s of the tight one, and decide in %s µs; the base's %s reach %s and %s in %s µs (difference of HV %s for the small one, p = %s on %d seeds).",
				decoder.name, formatThousands(small.Parameters), smallestSize, formatNumber("%.4f", small.HypervolumeRatio), finestPrices, formatNumber("%.4f", small.TightRatio), formatNumber("%.0f", small.DecisionUS),
				formatThousands(base.Parameters), formatNumber("%.4f", base.HypervolumeRatio), formatNumber("%.4f", base.TightRatio), formatNumber("%.0f", base.DecisionUS), formatDifference(small), formatNumber("%.1e", small.P), small.Paired.N)
		}
	}
	if streamed := row(s.contextArmName(historySlots), ""); paper != nil && streamed != nil {
		add("**Streaming context**: a slot's new tokens against a cache of %d slots cost %s µs a decision; the paper's window of sixty tokens, computed anew, %s µs.", historySlots, formatNumber("%.0f", streamed.DecisionUS), formatNumber("%.0f", paper.DecisionUS))
	}
	return lines
}

// historyVerdict states whether the front with a history differs significantly from
// the base's.
func historyVerdict(long *Metrics) string {
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

// writeCSV writes every arm's figures.
func writeCSV(w io.Writer, rows []Metrics) error {
	names := []string{"arm", "seeds", "settings", "distinct", "parameters", "decision_us", "hypervolume", "hypervolume_std", "tight", "tight_std", "ratio", "tight_ratio",
		"igd", "fidelity", "fidelity_axis", "corner_s", "reach_s", "operable", "gust_ratio", "versus", "pairs", "hypervolume_difference", "low95", "high95", "p"}
	for _, p := range perturbations {
		slug := strings.NewReplacer(" ", "_", "%", "percent").Replace(p)
		names = append(names, "budget_end_"+slug, "budget_overrun_"+slug, "budget_over_"+slug, "budget_delay_s_"+slug, "budget_even_delay_s_"+slug)
	}
	out := csv.NewWriter(w)
	out.Write(names) // Flush below keeps the error
	for i := range rows {
		r := &rows[i]
		cells := []string{r.Arm, strconv.Itoa(r.Seeds), strconv.Itoa(r.Settings), strconv.Itoa(r.NonDominatedSettings), strconv.Itoa(r.Parameters)}
		for _, x := range []float64{r.DecisionUS, r.Hypervolume.Mean, r.Hypervolume.Std, r.Tight.Mean, r.Tight.Std, r.HypervolumeRatio, r.TightRatio, r.IGD, r.Fidelity, r.FidelityRecalibrated, r.CornerS, r.ReachS} {
			cells = append(cells, csvNumber(x))
		}
		cells = append(cells, r.Operable, csvNumber(r.GustRatio), r.Baseline, strconv.Itoa(r.Paired.N))
		for _, x := range []float64{r.Paired.Mean, r.Low, r.High, r.P} {
			cells = append(cells, csvNumber(x))
		}
		for _, p := range perturbations {
			mean, _ := r.meanBudget(p)
			for _, x := range []float64{mean.End, mean.MeanOverrun, mean.OverrunRate, mean.DelayS, mean.EvenDelayS} {
				cells = append(cells, csvNumber(x))
			}
		}
		out.Write(cells)
	}
	out.Flush()
	return out.Error()
}

// writeBudgetCSV writes every arm's figures for every budget; they are left out where a
// budget counts as not measured.
func writeBudgetCSV(w io.Writer, rows []Metrics) error {
	out := csv.NewWriter(w)
	out.Write([]string{"arm", "perturbation", "budget_j", "seeds", "keepable", "end", "overrun", "over", "delay_s", "even_delay_s"}) // Flush below keeps the error
	for i := range rows {
		for _, b := range rows[i].Budgets {
			cells := []string{rows[i].Arm, b.Perturbation, csvNumber(b.BudgetJ), strconv.Itoa(b.Seeds), strconv.Itoa(b.Keepable)}
			for _, x := range []float64{b.End, b.MeanOverrun, b.OverrunRate, b.DelayS, b.EvenDelayS} {
				if !b.Measured() {
					x = math.NaN()
				}
				cells = append(cells, csvNumber(x))
			}
			out.Write(cells)
		}
	}
	out.Flush()
	return out.Error()
}

// csvNumber leaves a cell empty where there is no figure.
func csvNumber(x float64) string {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return ""
	}
	return strconv.FormatFloat(x, 'g', 7, 64)
}
