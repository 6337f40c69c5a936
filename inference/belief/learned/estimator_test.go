package learned

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"prefdt/inference/belief"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
	"prefdt/simbridge/world"
)

// random returns parameters that make every observation count.
func random(window int) *Parameters {
	r := rand.New(rand.NewPCG(1, 2))
	p := &Parameters{Window: window, Data: make([]float32, ParameterCount())}
	for i := range p.Data {
		p.Data[i] = float32(0.3 * r.NormFloat64())
	}
	return p
}

func field() world.Config {
	c, err := world.Named("field")
	if err != nil {
		panic(err)
	}
	c.Users, c.ActiveMin, c.ActiveMax = 8, 4, 7
	return c
}

func surroundings(c *world.Config) Surroundings {
	return Surroundings{Physics: &c.Physics, Sounding: true, Wind: true, Payload: true, Slow: c.Throttling.Factor}
}

// flight returns the snapshots of a flight in which aircraft circle and every second user
// is served in full or in part.
func flight(c world.Config, seed uint64, slots int) (list []slot.Snapshot) {
	w := world.New(c, seed)
	for k := range slots {
		var s slot.Snapshot
		w.Snapshot(&s)
		for _, users := range [][]slot.User{s.Users, s.IdleUsers} {
			for i := range users {
				users[i].Gain = slices.Clone(users[i].Gain)
			}
		}
		list = append(list, s)
		a := world.Action{Server: make([]int, len(w.Arrivals)), Offload: make([]float64, len(w.Arrivals))}
		for i := range a.Server {
			a.Server[i], a.Offload[i] = i%(len(w.Aircraft)+1), 0.5
		}
		for m := range w.Aircraft {
			sin, cos := math.Sincos(float64(k)/3 + float64(m))
			a.Move = append(a.Move, physics.Position{EastM: 12 * cos, NorthM: 12 * sin})
		}
		w.Step(a)
	}
	return list
}

// believe returns what an estimator makes of each of the snapshots, as text.
func believe(e *Estimator, snapshots []slot.Snapshot) (said []string) {
	var b belief.Belief
	for i := range snapshots {
		b.Resize(&snapshots[i])
		e.Estimate(&snapshots[i], &b)
		said = append(said, fmt.Sprint(b))
	}
	return said
}

// Nothing older than the window reaches a belief, to the last bit, and what is younger does.
func TestWindow(t *testing.T) {
	c := field()
	for _, window := range []int{1, 5, 20} {
		all := flight(c, 99_960, 60)
		from := 30
		whole := believe(New(surroundings(&c), random(window)), all)
		late := believe(New(surroundings(&c), random(window)), all[from:])
		for k := window - 1; k < len(late); k++ {
			if late[k] != whole[from+k] {
				t.Fatalf("window %d, slot %d: what was before slot %d is in\n%s\nand not in\n%s", window, from+k, from, whole[from+k],
					late[k])
			}
		}
		for k := range window - 1 {
			if late[k] == whole[from+k] {
				t.Errorf("window %d, slot %d: what was before slot %d is not in the belief", window, from+k, from)
			}
		}
	}
}

// A gain that was not reported is no sounding: what stands in for it reaches no belief, in
// its slot or later, and without memory such a link is believed what its distance says.
func TestMissingGain(t *testing.T) {
	c := field()
	run := func(standIn float64, missing []bool) []string {
		list := flight(c, 99_962, 30)
		for i := range list {
			for _, users := range [][]slot.User{list[i].Users, list[i].IdleUsers} {
				for u := range users {
					if (i+u)%3 == 0 {
						users[u].Gain[1], users[u].GainMissing = standIn, missing
					}
				}
			}
		}
		return believe(New(surroundings(&c), random(20)), list)
	}
	second := []bool{false, true}
	if low, high := run(1e-12, second), run(1e-8, second); !slices.Equal(low, high) {
		t.Errorf("what stands in for a gain reaches the beliefs:\n%s\n%s", low[29], high[29])
	}
	if low, high := run(1e-12, nil), run(1e-8, nil); slices.Equal(low, high) {
		t.Error("a reported gain reaches no belief")
	}
	e := New(surroundings(&c), &Parameters{Window: 20, Data: make([]float32, ParameterCount())})
	s := flight(c, 99_962, 1)[0]
	var b belief.Belief
	for i := range s.Users {
		s.Users[i].GainMissing = second
	}
	b.Resize(&s)
	e.Estimate(&s, &b)
	for i := range s.Users {
		distance := s.Aircraft[1].Position.Sub(s.Users[i].Position).Norm()
		want, got := c.Physics.Channel.LoSProbability(distance, c.Physics.AltitudeM),
			1/(1+math.Exp(-e.memory.LinkPriors[i*len(s.Aircraft)+1].LogOdds))
		if math.Abs(got-want) > 1e-5 {
			t.Errorf("user %d: line of sight believed with probability %g at %g m, want %g", i, got, distance, want)
		}
	}
}

// The order of users changes nothing in the belief of each, nor do other users.
func TestUsersAreApart(t *testing.T) {
	c := field()
	snapshots := flight(c, 99_961, 30)
	r := rand.New(rand.NewPCG(5, 6))
	gather := func(change func(*slot.Snapshot)) map[string]belief.User {
		all := map[string]belief.User{}
		e := New(surroundings(&c), random(20))
		var b belief.Belief
		for _, s := range snapshots {
			s.Users, s.IdleUsers, s.Results = slices.Clone(s.Users), slices.Clone(s.IdleUsers), slices.Clone(s.Results)
			change(&s)
			b.Resize(&s)
			e.Estimate(&s, &b)
			for i, u := range b.Users {
				u.Gain, u.Uncertainty.GainStdDev = slices.Clone(u.Gain), slices.Clone(u.Uncertainty.GainStdDev)
				all[fmt.Sprint(s.Slot, " ", s.Users[i].ID)] = u
			}
		}
		return all
	}
	want := gather(func(*slot.Snapshot) {})
	shuffled := gather(func(s *slot.Snapshot) {
		r.Shuffle(len(s.Users), func(i, j int) { s.Users[i], s.Users[j] = s.Users[j], s.Users[i] })
		r.Shuffle(len(s.IdleUsers), func(i, j int) { s.IdleUsers[i], s.IdleUsers[j] = s.IdleUsers[j], s.IdleUsers[i] })
		r.Shuffle(len(s.Results), func(i, j int) { s.Results[i], s.Results[j] = s.Results[j], s.Results[i] })
		slices.SortStableFunc(s.Results, func(a, b slot.Result) int { return cmp.Compare(a.Slot, b.Slot) })
	})
	alone := gather(func(s *slot.Snapshot) {
		other := func(u slot.User) bool { return u.ID != 3 }
		s.Users, s.IdleUsers = slices.DeleteFunc(s.Users, other), slices.DeleteFunc(s.IdleUsers, other)
	})
	if len(alone) < 5 || len(shuffled) != len(want) {
		t.Fatalf("%d, %d and %d beliefs", len(want), len(shuffled), len(alone))
	}
	for name, got := range map[string]map[string]belief.User{"shuffled": shuffled, "alone": alone} {
		for key, u := range got {
			v := want[key]
			for m := range u.Gain {
				spread := u.Uncertainty.GainStdDev[m] - v.Uncertainty.GainStdDev[m]
				if math.Abs(math.Log(u.Gain[m]/v.Gain[m])) > 1e-4 || math.Abs(spread) > 1e-4 {
					t.Errorf("%s, slot and user %s: %+v, was %+v", name, key, u, v)
				}
			}
			if got, want := u.Uncertainty.SlowProbability, v.Uncertainty.SlowProbability; math.Abs(got-want) > 1e-5 {
				t.Errorf("%s, slot and user %s: throttled with %v, was %v", name, key, got, want)
			}
		}
	}
}

// What is exact is taken as it is, and a network without observations still answers.
func TestMasks(t *testing.T) {
	c := field()
	snapshots := flight(c, 99_962, 3)
	exact := believe(New(Surroundings{Physics: &c.Physics}, random(20)), snapshots)
	var b belief.Belief
	for i := range snapshots {
		b.Resize(&snapshots[i])
		if fmt.Sprint(b) != exact[i] {
			t.Errorf("slot %d: %s of what is exact, want %v", i, exact[i], b)
		}
	}
	e := New(surroundings(&c), random(20))
	for i, s := range []slot.Snapshot{
		{Slots: 100},
		{Slots: 100, Aircraft: snapshots[0].Aircraft},
		{Slots: 100, Users: []slot.User{{ID: 7, CPUHz: 1e9}}},
		{Slots: 100, Slot: 2, Results: []slot.Result{{User: 99, Slot: 1, LocalS: 1, LocalCycles: 1e9}}},
		{Slots: 100, Slot: 3, Aircraft: snapshots[0].Aircraft[:1], Users: []slot.User{{ID: 7, CPUHz: 1e9, Gain: []float64{0}}},
			Results: []slot.Result{{User: 7, Slot: 2, LocalS: 1e-9, LocalCycles: 1e12,
				Upload: slot.Upload{Bits: 1, S: 1e9, BandwidthShare: 1}}}},
	} {
		b.Resize(&s)
		e.Estimate(&s, &b)
		if text := fmt.Sprint(b); strings.Contains(text, "NaN") || strings.Contains(text, "Inf") {
			t.Errorf("snapshot %d: %s", i, text)
		}
	}
}

// A memory of users has a bound: the one seen longest ago is forgotten.
func TestUsersAreBounded(t *testing.T) {
	c := field()
	m := NewMemory(surroundings(&c), 1000)
	at := flight(c, 99_963, 1)[0].Aircraft
	for id := range maxUsers + 10 {
		m.Observe(&slot.Snapshot{Slot: id / 10, Aircraft: at, Users: []slot.User{{ID: id, CPUHz: 1e9, Gain: []float64{1e-10, 1e-10}}}})
	}
	if len(m.users) != maxUsers || m.users[9] != nil || m.users[10] == nil {
		t.Errorf("%d users, user 9 %v, user 10 %v", len(m.users), m.users[9] != nil, m.users[10] != nil)
	}
	s := slot.Snapshot{Slot: 900, Aircraft: at}
	for id := range maxUsers + 5 { // each has an answer, also where it is not remembered
		s.Users = append(s.Users, slot.User{ID: id, CPUHz: 1e9, Gain: []float64{1e-10, 1e-10}})
	}
	m.Observe(&s)
	if n := len(s.Users); len(m.users) != maxUsers || len(m.LinkPriors) != 2*n || len(m.Links.Counts) != 2*n || len(m.Phones.Counts) != n ||
		m.Links.Counts[0] != 2 {
		t.Errorf("%d of %d users: %d links, rows of %d, and %d CPUs", len(m.users), n, len(m.LinkPriors), len(m.Links.Counts),
			len(m.Phones.Counts))
	}
}

// A slot in which no user has a task leaves no questions of the slot before to train on.
func TestSlotWithoutTasks(t *testing.T) {
	c := field()
	e, snapshots := New(surroundings(&c), random(20)), flight(c, 99_963, 2)
	snapshots[1].Users = nil
	believe(e, snapshots)
	if m := e.Memory(); len(m.LinkPriors)+len(m.Links.Counts)+len(m.Phones.Counts) > 0 {
		t.Errorf("%d links and %d CPUs are asked for", len(m.LinkPriors), len(m.Phones.Counts))
	}
}

// Of many users the networks hear some at a time: each is believed what it is when they hear
// all at once, and what they compute takes the memory of some.
func TestManyUsers(t *testing.T) {
	c := field()
	const users, slots = 3*usersAtOnce + 5, 8
	c.Users, c.ActiveMin, c.ActiveMax, c.TaskProbability = users, users, users, 1
	p := random(20)
	e, whole, networks := New(surroundings(&c), p), NewMemory(surroundings(&c), p.Window), NewNetworks(p.Data)
	var b belief.Belief
	for _, s := range flight(c, 99_962, slots) {
		b.Resize(&s)
		e.Estimate(&s, &b)
		whole.Observe(&s)
		links, phones := networks.Links.Forward(&whole.Links), networks.Phones.Forward(&whole.Phones)
		for i := range s.Users {
			for m := range s.Aircraft {
				at := i*len(s.Aircraft) + m
				mixture := Change(&whole.LinkPriors[at], links.Row(at))
				mean, sd := mixture.Moments()
				if got := b.Users[i]; math.Abs(math.Log(got.Gain[m])-mean) > 1e-4 || math.Abs(got.Uncertainty.GainStdDev[m]-sd) > 1e-4 {
					t.Fatalf("slot %d, user %d, aircraft %d: %+v, want %v +- %v", s.Slot, i, m, got, mean, sd)
				}
			}
			if slow := Throttled(phones.Data[i]); math.Abs(b.Users[i].Uncertainty.SlowProbability-slow) > 1e-5 {
				t.Fatalf("slot %d, user %d: %+v, want %v", s.Slot, i, b.Users[i].Uncertainty, slow)
			}
		}
	}
	n, all := cap(e.networks.Links.Keys.Data), cap(networks.Links.Keys.Data)
	if n == 0 || 2*n > all {
		t.Errorf("the estimator's networks have %d numbers of keys, those that hear all users at once %d", n, all)
	}
}

func TestSteadySlotsDoNotAllocate(t *testing.T) {
	c := field()
	snapshots := flight(c, 99_964, 60)
	e := New(surroundings(&c), random(20))
	believe(e, snapshots)
	e.Reset()
	var b belief.Belief
	k := 0
	next := func() {
		s := &snapshots[k%len(snapshots)]
		if k++; s.Slot == 0 {
			e.Reset()
		}
		b.Resize(s)
		e.Estimate(s, &b)
	}
	for range 60 {
		next()
	}
	if n := testing.AllocsPerRun(120, next); n > 0 {
		t.Errorf("%v allocations a slot", n)
	}
}

func TestParametersFile(t *testing.T) {
	var file bytes.Buffer
	p := random(20)
	if err := p.Write(&file); err != nil {
		t.Fatal(err)
	}
	raw := file.Bytes()
	q, err := Read(bytes.NewReader(raw))
	if err != nil || q.Window != 20 || !slices.Equal(q.Data, p.Data) {
		t.Errorf("read back: %v", err)
	}
	for name, bad := range map[string][]byte{
		"empty": nil, "short": raw[:100], "long": append(slices.Clone(raw), 0), "magic": append([]byte("PREFDTB2"), raw[8:]...),
		"window": append(append(slices.Clone(raw[:8]), 0, 0, 0, 0), raw[12:]...),
		"NaN":    append(slices.Clone(raw[:len(raw)-4]), 0, 0, 0xc0, 0x7f),
	} {
		if _, err := Read(bytes.NewReader(bad)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// BenchmarkEstimate times a slot of a full memory: its cost grows with users times aircraft.
func BenchmarkEstimate(b *testing.B) {
	for _, users := range []int{10, 50, 1000} {
		b.Run(fmt.Sprintf("users=%d", users), func(b *testing.B) {
			c := field()
			c.Users, c.ActiveMin, c.ActiveMax = users, users, users
			snapshots := flight(c, 99_965, 100)
			e := New(surroundings(&c), random(40))
			var believed belief.Belief
			estimate := func(s *slot.Snapshot) {
				believed.Resize(s)
				e.Estimate(s, &believed)
			}
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				e.Reset()
				for i := range snapshots[:60] {
					estimate(&snapshots[i])
				}
				b.StartTimer()
				for i := range snapshots[60:] {
					estimate(&snapshots[60+i])
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/40, "ns/slot")
		})
	}
}
