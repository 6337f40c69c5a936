package motion

import (
	"math"
	"math/rand/v2"
	"testing"

	"prefdt/inference/physics"
	"prefdt/inference/slot"
)

var testPhysics = physics.DefaultConstants()

func randomTaskUsers(r *rand.Rand, n int) []slot.User {
	users := randomUsers(r, n)
	for i := range users {
		users[i].CPUHz = 1e9
		users[i].Task = physics.Task{Bits: 0.5e6 + 1e6*r.Float64(), CyclesPerBit: 1000, DeadlineS: 0.5 + r.Float64()}
	}
	return users
}

// No position around a target, for one aircraft alone, is better by more than the
// last step of the search can resolve.
func TestTargetsAreLeast(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		users, aircraft := randomTaskUsers(r, 1+r.IntN(20)), randomAircraft(r, 1+r.IntN(5))
		var planner Planner
		planner.Observe(users)
		start := make([]physics.Position, len(aircraft))
		for m := range aircraft {
			start[m] = aircraft[m].Position
		}
		targets := planner.Targets(&testPhysics, aircraft, nil)
		expect := func(at []physics.Position) float64 {
			for m := range at {
				planner.updateViews(m, at[m])
			}
			return planner.expectedDelayS()
		}
		least := expect(targets)
		if before := expect(start); least > before {
			t.Fatalf("the targets cost %v s, staying %v s", least, before)
		}
		for m := range targets {
			for _, direction := range directions {
				aside := append([]physics.Position{}, targets...)
				aside[m] = aside[m].Add(direction.Scale(minStepM))
				if s := expect(aside); s < least*(1-1e-3) {
					t.Fatalf("%d users, aircraft %d of %d: %v m aside costs %v s, the target %v s", len(users), m, len(targets), minStepM,
						s, least)
				}
			}
		}
	}
}

func TestTargetsDoNotDependOnTheOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 1))
	for range 300 {
		users, aircraft := randomTaskUsers(r, r.IntN(20)), randomAircraft(r, r.IntN(6))
		var a, b Planner
		a.Observe(users)
		b.Observe(nil)
		b.observed.slots = 0
		for _, k := range r.Perm(len(users)) {
			b.Observe(users[k : k+1])
		}
		b.observed.slots = a.observed.slots
		order := r.Perm(len(aircraft))
		var shuffled []slot.Aircraft
		for _, k := range order {
			shuffled = append(shuffled, aircraft[k])
		}
		want, got := a.Targets(&testPhysics, aircraft, nil), b.Targets(&testPhysics, shuffled, nil)
		for k, o := range order {
			if d := got[k].Sub(want[o]).Norm(); d > 1e-6 {
				t.Fatalf("order moves a target by %v m", d)
			}
		}
	}
}

// Before any report the fleet spreads over the area instead of flying off.
func TestTargetsBeforeAnyReport(t *testing.T) {
	aircraft := []slot.Aircraft{{Number: 1, CPUHz: 40e9, Position: physics.Position{EastM: 10, NorthM: 10}},
		{Number: 2, CPUHz: 40e9, Position: physics.Position{EastM: 20, NorthM: 10}}}
	var planner Planner
	for range 100 {
		planner.Observe(nil)
		targets := planner.Targets(&testPhysics, aircraft, nil)
		for m := range aircraft {
			speed := planner.SpeedMPS(&testPhysics, &slot.Snapshot{Slots: 100, Aircraft: aircraft}, m, targets[m], 1e-3)
			aircraft[m].Position = aircraft[m].Position.Add(MoveToward(aircraft[m].Position, targets[m], 8.4, speed))
		}
	}
	a, b := aircraft[0].Position, aircraft[1].Position
	middle := physics.Position{EastM: 500, NorthM: 500}
	if a.Sub(b).Norm() < 250 || a.Add(b).Scale(0.5).Sub(middle).Norm() > 100 {
		t.Errorf("the fleet waits at %v and %v, want either side of the middle", a, b)
	}
}

func TestSpeed(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 1))
	best := testPhysics.Propulsion.BestSpeedMPS(testPhysics.SpeedMaxMPS)
	var planner Planner
	planner.Observe(randomTaskUsers(r, 10))
	aircraft := []slot.Aircraft{{Number: 1, CPUHz: 40e9}} // in a corner
	snapshot := &slot.Snapshot{Slots: 100, Aircraft: aircraft}
	target := planner.Targets(&testPhysics, aircraft, nil)[0]
	last := math.Inf(1)
	for _, price := range []float64{0, 1e-4, 1e-3, 1e-2, 1} {
		v := planner.SpeedMPS(&testPhysics, snapshot, 0, target, price)
		if v > last || v < best-1e-9 || v > maxSpeedShare*testPhysics.SpeedMaxMPS {
			t.Errorf("at %v s/J it flies %v m/s, at a lower price %v", price, v, last)
		}
		last = v
	}
	if v := planner.SpeedMPS(&testPhysics, snapshot, 0, target, 0); v != maxSpeedShare*testPhysics.SpeedMaxMPS {
		t.Errorf("where energy is free it flies %v m/s", v)
	}
	if math.Abs(last-best) > 0.8 {
		t.Errorf("at 1 s/J it flies %v m/s, want v* = %v", last, best)
	}
	if v := planner.SpeedMPS(&testPhysics, snapshot, 0, physics.Position{EastM: 20}, 0); v != best {
		t.Errorf("near the target it flies %v m/s", v)
	}
	snapshot.Slot = 98
	if v := planner.SpeedMPS(&testPhysics, snapshot, 0, physics.Position{EastM: 700}, 1e-3); v > best+1e-9 {
		t.Errorf("two slots before the end it flies %v m/s to a target 700 m away", v)
	}
}

// Implausible figures in reports and telemetry must not stop the fleet.
func TestImplausibleFigures(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, x := range []float64{nan, inf, -inf, 1e300, -1e300, 0} {
		var planner Planner
		planner.Observe([]slot.User{{Position: physics.Position{EastM: x}, CPUHz: x,
			Task: physics.Task{Bits: x, CyclesPerBit: x, DeadlineS: x}}, {ID: 1}})
		aircraft := []slot.Aircraft{{Number: 1, Position: physics.Position{EastM: x, NorthM: x}, CPUHz: x}, {Number: 1}}
		for m, target := range planner.Targets(&testPhysics, aircraft, nil) {
			v := planner.SpeedMPS(&testPhysics, &slot.Snapshot{Slots: 10, Aircraft: aircraft}, m, target, x)
			if !(v >= 0 && v <= testPhysics.SpeedMaxMPS) {
				t.Errorf("%v: flies %v m/s", x, v)
			}
		}
	}
}

// The short way for a pair gives what the plain one does, also where both aircraft are at one place.
func TestDelayOfAPair(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 1))
	for range 200 {
		aircraft := randomAircraft(r, 2)
		var p Planner
		p.Observe(randomTaskUsers(r, 1+r.IntN(20)))
		p.Targets(&testPhysics, aircraft, nil)
		for _, place := range []physics.Position{aircraft[0].Position, aircraft[1].Position, randomAircraft(r, 1)[0].Position} {
			for m := range aircraft {
				p.updateViews(0, aircraft[0].Position)
				p.updateViews(1, aircraft[1].Position)
				got := p.delayWithS(m, place)
				p.updateViews(m, place)
				// Products and sums may be rounded once for both, where the machine has such an instruction.
				if want := p.expectedDelayS(); math.Abs(got-want) > 1e-14*want {
					t.Fatalf("aircraft %d at %v: %v s, want %v s", m, place, got, want)
				}
			}
		}
	}
}
