package paper

import (
	"cmp"
	"fmt"
	"slices"

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
		line(r.name, retained(full, r.name), retained(rules, r.name), r.published, r.rules)
	}
	for _, r := range substitutionRows {
		gained := func(from *Result) []float64 {
			return differences(retained(from, lossName(r.rate, true)), retained(from, lossName(r.rate, false)))
		}
		line(fmt.Sprintf("what the last report adds at %g %% lost", 100*r.rate), gained(full), gained(rules), number("%+.1f", r.published), number("%+.1f", r.rules))
	}
	if c := pareto.Compare(retained(full, displacementName(1)), retained(full, displacementName(-1))); c.N > 0 {
		x.after = append(x.after, fmt.Sprintf("One slot before less one slot after, of `%s`: %+.2f points (95 %% interval %+.2f to %+.2f, p = %.1e, n = %d).", t.longestArm(), 100*c.Mean, 100*c.Low, 100*c.High, c.P, c.N))
	}
	if own, other := retained(full, lossName(0.4, false)), retained(rules, lossName(0.4, false)); own != nil && other != nil {
		x.after = append(x.after, fmt.Sprintf("At 40 %% lost `%s` keeps %.1f %% and its teacher %.1f %%, nearer to each other than the paper's two: whatever decides for a user by that user's own numbers loses those that are not there and no others.",
			t.longestArm(), 100*mean(own), 100*mean(other)))
	}
	line("a snapshot of one slot before, less one of the slot after", differences(retained(full, displacementName(1)), retained(full, displacementName(-1))),
		differences(retained(rules, displacementName(1)), retained(rules, displacementName(-1))), "0.007", "")
	return x
}

// fleetTable is other fleets, retrained.
func (t *tables) fleetTable() table {
	x := table{file: "fleets", title: "Other fleets, retrained", intro: fmt.Sprintf("HV over that of the teacher searched for the same fleet, of %d settings and of as many members spread evenly over its archive, per seed. Larger fleets have fewer flights in the corpus, 50,000 for 2 aircraft, 25,000 for 4 and 12,500 for 8, at equal tokens. The paper's own tables have 99.47 over 99.79, 0.997, for 2 aircraft: its 0.78 to 0.80 are of something else, which its text does not define.", t.Settings),
		head: []string{"M", "arm", "n", "HV", "teacher's HV", fmt.Sprintf("teacher's at K=%d", t.Settings), "ratio", "low", "high", "the paper", "spends"}}
	for _, f := range []struct {
		aircraft     int
		arm, teacher string
	}{{2, "published", "rules-50"}, {4, "published-fleet4", "rules-50-fleet4"}, {8, "published-fleet8", "rules-50-fleet8"}} {
		own, teacher, equal := t.hypervolumesOf(f.arm), t.hypervolumesOf(f.teacher), t.thinned(f.teacher, f.aircraft)
		n, ratio, low, high := "", none, none, none
		if len(own) > 0 && len(equal) > 0 {
			ratios := make([]float64, len(own))
			for i := range ratios {
				ratios[i] = own[i] / equal[i]
			}
			n, ratio = fmt.Sprint(len(own)), mean(ratios)
			low, high = pareto.MeanInterval(ratios)
		}
		x.add(fmt.Sprint(f.aircraft), f.arm, n, cmp.Or(number("%.3f", mean(own)), notRun), number("%.3f", mean(teacher)), number("%.3f", mean(equal)), number("%.4f", ratio), number("%.4f", low), number("%.4f", high), "0.78 to 0.80", t.arm(f.arm).Spends)
	}
	return x
}

// arrivalTable is another number of active users from half time on, beside a whole flight with as many:
// with fewer tasks any front is larger, so that a switch costs what it leaves below the mean of both.
func (t *tables) arrivalTable() table {
	x := table{file: "arrivals", title: "Another arrival process from half time on",
		intro: fmt.Sprintf("HV on %d seeds in %% of the trained process's: of flights with fewer active users from half time on, and of flights with as few from the start. Numbers of users are whole, so that x0.75 is 0.77 in the mean and x0.5 is 0.53. Fewer tasks raise it, so that a policy which the switch itself does not harm has the mean of 100 and the second. The paper: it degrades neither its policy nor its rule at any context length.", t.BudgetSeeds),
		head:  []string{"arm", "active users", "n", "from half time on", "throughout", "switch less the mean of both", "low", "high", "p"}}
	for _, arm := range []string{"prefdt-context1", "prefdt-context10", "prefdt", "prefdt-context50", teacherArm} {
		r := t.results[armName(arm, arrivals)]
		for _, factor := range arrivalFactors {
			after, throughout := retained(r, arrivalName(factor)), retained(r, loadName(factor))
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

// shiftTable is fronts at other operating points, in % of that at the trained one.
func (t *tables) shiftTable() table {
	shipped := t.longestArm()
	own, teacher := t.results[t.longest(shifts)], t.results[armName(teacherArm, shifts)]
	x := table{file: "shifts", title: "Fifteen shifted operating points",
		intro: "HV in % of that at the trained point, both to 1000 s and 141 kJ, on the same seeds; the difference in points, paired by seed, with its 95 % interval. The paper's fifteen are in its appendix; these are ours.",
		head:  []string{"condition", shipped, teacherArm, shipped + " less " + teacherArm}}
	kept := map[string][]float64{} // by arm, % at each point
	percent := func(arm string, r *Result, condition string) (list []float64, cell string) {
		for _, part := range retained(r, condition) {
			list = append(list, 100*part)
		}
		if len(list) == 0 {
			return nil, notRun
		}
		kept[arm] = append(kept[arm], mean(list))
		return list, number("%.2f", mean(list))
	}
	for _, c := range conditions(shifts)[1:] {
		a, cell := percent(shipped, own, c.name)
		b, teacherCell := percent(teacherArm, teacher, c.name)
		x.add(c.name, cell, teacherCell, pairedCell("%+.2f", a, b))
	}
	for _, line := range []struct{ arm, paper string }{{shipped, "the paper's loses 4.3 % in the worst case on average"}, {teacherArm, "the paper's rule loses 2.6 %"}} {
		if list := kept[line.arm]; len(list) > 0 {
			x.after = append(x.after, fmt.Sprintf("`%s` keeps %.1f %% in the mean and %.1f %% in the worst; %s.", line.arm, mean(list), slices.Min(list), line.paper))
		} else {
			x.after = append(x.after, fmt.Sprintf("`%s`: not run; %s.", line.arm, line.paper))
		}
	}
	return x
}
