package rollout

import (
	"reflect"
	"testing"

	"prefdt/inference"
	"prefdt/inference/duty"
	"prefdt/inference/goal"
	"prefdt/simbridge/world"
)

// dutySeed is a seed that nothing is evaluated on.
const dutySeed = 100_777

// plannedRunner returns a runner of the shipped checkpoint with its planner.
func plannedRunner(t *testing.T, c world.Config) *Runner {
	ck := shippedCheckpoint(t)
	f := newRunner(t, c, ReportLink{})
	f.Planner = duty.New(&c.Physics, ck.UserPrior(), inference.EdgeCurve(ck).PricesSPerJ[goal.CurvePoints-1])
	return f
}

// TestNobodyLandsOfARichBudget checks that a planner that lands nobody changes nothing.
func TestNobodyLandsOfARichBudget(t *testing.T) {
	f := plannedRunner(t, world.Standard())
	request := Request{Mode: goal.Ceiling, BudgetJ: 44e3}
	planned := f.Fly(dutySeed, request)
	f.Planner = nil
	if aloft := f.Fly(dutySeed, request); !reflect.DeepEqual(planned, aloft) {
		t.Errorf("planned %+v, all aloft %+v", planned, aloft)
	}
}

// TestPacksAreKept flies packs that bind. Nobody passes its own, all slots are served, and
// the delay is a fraction of what all aloft have.
func TestPacksAreKept(t *testing.T) {
	for _, tt := range []struct {
		name   string
		packs  Packs
		mostS  float64
		leaves bool // somebody is to land early
	}{
		{"slots", Packs{EnergyJ: []float64{12e3, 18e3}}, 115, true},
		{"landed", Packs{EnergyJ: []float64{33.6e3, 41.6e3}, Landed: true}, 101, true},
		{"landed, alike", Packs{EnergyJ: []float64{37.6e3, 37.6e3}, Landed: true}, 89.5, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := plannedRunner(t, world.Standard())
			r := f.Fly(dutySeed, Request{Mode: goal.Ceiling, BudgetJ: 1e5, Packs: &tt.packs})
			for m, j := range r.SpentJ {
				if j > tt.packs.EnergyJ[m] || j < 0.9*tt.packs.EnergyJ[m] {
					t.Errorf("aircraft %d spent %.0f J of %.0f", m+1, j, tt.packs.EnergyJ[m])
				}
			}
			if r.ServedSlots != 100 || r.DelayS > tt.mostS {
				t.Errorf("%.1f s of delay in %d slots served, want at most %v s in 100", r.DelayS, r.ServedSlots, tt.mostS)
			}
			if left := f.world.Aircraft[0].Left; left != tt.leaves {
				t.Errorf("the weaker aircraft left: %v", left)
			}
			t.Logf("%.1f s, spent %.0f", r.DelayS, r.SpentJ)
		})
	}
}

// TestDriftHome checks that landed packs are flown home before they leave: the way home is no
// longer than a few metres.
func TestDriftHome(t *testing.T) {
	c := world.Standard()
	f := plannedRunner(t, c)
	f.Fly(dutySeed, Request{Mode: goal.Ceiling, BudgetJ: 1e5, Packs: &Packs{EnergyJ: []float64{42e3, 42e3}, Landed: true}})
	for m := range f.world.Aircraft {
		if d := f.world.Aircraft[m].Position.Sub(c.Start(m)).Norm(); d > 20 {
			t.Errorf("aircraft %d ends its last slot %.0f m from home", m+1, d)
		}
	}
}
