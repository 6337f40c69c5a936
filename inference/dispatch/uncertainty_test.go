package dispatch

import (
	"math"
	"math/rand/v2"
	"testing"

	"prefdt/inference/physics"
	"prefdt/inference/slot"
)

// addUncertainty makes some of a snapshot's users uncertain.
func addUncertainty(r *rand.Rand, s *slot.Snapshot) {
	for i := range s.Users {
		u := &s.Users[i]
		if r.IntN(3) > 0 {
			u.Uncertainty.SlowCPUHz, u.Uncertainty.SlowProbability = 0.45*u.CPUHz, r.Float64()
		}
		if r.IntN(3) > 0 {
			for range s.Aircraft {
				u.Uncertainty.GainStdDev = append(u.Uncertainty.GainStdDev, 1.5*r.Float64())
			}
		}
	}
}

// No offload ratio costs less in expectation than the better of the option's and of
// computing locally; and the option costs what it says.
func TestExpectedOffload(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 22))
	c := physics.DefaultConstants()
	var solver Solver
	for trial := range 4000 {
		c.Contention = trial%2 == 0
		s := randomSnapshot(r, &c, 1, 1)
		addUncertainty(r, s)
		u, price, n := &s.Users[0], randomPrice(r), 1+r.IntN(6)
		if u.Uncertainty.None() {
			continue
		}
		share := c.EqualShare(u.Gain[0], s.Aircraft[0].CPUHz, float64(n))
		factors := u.RateFactors(&c.Channel, 0)
		var outcomes slot.Outcomes
		u.Outcomes(share, &factors, &outcomes)
		full := price * c.EdgeJ(u.Task, share, 1)
		solver.Begin(&c, s)
		rho, best := solver.option(0, 0, n, price)
		_, localS := outcomes.Expect(&c, u.Task, 0)
		if _, delayS := outcomes.Expect(&c, u.Task, rho); math.Abs(delayS+full*rho-best) > 1e-9 {
			t.Fatalf("trial %d: the cost is %v, not %v", trial, delayS+full*rho, best)
		}
		if _, first := bestExpectedOffload(&c, u.Task, &outcomes, full); math.Abs(first-best) > 1e-9 {
			t.Fatalf("trial %d: the option costs %v, by all candidates %v", trial, best, first)
		}
		for k := 1; k <= 1000; k++ {
			x := float64(k) / 1000
			if _, delayS := outcomes.Expect(&c, u.Task, x); delayS+full*x < min(best, localS)-1e-9 {
				t.Fatalf("trial %d: offloading %v costs %v, the option's %v %v, locally %v", trial, x, delayS+full*x, rho, best, localS)
			}
		}
	}
}

// Outcomes that are all alike are as good as none.
func TestCertainOutcomes(t *testing.T) {
	r := rand.New(rand.NewPCG(23, 24))
	c := physics.DefaultConstants()
	var solver Solver
	var exact, alike slot.Decision
	for range 200 {
		s, price := randomSnapshot(r, &c, 2, 6), randomPrice(r)
		solver.Solve(&c, s, price, &exact)
		for i := range s.Users {
			s.Users[i].Uncertainty = slot.Uncertainty{SlowCPUHz: s.Users[i].CPUHz, SlowProbability: 0.4, GainStdDev: []float64{0, 1e-12}}
		}
		solver.Solve(&c, s, price, &alike)
		if math.Abs(exact.DelayS-alike.DelayS) > 1e-6 || math.Abs(exact.TotalEdgeJ()-alike.TotalEdgeJ()) > 1e-6 {
			t.Fatalf("%v s, %v J; with outcomes alike %v s, %v J", exact.DelayS, exact.TotalEdgeJ(), alike.DelayS, alike.TotalEdgeJ())
		}
	}
}

// uncertainSlot is a slot of users whose figures are not exact, under contention.
func uncertainSlot(r *rand.Rand, users int) (c physics.Constants, s *slot.Snapshot) {
	c = physics.DefaultConstants()
	c.Contention = true
	s = randomSnapshot(r, &c, 2, users)
	addUncertainty(r, s)
	return c, s
}

// Uncertain users allocate nothing either, and the decision's expected delay is the one
// that the solver minimised.
func TestUncertaintyInSlots(t *testing.T) {
	c, s := uncertainSlot(rand.New(rand.NewPCG(25, 26)), 8)
	var solver Solver
	var d slot.Decision
	solver.Solve(&c, s, 0.003, &d)
	if n := testing.AllocsPerRun(20, func() { solver.Solve(&c, s, 0.003, &d) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	best := d.DelayS + 0.003*d.TotalEdgeJ()
	for i := range s.Users { // no single user does better elsewhere
		for server := range len(s.Aircraft) + 1 {
			other := slot.Decision{Users: append([]slot.UserDecision(nil), d.Users...)}
			other.Users[i].Server = server
			for _, rho := range []float64{0.1, 0.3, 0.5, 0.7, 0.9} {
				if other.Users[i].Offload = rho; server == 0 {
					other.Users[i].Offload = 0
				}
				if other.Evaluate(&c, s); other.DelayS+0.003*other.TotalEdgeJ() < best-1e-9 {
					t.Fatalf("user %d at server %d with %v costs less", i, server, rho)
				}
			}
		}
	}
}

func BenchmarkSolveUncertain(b *testing.B) {
	c, s := uncertainSlot(rand.New(rand.NewPCG(5, 6)), 6)
	var solver Solver
	var d slot.Decision
	for b.Loop() {
		solver.Solve(&c, s, 0.003, &d)
	}
}
