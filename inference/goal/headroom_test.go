package goal

import (
	"math"
	"math/rand/v2"
	"testing"

	"prefdt/inference/physics"
)

// StdDevJ is the deviation of the flight energy that flights then really need.
func TestStdDevIsCalibrated(t *testing.T) {
	for _, at := range []int{10, 50, 90, 99} {
		sum := 0.0
		const flights = 400
		for flight := range uint64(flights) {
			o, r := newObjective(), rand.New(rand.NewPCG(3, flight))
			o.SetBudget(30e3, Target)
			for range at {
				settleSlot(o, 268.8, 0, 1+0.106*r.NormFloat64())
			}
			floor, stdDev := o.FloorJ(), o.StdDevJ()
			for range 100 - at {
				settleSlot(o, 268.8, 0, 1+0.106*r.NormFloat64())
			}
			z := (o.SpentJ() - floor) / stdDev
			sum += z * z / flights
		}
		if rms := math.Sqrt(sum); rms < 0.8 || rms > 1.35 {
			t.Errorf("slot %d: the floor predicted then was off by %.2f of its standard deviation", at, rms)
		}
	}
}

func TestHeadroom(t *testing.T) {
	s := testConstants()
	s.CeilingMargin.StdDevs = 3
	c := physics.DefaultConstants()
	o := New(s, &c, 100, 2)
	o.SetBudget(30e3, Target)
	if want := 30e3 - o.FloorJ(); math.Abs(o.HeadroomJ()-want) > 1e-9 {
		t.Errorf("headroom of a target is %v J, want %v", o.HeadroomJ(), want)
	}
	target := o.HeadroomJ()
	o.SetBudget(30e3, Ceiling)
	if want := target - 3*o.stdDevJ(1); math.Abs(o.HeadroomJ()-max(want, 0)) > 1e-9 {
		t.Errorf("headroom of a ceiling is %v J, want %v", o.HeadroomJ(), want)
	}
	o.SetBudget(20e3, Target)
	if o.HeadroomJ() != 0 || o.PredictedEndJ() != o.FloorJ() || !o.Saturated() {
		t.Errorf("below the floor: headroom %v J, predicted end %v J, floor %v J", o.HeadroomJ(), o.PredictedEndJ(), o.FloorJ())
	}
}

// A budget is predicted to be met until it is more than can be spent.
func TestPrediction(t *testing.T) {
	o := newObjective()
	o.SetBudget(33e3, Target)
	for i := range 50 {
		o.Observe(Observation{Known: true, EdgeJ: [CurvePoints]float64{117 + 49*float64(i%2*2-1), 80, 80, 80, 80}})
		settleSlot(o, 268.8, 60, 1)
	}
	edgeW, slots := o.MeanEdgeDemandW()
	if math.Abs(2*edgeW[0]-117) > 2 || math.Abs(2*edgeW[1]-80) > 1e-9 || slots != edgeDemandMemory {
		t.Errorf("a slot spends %.1f J at price zero and %.1f J at the next, of %v slots; want 117 and 80 of %v", 2*edgeW[0], 2*edgeW[1],
			slots, edgeDemandMemory)
	}
	if end := o.PredictedEndJ(); math.Abs(end-33e3) > 1e-6 {
		t.Errorf("33 kJ are predicted to end on %v J", end)
	}
	o.SetBudget(40e3, Target)
	if end := o.PredictedEndJ(); math.Abs(end-(o.FloorJ()+50*80)) > 1 { // at the least price that is flown
		t.Errorf("40 kJ cannot be spent any more, predicted are %v J", end)
	}
}

// Whatever is spent within the slots' limits: of what an even spender then has left, at
// most the advance is gone.
func TestLimitKeepsWhatAnEvenSpenderKeeps(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 200 {
		o := newObjective()
		o.SetBudget(28e3+15e3*r.Float64(), Target)
		shareJ, advanceJ := o.HeadroomJ()/100, o.State().SavedJ
		at := r.IntN(100)
		for range at {
			settleSlot(o, 268.8, o.SlotLimitJ()*math.Sqrt(r.Float64()), 1)
		}
		if least := shareJ*float64(100-at) - advanceJ - 1e-6; o.HeadroomJ() < least {
			t.Fatalf("%.0f J, %d slots: %.1f J are left, want %.1f at least", o.BudgetJ(), at, o.HeadroomJ(), least)
		}
	}
}

// A ceiling is kept though edge computing takes the most it may of its closed form and
// slots spend all they are allowed, the last included, which no later one makes up for.
func TestCeilingLeavesRoomForEdgeEnergy(t *testing.T) {
	const flightJ = 268.8045877             // of a slot, the floor
	for _, idle := range []int{0, 50, 99} { // first slots, which leave all that they may spend
		o := newObjective()
		o.SetBudget(30e3, Ceiling)
		spentJ := 0.0
		for at := range 100 {
			edgeJ := 0.0
			if at >= idle {
				edgeJ = o.SlotLimitJ()
			}
			slotJ := flightJ + maxEdgeFactor*edgeJ
			spentJ += slotJ
			o.Settle(Settlement{DelayS: 1, EnergyJ: slotJ, EdgeJ: edgeJ, ModelFlightJ: flightJ, Flying: 2})
		}
		if spentJ > 30e3 || spentJ < 0.99*30e3 {
			t.Errorf("after %d idle slots a ceiling of 30 kJ ends at %.2f J", idle, spentJ)
		}
	}
}

// A budget that is requested again gives nothing in advance; one that is raised does.
func TestAdvance(t *testing.T) {
	o := newObjective()
	o.SetBudget(34e3, Target)
	for range 30 {
		settleSlot(o, 268.8, o.SlotLimitJ(), 1)
	}
	before := o.State()
	if o.SetBudget(34e3, Target); o.State() != before {
		t.Errorf("the same budget again changed %+v to %+v", before, o.State())
	}
	limitJ := o.SlotLimitJ()
	o.SetBudget(33e3, Target)
	if lower := o.SlotLimitJ(); lower >= limitJ {
		t.Errorf("a budget cut by 1 kJ changed the slot's limit from %v to %v J", limitJ, lower)
	}
	o.SetBudget(35e3, Target)
	if want := 268.8045877 / 2; math.Abs(o.State().SavedJ-want) > 1e-3 {
		t.Errorf("a raised budget gives %v J in advance, want half a slot's flight, %v", o.State().SavedJ, want)
	}
	o = newObjective()
	o.SetBudget(28e3, Target)
	if want := 5 * o.HeadroomJ() / 100; math.Abs(o.State().SavedJ-want) > 1e-6 {
		t.Errorf("a small budget gives %v J in advance, want five shares, %v", o.State().SavedJ, want)
	}
}

func TestCeilingMarginIsChecked(t *testing.T) {
	for _, p := range []CeilingMargin{{StdDevs: -1}, {StdDevs: math.NaN()}, {ViolationRate: 2}, {Flights: -1},
		{Conditions: []string{"calm"}}} {
		s := testConstants()
		if s.CeilingMargin = p; s.Check() == nil {
			t.Errorf("%+v was accepted", p)
		}
	}
}
