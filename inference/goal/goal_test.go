package goal

import (
	"encoding/json"
	"math"
	"testing"

	"prefdt/inference/physics"
)

func scales() *Scales {
	return &Scales{
		EtaDelayS: 600, EtaEnergyJ: 12e3, Slots: 100, Aircraft: 2,
		Conditioner: Conditioner{Omegas: []float64{0, 0.5, 1}, DelayS: []float64{90, 200, 700}, EnergyJ: []float64{39e3, 29e3, 27e3}},
		Remap:       Remap{Omegas: []float64{0, 0.1, 0.4, 1}},
	}
}

func newGoal() *Goal {
	c := physics.Standard()
	return New(scales(), &c, 100, 2)
}

func settle(g *Goal, flightJ, edgeJ, factor float64) {
	g.Settle(Settlement{DelayS: 1, EnergyJ: flightJ*factor + edgeJ, EdgeJ: edgeJ, ModelFlightJ: flightJ, Flying: 2})
}

func TestBudgetIsTheJoulesNotYetSpent(t *testing.T) {
	g := newGoal()
	if err := g.Budget(45e3, Target); err != nil {
		t.Fatal(err)
	}
	spent := 0.0
	for i := range 60 {
		settle(g, 268.8, float64(i), 1)
		spent += 268.8 + float64(i)
		if math.Abs(g.EnergyToGoJ-(45e3-spent)) > 1e-9 {
			t.Fatalf("slot %d: entry %v, budget less spent %v", i, g.EnergyToGoJ, 45e3-spent)
		}
	}
	before := g.EnergyToGoJ
	g.Budget(45e3, Target)
	if g.EnergyToGoJ != before {
		t.Errorf("re-issuing the same total moved the entry by %v J", g.EnergyToGoJ-before)
	}
	g.Budget(42e3, Target)
	if got := before - g.EnergyToGoJ; math.Abs(got-3e3) > 1e-9 {
		t.Errorf("a revision by 3000 J moved the entry by %v J", got)
	}
}

func TestFloorAndSaturation(t *testing.T) {
	g := newGoal()
	g.Budget(26e3, Target)
	if floor := g.FloorJ(); math.Abs(floor-26880.5) > 1 || !g.Saturated() {
		t.Errorf("floor %v J, saturated %v", floor, g.Saturated())
	}
	g.Budget(30e3, Target)
	if g.Saturated() {
		t.Error("30 kJ is above the floor")
	}
	for range 50 {
		settle(g, 268.8, 0, 1)
	}
	for range 50 {
		settle(g, 268.8, 0, 1.5)
	}
	if !g.Saturated() || math.Abs(g.Factor-1.5) > 1e-6 {
		t.Errorf("after a shock: saturated %v, factor %v", g.Saturated(), g.Factor)
	}
}

func TestRequestsAreFenced(t *testing.T) {
	g := newGoal()
	before := g.State
	for _, j := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		if g.Budget(j, Target) == nil {
			t.Errorf("a budget of %v was accepted", j)
		}
	}
	if g.Budget(1e4, "soft") == nil || g.Prefer(2) == nil || g.Prefer(math.NaN()) == nil {
		t.Error("a bad mode or setting was accepted")
	}
	if g.State != before {
		t.Error("a refused request changed the state")
	}
}

func TestSettingOfABudget(t *testing.T) {
	for _, c := range []float64{0.1, 0.4, 0.9} {
		g := newGoal()
		g.Prefer(c)
		if math.Abs(g.Setting()-c) > 1e-9 {
			t.Errorf("setting %v reads back as %v", c, g.Setting())
		}
		want := g.EnergyToGoJ
		g.Budget(want, Target)
		if math.Abs(g.Setting()-c) > 1e-6 {
			t.Errorf("the budget of setting %v amounts to %v", c, g.Setting())
		}
	}
}

func TestResumeIsExact(t *testing.T) {
	a := newGoal()
	a.Budget(40e3, Ceiling)
	for range 30 {
		settle(a, 268.8, 31.7, 1.1)
	}
	raw, err := json.Marshal(a.State)
	if err != nil {
		t.Fatal(err)
	}
	var s State
	if err := json.Unmarshal(raw, &s); err != nil {
		t.Fatal(err)
	}
	c := physics.Standard()
	b := Resume(scales(), &c, s)
	for range 70 {
		settle(a, 268.8, 31.7, 1.1)
		settle(b, 268.8, 31.7, 1.1)
	}
	if a.State != b.State {
		t.Errorf("resumed %+v\nuninterrupted %+v", b.State, a.State)
	}
}
