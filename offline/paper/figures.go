package paper

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"prefdt/offline/experiment"
	"prefdt/offline/pareto"
	"prefdt/simbridge/world"
)

// figures are an arm's on its front, by seed; hypervolumes are in 1e6 s J, and there are no fidelities of what
// takes no preference.
type figures struct {
	*pareto.Metrics
	igds     []float64 // in unscaled seconds and joules, as the paper's seem to be, against the front of all others
	calmIGDs []float64 // of that front's points up to calmJ
	corners  []float64 // s, of one setting
	verdict  string    // of eq. (criterion)
}

var mean = pareto.Mean

// millions divides by 1e6, in place.
func millions(x []float64) []float64 {
	for i := range x {
		x[i] /= 1e6
	}
	return x
}

// interval is the 95 % interval of a mean, NaN of none.
func interval(x []float64) (low, high float64) {
	if len(x) == 0 {
		return none, none
	}
	return pareto.MeanInterval(x)
}

// teacherArm has the span that reach is judged by.
const teacherArm = "rules-50"

// tables is what the report is written from.
type tables struct {
	*set
	results   map[string]*experiment.Result
	figures   map[string]*figures
	pool      []pareto.Contributor // fronts that IGD is measured against, each arm's own apart
	reference pareto.ReferenceFronts
	costs     []float64 // seconds of a core by route; NaN: not timed
}

// evenPacer is the policy, and the arm of a study, by which budgets are judged.
const evenPacer = "even"

// referencesOf returns the hypervolume's reference points for a fleet.
func referencesOf(aircraft int) (wide, tight pareto.Point) {
	c := world.Standard()
	c.Aircraft = aircraft
	return pareto.References(&c, nil)
}

// newTables computes every arm's figures.
func (s *set) newTables(results map[string]*experiment.Result) *tables {
	t := &tables{set: s, results: results, figures: map[string]*figures{}}
	for _, p := range s.policies {
		if r := results[p.Name].Sweep(nominal); r != nil && !p.Optional && !p.budgeted && p.aircraft == 2 {
			t.pool = append(t.pool, pareto.Contributor{Arm: p.Name, ResultHash: results[p.Name].Key, Outcomes: r.Outcomes})
		}
	}
	t.reference = pareto.PoolFronts(t.pool)
	span := none
	if r := results[teacherArm].Sweep(nominal); r != nil {
		span = mean(pareto.BySeed(r.Outcomes, pareto.ReachS))
	}
	for _, p := range s.policies {
		for _, measurement := range []measurement{ownSettings, recalibrated, fullRange, dense} {
			name := armName(p.Name, measurement)
			if r := results[name].Sweep(nominal); r != nil && !p.budgeted {
				t.figures[name] = t.figuresOf(p.Name, r, p.aircraft, p.hasPreference(), span)
			}
		}
	}
	for _, a := range paperRows.Ours {
		if r := s.study[a.Arm].Sweep(experiment.EvenSettings); r != nil {
			t.figures[a.Arm] = t.figuresOf(a.Arm, r, 2, true, span)
		}
	}
	return t
}

// of returns an arm's figures, empty ones if it has not run.
func (t *tables) of(arm string) *figures {
	return cmp.Or(t.figures[arm], &figures{Metrics: &pareto.Metrics{}})
}

// calmJ is the total that IGD is measured up to as well: above it are a point or two of a seed's
// front, of the solvers alone, as far from all others as the rest of the front together.
const calmJ = 45e3

// figuresOf computes the figures of an arm's front; span is the teacher's reach.
func (t *tables) figuresOf(arm string, x *experiment.Sweep, aircraft int, hasPreference bool, span float64) *figures {
	wide, tight := referencesOf(aircraft)
	f := &figures{Metrics: x.Measure(wide, tight), corners: corners(x.Outcomes), verdict: experiment.None}
	f.Hypervolumes, f.Tight = millions(f.Hypervolumes), millions(f.Tight)
	if !hasPreference {
		f.Fidelities = nil
	} else if aircraft == 2 && !math.IsNaN(span) {
		f.verdict = pareto.Operable(mean(f.Fidelities), mean(f.Reaches)/span)
	}
	if aircraft == 2 {
		others := slices.DeleteFunc(slices.Clone(t.pool), func(c pareto.Contributor) bool { return c.Arm == arm })
		for s, pooled := range pareto.PooledFronts(others) {
			if s < len(x.Outcomes[0]) {
				own := pareto.SeedPoints(x.Outcomes, s)
				f.igds = append(f.igds, pareto.Distance(own, pooled, 1, 1))
				calm := slices.DeleteFunc(pooled, func(p pareto.Point) bool { return p.EnergyJ > calmJ })
				f.calmIGDs = append(f.calmIGDs, pareto.Distance(own, calm, 1, 1))
			}
		}
	}
	return f
}

// corners returns the delays, by seed, of the fixed setting whose mean delay is the least.
func corners(outcomes [][]pareto.Point) (delays []float64) {
	best, least := 0, math.Inf(1)
	for k, p := range pareto.MeanPoints(outcomes) {
		if p.DelayS < least {
			best, least = k, p.DelayS
		}
	}
	for _, p := range outcomes[best] {
		delays = append(delays, p.DelayS)
	}
	return delays
}

// retained returns, by seed, the part of an undisturbed front that a condition leaves, to a reference point.
func retained(r *experiment.Result, condition string, reference pareto.Point) []float64 {
	left, undisturbed := r.Sweep(condition), r.Sweep(nominal)
	if left == nil || undisturbed == nil {
		return nil
	}
	parts := pareto.Hypervolumes(left.Outcomes, reference)
	for i, whole := range pareto.Hypervolumes(undisturbed.Outcomes, reference) {
		parts[i] /= whole
	}
	return parts
}

// scalarBudgets is what is consumed as the request rises.
func (t *tables) scalarBudgets() (lines []string) {
	entry := fmt.Sprintf("Totals over the energy entry alone, at a preference of %g, under ", entryOmega)
	for _, x := range []struct{ arm, text, format string }{
		{"prefdt-scalar-budgets", "Consumption under one scalar, the preference that costs a total beside it:", "%.1f"},
		{"prefdt-budgets", "Consumption under the vector, the preference that costs a total beside it:", "%.1f"},
		{"prefdt-scalar-entry", entry + "one scalar:", "%.0f"}, {"prefdt-entry", entry + "the vector:", "%.0f"},
	} {
		if !t.recorded(x.arm) {
			continue
		}
		var spent []string
		for _, name := range []string{experiment.PerturbationNone, paperBudgets, nominal} {
			for _, b := range t.results[x.arm].Totals(name) {
				spent = append(spent, fmt.Sprintf(" %.1f kJ of "+x.format, energyJ(b.Outcomes)/1e3, b.BudgetJ/1e3))
			}
		}
		lines = append(lines, x.text+strings.Join(spent, ",")+".")
	}
	return lines
}

// distinctSettings compares uniform settings with recalibrated ones.
func (t *tables) distinctSettings() (lines []string) {
	name := t.longestArm()
	for _, x := range []struct {
		of   measurement
		name string
	}{{recalibrated, "recalibrated"}, {ownSettings, "preferences even over the band that flights are stored under"}, {fullRange,
		"preferences even from 0 to 1"}} {
		f := t.figures[armName(name, x.of)]
		if f == nil || !t.recorded(armName(name, x.of)) {
			continue
		}
		lines = append(lines, fmt.Sprintf("Settings of `%s`, %s: %d of %d distinct and non-dominated, fidelity %.3f, reach %.0f s.", name,
			x.name, f.Distinct, f.Settings, mean(f.Fidelities), mean(f.Reaches)))
	}
	return lines
}

func energyJ(outcomes []pareto.Point) (mean float64) {
	for _, p := range outcomes {
		mean += p.EnergyJ / float64(len(outcomes))
	}
	return mean
}

// gain is dE/dB over a policy's budgets in calm air.
func gain(r *experiment.Result) float64 {
	calm := r.Totals(experiment.PerturbationNone)
	if len(calm) < 2 {
		return none
	}
	byBudget := func(a, b experiment.BudgetResult) int { return cmp.Compare(a.BudgetJ, b.BudgetJ) }
	first, last := slices.MinFunc(calm, byBudget), slices.MaxFunc(calm, byBudget)
	return (energyJ(last.Outcomes) - energyJ(first.Outcomes)) / (last.BudgetJ - first.BudgetJ)
}

// relativeError is the mean of |E/B - 1| over some totals on their first seeds, NaN of none.
func relativeError(totals []experiment.BudgetResult, seeds int) float64 {
	sum, n := 0.0, 0.0
	for _, b := range totals {
		for _, p := range b.Outcomes[:min(seeds, len(b.Outcomes))] {
			sum += math.Abs(overBudget(p.EnergyJ, b.BudgetJ))
			n++
		}
	}
	return sum / n
}

// measuredBy says what measured some arms: the version before if any of them is of it.
func (t *tables) measuredBy(arms ...string) string {
	by := map[string]bool{}
	for _, arm := range arms {
		if r := cmp.Or(t.results[arm], t.study[arm]); r != nil && r.Record != nil {
			by[r.By()] = true
		}
	}
	if by[experiment.Before] {
		return experiment.Before
	}
	return strings.Join(slices.Sorted(maps.Keys(by)), ", ")
}

// recorded reports whether all of some arms have been measured with a record: sentences rest on no others.
func (t *tables) recorded(arms ...string) bool {
	for _, arm := range arms {
		if t.measuredBy(arm) == "" || t.measuredBy(arm) == experiment.Before {
			return false
		}
	}
	return true
}
