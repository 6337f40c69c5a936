package inference

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"

	"prefdt/inference/goal"
	"prefdt/inference/slot"
)

// A policy that continues from a saved objective finds about the price that it would have
// found without the restart, at any preference.
func TestRestartKeepsThePrice(t *testing.T) {
	ck := shippedCheckpoint(t)
	omegas := []float64{0.002, 0.01, 0.05, 0.3}
	if testing.Short() { // an emulator takes a minute
		omegas = omegas[1:2]
	}
	for _, omega := range omegas {
		r := rand.New(rand.NewPCG(8, 8))
		p, _ := New(ck, DecoderDispatch)
		o := goal.New(&ck.GoalConstants, &ck.Physics, 100, 2)
		o.SetOmega(omega)
		var again *Policy
		var d, e slot.Decision
		worst := 0.0
		for i := range 60 {
			s := randomSnapshot(r, i, 2, 6)
			if i == 40 {
				raw, err := json.Marshal(o.State())
				if err != nil {
					t.Fatal(err)
				}
				var state goal.State
				if err := json.Unmarshal(raw, &state); err != nil {
					t.Fatal(err)
				}
				again, _ = New(ck, DecoderDispatch)
				resumed := goal.Resume(&ck.GoalConstants, &ck.Physics, state)
				if resumed.State() != o.State() {
					t.Fatalf("resumed %+v\nof %+v", resumed.State(), o.State())
				}
			}
			observed := p.Decide(s, o, &d)
			if again != nil {
				again.Decide(s, o, &e)
				worst = max(worst, math.Abs(math.Log(e.PriceSPerJ/d.PriceSPerJ)))
			}
			o.Observe(observed)
			o.Settle(goal.Settlement{DelayS: d.DelayS, EnergyJ: 275 + d.TotalEdgeJ(), EdgeJ: d.TotalEdgeJ(), ModelFlightJ: 275, Flying: 2})
		}
		t.Logf("omega %v: prices up to %.1f %% off after a restart", omega, 100*math.Expm1(worst))
		if worst > 0.05 {
			t.Errorf("omega %v: after a restart prices are up to %.1f %% off", omega, 100*math.Expm1(worst))
		}
	}
}

// Beside an unreported load, too, a slot spends no more than its limit or, where that load
// alone is more, nothing for those that reported.
func TestSpendingIsLimitedBesideUnreportedLoad(t *testing.T) {
	ck := shippedCheckpoint(t)
	for _, decoder := range Decoders() {
		worst := 0.0
		for seed := range uint64(30) {
			r := rand.New(rand.NewPCG(seed, 10))
			p, _ := New(ck, decoder)
			o := goal.New(&ck.GoalConstants, &ck.Physics, 10, 2)
			if err := o.SetBudget(o.FloorJ()+100, goal.Target); err != nil {
				t.Fatal(err)
			}
			s := randomSnapshot(r, 0, 2, 8)
			s.Slots = 10
			for m := range s.Aircraft {
				s.Aircraft[m].Unreported = slot.UnreportedLoad{ExpectedUsers: 2 * r.Float64(), CyclesPerUser: 1e9}
			}
			var d, none slot.Decision
			o.Observe(p.Decide(s, o, &d))
			none.Resize(s)
			none.Users = append(none.Users[:0], d.Users...)
			for u := range none.Users {
				none.Users[u].Offload = 0
			}
			none.Evaluate(&ck.Physics, s)
			limit := max(o.SlotLimitJ(), none.TotalEdgeJ())
			worst = max(worst, d.TotalEdgeJ()/limit-1)
		}
		if worst > 1e-9 {
			t.Errorf("%s: up to %.1f %% above the limit", decoder, 100*worst)
		}
	}
}
