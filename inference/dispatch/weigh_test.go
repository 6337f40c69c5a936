package dispatch

import (
	"math/rand/v2"
	"testing"

	"prefdt/inference/physics"
	"prefdt/inference/slot"
)

// sixUsers draws a slot of six users and two aircraft, which compute alike.
func sixUsers(c *physics.Constants, r *rand.Rand) slot.Snapshot {
	prior := UserPrior{ActiveUsers: 6, CPUHz: 1e9, TaskMean: physics.Task{Bits: 1e6, CyclesPerBit: 1000, DeadlineS: 1},
		TaskStdDev: physics.Task{Bits: 2.9e5, DeadlineS: 0.29}}
	s := slot.Snapshot{Aircraft: []slot.Aircraft{
		{Number: 1, Position: physics.Position{EastM: 333, NorthM: 500}, CPUHz: 4e10},
		{Number: 2, Position: physics.Position{EastM: 667, NorthM: 500}, CPUHz: 4e10},
	}}
	for range 6 {
		u := prior.Sample(c.AreaSideM, r)
		for m := range s.Aircraft {
			u.Gain = append(u.Gain, SampleGain(&c.Channel, u.Position.Sub(s.Aircraft[m].Position).Norm(), c.AltitudeM, r))
		}
		s.Users = append(s.Users, u)
	}
	return s
}

// TestWeights checks that equal weights are another price, that a dearer aircraft computes less
// and another one more, and that the next slot forgets them.
func TestWeights(t *testing.T) {
	c := physics.DefaultConstants()
	r := rand.New(rand.NewPCG(11, 12))
	const price = 0.002
	var solver Solver
	var firstJ, secondJ, dearFirstJ, dearSecondJ float64
	for range 40 {
		s := sixUsers(&c, r)
		at := func(priceSPerJ float64, weights []float64) (d slot.Decision) {
			d.Resize(&s)
			solver.Begin(&c, &s)
			if weights != nil {
				solver.Weigh(weights)
			}
			solver.At(priceSPerJ, &d)
			d.PriceSPerJ = 0
			return d
		}
		plain, twice, weighed := at(price, nil), at(2*price, nil), at(price, []float64{2, 2})
		if !twice.Equal(&weighed) {
			t.Fatalf("at twice the price %+v, at weights of 2 %+v", twice, weighed)
		}
		dear := at(price, []float64{5, 0.5})
		firstJ, secondJ = firstJ+plain.EdgeJ[0], secondJ+plain.EdgeJ[1]
		dearFirstJ, dearSecondJ = dearFirstJ+dear.EdgeJ[0], dearSecondJ+dear.EdgeJ[1]
		if again := at(price, nil); !again.Equal(&plain) {
			t.Fatal("the weights outlast their slot")
		}
	}
	if dearFirstJ > 0.7*firstJ || dearSecondJ < 1.1*secondJ {
		t.Errorf("alike they spend %.0f and %.0f J, weighed %.0f and %.0f J", firstJ, secondJ, dearFirstJ, dearSecondJ)
	}
}

// TestOrdered checks that users of an aircraft that may compute nothing more are served by the other one, that
// all limits are kept, and that without limits it is At.
func TestOrdered(t *testing.T) {
	c := physics.DefaultConstants()
	r := rand.New(rand.NewPCG(13, 14))
	const price = 0.002
	var solver Solver
	cutS, orderedS := 0.0, 0.0
	for range 40 {
		s := sixUsers(&c, r)
		var plain, cut, ordered slot.Decision
		for _, d := range []*slot.Decision{&plain, &cut, &ordered} {
			d.Resize(&s)
		}
		solver.Begin(&c, &s)
		solver.At(price, &plain)
		solver.Ordered(&c, &s, price, []float64{1, 1}, &ordered)
		if !ordered.Equal(&plain) {
			t.Fatalf("without limits %+v, at the price %+v", ordered, plain)
		}
		s.Aircraft[0].Order = slot.Order{LimitsEdge: true}
		solver.At(price, &cut)
		cut.LimitEdge(&c, &s)
		solver.Ordered(&c, &s, price, []float64{1, 1}, &ordered)
		cutS, orderedS = cutS+cut.DelayS, orderedS+ordered.DelayS
		if ordered.EdgeJ[0] > 1e-9 {
			t.Errorf("an aircraft that may compute nothing spends %v J", ordered.EdgeJ[0])
		}
	}
	if orderedS > 0.7*cutS {
		t.Errorf("ordered %.0f s of delay, cut %.0f s", orderedS, cutS)
	}
}
