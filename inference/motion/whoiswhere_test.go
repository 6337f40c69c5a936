package motion

import (
	"math/rand/v2"
	"testing"

	"prefdt/inference/physics"
	"prefdt/inference/slot"
)

func reporting(id int, at physics.Position) slot.User {
	return slot.User{ID: id, Position: at, CPUHz: 1e9, Task: physics.Task{Bits: 1e6, CyclesPerBit: 1000, DeadlineS: 1}}
}

func twoAircraft() []slot.Aircraft {
	return []slot.Aircraft{
		{Number: 1, CPUHz: 40e9, Position: physics.Position{EastM: 333, NorthM: 500}},
		{Number: 2, CPUHz: 40e9, Position: physics.Position{EastM: 667, NorthM: 500}},
	}
}

// Each of two camps gets its aircraft, however many users there are and in whatever order
// they came.
func TestTwoCamps(t *testing.T) {
	c := physics.DefaultConstants()
	camps := [2]physics.Position{{EastM: 200, NorthM: 200}, {EastM: 800, NorthM: 800}}
	r := rand.New(rand.NewPCG(2, 5))
	for _, n := range []int{10, 48, 49, 60, 96, 97, 150, 192, 1000, 4096} {
		for _, period := range []int{2, 3, 4} {
			var users []slot.User
			for i := range n {
				at := camps[0]
				if i%period != 0 {
					at = camps[1]
				}
				users = append(users, reporting(i, at.Add(physics.Position{EastM: 40 * r.NormFloat64(), NorthM: 40 * r.NormFloat64()})))
			}
			var p Planner
			p.Observe(users)
			targets := p.Targets(&c, twoAircraft(), nil)
			for k, camp := range camps {
				if near := min(targets[0].Sub(camp).Norm(), targets[1].Sub(camp).Norm()); near > 150 {
					t.Errorf("%d users, one of %d in the first camp: %v m from camp %d is the nearest of %v", n, period, near, k+1, targets)
				}
			}
		}
	}
}

// Users that are silent for long count no more while others report; without any report
// everyone is where he was.
func TestSilentUsers(t *testing.T) {
	c := physics.DefaultConstants()
	here, gone := physics.Position{EastM: 850, NorthM: 850}, physics.Position{EastM: 150, NorthM: 150}
	var p Planner
	for i := range 40 {
		p.Observe([]slot.User{reporting(i, gone)})
	}
	for range 10_000 {
		p.Observe(nil)
	}
	if targets := p.Targets(&c, twoAircraft(), nil); targets[0].Sub(gone).Norm() > 150 {
		t.Errorf("nobody reports: %v, want those that did at %v", targets, gone)
	}
	for slots := range 200 {
		var users []slot.User
		for i := range 4 {
			users = append(users, reporting(100+i, here))
		}
		p.Observe(users)
		targets := p.Targets(&c, twoAircraft(), nil)
		if slots < 60 && targets[0].Sub(gone).Norm() > 150 && targets[1].Sub(gone).Norm() > 150 {
			t.Fatalf("after %d slots without a report of the 40 they are given up", slots)
		}
		if slots > silentSlots && (targets[0].Sub(here).Norm() > 150 || targets[1].Sub(here).Norm() > 150) {
			t.Fatalf("slot %d: %v, want both at %v", slots, targets, here)
		}
	}
}

// Two aircraft that would each suffice do not wait for each other: they come to users in
// one corner as one alone does, in calm air and in a wind.
func TestNobodyWaitsForTheOther(t *testing.T) {
	c := physics.DefaultConstants()
	corner := physics.Position{EastM: 100, NorthM: 120}
	for _, c2 := range []struct {
		wind   physics.Position
		within float64 // metres, after 150 slots
	}{{physics.Position{EastM: -7, NorthM: 2}, 60}, {physics.Position{EastM: 7, NorthM: 2}, 60}, {physics.Position{}, 60}} {
		for _, fleet := range []int{1, 2, 3} {
			air := Air{}
			if c2.wind != (physics.Position{}) {
				air.Winds = []Wind{{MPS: c2.wind, Probability: 1}}
			}
			var p Planner
			s := slot.Snapshot{Slots: 200}
			for m := range fleet {
				s.Aircraft = append(s.Aircraft, slot.Aircraft{Number: m + 1, CPUHz: 40e9,
					Position: physics.Position{EastM: 400 + 100*float64(m), NorthM: 500}})
			}
			fastest := 0.0
			for ; s.Slot < 150; s.Slot++ {
				var users []slot.User
				for i := range 6 {
					users = append(users, reporting(i, corner.Add(physics.Position{EastM: 10 * float64(i)})))
				}
				p.Observe(users)
				targets := p.Targets(&c, s.Aircraft, nil)
				var moves []physics.Position
				for m := range s.Aircraft {
					moves = append(moves, p.MoveInAir(&c, &s, m, targets[m], &air, 0.004))
				}
				p.Moved(&s, moves)
				for m := range s.Aircraft {
					fastest = max(fastest, moves[m].Norm())
					s.Aircraft[m].Position = s.Aircraft[m].Position.Add(moves[m])
				}
			}
			nearest := 1e9
			for m := range s.Aircraft {
				nearest = min(nearest, s.Aircraft[m].Position.Sub(corner).Norm())
			}
			t.Logf("wind %v, %d aircraft: %.0f m, at up to %.1f m/s", c2.wind, fleet, nearest, fastest)
			if nearest > c2.within || len(air.Winds) == 0 && fastest < 10 {
				t.Errorf("wind %v, %d aircraft: the nearest is %.0f m away, they flew at up to %.1f m/s", c2.wind, fleet, nearest, fastest)
			}
		}
	}
}
