package baseline_test

import (
	"math"
	"testing"

	"prefdt/inference"
	"prefdt/inference/budget"
	"prefdt/inference/goal"
	"prefdt/inference/slot"
	"prefdt/offline/baseline"
	"prefdt/offline/offlinetest"
	"prefdt/offline/rollout"
	"prefdt/simbridge/world"
)

// Like those of package rollout, these tests fly training seeds that no flight of the
// corpus used.
const testSeed = 99_950

func fly(t *testing.T, p rollout.Policy, c world.Config, r rollout.Request) rollout.Result {
	t.Helper()
	f := offlinetest.Must(rollout.NewWithPolicy(p, &offlinetest.Shipped(t).GoalConstants, c, rollout.ReportLink{}))(t)
	return f.Fly(testSeed, r)
}

func target(totalJ float64) rollout.Request {
	return rollout.Request{Mode: goal.Target, BudgetJ: totalJ}
}

// The reference's flights as they were when it was written. Nothing that is measured
// against it may change it.
func TestEvenPacerIsFrozen(t *testing.T) {
	calm, shock := world.Standard(), world.Standard()
	shock.Shock = world.Shock{FromSlot: 50, Factor: 1.5}
	for _, x := range []struct {
		world           world.Config
		request         rollout.Request
		energyJ, delayS float64
	}{
		{calm, target(27.5e3), 27495.415, 436.355},
		{calm, target(31.5e3), 31473.017, 99.012},
		{calm, target(36e3), 35979.792, 80.341},
		{shock, target(40.5e3), 40495.136, 114.132}, // 40496.367 J and 113.940 s before a tie between two aircraft was broken by content
		{shock, target(44e3), 43998.783, 80.177},
		{calm, rollout.Request{Mode: goal.Target, BudgetJ: 35e3, ReviseSlot: 60, RevisedBudgetJ: 32e3}, 31997.417, 267.354},
	} {
		got := fly(t, baseline.NewEven(&x.world.Physics), x.world, x.request)
		if math.Abs(got.EnergyJ-x.energyJ) > 1e-3 || math.Abs(got.DelayS-x.delayS) > 1e-3 {
			t.Errorf("%+v under %+v: %.3f J, %.3f s, recorded were %.3f J, %.3f s", x.request, x.world.Shock, got.EnergyJ, got.DelayS,
				x.energyJ, x.delayS)
		}
	}
}

// spendingRecorder keeps each slot's share and what the decision spends on edge
// computing.
type spendingRecorder struct {
	rollout.Policy
	sharesJ, spentJ []float64
}

func (r *spendingRecorder) Decide(s *slot.Snapshot, o goal.Objective, d *slot.Decision) goal.Observation {
	x := r.Policy.Decide(s, o, d)
	r.sharesJ, r.spentJ = append(r.sharesJ, o.AllowanceJ()), append(r.spentJ, d.TotalEdgeJ())
	return x
}

// In the mean the even pacer spends its share, and the capped one never more.
func TestEvenPacersSpendTheirShare(t *testing.T) {
	c := world.Standard()
	for _, capped := range []bool{false, true} {
		p := baseline.NewEven(&c.Physics)
		if capped {
			p = baseline.NewCappedEven(&c.Physics)
		}
		r := &spendingRecorder{Policy: p}
		x := fly(t, r, c, target(33e3))
		mean, most := 0.0, 0.0
		for i, shareJ := range r.sharesJ {
			mean += r.spentJ[i] / float64(len(r.sharesJ))
			most = max(most, r.spentJ[i]/shareJ)
		}
		even := (33e3 - x.FloorJ) / 100
		if capped && most > 1+1e-9 || !capped && math.Abs(mean/even-1) > 0.05 || x.EnergyJ > 33e3 {
			t.Errorf("capped %v: %.1f J a slot in the mean of an even share of %.1f, %.3f of its share at most, end %.0f J", capped, mean,
				even, most, x.EnergyJ)
		}
	}
}

// A rule that is chosen for the whole budget is the same in each slot; one that is replanned changes
// with what was spent, and is that of the mission's rate with fewer slots or aircraft.
func TestArchiveReplans(t *testing.T) {
	c := world.Standard()
	constants := goal.Constants{EtaDelayS: 600, EtaEnergyJ: 12e3, Slots: 100, AircraftCount: 2,
		Conditioner: goal.Conditioner{Omegas: []float64{0, 1}, DelayS: []float64{90, 700}, EnergyJ: []float64{39e3, 27e3}},
		SettingMap:  goal.SettingMap{Omegas: []float64{0, 1}}}
	chosen := -1
	a := &baseline.Archive{Omegas: []float64{0, 0.5, 1}, EnergiesJ: []float64{39e3, 33e3, 27e3},
		DecideAs: func(member int, _ *slot.Snapshot, _ *slot.Decision) { chosen = member }}
	for _, x := range []struct {
		replans          bool
		slots, flying    int
		budgetJ, spentJ  float64 // spent in the first half
		atFirst, halfWay int
	}{
		{false, 100, 2, 33e3, 19.5e3, 1, 1},
		{true, 100, 2, 33e3, 19.5e3, 1, 2},
		{true, 100, 2, 33e3, 16.5e3, 1, 1},
		{true, 100, 2, 33e3, 13.6e3, 1, 0},
		{true, 60, 2, 33e3 * 0.6, 16.5e3 * 0.6, 1, 1},
		{true, 100, 1, 33e3 / 2, 16.5e3 / 2, 1, 1},
	} {
		a.Replans = x.replans
		o := goal.New(&constants, &c.Physics, x.slots, x.flying)
		offlinetest.NoError(t, o.SetBudget(x.budgetJ, goal.Target))
		if a.Decide(nil, o, nil); chosen != x.atFirst {
			t.Errorf("%+v: rule %d at first", x, chosen)
		}
		o.Settle(goal.Settlement{Slots: x.slots / 2, EnergyJ: x.spentJ, Flying: x.flying})
		if a.Decide(nil, o, nil); chosen != x.halfWay {
			t.Errorf("%+v: rule %d half-way", x, chosen)
		}
	}
}

// Each arm does what its name says.
func TestArms(t *testing.T) {
	c := world.Standard()
	curve := inference.EdgeCurve(offlinetest.Shipped(t))
	greedy := &spendingRecorder{Policy: baseline.NewGreedy(&c.Physics)}
	if x := fly(t, greedy, c, target(31e3)); math.Abs(x.EnergyJ/31e3-1) > 1e-3 || greedy.spentJ[90] > 1 {
		t.Errorf("greedy ends on %.0f J and spends %.1f J in slot 90", x.EnergyJ, greedy.spentJ[90])
	}
	shock := c
	shock.Shock = world.Shock{FromSlot: 50, Factor: 1.5}
	constant := baseline.NewConstant(&c.Physics, curve)
	if a, b := fly(t, constant, c, target(34e3)), fly(t, constant, shock, target(34e3)); a.DelayS != b.DelayS ||
		math.Abs(a.EnergyJ/34e3-1) > 0.05 {
		t.Errorf("constant price: %+v calm, %+v under a shock", a.Point, b.Point)
	}
	shock.Shock.Factor = 1.25
	plain := fly(t, baseline.NewController(&c.Physics, curve, nil), shock, target(34e3))
	insured := fly(t, baseline.NewController(&c.Physics, curve, &budget.Shipped), shock, target(34e3))
	if insured.EnergyJ > 34e3*1.0005 || insured.DelayS > 160 || plain.DelayS < 2*insured.DelayS {
		t.Errorf("under a shock the controller ends with %+v, with a reserve %+v", plain.Point, insured.Point)
	}
}
