package rollout

import (
	"math"
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

// TestDelayFallsWithJoules flies totals of 3 to 50 kJ, packs, and totals that are revised in flight: of more joules, no delay is
// longer in the mean, but for 1 %.
func TestDelayFallsWithJoules(t *testing.T) {
	const seeds, within = 6, 1.01
	for _, tt := range []struct {
		name     string
		aircraft int
		revised  int       // slot from which it is the total, of 33 kJ before; 0: from the first
		packs    []float64 // shares of the joules that each has; nil: a total
		kJ       []float64
	}{
		{"one", 1, 0, nil, []float64{3, 9, 13.4, 13.5, 14, 15, 16, 17, 20}},
		{"two", 2, 0, nil, []float64{3, 9, 13.4, 13.5, 13.75, 14, 15, 16, 17, 20, 25, 27, 28, 30, 33, 40, 50}},
		{"three", 3, 0, nil, []float64{3, 13, 13.5, 15, 16, 20, 26, 28, 34, 40, 42, 46, 50}},
		{"four", 4, 0, nil, []float64{3, 13, 13.5, 15, 17, 26, 30, 40, 50}},
		{"revised early", 2, 10, nil, []float64{3, 8, 14, 15, 16, 18, 20, 28, 40}},
		{"revised half way", 2, 50, nil, []float64{15, 19, 23, 24, 25, 26, 30, 40}},
		{"revised late", 2, 80, nil, []float64{20, 28, 29, 30, 31, 33, 36}},
		{"a pack", 1, 0, []float64{1}, []float64{3, 13.4, 13.5, 14, 15, 16, 17, 20}},
		{"like packs", 2, 0, []float64{0.5, 0.5}, []float64{6, 20, 26, 26.8, 27.5, 28, 30, 36}},
		{"a weak pack", 2, 0, []float64{0.3, 0.7}, []float64{6, 18, 19, 19.5, 20, 22, 30, 50}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := world.Standard()
			c.Aircraft = tt.aircraft
			f, lastS := plannedRunner(t, c), math.Inf(1)
			for _, kJ := range tt.kJ {
				request, meanS := Request{Mode: goal.Ceiling, BudgetJ: 1e3 * kJ}, 0.0
				if tt.revised > 0 {
					request.BudgetJ, request.ReviseSlot, request.RevisedBudgetJ = 33e3, tt.revised, 1e3*kJ
				}
				if tt.packs != nil {
					request.Packs = &Packs{}
					for _, share := range tt.packs {
						request.Packs.EnergyJ = append(request.Packs.EnergyJ, share*1e3*kJ)
					}
				}
				for k := range seeds {
					meanS += f.Fly(dutySeed+uint64(k), request).DelayS / seeds
				}
				if meanS > within*lastS {
					t.Errorf("%v kJ: %.1f s, of fewer joules %.1f s", kJ, meanS, lastS)
				}
				t.Logf("%v kJ: %.1f s", kJ, meanS)
				lastS = min(lastS, meanS)
			}
		})
	}
}

// TestMistypedTotal flies a total that is wrong in one slot: who left for it is called back, at 2 % of the delay at most.
func TestMistypedTotal(t *testing.T) {
	f := plannedRunner(t, world.Standard())
	meant := Request{Mode: goal.Ceiling, BudgetJ: 31.5e3}
	mistyped := meant
	mistyped.ReviseSlot, mistyped.RevisedBudgetJ, mistyped.RevertSlot = 10, 10e3, 11
	meantS, mistypedS := 0.0, 0.0
	for k := range uint64(4) {
		meantS += f.Fly(dutySeed+k, meant).DelayS
		r := f.Fly(dutySeed+k, mistyped)
		if mistypedS += r.DelayS; r.EnergyJ > meant.BudgetJ || r.EnergyJ < 0.95*meant.BudgetJ {
			t.Errorf("%.0f J spent of %.0f", r.EnergyJ, meant.BudgetJ)
		}
	}
	if mistypedS > 1.02*meantS {
		t.Errorf("%.1f s, without the mistake %.1f s", mistypedS/4, meantS/4)
	}
}
