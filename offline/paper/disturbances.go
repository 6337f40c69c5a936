package paper

import (
	"cmp"
	"fmt"

	"prefdt/offline/pareto"
)

// linkTable is what lost reports and snapshots of other slots leave.
func (t *tables) linkTable() table {
	x := table{file: "link", title: "What the link leaves of the front",
		intro: "HV in % of the same flights over a perfect link, by seed. A user whose report is lost computes locally unless its last report stands in: who has a task is known then, as our decision is for a user, not for a report. The paper's rule is one of its own that a user follows by itself, not its teacher; ours is the teacher.",
		head:  []string{"condition", t.longestArm(), "low", "high", "the paper", "rules-50", "its low", "its high", "the paper's rule", "pairs", "p of the two"}}
	full, rules := t.results[t.longest(link)], t.results[armName(teacherArm, link)]
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
		line(r.name, retained(full, r.name, 2), retained(rules, r.name, 2), r.published, r.rules)
	}
	for _, r := range substitutionRows {
		gained := func(from *Result) []float64 {
			return differences(retained(from, lossName(r.rate, true), 2), retained(from, lossName(r.rate, false), 2))
		}
		line(fmt.Sprintf("what the last report adds at %g %% lost", 100*r.rate), gained(full), gained(rules), number("%+.1f", r.published), number("%+.1f", r.rules))
	}
	if c := pareto.Compare(retained(full, displacementName(1), 2), retained(full, displacementName(-1), 2)); c.N > 0 {
		x.after = append(x.after, fmt.Sprintf("One slot before less one slot after, of `%s`: %+.2f points (95 %% interval %+.2f to %+.2f, p = %.1e, n = %d).", t.longestArm(), 100*c.Mean, 100*c.Low, 100*c.High, c.P, c.N))
	}
	if own, other := retained(full, lossName(0.4, false), 2), retained(rules, lossName(0.4, false), 2); own != nil && other != nil {
		x.after = append(x.after, fmt.Sprintf("At 40 %% lost `%s` keeps %.1f %% and its teacher %.1f %%, where the paper has 71.1 and 60.8: whatever decides for a user by that user's own numbers loses those that are not there and no others. The last report adds %+.1f and %+.1f points, the paper's +8.9 and -3.3.",
			t.longestArm(), 100*mean(own), 100*mean(other), 100*(mean(retained(full, lossName(0.4, true), 2))-mean(own)), 100*(mean(retained(rules, lossName(0.4, true), 2))-mean(other))))
	}
	line("a snapshot of one slot before, less one of the slot after", differences(retained(full, displacementName(1), 2), retained(full, displacementName(-1), 2)),
		differences(retained(rules, displacementName(1), 2), retained(rules, displacementName(-1), 2)), "0.007", "")
	return x
}

// fleetTable is other fleets, retrained.
func (t *tables) fleetTable() table {
	x := table{file: "fleets", title: "Other fleets, retrained", intro: fmt.Sprintf("HV over that of the teacher searched for the same fleet, of %d settings and of as many members spread evenly over its archive, per seed. Larger fleets have fewer flights in the corpus, 50,000 for 2 aircraft, 25,000 for 4 and 12,500 for 8, at equal tokens. The paper's own tables have 99.47 over 99.79, 0.997, for 2 aircraft: its 0.78 to 0.80 are of something else, which its text does not define.", t.Settings),
		head: []string{"M", "arm", "n", "HV", "teacher's HV", fmt.Sprintf("teacher's at K=%d", t.Settings), "ratio", "the paper", "spends"}}
	for _, f := range []struct {
		aircraft     int
		arm, teacher string
	}{{2, "published", "rules-50"}, {4, "published-fleet4", "rules-50-fleet4"}, {8, "published-fleet8", "rules-50-fleet8"}} {
		own, teacher, equal := t.hypervolumesOf(f.arm), t.hypervolumesOf(f.teacher), t.thinned(f.teacher, f.aircraft)
		n, ratio := "", none
		if len(own) > 0 && len(equal) > 0 {
			n, ratio = fmt.Sprint(len(own)), pareto.MeanRatio(own, equal)
		}
		x.add(fmt.Sprint(f.aircraft), f.arm, n, cmp.Or(number("%.3f", mean(own)), notRun), number("%.3f", mean(teacher)), number("%.3f", mean(equal)), number("%.4f", ratio), "0.78 to 0.80", t.arm(f.arm).Spends)
	}
	return x
}

// arrivalTable is another number of active users from half time on, beside a whole flight with as many:
// with fewer tasks any front is larger, so that a switch costs what it leaves below the mean of both.
func (t *tables) arrivalTable() table {
	x := table{file: "arrivals", title: "Another arrival process from half time on",
		intro: fmt.Sprintf("HV on %d seeds in %% of the trained process's: of flights with fewer active users from half time on, and of flights with as few from the start. Fewer tasks raise it, so that a policy which the switch itself does not harm has the mean of 100 and the second. The paper: it degrades neither at any context length.", t.BudgetSeeds),
		head:  []string{"arm", "active users", "n", "from half time on", "throughout", "switch less the mean of both", "low", "high", "p"}}
	for _, arm := range []string{"prefdt-context1", "prefdt-context10", "prefdt", "prefdt-context50", teacherArm} {
		r := t.results[armName(arm, arrivals)]
		for _, factor := range arrivalFactors {
			after, throughout := retained(r, arrivalName(factor), 2), retained(r, loadName(factor), 2)
			cells := []string{arm, fmt.Sprintf("x%g", factor)}
			if after == nil || throughout == nil {
				x.add(append(cells, "", notRun)...)
				continue
			}
			both := make([]float64, len(throughout))
			for i, kept := range throughout {
				both[i] = (1 + kept) / 2
			}
			c := pareto.Compare(after, both)
			x.add(append(cells, fmt.Sprint(c.N), number("%.2f", 100*mean(after)), number("%.2f", 100*mean(throughout)), number("%+.2f", 100*c.Mean), number("%+.2f", 100*c.Low), number("%+.2f", 100*c.High), number("%.1e", c.P))...)
		}
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
