package motion

import (
	"math"
	"math/rand/v2"
	"testing"

	"prefdt/inference/physics"
	"prefdt/inference/slot"
)

func randomUsers(r *rand.Rand, n int) (users []slot.User) {
	for i := range n {
		users = append(users, slot.User{ID: i, Position: physics.Position{EastM: 1000 * r.Float64(), NorthM: 1000 * r.Float64()}})
	}
	return users
}

func randomAircraft(r *rand.Rand, n int) (aircraft []slot.Aircraft) {
	for m := range n {
		aircraft = append(aircraft, slot.Aircraft{Number: m + 1, CPUHz: 40e9,
			Position: physics.Position{EastM: 1000 * r.Float64(), NorthM: 1000 * r.Float64()}})
	}
	return aircraft
}

// From any position, MoveToward flies exactly one step, reaches the circle about the
// target and stays on it.
func TestMoveTowardReachesAndCircles(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 1))
	const step = 8.4
	for trial := range 200 {
		target := physics.Position{EastM: 500, NorthM: 500}
		at := target.Add(physics.Position{EastM: 600 * (r.Float64() - 0.5), NorthM: 600 * (r.Float64() - 0.5)})
		if trial == 0 {
			at = target
		}
		turned := 0.0
		for n := range 80 {
			d := MoveToward(at, target, step, 0)
			if math.Abs(d.Norm()-step) > 1e-9 {
				t.Fatalf("step %d flies %v m", n, d.Norm())
			}
			before := at.Sub(target)
			at = at.Add(d)
			after := at.Sub(target)
			if n > 60 {
				if math.Abs(after.Norm()-2.5*step) > 1e-6 {
					t.Fatalf("step %d is %v m from the target", n, after.Norm())
				}
				turned += math.Atan2(before.EastM*after.NorthM-before.NorthM*after.EastM, before.Dot(after))
			}
		}
		// 19 chords of 2 asin(step / 2 radius) each, to the left.
		if want := 19 * 2 * math.Asin(1/5.0); math.Abs(turned-want) > 1e-6 {
			t.Fatalf("turned %v rad, want %v", turned, want)
		}
	}
	if d := MoveToward(physics.Position{EastM: math.NaN()}, physics.Position{}, 8, 0); d != (physics.Position{}) {
		t.Errorf("from an invalid position it flies %v", d)
	}
}

func TestMemoryIsBounded(t *testing.T) {
	var planner Planner
	for id := range 3 * MaxUsers {
		planner.Observe([]slot.User{{ID: id, Position: physics.Position{EastM: float64(id)}}})
	}
	planner.Observe([]slot.User{{ID: -1, Position: physics.Position{EastM: math.Inf(1)}}})
	if len(planner.positions) != MaxUsers || len(planner.userIndex) != MaxUsers {
		t.Fatalf("remembers %d users, indexes %d", len(planner.positions), len(planner.userIndex))
	}
	for id, k := range planner.userIndex {
		if planner.userIDs[k] != id || planner.positions[k].EastM != float64(id) || id < 2*MaxUsers {
			t.Fatalf("user %d is kept as %d at %v", id, planner.userIDs[k], planner.positions[k])
		}
	}
	planner.Reset()
	if len(planner.positions) != 0 {
		t.Error("Reset does not forget users")
	}
}

func TestNoAllocation(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 1))
	users, aircraft := randomUsers(r, 10), randomAircraft(r, 4)
	var planner Planner
	var limiter Limiter
	var targets []physics.Position
	at, moves := make([]physics.Position, 4), make([]physics.Position, 4)
	snapshot := &slot.Snapshot{Slots: 50, Aircraft: aircraft}
	decide := func() {
		planner.Observe(users)
		targets = planner.Targets(&testPhysics, aircraft, targets)
		for m := range aircraft {
			at[m], moves[m] = physics.Position{EastM: 500 + 5*float64(m)},
				MoveToward(aircraft[m].Position, targets[m], 8.4, planner.SpeedMPS(&testPhysics, snapshot, m, targets[m], 1e-3))
		}
		limiter.Limit(at, moves, standardLimits)
	}
	decide()
	if n := testing.AllocsPerRun(100, decide); n != 0 {
		t.Errorf("%v allocations per slot", n)
	}
}

func BenchmarkTargets(b *testing.B) {
	r := rand.New(rand.NewPCG(6, 1))
	users, aircraft := randomUsers(r, 10), randomAircraft(r, 2)
	var planner Planner
	var targets []physics.Position
	for b.Loop() {
		planner.Observe(users)
		targets = planner.Targets(&testPhysics, aircraft, targets)
	}
}

// What was known of the tasks long ago is forgotten: after tasks of another kind for 1,000
// slots the planner expects those, and one report among them moves it by its part.
func TestTasksAreForgotten(t *testing.T) {
	c := physics.DefaultConstants()
	aircraft := []slot.Aircraft{{Number: 1, CPUHz: 4e10}}
	user := func(bits float64) []slot.User {
		return []slot.User{{ID: 1, CPUHz: 1e9, Task: physics.Task{Bits: bits, CyclesPerBit: 1000, DeadlineS: 1}}}
	}
	var p Planner
	meanBits := func() float64 {
		p.Targets(&c, aircraft, nil)
		return p.tasks.bits / p.tasks.tasks
	}
	for range 10_000 {
		p.Observe(user(1e6))
	}
	for range 1000 {
		p.Observe(user(2e6))
	}
	if bits := meanBits(); bits < 1.9e6 {
		t.Errorf("tasks are expected to have %v bits, now all have 2e6", bits)
	}
}
