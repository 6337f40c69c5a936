package paper

import (
	"fmt"
	"slices"

	"prefdt/offline/experiment"
	"prefdt/offline/pareto"
)

// linkTable is what lost reports and snapshots of other slots leave.
func (t *tables) linkTable(x *experiment.Table) {
	name := t.longestArm()
	x.SetHead("own", name)
	x.SetHead("own, tight", name+", tight")
	full, rules := t.results[t.longest(link)], t.results[armName(teacherArm, link)]
	add := func(condition string, of func(*experiment.Result, pareto.Point) []float64, paper, paperRules string) {
		own, other := of(full, pareto.Reference), of(rules, pareto.Reference)
		low, high := interval(own)
		otherLow, otherHigh := interval(other)
		cells := experiment.Row{"condition": condition, "the paper": paper, "the paper's rule": paperRules,
			"own": orNotRun(100 * mean(own)), "low": 100 * low, "high": 100 * high,
			"own, tight": 100 * mean(of(full, pareto.TightReference)), "rules-50, tight": 100 * mean(of(rules, pareto.TightReference)),
			"rules-50": orNotRun(100 * mean(other)), "its low": 100 * otherLow, "its high": 100 * otherHigh}
		if c := pareto.Compare(own, other); c.N > 0 {
			cells["pairs"] = c.N
		}
		x.Add(cells)
	}
	for _, r := range paperRows.Link {
		add(r.Name, func(from *experiment.Result, p pareto.Point) []float64 { return retained(from, r.Name, p) }, r.Paper, r.Rules)
	}
	for _, r := range paperRows.Substitution {
		add(fmt.Sprintf("what the last report adds at %g %% lost", 100*r.Rate), func(from *experiment.Result, p pareto.Point) []float64 {
			return pareto.Differences(retained(from, lossName(r.Rate, true), p), retained(from, lossName(r.Rate, false), p))
		}, number("%+.1f", r.Paper), number("%+.1f", r.Rules))
	}
	beforeLessAfter := func(r *experiment.Result, p pareto.Point) []float64 {
		return pareto.Differences(retained(r, displacementName(1), p), retained(r, displacementName(-1), p))
	}
	add("a snapshot of one slot before, less one of the slot after", beforeLessAfter, "0.007", "")
	x.After = t.recordsOf(t.longest(link), armName(teacherArm, link))
}

// recordsOf says what measured the columns of a table.
func (t *tables) recordsOf(arms ...string) (lines []string) {
	for _, arm := range arms {
		if by := t.measuredBy(arm); by != "" {
			lines = append(lines, fmt.Sprintf("Record of `%s`: %s.", arm, by))
		}
	}
	return lines
}

// fleetTable is other fleets, retrained.
func (t *tables) fleetTable(x *experiment.Table) {
	x.SetHead("teacher's at equal K", fmt.Sprintf("teacher's at K=%d", t.Settings))
	for _, f := range []struct {
		aircraft     int
		arm, teacher string
	}{{2, "published", "rules-50"}, {4, "published-fleet4", "rules-50-fleet4"}, {8, "published-fleet8", "rules-50-fleet8"}} {
		wide, tight := referencesOf(f.aircraft)
		own, equal := t.of(f.arm).Hypervolumes, t.thinned(f.teacher, wide)
		var ratios []float64
		for i := range min(len(own), len(equal)) {
			ratios = append(ratios, own[i]/equal[i])
		}
		low, high := interval(ratios)
		x.Add(experiment.Row{"M": f.aircraft, "arm": f.arm, "n": count(len(ratios)), "HV": orNotRun(mean(own)),
			"teacher's HV":         mean(t.of(f.teacher).Hypervolumes),
			"teacher's at equal K": mean(equal), "ratio": mean(ratios), "low": low, "high": high, "the paper": "0.78 to 0.80",
			"tight ratio": pareto.MeanRatio(t.of(f.arm).Tight, t.thinned(f.teacher, tight)), "record": t.measuredBy(f.arm, f.teacher),
			"spends": t.Arm(f.arm).Spends})
	}
}

// arrivalTable is another number of active users from half time on, beside a whole flight with as many:
// with fewer tasks any front is larger, so that a switch costs what it leaves below the mean of both.
func (t *tables) arrivalTable(x *experiment.Table) {
	var tests []float64
	for _, arm := range []string{"prefdt-context1", "prefdt-context10", "prefdt", "prefdt-context50", teacherArm} {
		r := t.results[armName(arm, arrivals)]
		for _, factor := range arrivalFactors {
			after, throughout := retained(r, arrivalName(factor), pareto.Reference), retained(r, loadName(factor), pareto.Reference)
			both := make([]float64, len(throughout))
			for i, kept := range throughout {
				both[i] = (1 + kept) / 2
			}
			c := pareto.Compare(after, both)
			x.Add(experiment.Row{"arm": arm, "record": t.measuredBy(armName(arm, arrivals)),
				"active users": fmt.Sprintf("x%g", factor), "n": count(c.N),
				"from half time on": orNotRun(100 * mean(after)),
				"throughout":        100 * mean(throughout), "switch less the mean of both": 100 * c.Mean, "low": 100 * c.Low,
				"high": 100 * c.High})
			tests = append(tests, c.P)
		}
	}
	for i, p := range pareto.Holm(tests) {
		x.Rows[i]["p"] = p
	}
}

// shiftTable is fronts at other operating points, in % of that at the trained one.
func (t *tables) shiftTable(x *experiment.Table) {
	arms := []struct{ name, column, paper string }{
		{t.longestArm(), "own", "the paper's loses 4.3 % in the worst case on average"}, {teacherArm, teacherArm,
			"the paper's rule loses 2.6 %"},
	}
	x.SetHead("own", arms[0].name)
	x.SetHead("own, tight", arms[0].name+", tight")
	x.SetHead("difference", arms[0].name+" less "+teacherArm)
	means := map[string][]float64{} // by arm, % at each point
	for _, c := range conditions(shifts)[1:] {
		cells := experiment.Row{"condition": c.Name}
		var percent [2][]float64
		for i, a := range arms {
			r := t.results[armName(a.name, shifts)]
			for _, part := range retained(r, c.Name, pareto.Reference) {
				percent[i] = append(percent[i], 100*part)
			}
			cells[a.column+", tight"] = 100 * mean(retained(r, c.Name, pareto.TightReference))
			if cells[a.column] = orNotRun(mean(percent[i])); len(percent[i]) > 0 {
				means[a.name] = append(means[a.name], mean(percent[i]))
			}
		}
		cells["difference"] = pairedCell("%+.2f", percent[0], percent[1])
		x.Add(cells)
	}
	x.After = t.recordsOf(armName(t.longestArm(), shifts), armName(teacherArm, shifts))
	for _, a := range arms {
		if list := means[a.name]; len(list) > 0 && t.recorded(armName(a.name, shifts)) {
			x.After = append(x.After, fmt.Sprintf("`%s` keeps %.1f %% in the mean and %.1f %% in the worst; %s.", a.name, mean(list),
				slices.Min(list), a.paper))
		}
	}
}
