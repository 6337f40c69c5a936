package paper

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"prefdt/offline/experiment"
	"prefdt/offline/pareto"
)

// budgetTable is budgets in joules.
func (t *tables) budgetTable(x *experiment.Table) {
	even := cmp.Or(t.pacer(), &experiment.Result{}).Budgets
	pacer := experiment.JudgeBudgets(even, even).Mean(experiment.PerturbationShock)
	add := func(name string, r *experiment.Result, paper string) {
		if r == nil || len(r.Budgets) == 0 {
			x.Add(experiment.Row{"arm": name, "gain": notRun, "the paper": paper})
			return
		}
		judged := experiment.JudgeBudgets(r.Budgets, even)
		calm, shock, revised := judged.Mean(experiment.PerturbationNone), judged.Mean(experiment.PerturbationShock),
			judged.Mean(experiment.PerturbationRevision)
		cells := experiment.Row{
			"arm": name, "record": r.By(), "gain": gain(r), "the paper": paper,
			"calm: |end|, %": 100 * meanDeviation(judged, experiment.PerturbationNone), "calm: over": calm.OverrunRate,
			"calm: delay, s": calm.DelayS,
			"x1.5: end, %":   100 * shock.End, "x1.5: over": shock.OverrunRate, "x1.5: delay, s": shock.DelayS,
			"even pacer's end, %": 100 * pacer.End, "less the pacer's, points": 100 * (shock.End - pacer.End),
			"revised: |end|, %": 100 * meanDeviation(judged, experiment.PerturbationRevision), "revised: delay, s": revised.DelayS,
			"re-issued, J": reissued(r), "error": relativeError(r.Totals(trainedBudgets), t.BudgetSeeds),
		}
		if below := r.Sweep(belowFloor); below != nil {
			cells["below the floor: spent, kJ"] = energyJ(below.Outcomes[0]) / 1e3
		}
		x.Add(cells)
	}
	for _, p := range t.policies {
		for _, k := range []struct {
			of   measurement
			name string
		}{{budgets, p.Name}, {replanned, p.Name + ", replanned"}} {
			if slices.Contains(p.measurements(), k.of) {
				add(k.name, t.results[armName(p.Name, k.of)], paperRows.Budgets[k.name])
			}
		}
	}
	for _, p := range t.policies {
		if p.budgeted {
			x.Add(experiment.Row{"arm": p.Name, "error": relativeError(t.results[p.Name].Totals(nominal), t.BudgetSeeds),
				"the paper": paperRows.Budgets[p.Name]})
		}
	}
	for _, a := range paperRows.Ours {
		add(a.Name, t.study[a.Arm], "")
	}
	x.After = append(x.After,
		"The paper: in calm air budgets are never passed; under x1.5 PrefDT ends 0.6 % above the budget, in 0.70 of the flights, and "+
			"its rule 17 %. "+
			"It requests 70 to 90 kJ in one ablation, and prints 34 to 41 kJ consumed in another place.")
}

// pacer returns the even pacer's budgets, by which all are judged: of its arm or else of the study; nil: it has not run.
func (t *tables) pacer() *experiment.Result {
	return cmp.Or(t.results[armName(evenPacer, budgets)], t.study[evenPacer])
}

// endTable is where each budget ends.
func (t *tables) endTable(x *experiment.Table) {
	even := t.pacer()
	if even == nil {
		x.Add(experiment.Row{"arm": notRun})
		return
	}
	type budget struct {
		perturbation string
		budgetJ      float64
	}
	var columns []budget
	for _, p := range []struct{ perturbation, name string }{
		{experiment.PerturbationNone, "calm"}, {experiment.PerturbationShock, "x1.5"}, {experiment.PerturbationRevision, "revised to"},
	} {
		first := len(columns)
		if p.perturbation == experiment.PerturbationShock {
			for _, j := range shockTotalsJ {
				columns = append(columns, budget{shockTotals, j})
			}
		}
		for _, b := range even.Totals(p.perturbation) {
			columns = append(columns, budget{p.perturbation, b.BudgetJ})
		}
		for _, c := range columns[first:] {
			head := fmt.Sprintf("%s: %.4g kJ", p.name, c.budgetJ/1e3)
			x.Columns = append(x.Columns, experiment.Column{Key: fmt.Sprint(c), Head: head})
		}
	}
	add := func(name string, r *experiment.Result) {
		if r == nil || len(r.Budgets) == 0 {
			return
		}
		cells := experiment.Row{"arm": name, "record": r.By()}
		for _, c := range columns {
			e := end(r, c.perturbation, c.budgetJ)
			cells[fmt.Sprint(c)] = experiment.None
			if e.N > 0 {
				cells[fmt.Sprint(c)] = number("%+.2f", 100*e.Mean) + " ± " + number("%.2f", 100*e.StdError())
			}
		}
		x.Add(cells)
	}
	for i := range t.Arms {
		add(t.Arms[i].Name, t.results[t.Arms[i].Name])
	}
	for _, a := range paperRows.Ours {
		if a.Arm != evenPacer {
			add(a.Name, t.study[a.Arm])
		}
	}
}

// overBudget is how far energy is above a budget, as a part of it.
func overBudget(energyJ, budgetJ float64) float64 { return energyJ/budgetJ - 1 }

// end is how far above a budget flights ended, as a part of it; none if it was not flown.
func end(r *experiment.Result, perturbation string, budgetJ float64) pareto.Summary {
	var ends []float64
	for _, b := range r.Totals(perturbation) {
		if b.BudgetJ == budgetJ {
			for _, p := range b.Outcomes {
				ends = append(ends, overBudget(p.EnergyJ, budgetJ))
			}
		}
	}
	return pareto.Summarise(ends)
}

// meanDeviation is the mean size of the ends over the measured budgets of a perturbation.
func meanDeviation(budgets experiment.BudgetList, perturbation string) float64 {
	sum, measured := 0.0, budgets.Under(perturbation)
	for _, b := range measured {
		sum += math.Abs(b.End)
	}
	return sum / float64(len(measured))
}

// reissued is the largest change, in joules, of a flight whose total is issued again.
func reissued(r *experiment.Result) float64 {
	once, twice := r.Sweep(issuedOnce), r.Sweep(issuedTwice)
	if once == nil || twice == nil {
		return none
	}
	most := 0.0
	for s := range once.Outcomes[0] {
		most = max(most, math.Abs(once.Outcomes[0][s].EnergyJ-twice.Outcomes[0][s].EnergyJ))
	}
	return most
}
