package methods

import (
	"math"
	"math/rand/v2"
	"testing"

	"prefdt/inference/dispatch"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
	"prefdt/offline/offlinetest"
	"prefdt/offline/rollout"
	"prefdt/simbridge/world"
)

// slope is the central difference of a function by one of its arguments.
func slope(f func() float64, x *float64, h float64) float64 {
	at := *x
	*x = at + h
	right := f()
	*x = at - h
	left := f()
	*x = at
	return (right - left) / (2 * h)
}

// checkSurrogate holds a surrogate to what successive convex approximation asks of it: at its iterate it has the
// cost's value and gradient, its gradient is its own elsewhere too, and it is nowhere below the cost, and convex.
func checkSurrogate(t *testing.T, iterate, p, q []float64, h, absolute, relative float64, cost func(x []float64) float64,
	surrogate func(x []float64) (y float64, gradient []float64)) {
	t.Helper()
	at, gradient := surrogate(iterate)
	if want := cost(iterate); math.Abs(at-want) > 1e-9*(1+math.Abs(want)) {
		t.Fatalf("at its iterate %v: %v, want %v", iterate, at, want)
	}
	checkGradient(t, gradient, iterate, h, absolute, relative, func() float64 { return cost(iterate) })
	atP, gradient := surrogate(p)
	checkGradient(t, gradient, p, h, absolute, relative, func() float64 { y, _ := surrogate(p); return y })
	if bound := cost(p); atP < bound-1e-9*(1+math.Abs(bound)) {
		t.Fatalf("of the iterate %v it is %v at %v, the cost is %v", iterate, atP, p, bound)
	}
	middle := make([]float64, len(p))
	for i := range p {
		middle[i] = (p[i] + q[i]) / 2
	}
	atQ, _ := surrogate(q)
	if y, _ := surrogate(middle); y > (atP+atQ)/2+1e-9*(1+math.Abs(y)) {
		t.Fatalf("of the iterate %v it is not convex between %v and %v", iterate, p, q)
	}
}

// checkGradient holds a gradient by x to central differences over h.
func checkGradient(t *testing.T, gradient, x []float64, h, absolute, relative float64, f func() float64) {
	t.Helper()
	for i, got := range gradient {
		if want := slope(f, &x[i], h); math.Abs(got-want) > absolute+relative*math.Abs(want) {
			t.Fatalf("gradient %d at %v: %v, want %v", i, x, got, want)
		}
	}
}

func position(x []float64) physics.Position { return physics.Position{EastM: x[0], NorthM: x[1]} }

func TestPowerSurrogate(t *testing.T) {
	p := physics.DefaultConstants().Propulsion
	rng := rand.New(rand.NewPCG(1, 1))
	draw := func() []float64 { return []float64{15 * rng.NormFloat64(), 15 * rng.NormFloat64()} }
	for range 2000 {
		v0 := draw()
		checkSurrogate(t, v0, draw(), draw(), 1e-4, 1e-4, 1e-4,
			func(v []float64) float64 { return p.PowerW(position(v).Norm()) },
			func(v []float64) (float64, []float64) {
				w, dw := powerSurrogate(&p, position(v), position(v0))
				return w, []float64{dw.EastM, dw.NorthM}
			})
	}
}

// Of a user that is served, the parabola of its gradient and of the bound on its curvature.
func TestServedSurrogate(t *testing.T) {
	c := physics.DefaultConstants()
	l := newLink(&c)
	rng := rand.New(rand.NewPCG(2, 1))
	draw := func() []float64 { return []float64{1000 * rng.Float64(), 1000 * rng.Float64()} } // within the area
	for range 4000 {
		u := served{
			position: position(draw()), localS: 0.5 + rng.Float64(), bits: 0.5e6 + 1e6*rng.Float64(),
			edgeS: 0.2 * rng.Float64(), delayWeight: rng.Float64(), energyWeight: rng.Float64(),
		}
		at := draw()
		y, dy := u.cost(l, position(at))
		k := u.curvature(l)
		checkSurrogate(t, at, draw(), draw(), 0.5, 1e-6, 1e-6,
			func(x []float64) float64 { y, _ := u.cost(l, position(x)); return y },
			func(x []float64) (float64, []float64) {
				step := position(x).Sub(position(at))
				d := dy.Add(step.Scale(k))
				return y + dy.Dot(step) + k/2*step.Dot(step), []float64{d.EastM, d.NorthM}
			})
	}
}

// drawProgram returns a slot of the world's kind of tasks.
func drawProgram(rng *rand.Rand, c *physics.Constants, users int) slotProgram {
	omega := rng.Float64()
	s := slotProgram{constants: c, cpuHz: []float64{40e9, 40e9}, delayWeight: (1 - omega) / 616, priceWeight: omega / 11600}
	for range users {
		u := slotUser{weight: 1, task: physics.Task{Bits: 0.5e6 + 1e6*rng.Float64(), CyclesPerBit: 1000, DeadlineS: 0.5 + rng.Float64()}}
		u.localS = u.task.LocalTimeS(1e9)
		for range s.cpuHz {
			u.uploadS = append(u.uploadS, u.task.Bits/(1e6+15e6*rng.Float64()))
		}
		s.users = append(s.users, u)
	}
	return s
}

func drawRelaxed(rng *rand.Rand, users int) relaxed {
	p := newRelaxed(2 * users)
	for u := range users {
		share, all := rng.Float64(), rng.Float64()
		for m, x := range []float64{all * share, all * (1 - share)} {
			p.x[2*u+m], p.rho[2*u+m] = x, x*rng.Float64()
		}
	}
	return p
}

func TestSlotSurrogate(t *testing.T) {
	c := physics.DefaultConstants()
	rng := rand.New(rand.NewPCG(3, 1))
	const users = 4
	draw := func() []float64 { p := drawRelaxed(rng, users); return append(p.x, p.rho...) }
	for range 300 {
		s := drawProgram(rng, &c, users)
		s.users[0].weight = 0.4
		iterate := draw()
		point := func(x []float64) relaxed { return relaxed{x[:2*users], x[2*users:]} }
		surrogate := func(x, iterate []float64) (float64, []float64) {
			gradient := make([]float64, 4*users)
			y := s.cost(point(x), point(iterate), point(gradient))
			return y, gradient
		}
		checkSurrogate(t, iterate, draw(), draw(), 1e-6, 1e-6, 1e-4,
			func(x []float64) float64 { y, _ := surrogate(x, x); return y },
			func(x []float64) (float64, []float64) { return surrogate(x, iterate) })
	}
}

// Conditional gradients end at the least of the surrogate: no random point has less.
func TestMinimiseSurrogate(t *testing.T) {
	c := physics.DefaultConstants()
	rng := rand.New(rand.NewPCG(4, 1))
	for range 10 {
		const users = 3
		s := drawProgram(rng, &c, users)
		iterate := drawRelaxed(rng, users)
		p, none := drawRelaxed(rng, users), newRelaxed(2*users)
		s.minimise(p, iterate, 2000)
		least := s.cost(p, iterate, none)
		for range 2000 {
			if other := s.cost(drawRelaxed(rng, users), iterate, none); other < least*(1-2e-3) {
				t.Fatalf("%v is below %v", other, least)
			}
		}
	}
}

// After rounding the slot costs little more than the exact optimum of the same slot.
func TestSlotAgainstExactDispatch(t *testing.T) {
	c := physics.DefaultConstants()
	sums := [2]float64{}
	d := Default().SCAOracle
	rng := rand.New(rand.NewPCG(5, 1))
	for range 150 {
		s := drawProgram(rng, &c, 6)
		_, cost := s.solve(s.starts(), d.SlotIterations, d.SlotSteps, d.RoundBelow)
		snapshot := slot.Snapshot{Aircraft: []slot.Aircraft{{Number: 1, CPUHz: 40e9}, {Number: 2, CPUHz: 40e9}}}
		for _, u := range s.users {
			x := slot.User{Task: u.task, CPUHz: 1e9}
			for _, up := range u.uploadS {
				x.Gain = append(x.Gain, c.Channel.GainOf(u.task.Bits/up, c.Channel.BandwidthHz))
			}
			snapshot.Users = append(snapshot.Users, x)
		}
		var decision slot.Decision
		var solver dispatch.Solver
		solver.Solve(&c, &snapshot, s.priceWeight/s.delayWeight, &decision)
		exact := s.delayWeight*decision.DelayS + s.priceWeight*decision.TotalEdgeJ()
		if cost < exact*(1-1e-9) {
			t.Fatalf("cost %v below the optimum %v", cost, exact)
		}
		sums[0] += cost
		sums[1] += exact
	}
	t.Logf("%.2f %% above the optimum", 100*(sums[0]/sums[1]-1))
	if sums[0] > 1.10*sums[1] {
		t.Errorf("the slots cost %.1f %% more than the optimum", 100*(sums[0]/sums[1]-1))
	}
}

// The path's surrogate has the cost's value and gradient at the iterate, and a solve
// never raises the cost.
func TestPathDescends(t *testing.T) {
	c := world.Standard()
	c.Slots = 12
	w := world.New(c, 3)
	o := offlinetest.Must(scaOracleMethod.New(t.Context(), &Run{Config: Default(), World: c}))(t)().(*scaOracle)
	o.Watch(w)
	var s slot.Snapshot
	w.Snapshot(&s)
	o.begin(&s, 0.5, new(slot.Decision))
	demand := o.arrivals()
	start := jitter(flyTo(o.from, centroids(demand, o.from), 8, len(demand)), 4, 1000, rand.New(rand.NewPCG(1, 1)))
	choices, before := o.planner.associate(demand, start, nil)
	program := o.planner.trajectory(demand, start, choices)
	if len(program.users) == 0 {
		t.Fatal("nobody is served")
	}
	x := start.velocities()
	grad := make([]float64, len(x))
	at := program.surrogate(start, x, grad)
	if want := program.cost(start); math.Abs(at-want) > 1e-9 {
		t.Errorf("surrogate %v at the iterate, cost %v", at, want)
	}
	checkGradient(t, grad, x, 1e-4, 1e-8, 0, func() float64 { return program.surrogate(start, x, nil) })
	next := program.step(start, 60, 50)
	if got := program.cost(next); got >= at {
		t.Errorf("a step takes the cost from %v to %v", at, got)
	}
	if _, after := o.planner.solve(demand, start); after >= before {
		t.Errorf("the solve takes the cost from %v to %v", before, after)
	}
}

// With energy alone to save, nothing is offloaded and the fleet flies at v*; with delay
// alone it goes to its only user and hovers no farther than a slot from above it.
func TestSCAOptimum(t *testing.T) {
	c := world.Standard()
	c.Aircraft, c.Slots = 1, 40
	c.Users, c.ActiveMin, c.ActiveMax, c.TaskProbability = 1, 1, 1, 1
	run := &Run{Config: Default(), World: c}
	best, leastW := c.Physics.MinPower()
	for _, m := range []Method{scaOracleMethod, scaMPCMethod} {
		policy := offlinetest.Must(m.New(t.Context(), run))(t)()
		runner := offlinetest.Must(rollout.NewWithPolicy(policy, run.GoalConstants(), c, rollout.ReportLink{}))(t)
		energy := runner.Fly(7, preferenceFor(1))
		if energy.EnergyJ > 1.01*leastW*float64(c.Slots) || math.Abs(energy.MeanSpeedMPS-best) > 0.6 {
			t.Errorf("%s: %v J at %v m/s, least %v J at %v m/s", m.Name, energy.EnergyJ, energy.MeanSpeedMPS, leastW*float64(c.Slots), best)
		}
		delay := runner.Fly(7, preferenceFor(0))
		if x, ok := policy.(*scaOracle); ok {
			last := x.world
			if d := last.Aircraft[0].Position.Sub(last.Users[0]).Norm(); d > 60 {
				t.Errorf("%s ends %v m from its user", m.Name, d)
			}
		}
		if delay.DelayS >= 0.5*energy.DelayS {
			t.Errorf("%s: %v s of delay where delay counts, %v s where it does not", m.Name, delay.DelayS, energy.DelayS)
		}
	}
}

// A fleet that loses its aircraft is flown to the end; a shared channel is refused.
func TestSCAWorlds(t *testing.T) {
	c := world.Standard()
	c.Slots = 4
	c.AircraftLosses = []world.AircraftLoss{{Aircraft: 0, Slot: 1}, {Aircraft: 1, Slot: 3}}
	run := &Run{Config: Default(), World: c}
	for _, m := range []Method{scaOracleMethod, scaMPCMethod} {
		run.World.Physics.Contention = false
		got := flyToy(t, run, offlinetest.Must(m.New(t.Context(), run))(t), preferenceFor(0.5))
		if !(got.EnergyJ > 0) || !(got.DelayS > 0) {
			t.Errorf("%+v", got)
		}
		run.World.Physics.Contention = true
		if _, err := m.New(t.Context(), run); err == nil {
			t.Error("a shared channel is not refused")
		}
	}
}

// cost returns what the path costs.
func (p *trajectoryProgram) cost(at path) float64 {
	sum := 0.0
	for i := range p.users {
		u := &p.users[i]
		y, _ := u.cost(p.link, at[u.slot][u.aircraft])
		sum += y
	}
	for t := 1; t < len(at); t++ {
		for m := range at[t] {
			sum += p.energyWeight * p.constants.Propulsion.PowerW(at[t][m].Sub(at[t-1][m]).Norm())
		}
	}
	return sum
}
