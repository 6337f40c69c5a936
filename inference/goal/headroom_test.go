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
	if want := target - 3*o.StdDevJ(); math.Abs(o.HeadroomJ()-max(want, 0)) > 1e-9 {
		t.Errorf("headroom of a ceiling is %v J, want %v", o.HeadroomJ(), want)
	}
	o.SetBudget(20e3, Target)
	if o.HeadroomJ() != 0 || o.PredictedEndJ() != o.FloorJ() || !o.Saturated() {
		t.Errorf("below the floor: headroom %v J, predicted end %v J, floor %v J", o.HeadroomJ(), o.PredictedEndJ(), o.FloorJ())
	}
}

// A budget is predicted to be met until it is more than can be spent; the least
// spend grows as the slots run out.
func TestLeastSpendAndPrediction(t *testing.T) {
	o := newObjective()
	o.SetBudget(33e3, Target)
	for i := range 50 {
		o.Observe(Observation{Known: true, EdgeCapacityJ: 117 + 49*float64(i%2*2-1)})
		settleSlot(o, 268.8, 60, 1)
	}
	if math.Abs(o.state.EdgeCapacityW*2-117) > 1 || math.Abs(math.Sqrt(o.state.EdgeCapacityVariance)*2-49) > 2 {
		t.Errorf("edge capacity is estimated as %.1f W with deviation %.1f, want 117 and 49", 2*o.state.EdgeCapacityW, 2*math.Sqrt(o.state.EdgeCapacityVariance))
	}
	if end := o.PredictedEndJ(); math.Abs(end-33e3) > 1e-6 {
		t.Errorf("33 kJ are predicted to end on %v J", end)
	}
	if o.LeastSpendJ() > 0 {
		t.Errorf("least spend is %v J halfway, though the later slots can spend them", o.LeastSpendJ())
	}
	o.SetBudget(40e3, Target)
	if end := o.PredictedEndJ(); math.Abs(end-(o.FloorJ()+50*117)) > 60 || o.LeastSpendJ() < 0 {
		t.Errorf("40 kJ cannot be spent any more, predicted are %v J, least spend %v J", end, o.LeastSpendJ())
	}
	for range 49 {
		settleSlot(o, 268.8, 100, 1)
	}
	if o.LeastSpendJ() != o.HeadroomJ() {
		t.Errorf("in the last slot the least spend is %v J of a headroom of %v J", o.LeastSpendJ(), o.HeadroomJ())
	}
}

func TestCeilingMarginIsChecked(t *testing.T) {
	for _, p := range []CeilingMargin{{StdDevs: -1}, {StdDevs: math.NaN()}, {ViolationRate: 2}, {Flights: -1}, {Conditions: []string{"calm"}}} {
		s := testConstants()
		if s.CeilingMargin = p; s.Check() == nil {
			t.Errorf("%+v was accepted", p)
		}
	}
}
