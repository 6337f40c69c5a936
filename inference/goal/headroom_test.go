package goal

import (
	"math"
	"math/rand/v2"
	"testing"

	"prefdt/inference/physics"
)

// The doubt about what the rest of the flight costs is that of flights flown on.
func TestDoubtIsCalibrated(t *testing.T) {
	for _, at := range []int{10, 50, 90, 99} {
		sum := 0.0
		const flights = 400
		for flight := range uint64(flights) {
			g, r := newObjective(), rand.New(rand.NewPCG(3, flight))
			g.SetBudget(30e3, Target)
			for range at {
				settleSlot(g, 268.8, 0, 1+0.106*r.NormFloat64())
			}
			floor, doubt := g.FloorJ(), g.StdDevJ()
			for range 100 - at {
				settleSlot(g, 268.8, 0, 1+0.106*r.NormFloat64())
			}
			z := (g.SpentJ() - floor) / doubt
			sum += z * z / flights
		}
		if rms := math.Sqrt(sum); rms < 0.8 || rms > 1.35 {
			t.Errorf("slot %d: the floor named then was off by %.2f of its standard deviation", at, rms)
		}
	}
}

func TestRoom(t *testing.T) {
	s := testConstants()
	s.CeilingMargin.StdDevs = 3
	c := physics.DefaultConstants()
	g := New(s, &c, 100, 2)
	g.SetBudget(30e3, Target)
	if want := 30e3 - g.FloorJ(); math.Abs(g.HeadroomJ()-want) > 1e-9 {
		t.Errorf("room of a target is %v J, want %v", g.HeadroomJ(), want)
	}
	target := g.HeadroomJ()
	g.SetBudget(30e3, Ceiling)
	if want := target - 3*g.StdDevJ(); math.Abs(g.HeadroomJ()-max(want, 0)) > 1e-9 {
		t.Errorf("room of a ceiling is %v J, want %v", g.HeadroomJ(), want)
	}
	g.SetBudget(20e3, Target)
	if g.HeadroomJ() != 0 || g.PredictedEndJ() != g.FloorJ() || !g.Saturated() {
		t.Errorf("below the floor: room %v J, predicted end %v J, floor %v J", g.HeadroomJ(), g.PredictedEndJ(), g.FloorJ())
	}
}

// A budget is met, and predicted to be, until it is more than can be spent;
// what is due grows as the slots run out.
func TestDueAndPrediction(t *testing.T) {
	g := newObjective()
	g.SetBudget(33e3, Target)
	for i := range 50 {
		g.Observe(Observation{Known: true, EdgeCapacityJ: 117 + 49*float64(i%2*2-1)})
		settleSlot(g, 268.8, 60, 1)
	}
	if math.Abs(g.state.EdgeCapacityW*2-117) > 1 || math.Abs(math.Sqrt(g.state.EdgeCapacityVariance)*2-49) > 2 {
		t.Errorf("what can be spent is taken for %.1f W with deviation %.1f, want 117 and 49", 2*g.state.EdgeCapacityW, 2*math.Sqrt(g.state.EdgeCapacityVariance))
	}
	if end := g.PredictedEndJ(); math.Abs(end-33e3) > 1e-6 {
		t.Errorf("33 kJ are predicted to end on %v J", end)
	}
	if g.LeastSpendJ() > 0 {
		t.Errorf("%v J are due halfway, though the rest can spend them", g.LeastSpendJ())
	}
	g.SetBudget(40e3, Target)
	if end := g.PredictedEndJ(); math.Abs(end-(g.FloorJ()+50*117)) > 60 || g.LeastSpendJ() < 0 {
		t.Errorf("40 kJ cannot be spent any more, predicted are %v J, due %v J", end, g.LeastSpendJ())
	}
	for range 49 {
		settleSlot(g, 268.8, 100, 1)
	}
	if g.LeastSpendJ() != g.HeadroomJ() {
		t.Errorf("in the last slot %v J are due of %v J", g.LeastSpendJ(), g.HeadroomJ())
	}
}

func TestPromiseIsChecked(t *testing.T) {
	for _, p := range []CeilingMargin{{StdDevs: -1}, {StdDevs: math.NaN()}, {ViolationRate: 2}, {Flights: -1}, {Conditions: []string{"calm"}}} {
		s := testConstants()
		if s.CeilingMargin = p; s.Check() == nil {
			t.Errorf("%+v was accepted", p)
		}
	}
}
