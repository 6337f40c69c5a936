package search

import (
	"math"
	"math/rand/v2"
	"testing"

	"prefdt/inference/physics"
	"prefdt/inference/slot"
	"prefdt/offline/offlinetest"
	"prefdt/offline/pareto"
	"prefdt/offline/seeds"
	"prefdt/offline/teacher"
	"prefdt/simbridge/world"
)

// snapshotOf is two aircraft at (300, 500) and (700, 500), away from their starts
// at (333.3, 500) and (666.7, 500), and users named by where they are.
func snapshotOf(users ...physics.Position) *slot.Snapshot {
	s := &slot.Snapshot{Slots: 100, Aircraft: []slot.Aircraft{
		{Number: 1, Position: physics.Position{EastM: 300, NorthM: 500}, CPUHz: 40e9},
		{Number: 2, Position: physics.Position{EastM: 700, NorthM: 500}, CPUHz: 40e9},
	}}
	for i, p := range users {
		s.Users = append(s.Users, slot.User{
			ID: i, Position: p, CPUHz: 1e9, Gain: []float64{1e-9, 1e-9},
			Task: physics.Task{Bits: 1e6, CyclesPerBit: 1000, DeadlineS: 1},
		})
	}
	return s
}

func position(east, north float64) physics.Position {
	return physics.Position{EastM: east, NorthM: north}
}

// decideOnce runs the rule of genes once.
func decideOnce(t *testing.T, s *slot.Snapshot, genes ...float64) *slot.Decision {
	t.Helper()
	c := world.Standard()
	rule := offlinetest.Must(NewRule(&c, genes))(t)
	var d slot.Decision
	rule.Decide(s, &d)
	return &d
}

// stillMotion are motion genes that keep both aircraft where they are.
var stillMotion = []float64{0, 0, 0, 0, 0, 0}

func ruleGenes(gate, scale, radius, exponent float64, motion ...float64) []float64 {
	return append([]float64{gate, scale, radius, exponent}, motion...)
}

func TestCandidates(t *testing.T) {
	for name, c := range map[string]struct {
		user   physics.Position
		radius float64
		server int
	}{
		"nearest is the first":  {position(400, 500), 800, 1},
		"nearest is the second": {position(510, 500), 800, 2},
		"as near to both":       {position(500, 500), 800, 1},
		"on the radius":         {position(300, 600), 100, 1},
		"beyond the radius":     {position(300, 600.1), 100, 0},
		"not the farther one":   {position(480, 500), 179, 0}, // 180 m and 220 m away
	} {
		d := decideOnce(t, snapshotOf(c.user), ruleGenes(3, 1, c.radius, 0, stillMotion...)...)
		if got := d.Users[0].Server; got != c.server {
			t.Errorf("%s: server %d, want %d", name, got, c.server)
		}
	}
}

// Three candidates of one aircraft: 1 Mbit of 1000 cycles/bit is 1 s locally;
// at gain 1e-9 the signal is 0.1 W x 1e-9 over -110 dBm = 1e-14 W, 1e4 times
// the noise, so the uplink carries log2(10001) Mbit/s, and a third of 40 GHz
// takes 0.075 s.
func TestGateAndFraction(t *testing.T) {
	offload := 1/math.Log2(10001) + 0.075
	balance := 1 / (1 + offload)
	near := []physics.Position{position(300, 500), position(310, 500), position(320, 500)}
	for name, c := range map[string]struct {
		gate, scale, exponent float64
		users                 int
		want                  float64
	}{
		"balance":            {3, 1, 0, 3, balance},
		"scaled":             {3, 0.5, 0, 3, balance / 2},
		"clipped":            {3, 1.3, 0, 3, 1},
		"just passes":        {offload * 1.0001, 1, 0, 3, balance},
		"just fails":         {offload * 0.9999, 1, 0, 3, 0},
		"scale 0 is local":   {3, 0, 0, 3, 0},
		"exponent at load 3": {3, 0.9, 1, 3, 0.9 * balance},
		// Alone: the whole CPU, 0.025 s; (1/3)^1 of the fraction.
		"exponent at load 1": {3, 0.9, 1, 1, 0.9 / (1 + 1/math.Log2(10001) + 0.025) / 3},
	} {
		d := decideOnce(t, snapshotOf(near[:c.users]...), ruleGenes(c.gate, c.scale, 800, c.exponent, stillMotion...)...)
		for i, u := range d.Users {
			if math.Abs(u.Offload-c.want) > 1e-12 || (u.Server != 0) != (c.want != 0) {
				t.Errorf("%s: user %d is %+v, want rho %v", name, i, u, c.want)
			}
		}
	}
}

// The gate counts the CPU as shared among all candidates; those that pass it share
// the CPU only with those who passed.
func TestSharesAreRecomputed(t *testing.T) {
	s := snapshotOf(position(300, 500), position(310, 500), position(320, 500))
	s.Users[2].Gain = []float64{1e-16, 1e-16} // its uplink alone would take a minute
	d := decideOnce(t, s, ruleGenes(1, 1, 800, 0, stillMotion...)...)
	c := physics.DefaultConstants()
	d.Evaluate(&c, s)
	want := 1 / (1 + 1/math.Log2(10001) + 0.075)
	for i := range 2 {
		if u := d.Users[i]; u.Server != 1 || math.Abs(u.Offload-want) > 1e-12 || u.CPUHz != 20e9 {
			t.Errorf("user %d: %+v, want rho %v from three candidates and 20 GHz of two", i, u, want)
		}
	}
	if d.Users[2] != (slot.UserDecision{CompletionS: 1}) {
		t.Errorf("the user in the shade: %+v, want local", d.Users[2])
	}
}

func TestMotion(t *testing.T) {
	up := []physics.Position{position(300, 600), position(340, 580)} // centroid (320, 590) of aircraft 1
	toward := position(20, 90).Scale(1 / math.Hypot(20, 90))
	for name, c := range map[string]struct {
		users  []physics.Position
		motion []float64 // of both
		want   physics.Position
	}{
		"to the centroid":           {up, []float64{10, 1, 0}, toward.Scale(10)},
		"a smaller gain is as fast": {up, []float64{10, 0.3, 0}, toward.Scale(10)},
		"around, left":              {up, []float64{10, 0, 1}, position(-toward.NorthM, toward.EastM).Scale(10)},
		"around, right":             {up, []float64{10, 0, -1}, position(toward.NorthM, -toward.EastM).Scale(10)},
		"half and half":             {up, []float64{10, 1, -1}, toward.Add(position(toward.NorthM, -toward.EastM)).Scale(10 / math.Sqrt2)},
		"home when none":            {nil, []float64{12, 1, 0}, position(12, 0)},
		"around home":               {nil, []float64{12, 0, 1}, position(0, 12)},
		"no gain, no motion":        {up, []float64{30, 0, 0}, position(0, 0)},
	} {
		genes := ruleGenes(3, 1, 800, 0, append(c.motion, c.motion...)...)
		d := decideOnce(t, snapshotOf(c.users...), genes...)
		if d.Move[0].Sub(c.want).Norm() > 1e-9 {
			t.Errorf("%s: moves %v, want %v", name, d.Move[0], c.want)
		}
	}
	// With a scale of 0 nothing is offloaded, but who passes the gate is still tracked.
	d := decideOnce(t, snapshotOf(up...), ruleGenes(3, 0, 800, 0, 10, 1, 0, 10, 1, 0)...)
	if d.Move[0].Sub(toward.Scale(10)).Norm() > 1e-9 {
		t.Errorf("scale 0: moves %v, want %v", d.Move[0], toward.Scale(10))
	}
	// Straight out of the area ends at its edge.
	s := snapshotOf(position(310, 990))
	s.Aircraft[0].Position = position(300, 990)
	if d := decideOnce(t, s, ruleGenes(3, 1, 800, 0, 30, 0, 1, 0, 0, 0)...); d.Move[0] != position(0, 10) {
		t.Errorf("at the edge: moves %v, want (0, 10)", d.Move[0])
	}
}

// An aircraft keeps its genes and its start when another is lost.
func TestGenesFollowTheNumber(t *testing.T) {
	s := snapshotOf()
	s.Aircraft = s.Aircraft[1:]
	d := decideOnce(t, s, ruleGenes(3, 1, 800, 0, 30, 0, 1, 5, 1, 0)...)
	if len(d.Move) != 1 || d.Move[0].Sub(position(-5, 0)).Norm() > 1e-9 {
		t.Errorf("aircraft 2 moves %v, want 5 m west to its start", d.Move)
	}
}

// The order of users does not matter.
func TestPermutationOfUsers(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 0))
	c := world.Standard()
	for seed := range uint64(20) {
		genes := randomMembers(rng, geneBounds(c.Aircraft), 1)[0].Genes
		var s slot.Snapshot
		world.New(c, seed).Snapshot(&s)
		want := decideOnce(t, &s, genes...)
		order := rng.Perm(len(s.Users))
		shuffled := s
		shuffled.Users = nil
		for _, i := range order {
			shuffled.Users = append(shuffled.Users, s.Users[i])
		}
		got := decideOnce(t, &shuffled, genes...)
		for k, i := range order {
			if got.Users[k] != want.Users[i] {
				t.Fatalf("seed %d: user %d is %+v, was %+v", seed, i, got.Users[k], want.Users[i])
			}
		}
		for m := range want.Move {
			if got.Move[m].Sub(want.Move[m]).Norm() > 1e-9 {
				t.Fatalf("seed %d: aircraft %d moves %v, did %v", seed, m, got.Move[m], want.Move[m])
			}
		}
	}
}

// A scale of 0 at v* is the all-local flight: 715.5 s and 26.88 kJ by closed
// form. Genes that offload at the balance point cut the delay far below.
func TestEpisodes(t *testing.T) {
	c := world.Standard()
	best := c.Physics.Propulsion.BestSpeedMPS(30)
	members := []Member{
		{Genes: ruleGenes(3, 0, 800, 0, best, 0.5, 0.5, best, 0.5, 0.5)},
		{Genes: ruleGenes(3, 1, 800, 0, best, 0.5, 0.5, best, 0.5, 0.5)},
	}
	outcomes := offlinetest.Must(Fly(t.Context(), &c, members, seeds.List(0, 60), 2, nil))(t)
	local, full := meanOutcome(outcomes[0]), meanOutcome(outcomes[1])
	if math.Abs(local.DelayS-715.5) > 8 || math.Abs(local.EnergyJ-26880) > 40 {
		t.Errorf("all local: %+v, want 715.5 s and 26880 J", local)
	}
	if full.DelayS > 110 || full.EnergyJ < 35e3 || full.EnergyJ > 45e3 {
		t.Errorf("balanced: %+v, want about 100 s for about 40 kJ", full)
	}
	if pareto.Hypervolume([]pareto.Point{local, full}, pareto.Reference) < 85e6 {
		t.Errorf("these two span too little: %+v, %+v", local, full)
	}
}

func TestGenesAreChecked(t *testing.T) {
	c := world.Standard()
	for name, genes := range map[string][]float64{
		"too few":   {1, 1, 100, 0},
		"above":     ruleGenes(3.1, 1, 100, 0, stillMotion...),
		"below":     ruleGenes(1, 1, 49, 0, stillMotion...),
		"no number": ruleGenes(1, math.NaN(), 100, 0, stillMotion...),
	} {
		if _, err := NewRule(&c, genes); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestDecideDoesNotAllocate(t *testing.T) {
	c := world.Standard()
	r := offlinetest.Must(NewRule(&c, ruleGenes(3, 1, 800, 0, 8, 1, 0, 8, 1, 0)))(t)
	var s slot.Snapshot
	var d slot.Decision
	world.New(c, 1).Snapshot(&s)
	r.Decide(&s, &d)
	if n := testing.AllocsPerRun(100, func() { r.Decide(&s, &d) }); n != 0 {
		t.Errorf("%v allocations a slot", n)
	}
}

func BenchmarkEpisode(b *testing.B) {
	w := world.New(world.Standard(), 0)
	rule := offlinetest.Must(NewRule(&w.Config, ruleGenes(3, 1, 800, 0, 8, 1, 0.2, 8, 1, 0.2)))(b)
	var runner teacher.Runner
	b.ReportAllocs()
	for i := range b.N {
		w.Reset(uint64(i))
		runner.Fly(w, rule.Decide, nil)
	}
}
