package paper

import (
	"fmt"
	"math"

	"prefdt/offline/experiment"
	"prefdt/simbridge/world"
)

// aim is a figure that PrefDT as published, trained longest, is to have: what the paper
// prints, or what was asked of this form before it was trained.
type aim struct {
	what, format string
	value        func(*tables) float64 // NaN: not run
	low, high    float64
}

// aims are those of the published form.
var aims = []aim{
	{"HV at recalibrated settings, 1e6", "%.3f", func(t *tables) float64 { return mean(t.of(t.longest(recalibrated)).Hypervolumes) }, 99.2,
		math.Inf(1)},
	{"fidelity at preferences even over the band that flights are stored under", "%.3f", fidelityAim(ownSettings), 0.93, 1},
	{"fidelity at preferences even from 0 to 1", "%.3f", fidelityAim(fullRange), 0.93, 1},
	{"fidelity at recalibrated settings", "%.4f", fidelityAim(recalibrated), 0.9995, 1},
	{"reach over the teacher's", "%.3f", func(t *tables) float64 { return mean(t.of(t.longest(ownSettings)).Reaches) / t.span() }, 0.97,
		math.Inf(1)},
	{"corner less the teacher's, s", "%+.1f", func(t *tables) float64 {
		return mean(t.of(t.longest(recalibrated)).corners) - mean(t.of(teacherArm).corners)
	}, math.Inf(-1), 3},
	{"end under x1.5 less the even pacer's, % of the budget, by Algorithm 1", "%+.2f", shockAim(budgets), math.Inf(-1), 0.6},
	{"the same at 36 and 39 kJ, settings of calm air that the pacer does not keep either", "%+.2f", calmShockAim(budgets), math.Inf(-1),
		0.6},
	{"end under x1.5, replanned in each slot", "%+.2f", shockAim(replanned), math.Inf(-1), 0.6},
	{"the same at 36 and 39 kJ", "%+.2f", calmShockAim(replanned), math.Inf(-1), 0.6},
	{"change by a total that is issued again, J", "%.1e", func(t *tables) float64 { return reissued(t.results[t.longest(budgets)]) }, 0,
		1e-3},
	{"spent on a budget below the floor, over a flight at the speed of least power that computes nothing", "%.4f", func(t *tables) float64 {
		below := t.results[t.longest(budgets)].Sweep(belowFloor)
		if below == nil {
			return none
		}
		c := world.Standard()
		return energyJ(below.Outcomes[0]) / c.CalmFloorJ()
	}, 0, 1.02},
	{"front retained, % at 5 % lost: the paper's 96.7", "%.1f", retainedAim(lossName(0.05, false)), 96.7 - 3, 96.7 + 3},
	{"at 40 % lost: the paper's 71.1", "%.1f", retainedAim(lossName(0.4, false)), 71.1 - 3, 71.1 + 3},
	{"at 40 % lost, the last report stands in: the paper's 80.0", "%.1f", retainedAim(lossName(0.4, true)), 80.0 - 3, 80.0 + 3},
}

func fidelityAim(m measurement) func(*tables) float64 {
	return func(t *tables) float64 { return mean(t.of(t.longest(m)).Fidelities) }
}

// shockAim is the end of budgets under the shock, over that of the even pacer.
func shockAim(m measurement) func(*tables) float64 {
	return func(t *tables) float64 {
		own, even := t.results[t.longest(m)], t.pacer()
		if own == nil || even == nil {
			return none
		}
		endOf := func(r *experiment.Result) float64 {
			return experiment.JudgeBudgets(r.Budgets, even.Budgets).Mean(experiment.PerturbationShock).End
		}
		return 100 * (endOf(own) - endOf(even))
	}
}

// calmShockAim is the same of the totals that are settings of calm air.
func calmShockAim(m measurement) func(*tables) float64 {
	return func(t *tables) float64 {
		sum := 0.0
		for _, j := range shockTotalsJ {
			sum += 100 * (end(t.results[t.longest(m)], shockTotals, j) - end(t.pacer(), shockTotals, j)) / float64(len(shockTotalsJ))
		}
		return sum
	}
}

func retainedAim(condition string) func(*tables) float64 {
	return func(t *tables) float64 { return 100 * mean(retained(t.results[t.longest(link)], condition)) }
}

// longest returns a measurement's arm of the form that has been trained for longest.
func (c *Config) longest(t measurement) string { return armName(c.longestArm(), t) }

// aimTable says which of the aims are met.
func (t *tables) aimTable(x *experiment.Table) {
	for _, g := range aims {
		wanted := fmt.Sprintf("%.4g to %.4g", g.low, g.high)
		switch {
		case math.IsInf(g.high, 1):
			wanted = fmt.Sprintf("%.4g at least", g.low)
		case math.IsInf(g.low, -1) || g.low == 0:
			wanted = fmt.Sprintf("%.4g at most", g.high)
		}
		cells := experiment.Row{"figure": g.what, "ours": notRun, "wanted": wanted}
		if v := g.value(t); !math.IsNaN(v) {
			cells["ours"], cells["met"] = number(g.format, v), "no"
			if g.low <= v && v <= g.high {
				cells["met"] = "yes"
			}
		}
		x.Add(cells)
	}
}
