package tracking

import (
	"math"
	"math/rand/v2"
	"testing"

	"prefdt/inference/physics"
	"prefdt/inference/slot"
)

func scatter(r *rand.Rand, n int) (users []slot.User) {
	for i := range n {
		users = append(users, slot.User{ID: i, Position: physics.Position{EastM: 1000 * r.Float64(), NorthM: 1000 * r.Float64()}})
	}
	return users
}

func fleet(r *rand.Rand, n int) (aircraft []slot.Aircraft) {
	for m := range n {
		aircraft = append(aircraft, slot.Aircraft{Number: m + 1, CPUHz: 40e9, Position: physics.Position{EastM: 1000 * r.Float64(), NorthM: 1000 * r.Float64()}})
	}
	return aircraft
}

// From any place, Move flies exactly one step, reaches the circle about the
// target and stays on it.
func TestMoveReachesAndCircles(t *testing.T) {
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
			d := Move(at, target, step, 0)
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
	if d := Move(physics.Position{EastM: math.NaN()}, physics.Position{}, 8, 0); d != (physics.Position{}) {
		t.Errorf("from nowhere it flies %v", d)
	}
}

func TestMemoryIsBounded(t *testing.T) {
	var tracker Tracker
	for id := range 3 * UsersMax {
		tracker.Observe([]slot.User{{ID: id, Position: physics.Position{EastM: float64(id)}}})
	}
	tracker.Observe([]slot.User{{ID: -1, Position: physics.Position{EastM: math.Inf(1)}}})
	if tracker.Known() != UsersMax || len(tracker.index) != UsersMax {
		t.Fatalf("remembers %d users, indexes %d", tracker.Known(), len(tracker.index))
	}
	for id, k := range tracker.index {
		if tracker.ids[k] != id || tracker.known[k].EastM != float64(id) || id < 2*UsersMax {
			t.Fatalf("user %d is kept as %d at %v", id, tracker.ids[k], tracker.known[k])
		}
	}
	tracker.Reset()
	if tracker.Known() != 0 {
		t.Error("reset remembers")
	}
}

func TestNoAllocation(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 1))
	users, aircraft := scatter(r, 10), fleet(r, 4)
	var tracker Tracker
	var e Envelope
	var targets []physics.Position
	at, moves := make([]physics.Position, 4), make([]physics.Position, 4)
	slot := func() {
		tracker.Observe(users)
		targets = tracker.Targets(&constants, aircraft, targets)
		for m := range aircraft {
			at[m], moves[m] = physics.Position{EastM: 500 + 5*float64(m)}, Move(aircraft[m].Position, targets[m], 8.4, tracker.SpeedMPS(&constants, m, 50, 100, 1e-3))
		}
		e.Limit(at, moves, standard)
	}
	slot()
	if n := testing.AllocsPerRun(100, slot); n != 0 {
		t.Errorf("%v allocations per slot", n)
	}
}

func BenchmarkTargets(b *testing.B) {
	r := rand.New(rand.NewPCG(6, 1))
	users, aircraft := scatter(r, 10), fleet(r, 2)
	var tracker Tracker
	var targets []physics.Position
	for b.Loop() {
		tracker.Observe(users)
		targets = tracker.Targets(&constants, aircraft, targets)
	}
}
