package rollout

import (
	"math"
	"testing"

	"prefdt/inference"
	"prefdt/inference/goal"
	"prefdt/offline/offlinetest"
	"prefdt/simbridge/world"
)

var shippedCheckpoint = offlinetest.Shipped

// newRunner returns one of the shipped checkpoint under exact dispatch.
func newRunner(t testing.TB, c world.Config, l ReportLink) *Runner {
	t.Helper()
	return offlinetest.Must(New(shippedCheckpoint(t), inference.DecoderDispatch, c, l))(t)
}

// These tests tune nothing, but they run on every change, so they fly training
// seeds that no flight of the corpus used before the last of the range.
const testSeed = 99_950

func flyShipped(t *testing.T, c world.Config, r Request) Result {
	t.Helper()
	return newRunner(t, c, ReportLink{}).Fly(testSeed, r)
}

func TestBudgetsAreHeld(t *testing.T) {
	previous := 0.0
	for _, j := range []float64{28e3, 31e3, 34e3, 36e3} {
		target := flyShipped(t, world.Standard(), Request{Mode: goal.Target, BudgetJ: j})
		ceiling := flyShipped(t, world.Standard(), Request{Mode: goal.Ceiling, BudgetJ: j})
		// What a rich budget keeps for a change of flight power comes too late to be spent.
		if e := target.EnergyJ/j - 1; e > 1e-4 || e < -0.02 {
			t.Errorf("a target of %v J is missed by %.2f %%", j, 100*e)
		}
		if ceiling.EnergyJ > j {
			t.Errorf("a ceiling of %v J is broken: %v J", j, ceiling.EnergyJ)
		}
		if target.EnergyJ <= previous {
			t.Errorf("%v J does not follow the request", target.EnergyJ)
		}
		previous = target.EnergyJ
	}
	low := flyShipped(t, world.Standard(), Request{Mode: goal.Target, BudgetJ: 20e3})
	if e := low.EnergyJ/low.FloorJ - 1; e > 0.01 || e < -1e-9 {
		t.Errorf("below the floor the flight spends %.2f %% above it", 100*e)
	}
}

func TestCrowdedFleetKeepsApart(t *testing.T) {
	c := world.Standard()
	c.Aircraft, c.DenseStart = 6, true
	r := flyShipped(t, c, Request{Mode: goal.Preference, Omega: 0.1})
	if r.MinSeparationM < c.Physics.SeparationM {
		t.Errorf("aircraft came within %v m", r.MinSeparationM)
	}
	c = world.Standard()
	c.AircraftLosses = []world.AircraftLoss{{Aircraft: 0, Slot: 40}}
	if r := flyShipped(t, c, Request{Mode: goal.Target, BudgetJ: 19.8e3}); math.Abs(r.EnergyJ/19.8e3-1) > 0.03 {
		t.Errorf("a fleet that loses an aircraft spends %v J of 19.8 kJ", r.EnergyJ)
	}
}

func BenchmarkRollout(b *testing.B) {
	f := newRunner(b, world.Standard(), ReportLink{})
	for i := range b.N {
		f.Fly(uint64(i%1000), Request{Mode: goal.Preference, Omega: 0.1})
	}
}
