package belieftrain

import (
	"math/rand/v2"

	"prefdt/inference/belief"
	"prefdt/inference/belief/learned"
	"prefdt/inference/goal"
	"prefdt/inference/slot"
	"prefdt/offline/baseline"
	"prefdt/offline/teacher"
	"prefdt/simbridge/world"
)

// source flies the flights that a network learns from.
type source struct {
	stage     stage
	window    int
	slotShare float64
	seeds     []uint64
	params    []float32 // of the student

	world  world.World
	runner teacher.Runner
	hidden world.Hidden
}

// flightRand returns the generator of a flight, which its world is drawn from first.
func flightRand(i int) *rand.Rand { return rand.New(rand.NewPCG(uint64(i), 0x62656c69656673)) }

// fly flies flight i and calls each on some of its slots.
func (f *source) fly(step, i int, each func(m *learned.Memory, s *slot.Snapshot, h *world.Hidden)) {
	r := flightRand(i)
	c := Draw(r)
	var e belief.Estimator
	m := learned.NewMemory(SurroundingsOf(&c), f.window)
	students := 0.3
	if step >= f.stage.StudentsFrom {
		students = 0.7
	}
	switch x := r.Float64(); {
	case x < students:
		student := learned.New(SurroundingsOf(&c), &learned.Parameters{Window: f.window, Data: f.params})
		e, m = student, student.Memory()
	case x < students+0.4*(1-students):
		e = &baseline.Truth{}
	case x < students+0.6*(1-students):
		e = baseline.NewFilter(&c)
	default:
		e = baseline.NewMemoryless(&c)
	}
	prices := teacher.PricesIn(&c, 64)
	b := baseline.NewBelieving(&c.Physics, e, prices[r.IntN(len(prices))])
	w := &f.world
	w.Config = c
	w.Reset(f.seeds[i%len(f.seeds)])
	b.Watch(w)
	b.Reset()
	_, isStudent := e.(*learned.Estimator)
	f.runner.Fly(w, func(s *slot.Snapshot, d *slot.Decision) {
		b.Decide(s, goal.Objective{}, d)
		if !isStudent {
			m.Observe(s)
		}
		if r.Float64() < f.slotShare {
			w.Hidden(&f.hidden)
			each(m, s, &f.hidden)
		}
	}, nil)
}
