package motion

import (
	"math"
	"math/rand/v2"
	"testing"

	"prefdt/inference/physics"
	"prefdt/inference/slot"
)

// hold flies one aircraft near its target for some slots and returns its mean power and
// its largest distance from the target.
func hold(t *testing.T, believed, real Air, slots int) (meanW, farthestM float64) {
	t.Helper()
	target := physics.Position{EastM: 500, NorthM: 500}
	s := &slot.Snapshot{Slots: slots, Aircraft: []slot.Aircraft{{Number: 1, CPUHz: 40e9, Position: target}}}
	var planner Planner
	planner.Observe([]slot.User{{ID: 1, Position: target, CPUHz: 1e9, Task: physics.Task{Bits: 1e6, CyclesPerBit: 1000, DeadlineS: 1}}})
	for ; s.Slot < slots; s.Slot++ {
		planner.Targets(&testPhysics, s.Aircraft, nil)
		move := planner.MoveInAir(&testPhysics, s, 0, target, &believed, 1e-3)
		meanW += real.PowerW(&testPhysics, move) / float64(slots)
		s.Aircraft[0].Position = s.Aircraft[0].Position.Add(move)
		farthestM = max(farthestM, s.Aircraft[0].Position.Sub(target).Norm())
	}
	return meanW, farthestM
}

// anyWind is a wind of 6 m/s from anywhere.
var anyWind = func() (a Air) {
	for k := range 8 {
		sin, cos := math.Sincos(math.Pi / 4 * float64(k))
		a.Winds = append(a.Winds, Wind{physics.Position{EastM: 6 * cos, NorthM: 6 * sin}, 1. / 8})
	}
	return a
}()

// In a wind of which nothing but the speed is known an aircraft stands over the ground.
func TestHoldInUnknownWind(t *testing.T) {
	if _, farthest := hold(t, anyWind, anyWind, 30); farthest != 0 {
		t.Errorf("it moves by %v m", farthest)
	}
}

// Holding a place in a known wind costs the least power there is below v*, and what
// standing over the ground costs above; never more than in ignorance of the wind.
func TestHoldInWind(t *testing.T) {
	best, leastW := testPhysics.MinPower()
	for _, speed := range []float64{0, 2, 4, 6, 8, 9, 11, 14} {
		for _, angle := range []float64{0, 1, 2.5, 4} {
			sin, cos := math.Sincos(angle)
			air := Air{Winds: []Wind{{physics.Position{EastM: speed * cos, NorthM: speed * sin}, 1}}, Multiplier: 1.2}
			got, farthest := hold(t, air, air, 60)
			blind, _ := hold(t, anyWind, air, 60)
			want := 1.2 * leastW
			if speed > best {
				want = air.PowerW(&testPhysics, physics.Position{})
			}
			if got > want*1.005 || got > blind*1.001 {
				t.Errorf("in a wind of %v m/s it takes %.1f W, want %.1f; not knowing it %.1f", speed, got, want, blind)
			}
			if farthest > circleRadiusSteps*best*1.01 {
				t.Errorf("in a wind of %v m/s it is %.0f m away", speed, farthest)
			}
		}
	}
}

// In still air it moves as MoveToward at the planned speed, to the bit, and in any wind
// it comes nearer to a far target, within the speed limit.
func TestTransitInWind(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 1))
	users := randomTaskUsers(r, 10)
	for range 100 {
		s := &slot.Snapshot{Slots: 100, Slot: r.IntN(90), Aircraft: randomAircraft(r, 2)}
		var planner Planner
		planner.Observe(users)
		targets := planner.Targets(&testPhysics, s.Aircraft, nil)
		for m := range s.Aircraft {
			at, price := s.Aircraft[m].Position, 1e-3*r.Float64()
			calm := MoveToward(at, targets[m], planner.bestSpeedMPS, planner.SpeedMPS(&testPhysics, s, m, targets[m], price))
			if got := planner.MoveInAir(&testPhysics, s, m, targets[m], &Air{}, price); got != calm {
				t.Fatalf("in still air %v, want %v", got, calm)
			}
			wind := Air{Winds: []Wind{{physics.Position{EastM: 10 * r.NormFloat64(), NorthM: 10 * r.NormFloat64()}, 1}}}
			got := planner.MoveInAir(&testPhysics, s, m, targets[m], &wind, price)
			before, after := targets[m].Sub(at).Norm(), targets[m].Sub(at.Add(got)).Norm()
			if got.Norm() > testPhysics.SpeedMaxMPS || before > planner.holdRadiusM() && after >= before {
				t.Fatalf("in a wind of %v it moves %v, from %.0f to %.0f m away", wind.Winds, got, before, after)
			}
		}
	}
}

// An aircraft that remembers its moves holds its place at little more power, and with
// less than half the change from slot to slot, while what it believes of a wind varies.
func TestHoldTurnsLittle(t *testing.T) {
	target := physics.Position{EastM: 500, NorthM: 500}
	hold := func(remembers bool) (meanW, turnMPS float64) {
		random := rand.New(rand.NewPCG(1, 2))
		s := &slot.Snapshot{Slots: 400, Aircraft: []slot.Aircraft{{Number: 1, CPUHz: 40e9, Position: target}}}
		real := Air{Winds: []Wind{{physics.Position{EastM: 5, NorthM: 2}, 1}}}
		var planner Planner
		planner.Observe([]slot.User{{ID: 1, Position: target, CPUHz: 1e9, Task: physics.Task{Bits: 1e6, CyclesPerBit: 1000, DeadlineS: 1}}})
		var last physics.Position
		for ; s.Slot < s.Slots; s.Slot++ {
			var believed Air
			for range 8 {
				believed.Winds = append(believed.Winds, Wind{physics.Position{EastM: 5 + random.NormFloat64(),
					NorthM: 2 + random.NormFloat64()}, 1. / 8})
			}
			planner.Targets(&testPhysics, s.Aircraft, nil)
			move := planner.MoveInAir(&testPhysics, s, 0, target, &believed, 1e-3)
			if remembers {
				planner.Moved(s, []physics.Position{move})
			}
			meanW += real.PowerW(&testPhysics, move) / float64(s.Slots)
			turnMPS += move.Sub(last).Norm() / float64(s.Slots)
			s.Aircraft[0].Position, last = s.Aircraft[0].Position.Add(move), move
		}
		return meanW, turnMPS
	}
	freeW, free := hold(false)
	calmW, calm := hold(true)
	t.Logf("%.1f W and %.1f m/s of change a slot; remembering, %.1f W and %.1f m/s", freeW, free, calmW, calm)
	if calm > free/2 || calmW > 1.01*freeW {
		t.Error("want half the change at most, at 1 % more power at most")
	}
}
