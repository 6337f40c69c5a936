package inference

import (
	"math"
	"math/rand/v2"
	"testing"

	"prefdt/inference/dispatch"
	"prefdt/inference/goal"
	"prefdt/inference/slot"
)

// Aircraft may have any CPU, or none that can be reached: it then serves nobody, is not on
// offer, costs no joules of computing, and flies on; the others serve as before.
func TestAircraftWithOtherCPUs(t *testing.T) {
	ck := shippedCheckpoint(t)
	for _, hz := range [][]float64{{40e9, 0}, {0, 0}, {3e9, 31e9}, {1, 40e9}, {0, 2e9, 40e9}} {
		r := rand.New(rand.NewPCG(5, 6))
		p, err := New(ck, DecoderDispatch)
		if err != nil {
			t.Fatal(err)
		}
		o := goal.New(&ck.GoalConstants, &ck.Physics, 30, len(hz))
		forecast := dispatch.Forecast{Prior: ck.UserPrior()}
		var d slot.Decision
		served := make([]int, len(hz))
		slots := 30
		if testing.Short() { // an emulator takes a minute
			slots = 6
		}
		for i := range slots {
			s := randomSnapshot(r, i, len(hz), 8)
			for m := range hz {
				s.Aircraft[m].CPUHz = hz[m]
			}
			offer := forecast.Offer(&ck.Physics, s.Aircraft, 1e-3, r)
			for m, a := range offer.Aircraft {
				if (hz[m] == 0) != (a.CPUHz == 0) && hz[m] != 1 || math.IsNaN(a.ExpectedUsers) || a.CPUHz > hz[m] {
					t.Errorf("%v: the offer of aircraft %d is %+v", hz, m+1, a)
				}
			}
			forecast.AnnotateSnapshot(s)
			o.Observe(p.Decide(s, o, &d))
			for u, x := range d.Users {
				if x.Server > 0 {
					served[x.Server-1]++
				}
				if x.Server > 0 && hz[x.Server-1] == 0 || math.IsNaN(x.Offload) || math.IsInf(x.CompletionS, 0) ||
					math.IsNaN(x.CompletionS) {
					t.Fatalf("%v, slot %d: user %d gets %+v", hz, i, u, x)
				}
			}
			for m, v := range d.Move {
				if n := v.Norm(); !(n <= ck.Physics.SpeedMaxMPS) || !(d.EdgeJ[m] >= 0) || hz[m] == 0 && d.EdgeJ[m] != 0 {
					t.Fatalf("%v, slot %d: aircraft %d moves %v and computes for %v J", hz, i, m+1, v, d.EdgeJ[m])
				}
			}
			o.Settle(goal.Settlement{DelayS: d.DelayS, EnergyJ: 300, EdgeJ: 30, ModelFlightJ: 270, Flying: len(hz)})
			forecast.Settle(8, i%3)
		}
		for m := range hz {
			if hz[m] >= 30e9 && served[m] == 0 {
				t.Errorf("%v: aircraft %d serves nobody", hz, m+1)
			}
		}
	}
}
