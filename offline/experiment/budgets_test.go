package experiment

import (
	"io"
	"math"
	"testing"

	"prefdt/inference/goal"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
	"prefdt/offline/offlinetest"
	"prefdt/offline/pareto"
	"prefdt/offline/rollout"
	"prefdt/offline/seeds"
	"prefdt/simbridge/world"
)

// dashUntilShock flies as the even pacer does, but fast until the shock: more than any
// budget of the test has for these slots.
type dashUntilShock struct{ rollout.Policy }

func (p *dashUntilShock) Decide(s *slot.Snapshot, g goal.Objective, d *slot.Decision) goal.Observation {
	o := p.Policy.Decide(s, g, d)
	for m := range d.Move {
		if s.Slot < Shock.FromSlot {
			d.Move[m] = physics.Position{EastM: 25 * float64(1-2*(s.Slot%2))}
		}
	}
	return o
}

// A budget is judged by itself: what a flight spends before a shock is no excuse for
// passing it, where the even pacer shows that it can be kept.
func TestEarlySpendingIsNoExcuse(t *testing.T) {
	s := &Set{Log: io.Discard, Workers: 2}
	arm := &Arm{Name: "arm", BudgetSeeds: seeds.List(seeds.CalibrationFirst, 2)}
	dash := ready(func(c *world.Config) rollout.Policy { return &dashUntilShock{evenPacer(c)} })
	var even, dashed Result
	for r, p := range map[*Result]*Policy{&even: ready(evenPacer), &dashed: dash} {
		offlinetest.NoError(t, s.flyBudgets(t.Context(), arm, p, r))
		if err := checkBudgets(r, 2); err != nil {
			t.Error(err)
		}
	}
	if x := JudgeBudgets(even.Budgets, even.Budgets).Mean(PerturbationShock); !(x.MeanOverrun <= 0.0005) || x.DelayS != x.EvenDelayS {
		t.Errorf("the even pacer: %+v", x)
	}
	if x := JudgeBudgets(dashed.Budgets, even.Budgets).Mean(PerturbationShock); !(x.End >= 0.05) || x.End != x.MeanOverrun ||
		x.OverrunRate != 1 {
		t.Errorf("spending before the shock was excused: %+v", x)
	}
}

// Seeds on which the even pacer passes the budget do not count; with fewer than half
// left, nor does the budget. The interval is of the mean over what counts.
func TestJudgeBudgets(t *testing.T) {
	flown := func(perturbation string, budgetJ float64, energiesJ ...float64) BudgetResult {
		b := BudgetResult{Perturbation: perturbation, BudgetJ: budgetJ}
		for _, j := range energiesJ {
			b.Outcomes = append(b.Outcomes, pareto.Point{DelayS: j / 10, EnergyJ: j})
		}
		return b
	}
	even := []BudgetResult{
		flown(PerturbationGusts, 1000, 999, 1000.4, 990, 1001), // the last seed is not keepable
		flown(PerturbationGusts, 2000, 2000, 2002, 2002, 2002), // one seed is
	}
	list := JudgeBudgets([]BudgetResult{
		flown(PerturbationGusts, 1000, 990, 1020, 1000, 5000),
		flown(PerturbationGusts, 2000, 9000, 9000, 9000, 9000),
	}, even)
	if a, b := list[0], list[1]; a.Keepable != 3 || !a.Measured() || b.Keepable != 1 || b.Measured() {
		t.Errorf("keepable: %+v, %+v", a, b)
	}
	x := list.Mean(PerturbationGusts)
	for _, c := range []struct {
		name      string
		got, want float64
	}{
		{"end", x.End, 0.01 / 3}, {"mean overrun", x.MeanOverrun, 0.02 / 3}, {"overrun rate", x.OverrunRate, 1.0 / 3},
		{"delay", x.DelayS, 301.0 / 3}, {"even pacer's delay", x.EvenDelayS, 298.94 / 3},
	} {
		if !(math.Abs(c.got-c.want) <= 1e-9) {
			t.Errorf("%s %v, want %v", c.name, c.got, c.want)
		}
	}
	if mean := list[1:].Mean(PerturbationGusts); !math.IsNaN(mean.End) {
		t.Errorf("a mean of nothing: %+v", mean)
	}
}
