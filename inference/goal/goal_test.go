package goal

import (
	"encoding/json"
	"math"
	"testing"

	"prefdt/inference/physics"
)

func testConstants() *Constants {
	return &Constants{
		EtaDelayS: 600, EtaEnergyJ: 12e3, Slots: 100, AircraftCount: 2,
		Conditioner: Conditioner{Omegas: []float64{0, 0.5, 1}, DelayS: []float64{90, 200, 700}, EnergyJ: []float64{39e3, 29e3, 27e3}},
		SettingMap:  SettingMap{Omegas: []float64{0, 0.1, 0.4, 1}},
	}
}

func newObjective() *Objective {
	c := physics.DefaultConstants()
	o := New(testConstants(), &c, 100, 2)
	return &o
}

func settleSlot(o *Objective, flightJ, edgeJ, multiplier float64) {
	o.Settle(Settlement{DelayS: 1, EnergyJ: flightJ*multiplier + edgeJ, EdgeJ: edgeJ, ModelFlightJ: flightJ, Flying: 2})
}

func TestBudgetIsTheJoulesNotYetSpent(t *testing.T) {
	o := newObjective()
	if err := o.SetBudget(45e3, Target); err != nil {
		t.Fatal(err)
	}
	spent := 0.0
	for i := range 60 {
		settleSlot(o, 268.8, float64(i), 1)
		spent += 268.8 + float64(i)
		if math.Abs(o.EnergyToGoJ()-(45e3-spent)) > 1e-9 {
			t.Fatalf("slot %d: entry %v, budget less spent %v", i, o.EnergyToGoJ(), 45e3-spent)
		}
	}
	before := o.EnergyToGoJ()
	o.SetBudget(45e3, Target)
	if o.EnergyToGoJ() != before {
		t.Errorf("re-issuing the same total moved the entry by %v J", o.EnergyToGoJ()-before)
	}
	o.SetBudget(42e3, Target)
	if got := before - o.EnergyToGoJ(); math.Abs(got-3e3) > 1e-9 {
		t.Errorf("a revision by 3000 J moved the entry by %v J", got)
	}
}

// A total that is revised in flight is remembered beside the one in force, over a restart too;
// one that is corrected before the first slot is not.
func TestFirstBudget(t *testing.T) {
	o := newObjective()
	want := func(what string, totalJ float64) {
		t.Helper()
		resumed := Resume(testConstants(), new(physics.DefaultConstants()), o.State())
		if o.FirstBudgetJ() != totalJ || resumed.FirstBudgetJ() != totalJ {
			t.Errorf("%s: the first total is %v J, after a restart %v J, want %v J", what, o.FirstBudgetJ(), resumed.FirstBudgetJ(), totalJ)
		}
	}
	want("a preference", 0)
	o.SetBudget(54e3, Target)
	o.SetBudget(45e3, Target)
	want("corrected before the first slot", 45e3)
	settleSlot(o, 268.8, 10, 1)
	o.SetBudget(42e3, Target)
	o.SetBudget(40e3, Ceiling)
	want("revised twice", 45e3)
	if err := o.SetPreference(0.3); err != nil {
		t.Fatal(err)
	}
	want("a preference in between", 0)
	o.SetBudget(41e3, Target)
	want("a budget after it", 41e3)
	before := o.State()
	before.FirstBudgetJ = 0
	o.Restore(before)
	want("a state of before, without it", 41e3)
}

func TestFloorAndSaturation(t *testing.T) {
	o := newObjective()
	o.SetBudget(26e3, Target)
	if floor := o.FloorJ(); math.Abs(floor-26880.5) > 1 || !o.Saturated() {
		t.Errorf("floor %v J, saturated %v", floor, o.Saturated())
	}
	o.SetBudget(30e3, Target)
	if o.Saturated() {
		t.Error("30 kJ is above the floor")
	}
	for range 50 {
		settleSlot(o, 268.8, 0, 1)
	}
	for range 50 {
		settleSlot(o, 268.8, 0, 1.5)
	}
	if !o.Saturated() || math.Abs(o.PropulsionMultiplier()-1.5) > 1e-6 {
		t.Errorf("after a shock: saturated %v, multiplier %v", o.Saturated(), o.PropulsionMultiplier())
	}
}

func TestInvalidRequestsAreRefused(t *testing.T) {
	o := newObjective()
	before := o.State()
	for _, j := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		if o.SetBudget(j, Target) == nil {
			t.Errorf("a budget of %v was accepted", j)
		}
	}
	if o.SetBudget(1e4, "soft") == nil || o.SetPreference(2) == nil || o.SetPreference(math.NaN()) == nil {
		t.Error("a bad mode or setting was accepted")
	}
	if o.State() != before {
		t.Error("a refused request changed the state")
	}
}

func TestSettingOfABudget(t *testing.T) {
	for _, c := range []float64{0.1, 0.4, 0.9} {
		o := newObjective()
		o.SetPreference(c)
		if math.Abs(o.Setting()-c) > 1e-9 {
			t.Errorf("setting %v reads back as %v", c, o.Setting())
		}
		want := o.EnergyToGoJ()
		o.SetBudget(want, Target)
		if math.Abs(o.Setting()-c) > 1e-6 {
			t.Errorf("the budget of setting %v has the setting %v", c, o.Setting())
		}
	}
}

func TestResumeIsExact(t *testing.T) {
	a := newObjective()
	a.SetBudget(40e3, Ceiling)
	for range 30 {
		settleSlot(a, 268.8, 31.7, 1.1)
	}
	raw, err := json.Marshal(a.State())
	if err != nil {
		t.Fatal(err)
	}
	var s State
	if err := json.Unmarshal(raw, &s); err != nil {
		t.Fatal(err)
	}
	c := physics.DefaultConstants()
	b := Resume(testConstants(), &c, s)
	for range 70 {
		settleSlot(a, 268.8, 31.7, 1.1)
		settleSlot(&b, 268.8, 31.7, 1.1)
	}
	if a.State() != b.State() {
		t.Errorf("resumed %+v\nuninterrupted %+v", b.State(), a.State())
	}
}

// Slots whose joules were measured as one sum are one measurement of the multiplier,
// whether they are settled together or all but the last without a measurement.
func TestSlotsMeasuredTogetherAreOneMeasurement(t *testing.T) {
	const missed, flightJ, edgeJ, multiplier = 6, 268.8, 20, 1.3
	fly := func(settle func(*Objective)) State {
		o := newObjective()
		for range 10 {
			o.Settle(Settlement{EnergyJ: flightJ + edgeJ, EdgeJ: edgeJ, ModelFlightJ: flightJ, Flying: 2})
		}
		before := o.State()
		settle(o)
		s := o.State()
		if s.Slot != before.Slot+missed+1 || math.Abs(s.SpentJ-before.SpentJ-missed*flightJ-multiplier*flightJ-edgeJ) > 1e-9 {
			t.Errorf("settled to slot %d and %v J, from slot %d and %v J", s.Slot, s.SpentJ, before.Slot, before.SpentJ)
		}
		return s
	}
	together := fly(func(o *Objective) {
		o.Settle(Settlement{Slots: missed + 1, EnergyJ: (missed+multiplier)*flightJ + edgeJ, EdgeJ: edgeJ,
			ModelFlightJ: (missed + 1) * flightJ, Flying: 2})
	})
	// Here the speeds of the missed slots are unknown: their joules measure nothing.
	apart := fly(func(o *Objective) {
		for range missed {
			before := o.State()
			o.Settle(Settlement{EnergyJ: flightJ, Flying: 2})
			if o.State().PropulsionEstimate != before.PropulsionEstimate || o.State().PendingEstimate != before.PendingEstimate {
				t.Errorf("without a measurement the multiplier became %+v", o.State().PropulsionEstimate)
			}
		}
		o.Settle(Settlement{EnergyJ: multiplier*flightJ + edgeJ, EdgeJ: edgeJ, ModelFlightJ: flightJ, Flying: 2})
	})
	whole := fly(func(o *Objective) {
		for range missed {
			o.Settle(Settlement{Flying: 2})
		}
		o.Settle(Settlement{EnergyJ: (missed+multiplier)*flightJ + edgeJ, EdgeJ: edgeJ, ModelFlightJ: (missed + 1) * flightJ, Flying: 2})
	})
	before := fly(func(o *Objective) {
		o.Settle(Settlement{Slots: missed + 1, EnergyJ: (missed+multiplier)*flightJ + edgeJ, EdgeJ: edgeJ, Flying: 2})
	})
	if whole.PropulsionEstimate != together.PropulsionEstimate {
		t.Errorf("settled together %+v\nwith the last slot %+v", together.PropulsionEstimate, whole.PropulsionEstimate)
	}
	for name, s := range map[string]State{"together": together, "apart": apart} {
		if got := s.StdDevPairs - before.StdDevPairs; got != 1 {
			t.Errorf("%s: %d measurements, want 1", name, got)
		}
	}
	// A jump of 30 % in one measurement is a change; 4 % is no more than a fourteenth of the mean.
	if want := 1 + (multiplier-1)/(missed+1)/(initialWeight+11); math.Abs(apart.Multiplier-multiplier) > 1e-9 ||
		math.Abs(together.Multiplier-want) > 1e-9 {
		t.Errorf("multiplier %v from the last slot alone, want %v; %v from all, want %v", apart.Multiplier, multiplier, together.Multiplier,
			want)
	}
}

func TestUnknownObservationChangesNothing(t *testing.T) {
	o := newObjective()
	before := o.State()
	if o.Observe(Observation{}); o.State() != before {
		t.Errorf("%+v became %+v", before, o.State())
	}
	if o.Observe(Observation{Known: true}); o.State().EdgeDemandSlots != 1 {
		t.Error("a slot that can spend nothing was not counted")
	}
}

func TestCorrectedDelayIsSettled(t *testing.T) {
	for _, budgeted := range []bool{false, true} {
		a, b := newObjective(), newObjective()
		if budgeted {
			a.SetBudget(40e3, Target)
			b.SetBudget(40e3, Target)
		}
		a.Settle(Settlement{DelayS: 5, EnergyJ: 300, Flying: 2})
		b.Settle(Settlement{DelayS: 3, EnergyJ: 300, Flying: 2})
		if b.CorrectDelay(2); a.State() != b.State() {
			t.Errorf("budgeted %v: 5 s %+v\n3 s corrected by 2 s %+v", budgeted, a.State(), b.State())
		}
	}
}

// Of a slot with a claim beyond what it may weigh, no more delay counts in the delay to go
// than was expected with what it weighs; of a late result, no more than a mean slot's.
func TestWeighedDelay(t *testing.T) {
	o := newObjective()
	before := o.DelayToGoS()
	o.Observe(Observation{WeighedDelayS: 2})
	o.Settle(Settlement{DelayS: 60, EnergyJ: 300, Flying: 2})
	if got := before - o.DelayToGoS(); got != 2 || o.DelayS() != 60 {
		t.Errorf("%v s of 60 count in the delay to go, %v in the delay, want 2 and 60", got, o.DelayS())
	}
	o.Observe(Observation{})
	o.Settle(Settlement{DelayS: 3, EnergyJ: 300, Flying: 2})
	o.CorrectDelay(50)
	if got := before - o.DelayToGoS(); got != 2+3+7 || o.DelayS() != 113 {
		t.Errorf("%v s count in the delay to go, %v in the delay, want 12 and 113", got, o.DelayS())
	}
}
