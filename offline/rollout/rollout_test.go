package rollout

import (
	"math"
	"reflect"
	"testing"

	"prefdt/inference"
	"prefdt/inference/checkpoint"
	"prefdt/inference/goal"
	"prefdt/simbridge/world"
)

func shippedCheckpoint(t testing.TB) *checkpoint.Checkpoint {
	t.Helper()
	ck, err := checkpoint.Load("../../configs/checkpoint")
	if err != nil {
		t.Fatal(err)
	}
	return ck
}

// These tests tune nothing, but they run on every change, so they fly training
// seeds that no flight of the corpus used before the last of the range.
const testSeed = 99_950

func flyShipped(t *testing.T, c world.Config, r Request) Result {
	t.Helper()
	f, err := New(shippedCheckpoint(t), inference.DecoderDispatch, c, ReportLink{})
	if err != nil {
		t.Fatal(err)
	}
	return f.Fly(testSeed, r)
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

// Re-issuing a total changes nothing; tightening tightens, relaxing relaxes.
func TestRevision(t *testing.T) {
	c := world.Standard()
	plain := flyShipped(t, c, Request{Mode: goal.Target, BudgetJ: 33e3})
	again := flyShipped(t, c, Request{Mode: goal.Target, BudgetJ: 33e3, ReviseSlot: 40, RevisedBudgetJ: 33e3})
	if d := math.Abs(again.EnergyJ - plain.EnergyJ); d > 1e-3 {
		t.Errorf("re-issuing the same total moved the end by %v J", d)
	}
	for _, j := range []float64{31e3, 35e3} {
		revised := flyShipped(t, c, Request{Mode: goal.Target, BudgetJ: 33e3, ReviseSlot: 40, RevisedBudgetJ: j})
		if e := revised.EnergyJ/j - 1; math.Abs(e) > 0.01 {
			t.Errorf("revised to %v J: off by %.2f %%", j, 100*e)
		}
	}
}

// A preference moves both returns in its direction, over most of the span.
func TestSettingsAreFollowed(t *testing.T) {
	ck := shippedCheckpoint(t)
	var delay, energy []float64
	for _, setting := range []float64{0, 0.25, 0.5, 0.75, 1} {
		r := flyShipped(t, world.Standard(), Request{Mode: goal.Preference, Omega: ck.GoalConstants.SettingMap.Omega(setting)})
		delay, energy = append(delay, r.DelayS), append(energy, r.EnergyJ)
	}
	for i := 1; i < len(delay); i++ {
		if delay[i] <= delay[i-1] || energy[i] >= energy[i-1] {
			t.Errorf("settings give delays %v and energies %v", delay, energy)
			break
		}
	}
	if delay[4]-delay[0] < 500 || energy[0]-energy[4] < 9e3 {
		t.Errorf("reach of %v s and %v J", delay[4]-delay[0], energy[0]-energy[4])
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

// A lossy link costs the front least when users accept the standing offer; a
// perfect one costs nothing.
func TestLink(t *testing.T) {
	ck := shippedCheckpoint(t)
	request := Request{Mode: goal.Preference, Omega: ck.GoalConstants.SettingMap.Omega(0.3)}
	delay := func(l ReportLink) float64 {
		f, err := New(ck, inference.DecoderDispatch, world.Standard(), l)
		if err != nil {
			t.Fatal(err)
		}
		return f.Fly(testSeed, request).DelayS
	}
	nominal := delay(ReportLink{})
	if got := delay(ReportLink{Fallback: FallbackOffer}); got != nominal {
		t.Errorf("a perfect link with offers gives %v s, without %v s", got, nominal)
	}
	local, offer := delay(ReportLink{LossRate: 0.4}), delay(ReportLink{LossRate: 0.4, Fallback: FallbackOffer})
	if !(nominal < offer && offer < local) {
		t.Errorf("delays: nominal %v, 40 %% lost with offers %v, without %v", nominal, offer, local)
	}
	if _, err := New(ck, inference.DecoderDispatch, world.Standard(), ReportLink{LossRate: 2}); err == nil {
		t.Error("a loss of 2 was accepted")
	}
}

func TestSweepDoesNotDependOnWorkers(t *testing.T) {
	ck := shippedCheckpoint(t)
	seeds := []uint64{99_960, 99_961, 99_962}
	requests := PreferenceRequests(Linspace(0.1, 0.9, 3))
	one, err := Sweep(t.Context(), ck, inference.DecoderDispatch, world.Standard(), ReportLink{}, seeds, requests, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	two, _ := Sweep(t.Context(), ck, inference.DecoderDispatch, world.Standard(), ReportLink{}, seeds, requests, 2, nil)
	for i := range one {
		for s := range one[i] {
			if !reflect.DeepEqual(one[i][s], two[i][s]) {
				t.Fatalf("request %d, seed %d: %+v and %+v", i, s, one[i][s], two[i][s])
			}
		}
	}
}

func BenchmarkRollout(b *testing.B) {
	f, err := New(shippedCheckpoint(b), inference.DecoderDispatch, world.Standard(), ReportLink{})
	if err != nil {
		b.Fatal(err)
	}
	for i := range b.N {
		f.Fly(uint64(i%1000), Request{Mode: goal.Preference, Omega: 0.1})
	}
}
