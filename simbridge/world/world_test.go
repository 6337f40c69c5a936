package world

import (
	"math"
	"reflect"
	"testing"

	"prefdt/inference/physics"
	"prefdt/inference/slot"
)

// localAction flies every aircraft east and west at a speed and computes all locally.
func localAction(w *World, speedMPS float64) Action {
	a := Action{Server: make([]int, len(w.Arrivals)), Offload: make([]float64, len(w.Arrivals))}
	for range w.Aircraft {
		a.Move = append(a.Move, physics.Position{EastM: speedMPS * (1 - 2*float64(w.Slot%2))})
	}
	return a
}

func runEpisode(c Config, seed uint64, act func(*World) Action) (delayS, energyJ float64, tasks int) {
	w := New(c, seed)
	for !w.Done() {
		tasks += len(w.Arrivals)
		o := w.Step(act(w))
		delayS += o.DelayS
		energyJ += o.EnergyJ()
	}
	return delayS, energyJ, tasks
}

// All-local flight at v*: 540 expected tasks of 1 s mean, half of which miss
// their deadline at 0.65 s each, is 715.5 s; two aircraft at 134.4 W for 100 s
// spend 26.88 kJ.
func TestAllLocal(t *testing.T) {
	c := Standard()
	best := c.Physics.Propulsion.BestSpeedMPS(30)
	var delay, energy, tasks float64
	const n = 100
	for seed := range uint64(n) {
		d, e, k := runEpisode(c, seed, func(w *World) Action { return localAction(w, best) })
		delay, energy, tasks = delay+d/n, energy+e/n, tasks+float64(k)/n
	}
	t.Logf("all local at v*: %.1f s, %.1f J, %.1f tasks", delay, energy, tasks)
	if math.Abs(delay-715.5) > 6 || math.Abs(energy-26880) > 30 || math.Abs(tasks-540) > 8 {
		t.Errorf("got %.1f s, %.0f J, %.1f tasks; want 715.5 s, 26880 J, 540", delay, energy, tasks)
	}
}

// offloadAll serves each user by its nearest aircraft at rho 0.8.
func offloadAll(w *World) Action {
	a := localAction(w, 8)
	for i, arrival := range w.Arrivals {
		best := 0
		for m := range w.Aircraft {
			p := w.Users[arrival.User]
			if p.Sub(w.Aircraft[m].Position).Norm() < p.Sub(w.Aircraft[best].Position).Norm() {
				best = m
			}
		}
		a.Server[i], a.Offload[i] = best+1, 0.8
	}
	return a
}

// Every option that is off, or neutral, leaves each number bit for bit.
func TestNeutralOptionsAreExact(t *testing.T) {
	wantDelay, wantEnergy, _ := runEpisode(Standard(), 7, offloadAll)
	for name, set := range map[string]func(*Config){
		"multiplier 1.0":       func(c *Config) { c.Shock = Shock{FromSlot: 20, Factor: 1} },
		"shock after the end":  func(c *Config) { c.Shock = Shock{FromSlot: 100, Factor: 1.5} },
		"gust 0":               func(c *Config) { c.Gust = 0 },
		"exponent 2":           func(c *Config) { c.PathLossExponent = 2 },
		"edge factor 1.0":      func(c *Config) { c.EdgeFactor = 1 },
		"demand x1":            func(c *Config) { c.Demand = Shock{FromSlot: 20, Factor: 1} },
		"demand x3 at the end": func(c *Config) { c.Demand = Shock{FromSlot: 100, Factor: 3} },
		"loss after the end":   func(c *Config) { c.AircraftLosses = []AircraftLoss{{0, 100}} },
	} {
		c := Standard()
		set(&c)
		if d, e, _ := runEpisode(c, 7, offloadAll); d != wantDelay || e != wantEnergy {
			t.Errorf("%s: (%v, %v), want exactly (%v, %v)", name, d, e, wantDelay, wantEnergy)
		}
	}
	for name, set := range map[string]func(*Config){
		"multiplier 1.5": func(c *Config) { c.Shock = Shock{FromSlot: 50, Factor: 1.5} },
		"gust":           func(c *Config) { c.Gust = 0.05 },
		"loss":           func(c *Config) { c.AircraftLosses = []AircraftLoss{{1, 40}} },
		"edge factor":    func(c *Config) { c.EdgeFactor = 1.3 },
		"exponent":       func(c *Config) { c.PathLossExponent = 2.3 },
		"memory":         func(c *Config) { c.ActiveMemory = 0.9 },
		"demand":         func(c *Config) { c.Demand = Shock{FromSlot: 50, Factor: 1.0 / 3} },
	} {
		c := Standard()
		set(&c)
		if d, e, _ := runEpisode(c, 7, offloadAll); d == wantDelay && e == wantEnergy {
			t.Errorf("%s changed nothing", name)
		}
	}
}

// An edge factor changes the joules of edge computing alone, a change of demand the
// number of arrivals from its slot on.
func TestEdgeFactorAndDemand(t *testing.T) {
	plain, dear := New(Standard(), 7), New(Standard(), 7)
	dear.Config.EdgeFactor = 1.3
	for !plain.Done() {
		a, b := plain.Step(offloadAll(plain)), dear.Step(offloadAll(dear))
		for m := range a.EdgeJ {
			if a.DelayS != b.DelayS || a.FlightJ[m] != b.FlightJ[m] || math.Abs(b.EdgeJ[m]-1.3*a.EdgeJ[m]) > 1e-9 {
				t.Fatalf("slot %d: %+v and, at 1.3, %+v", plain.Slot, a, b)
			}
		}
	}
	for _, factor := range []float64{1.0 / 3, 3} {
		c := Standard()
		c.Demand = Shock{FromSlot: 40, Factor: factor}
		plain, changed := New(Standard(), 7), New(c, 7)
		sums := [2][2]int{}
		for !plain.Done() {
			half := 0
			if plain.Slot >= 40 {
				half = 1
			}
			sums[half][0] += len(plain.Arrivals)
			sums[half][1] += len(changed.Arrivals)
			plain.Step(localAction(plain, 0))
			changed.Step(localAction(changed, 0))
		}
		if ratio := float64(sums[1][1]) / float64(sums[1][0]); sums[0][0] != sums[0][1] || math.Abs(ratio/factor-1) > 0.1 {
			t.Errorf("demand x%.2f: %d and %d tasks before, %d and %d after", factor, sums[0][0], sums[0][1], sums[1][0], sums[1][1])
		}
	}
}

// A change of policy, or of fleet size, never changes the arrivals.
func TestArrivalsDoNotDependOnThePolicy(t *testing.T) {
	small, large := New(Standard(), 3), New(Standard(), 3)
	large.Config.Aircraft = 4
	large.Reset(3)
	for !small.Done() {
		if len(small.Arrivals) != len(large.Arrivals) {
			t.Fatalf("slot %d: %d arrivals against %d", small.Slot, len(small.Arrivals), len(large.Arrivals))
		}
		for i, a := range small.Arrivals {
			if b := large.Arrivals[i]; a.User != b.User || a.Task != b.Task {
				t.Fatalf("slot %d: arrival %d differs", small.Slot, i)
			}
		}
		small.Step(localAction(small, 3))
		large.Step(offloadAll(large))
	}
}

func TestActionsAreLimited(t *testing.T) {
	w := New(Standard(), 1)
	a := localAction(w, 0)
	a.Move[0] = physics.Position{EastM: 1e6, NorthM: 1e6}
	a.Move[1] = physics.Position{EastM: math.NaN()}
	start := w.Aircraft[1].Position
	for i := range a.Server {
		a.Server[i], a.Offload[i] = 99, 7
	}
	o := w.Step(a)
	if w.Aircraft[0].SpeedMPS > 30+1e-9 || w.Aircraft[1].Position != start {
		t.Errorf("moves were not limited: %+v", w.Aircraft)
	}
	if math.IsNaN(o.DelayS) || o.EdgeJ[0] != 0 {
		t.Errorf("an unknown server was used: %+v", o)
	}
}

func TestGainMeanMatchesClosedForm(t *testing.T) {
	c := Standard()
	s := NewScenario(&c, 0)
	for _, d := range []float64{0, 100, 300, 700} {
		sum, n := 0.0, 200000
		for i := range n {
			s.seed = uint64(i) // draws only the link anew
			gain, _ := s.Gain(0, 0, 0, physics.Position{EastM: d})
			sum += gain
		}
		got, want := sum/float64(n), c.Physics.Channel.MeanGain(d, c.Physics.AltitudeM)
		// The log-normal's heavy tail makes the sample mean slow: 3 %.
		if math.Abs(got/want-1) > 0.03 {
			t.Errorf("at %v m the mean gain is %v, closed form %v", d, got, want)
		}
	}
}

func TestDenseStartsKeepSeparation(t *testing.T) {
	for m := 2; m <= 8; m++ {
		c := Standard()
		c.Aircraft, c.DenseStart = m, true
		w := New(c, 0)
		for i := range m {
			for j := range i {
				if d := w.Aircraft[i].Position.Sub(w.Aircraft[j].Position).Norm(); d < c.Physics.SeparationM {
					t.Errorf("M=%d: %d and %d start %.1f m apart", m, i, j, d)
				}
			}
		}
	}
}

func TestCheck(t *testing.T) {
	c := Standard()
	if err := c.Check(); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*Config){
		"no aircraft": func(c *Config) { c.Aircraft = 0 }, "probability": func(c *Config) { c.TaskProbability = 1.1 },
		"NaN bits": func(c *Config) { c.BitsMin = math.NaN() }, "nakagami": func(c *Config) { c.Physics.Channel.LoS.NakagamiM = 1.5 },
		"loss": func(c *Config) { c.AircraftLosses = []AircraftLoss{{5, 1}} },
	} {
		c := Standard()
		spoil(&c)
		if c.Check() == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

func BenchmarkEpisode(b *testing.B) {
	w := New(Standard(), 0)
	a := Action{Server: make([]int, 10), Offload: make([]float64, 10), Move: make([]physics.Position, 2)}
	for i := range b.N {
		w.Reset(uint64(i))
		for !w.Done() {
			w.Step(a)
		}
	}
}

// The users of a slot to come are those that the slot has, where no aircraft moves until then.
func TestUsersAhead(t *testing.T) {
	w := New(Standard(), 5)
	still := Action{Move: make([]physics.Position, w.Config.Aircraft)}
	step := func() {
		still.Server, still.Offload = make([]int, len(w.Arrivals)), make([]float64, len(w.Arrivals))
		w.Step(still)
	}
	for range 7 {
		step()
	}
	ahead := w.UsersAhead(2, nil)
	step()
	step()
	var s slot.Snapshot
	w.Snapshot(&s)
	if len(ahead) == 0 || !reflect.DeepEqual(ahead, s.Users) {
		t.Errorf("expected %+v, came %+v", ahead, s.Users)
	}
	// There is no slot after the last: as many slots are decided on their own users' reports as
	// where those of a slot before are used.
	for w.Slot < w.Config.Slots-1 {
		step()
	}
	w.Snapshot(&s)
	if ahead := w.UsersAhead(3, nil); !reflect.DeepEqual(ahead, s.Users) {
		t.Errorf("past the last slot: expected %+v, came %+v", s.Users, ahead)
	}
}
