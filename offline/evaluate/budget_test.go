package evaluate

import (
	"fmt"
	"io"
	"math"
	"strings"
	"testing"

	"prefdt/inference"
	"prefdt/inference/goal"
	"prefdt/inference/slot"
	"prefdt/offline/baseline"
	"prefdt/offline/experiment"
	"prefdt/offline/offlinetest"
	"prefdt/offline/pareto"
	"prefdt/offline/rollout"
	"prefdt/simbridge/world"
)

// calibrationSeed is a flight that no evaluation uses.
const calibrationSeed = 109_999

// observedPolicy calls observe with the objective and the decision of every slot.
type observedPolicy struct {
	*inference.Policy
	observe func(g goal.Objective, d *slot.Decision)
}

func (w *observedPolicy) Decide(s *slot.Snapshot, g goal.Objective, d *slot.Decision) goal.Observation {
	observation := w.Policy.Decide(s, g, d)
	g.Observe(observation)
	w.observe(g, d)
	return observation
}

func flyObserved(t *testing.T, c world.Config, r rollout.Request, observe func(g goal.Objective, d *slot.Decision)) rollout.Result {
	t.Helper()
	p := offlinetest.Must(inference.New(offlinetest.Shipped(t), inference.DecoderDispatch))(t)
	return fly(t, &observedPolicy{p, observe}, c, r)
}

// fly flies a policy on the calibration seed.
func fly(t *testing.T, p rollout.Policy, c world.Config, r rollout.Request) rollout.Result {
	t.Helper()
	f := offlinetest.Must(rollout.NewWithPolicy(p, &offlinetest.Shipped(t).GoalConstants, c, rollout.ReportLink{}))(t)
	return f.Fly(calibrationSeed, r)
}

func observeNothing(goal.Objective, *slot.Decision) {}

func perturbedWorlds() map[string]world.Config {
	w := map[string]world.Config{}
	for _, factor := range []float64{1, 0.8, 1.5} {
		for _, gust := range []float64{0, 0.15} {
			c := world.Standard()
			c.Shock, c.Gust = world.Shock{FromSlot: 40, Factor: factor}, gust
			w[fmt.Sprintf("x%v from slot 40, gusts %v", factor, gust)] = c
		}
	}
	return w
}

func TestSameTotalAgainChangesNothing(t *testing.T) {
	for name, c := range perturbedWorlds() {
		for _, mode := range []goal.Mode{goal.Target, goal.Ceiling} {
			once := flyObserved(t, c, rollout.Request{Mode: mode, BudgetJ: 38e3}, observeNothing)
			for _, at := range []int{1, 41, 99} {
				if c.Gust > 0 && at != 41 {
					continue // calm air has the others
				}
				again := flyObserved(t, c, rollout.Request{Mode: mode, BudgetJ: 38e3, ReviseSlot: at, RevisedBudgetJ: 38e3}, observeNothing)
				if d := math.Abs(again.EnergyJ - once.EnergyJ); !(d <= 1e-3) {
					t.Errorf("%s, %s: 38 kJ requested again in slot %d changed the total by %v J", name, mode, at, d)
				}
			}
		}
	}
}

// A revision is kept where it is possible, and leaves no more than a reserve and joules
// that buy hardly anything; tightening tightens, relaxing relaxes.
func TestRevisionIsKept(t *testing.T) {
	const slackJ = 10 // where what is left is spent at the least price, by what a slot offers
	for name, c := range perturbedWorlds() {
		totalJ := 37e3
		if c.Shock.Factor > 1 {
			totalJ = 42e3 // what can be kept from any slot on
		}
		within := 0.002
		if c.Gust > 0 {
			within = 0.01
		}
		for _, first := range []float64{totalJ - 1e3, totalJ + 1e3} {
			spendable := map[int]float64{} // by the slot of the revision
			for _, mode := range []goal.Mode{goal.Target, goal.Ceiling} {
				unrevised := flyObserved(t, c, rollout.Request{Mode: mode, BudgetJ: first}, observeNothing)
				for _, at := range []int{10, 45, 70} {
					if c.Gust > 0 && at != 45 {
						continue // gusts blur a revision soon after the shock most
					}
					if mode == goal.Ceiling && at != 45 {
						continue // a ceiling is kept as a target is, and is met by revisions of one slot
					}
					if c.Shock.Factor < 1 && at <= c.Shock.FromSlot {
						continue // what it then saves is too much to be spent
					}
					revised := func(mode goal.Mode, j float64) rollout.Result {
						return flyObserved(t, c, rollout.Request{Mode: mode, BudgetJ: first, ReviseSlot: at, RevisedBudgetJ: j},
							observeNothing)
					}
					x := revised(mode, totalJ)
					if mode == goal.Target {
						spendable[at] = revised(mode, rollout.UnlimitedJ).EnergyJ
						pacer := fly(t, baseline.NewEven(&c.Physics), c, rollout.Request{Mode: mode, BudgetJ: first, ReviseSlot: at,
							RevisedBudgetJ: totalJ})
						if len(experiment.Keepable([]pareto.Point{pacer.Point}, totalJ)) == 0 { // whatever the mode
							t.Fatalf("%s: the even pacer does not keep %v J, revised to in slot %d from %v", name, totalJ, at, first)
						}
					}
					possible := min(totalJ, spendable[at])
					if c.Shock.FromSlot >= at && c.Shock.Factor < 1 {
						// Cheaper flight comes too late for what only an early dash can spend.
						possible = min(possible, max(x.EnergyJ, 0.98*possible))
					}
					if off := x.EnergyJ/possible - 1; off > within || off < -0.02 {
						t.Errorf("%s, %s of %v: %v J requested in slot %d ended on %.1f J, possible were %.1f J", name, mode, first, totalJ,
							at, x.EnergyJ, possible)
					}
					if rise := x.EnergyJ - unrevised.EnergyJ; rise > slackJ && first > totalJ || rise < -slackJ && first < totalJ {
						t.Errorf("%s, %s: revised from %v to %v J in slot %d, the total went from %.1f to %.1f J", name, mode, first,
							totalJ, at, unrevised.EnergyJ, x.EnergyJ)
					}
				}
			}
		}
	}
}

// Below the floor nothing is spent on edge computing, the objective is saturated,
// and the floor it reports is what the flight ends on.
func TestSaturates(t *testing.T) {
	for name, c := range perturbedWorlds() {
		for _, at := range []int{5, 30, 45, 80, 98} {
			floorJ, stdDevJ, worst := 0.0, 0.0, 0.0
			x := flyObserved(t, c, rollout.Request{Mode: goal.Target, BudgetJ: 36e3, ReviseSlot: at, RevisedBudgetJ: 20e3},
				func(g goal.Objective, d *slot.Decision) {
					if g.Slot() < at {
						return
					}
					if g.Slot() == at {
						floorJ, stdDevJ = g.FloorJ(), g.StdDevJ()
					}
					if !g.Saturated() || g.PredictedEndJ() != g.FloorJ() {
						t.Errorf("%s: 20 kJ from slot %d, in slot %d: saturated %v, predicted end %.1f J, floor %.1f J", name, at, g.Slot(),
							g.Saturated(), g.PredictedEndJ(), g.FloorJ())
					}
					for _, j := range d.EdgeJ {
						worst = max(worst, j)
					}
				})
			if worst != 0 {
				t.Errorf("%s: 20 kJ from slot %d: %v J of edge energy in a slot", name, at, worst)
			}
			settled := at > c.Shock.FromSlot+20 || c.Shock.Factor == 1 // the shock was measured, through the gusts
			within := 1e-3
			if c.Gust > 0 {
				within = 4 * stdDevJ
			}
			if off := math.Abs(x.EnergyJ - floorJ); settled && off > within {
				t.Errorf("%s: the floor reported in slot %d was %.1f J, the flight ended on %.1f J, off by at most %.1f J was expected",
					name, at, floorJ, x.EnergyJ, within)
			}
		}
	}
}

// More than can be spent is not predicted to be.
func TestUnspendableIsPredicted(t *testing.T) {
	c := world.Standard()
	for _, at := range []int{20, 50, 90} {
		predicted := 0.0
		x := flyObserved(t, c, rollout.Request{Mode: goal.Target, BudgetJ: 30e3, ReviseSlot: at, RevisedBudgetJ: 60e3},
			func(g goal.Objective, _ *slot.Decision) {
				if g.Slot() == at {
					predicted = g.PredictedEndJ()
				}
			})
		if math.Abs(predicted/x.EnergyJ-1) > 0.1 {
			t.Errorf("60 kJ requested in slot %d: predicted are %.1f J, spent were %.1f J", at, predicted, x.EnergyJ)
		}
	}
}

func TestLeastDelay(t *testing.T) {
	front := []pareto.Point{{DelayS: 80, EnergyJ: 40e3}, {DelayS: 100, EnergyJ: 32e3}, {DelayS: 100, EnergyJ: 32e3},
		{DelayS: 500, EnergyJ: 27e3}}
	for energyJ, want := range map[float64]float64{50e3: 80, 40e3: 80, 36e3: 90, 32e3: 100, 29.5e3: 300, 27e3: 500, 20e3: 500} {
		if got := leastDelayS(front, energyJ); math.Abs(got-want) > 1e-9 {
			t.Errorf("%v J: %v s, want %v", energyJ, got, want)
		}
	}
}

// The best arm is the fastest of those that keep the limits, the policy left out; the
// summary counts cells with enough keepable seeds and a budget that binds alone.
func TestBestArm(t *testing.T) {
	arms := []string{policyArm, evenArm, "fast", "slow"}
	evenEnd := -0.009
	cell := func(mode goal.Mode, measured bool, fast experiment.BudgetMeans) BudgetCell {
		b := BudgetCell{Mode: mode, Measured: measured, Arms: map[string]experiment.BudgetMeans{
			policyArm: {DelayS: 101}, evenArm: {DelayS: 200, End: evenEnd}, "fast": fast, "slow": {DelayS: 120},
		}}
		b.finish(arms)
		return b
	}
	over := cell(goal.Target, true, experiment.BudgetMeans{DelayS: 95, MeanOverrun: 0.001, OverrunRate: 1})
	kept := cell(goal.Target, true, experiment.BudgetMeans{DelayS: 95, MeanOverrun: 0.0004, OverrunRate: 1})
	passed := cell(goal.Ceiling, true, experiment.BudgetMeans{DelayS: 95, MeanOverrun: 0.0001, OverrunRate: 0.01})
	for _, x := range []struct {
		cell BudgetCell
		best string
	}{{over, "slow"}, {kept, "fast"}, {passed, "slow"}} {
		if b := x.cell; b.BestArm != x.best || b.EvenDelayS != 200 || b.DelayS != 101 {
			t.Errorf("%+v, want best %s", b, x.best)
		}
	}
	few := cell(goal.Target, false, experiment.BudgetMeans{})
	evenEnd = -0.011 // more than the even pacer can spend: nothing to compare
	slack := cell(goal.Target, true, experiment.BudgetMeans{})
	if !kept.Ranked() || few.Ranked() || slack.Ranked() {
		t.Errorf("ranked are %v, of few seeds %v, where the budget does not bind %v", kept.Ranked(), few.Ranked(), slack.Ranked())
	}
	s := summarizeArms(arms, []BudgetCell{over, kept, passed, few, slack})
	if p := s[0]; p.Cells != 3 || p.CellsKept != 3 || p.CellsBest != 2 || p.CellsBehind != 1 || math.Abs(p.EvenRatio-0.505) > 1e-9 ||
		p.MeanDelayS != 101 {
		t.Errorf("policy %+v", p)
	}
	if f := s[2]; f.CellsKept != 1 || f.CellsBest != 1 {
		t.Errorf("fast %+v", f)
	}
}

// Whoever measures budgets is told beforehand what will not be measured, and what is asked for in another world.
func TestBudgetNotes(t *testing.T) {
	w := world.Standard()
	if text := budgetNotes(&w, minKeepable, false); text != "" {
		t.Errorf("nothing is to be said, and it is %q", text)
	}
	w.Slots = 60
	if text := budgetNotes(&w, minKeepable, true); text != "budgets: slots in names of perturbations are of 100; here they are in "+
		"proportion of 60\n" {
		t.Errorf("of budgets of this world it is said %q", text)
	}
	text := budgetNotes(&w, 20, false)
	for _, want := range []string{"with 20 seeds the means of so few", "-cells has joules of your own", "takes 50 seeds", "1000000:1000060",
		`-perturbation "x1.5 at half time" -arms "cont`, "standard world times 0.6,"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %q", want, text)
		}
	}
}

// Budgets of one's own are flown as they are, whatever the world, under every perturbation that has one budget a flight.
func TestOwnBudgets(t *testing.T) {
	w := world.Standard()
	w.Slots, w.Aircraft = 50, 3 // 0.75 of the standard world's least energy
	list, err := parseBudgets("26kJ,30000")
	c := Config{World: w, BudgetsJ: list}
	for _, p := range perturbations() {
		r := p.requestsIn(&c)
		if err != nil || len(r) != 2 || r[0].BudgetJ != 26e3 || r[1].BudgetJ != 30e3 || r[0].ReviseSlot != 0 {
			t.Fatalf("%s: %+v, %v", p.Name, r, err)
		}
		scaled := p.requestsIn(&Config{World: w})
		if len(scaled) != len(p.BudgetsJ) || scaled[0].BudgetJ != 0.75*p.BudgetsJ[0] ||
			scaled[0].ReviseSlot != p.ReviseSlot/2 || p.revises() && scaled[0].RevisedBudgetJ != 0.75*p.RevisedJ[0] {
			t.Errorf("%s: %+v of %+v", p.Name, scaled, p)
		}
	}
	ck := offlinetest.Shipped(t)
	arms, _ := selectArms([]string{evenArm})
	c.Seeds, c.Decoder, c.Workers, c.Progress, c.CeilingsOnly = []uint64{1_000_000}, inference.DecoderDispatch, 2, io.Discard, true
	c.Perturbation = "slot 30" // the revised one alone
	if rows, _, err := measureBudgets(t.Context(), ck, c, arms); err != nil || len(rows) > 0 {
		t.Errorf("a revised budget of one's own: %+v, %v", rows, err)
	}
	c.Perturbation, c.BudgetsJ = calmAir, []float64{24e3, 60e3}
	rows, _, err := measureBudgets(t.Context(), ck, c, arms)
	if err != nil || len(rows) != 2 || rows[0].BudgetJ != 24e3 || !rows[0].Binds || rows[1].Binds || rows[1].End > -0.1 {
		t.Errorf("24 and 60 kJ of three aircraft over 50 slots: %+v, %v", rows, err)
	}
}

// Every cell of the standard world has its row, the figures of one seed are its flights', and those of two have their standard error.
func TestMeasureBudgets(t *testing.T) {
	ck := offlinetest.Shipped(t)
	arms, err := selectArms([]string{"greedy"})
	if err != nil || len(arms) != 3 {
		t.Fatalf("%d arms, %v", len(arms), err)
	}
	c := Config{World: world.Standard(), Seeds: []uint64{1_000_000}, Decoder: inference.DecoderDispatch, Workers: 2, Progress: io.Discard}
	p := perturbation{Name: calmAir, BudgetsJ: []float64{35e3}, ReviseSlot: 60, RevisedJ: []float64{32e3}}
	rows, err := p.measure(t.Context(), ck, c, arms)
	if err != nil || len(rows) != 2 || rows[0].BudgetJ != 32e3 || rows[0].RevisedFromJ != 35e3 {
		t.Fatalf("revised: %+v, %v", rows, err)
	}
	p = perturbation{Name: calmAir, BudgetsJ: []float64{34e3}}
	if rows, err = p.measure(t.Context(), ck, c, arms); err != nil || len(rows) != 2 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	runner := offlinetest.Must(rollout.New(ck, inference.DecoderDispatch, c.World, rollout.ReportLink{}))(t)
	x := runner.Fly(1_000_000, rollout.Request{Mode: goal.Target, BudgetJ: 34e3})
	if b := rows[0]; b.Keepable != 1 || b.Measured || b.DelayErrorS != 0 || b.EndError != 0 || b.DelayS != x.DelayS ||
		b.End != x.EnergyJ/34e3-1 || *b.RegretS < 0 ||
		*b.RegretS > 10 || b.Arms["greedy"].DelayS < 2*b.DelayS {
		t.Errorf("34 kJ: %+v", b)
	}
	c.CeilingsOnly, c.Seeds = true, []uint64{1_000_000, 1_000_001}
	if rows, err = p.measure(t.Context(), ck, c, arms); err != nil || len(rows) != 1 || rows[0].Mode != goal.Ceiling ||
		rows[0].RegretS != nil || rows[0].Keepable != 2 {
		t.Fatalf("ceilings alone: %+v, %v", rows, err)
	}
	first := runner.Fly(1_000_000, rollout.Request{Mode: goal.Ceiling, BudgetJ: 34e3})
	second := runner.Fly(1_000_001, rollout.Request{Mode: goal.Ceiling, BudgetJ: 34e3})
	// Of two figures half of their distance.
	if b := rows[0]; math.Abs(b.DelayErrorS-math.Abs(first.DelayS-second.DelayS)/2) > 1e-9 ||
		math.Abs(b.EndError-math.Abs(first.EnergyJ-second.EnergyJ)/34e3/2) > 1e-12 || b.DelayErrorS == 0 {
		t.Errorf("standard errors %v s and %v of %+v and %+v", b.DelayErrorS, b.EndError, first.Point, second.Point)
	}
	c.Seeds = []uint64{5}
	if _, _, err := measureBudgets(t.Context(), ck, c, arms); err == nil {
		t.Error("a training seed was accepted")
	}
}
