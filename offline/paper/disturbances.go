package paper

import (
	"fmt"

	"prefdt/offline/pareto"
)

// linkTable is what lost reports and snapshots of other slots leave.
func (t *tables) linkTable() table {
	x := table{file: "link", title: "What the link leaves of the front",
		intro: "HV in % of the same flights over a perfect link, by seed. A user whose report is lost computes locally unless its last report stands in.",
		head:  []string{"condition", "published-full", "low", "high", "the paper", "rules-50", "its low", "its high", "the paper's rule", "pairs", "p of the two"}}
	full, rules := t.results[armName(fullArm, link)], t.results[armName(teacherArm, link)]
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
	if c := pareto.Compare(retained(full, displacementName(1), 2), retained(full, displacementName(-1), 2)); c.N > 0 {
		x.after = append(x.after, fmt.Sprintf("One slot before less one slot after, of `%s`: %+.2f points (95 %% interval %+.2f to %+.2f, p = %.1e, n = %d).", fullArm, 100*c.Mean, 100*c.Low, 100*c.High, c.P, c.N))
	}
	line("a snapshot of one slot before, less one of the slot after", differences(retained(full, displacementName(1), 2), retained(full, displacementName(-1), 2)),
		differences(retained(rules, displacementName(1), 2), retained(rules, displacementName(-1), 2)), "0.007", "")
	return x
}

// fleetTable is other fleets, retrained.
func (t *tables) fleetTable() table {
	x := table{file: "fleets", title: "Other fleets, retrained", intro: "HV over that of the teacher searched for the same fleet, per seed. The paper's own tables have 99.47 over 99.79, 0.997, for 2 aircraft: its 0.78 to 0.80 are of something else, which its text does not define.", head: []string{"M", "arm", "n", "HV", "teacher's HV", "ratio", "the paper", "spends"}}
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
