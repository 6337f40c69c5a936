package world

import (
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"prefdt/inference/physics"
	"prefdt/inference/slot"
)

// What these worlds gave before they had the elements of field worlds, to the last
// bit on the processor that recorded it: each of those is off by its zero value.
func TestElementsOffAreExact(t *testing.T) {
	for _, c := range []struct {
		name          string
		set           func(*Config)
		seed          uint64
		delay, energy uint64 // bits of the sums over the episode
		tasks         int
	}{
		{"standard", func(*Config) {}, 7, 0x4062568c1b139fcb, 0x40e2167310694882, 580},
		{"standard", func(*Config) {}, 99_950, 0x4060694351e42e10, 0x40e24013deb59c3f, 554},
		{"contention, three in gusts", inGusts, 7, 0x4078e7721642d418, 0x40f0425aa37a9a67, 580},
		{"contention, three in gusts", inGusts, 99_950, 0x406842f3845299e3, 0x40f03e0fd266db4f, 554},
		{"demand, loss", moreDemand, 7, 0x408a79604d80902b, 0x40d732e51521dfe2, 1199},
		{"demand, loss", moreDemand, 99_950, 0x40873c53a5990fff, 0x40d6f903c5a4cb64, 1137},
	} {
		w := Standard()
		c.set(&w)
		delay, energy, tasks := runEpisode(w, c.seed, offloadAll)
		exact := runtime.GOARCH == "amd64" // elsewhere the mathematical functions differ in the last bit
		for _, x := range [][2]float64{{delay, math.Float64frombits(c.delay)}, {energy, math.Float64frombits(c.energy)}} {
			if tasks != c.tasks || exact && x[0] != x[1] || math.Abs(x[0]/x[1]-1) > 1e-9 {
				t.Errorf("%s, seed %d: %v s, %v J, %d tasks; recorded %v s, %v J, %d", c.name, c.seed, delay, energy, tasks,
					math.Float64frombits(c.delay), math.Float64frombits(c.energy), c.tasks)
				break
			}
		}
	}
}

func inGusts(c *Config) {
	c.Physics.Contention, c.Aircraft, c.Gust, c.Shock = true, 3, 0.1, Shock{50, 1.3}
}

func moreDemand(c *Config) {
	c.Demand, c.AircraftLosses = Shock{30, 2.5}, []AircraftLoss{{0, 40}}
}

func namedWorld(t *testing.T, name string) Config {
	t.Helper()
	c, err := Named(name)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// allLocalDelayS returns the mean delay of the first n seeds' episodes, penalties included, in which
// every user computes its tasks itself at the speed its CPU really has. What changes nothing of tasks and CPUs,
// as TestFieldReferences checks on a few seeds, is not drawn.
func allLocalDelayS(c Config, n int) (mean float64) {
	c.Wind, c.Payload, c.SkylineDeg, c.ShadowingDeg = Wind{}, Payload{}, 0, 0
	return drawnAllLocalDelayS(c, n)
}

// drawnAllLocalDelayS draws all of a world.
func drawnAllLocalDelayS(c Config, n int) (mean float64) {
	var s Scenario
	var active []Arrival
	for seed := range n {
		s.Reset(&c, uint64(seed))
		for slot := range c.Slots {
			active = s.Active(slot, active[:0])
			for _, a := range active {
				if a.Task.Bits > 0 {
					mean += c.Physics.PenalizedDelayS(a.Task, a.Task.LocalTimeS(s.CPUHz(slot, a.User))) / float64(n)
				}
			}
		}
	}
	return mean
}

// A field world's reference is what its episodes take; 0.01 s is the committed rounding.
func TestFieldReferences(t *testing.T) {
	if _, err := Named("space"); err == nil || !strings.Contains(err.Error(), "gusts, canyon") {
		t.Errorf("an unknown name: %v", err)
	}
	for _, name := range Names() {
		c := namedWorld(t, name)
		if err := c.Check(); err != nil {
			t.Error(err)
		}
		c.Aircraft, c.Shock = 3, Shock{FromSlot: 50, Factor: 1.2}
		r, isField := c.FieldReference()
		if isField != (name != "standard" && !slices.Contains(OutsideNames(), name)) {
			t.Errorf("%s: a field world is %v", name, isField)
		}
		if !isField {
			continue
		}
		delay := allLocalDelayS(c, 1000)
		floor := map[int]float64{100: 26.88e3, 200: 53.77e3}[c.Slots] * 1.5 // two aircraft at 134.4 W
		t.Logf("%s: %.2f s", name, delay)
		if few, drawn := allLocalDelayS(c, 20), drawnAllLocalDelayS(c, 20); few != drawn {
			t.Errorf("%s: %v s where all of it is drawn, %v s without what is hidden of links and flight", name, drawn, few)
		}
		if math.Abs(delay-r.AllLocalS) > 0.01 || math.Abs(r.CalmJ/floor-1) > 1e-3 {
			t.Errorf("%s: reference %+v, computed %v s and %v J", name, r, delay, floor)
		}
		c.Sounding = !c.Sounding
		if _, isField := c.FieldReference(); isField {
			t.Errorf("%s: another world passes for it", name)
		}
	}
}

// The worlds without hidden state that no training draws differ from the standard one by what they are named for, and by nothing else.
func TestOutsideWorlds(t *testing.T) {
	standard := Standard()
	keys := map[string][]string{"clusters": {"groups."}, "bursts": {"active_memory"}, "traffic": {"walking."},
		"foliage": {"path_loss_exponent"}}
	for _, name := range OutsideNames() {
		c := namedWorld(t, name)
		if c.HidesState() {
			t.Errorf("%s hides state", name)
		}
		for _, difference := range standard.Differences(c) {
			if !slices.ContainsFunc(keys[name], func(key string) bool { return strings.HasPrefix(difference, key) }) {
				t.Errorf("%s: %s", name, difference)
			}
		}
		delete(keys, name)
	}
	if len(keys) > 0 {
		t.Errorf("no world for %v", keys)
	}
	tasks := func(name string) (n float64) {
		c := namedWorld(t, name)
		for seed := range uint64(200) {
			s := NewScenario(&c, seed)
			for slot := range c.Slots {
				for _, a := range s.Active(slot, nil) {
					if a.Task.Bits > 0 {
						n += 1.0 / 200
					}
				}
			}
		}
		return n
	}
	for _, name := range OutsideNames() { // 540 in the mean
		if n := tasks(name); math.Abs(n-540) > 12 {
			t.Errorf("%s has %.1f tasks in an episode", name, n)
		}
	}
}

// The users of a slot are those of the one before with the probability that is set, whichever slot is asked for first.
func TestActiveMemory(t *testing.T) {
	c := namedWorld(t, "bursts")
	users := func(s *Scenario, slot int) (list []int) {
		for _, a := range s.Active(slot, nil) {
			list = append(list, a.User)
		}
		return list
	}
	same, all := 0.0, 0.0
	for seed := range uint64(100) {
		s := NewScenario(&c, seed)
		last := users(s, c.Slots-1)
		for slot := 1; slot < c.Slots; slot++ {
			if all++; slices.Equal(users(s, slot), users(s, slot-1)) {
				same++
			}
		}
		if !slices.Equal(last, users(s, c.Slots-1)) {
			t.Errorf("seed %d: the last slot differs by what was asked for before", seed)
		}
	}
	if math.Abs(same/all-0.9) > 0.01 {
		t.Errorf("the users stay in %.3f of the slots, want 0.9", same/all)
	}
}

// A path loss of exponent 2.3 takes 3 dB more in each decade of distance.
func TestPathLossExponent(t *testing.T) {
	free, c := Standard(), namedWorld(t, "foliage")
	a, b := NewScenario(&free, 3), NewScenario(&c, 3)
	for slot := range 50 {
		toAircraft := physics.Position{EastM: 17 * float64(slot)}
		_, x := a.Gain(slot, 2, 1, toAircraft)
		_, y := b.Gain(slot, 2, 1, toAircraft)
		want := -3 * math.Log10(math.Hypot(toAircraft.EastM, c.Physics.AltitudeM))
		if db := 10 * math.Log10(y/x); math.Abs(db-want) > 1e-9 {
			t.Errorf("at %v m the gain is %v dB less, want %v", toAircraft.EastM, -db, -want)
		}
	}
}

// The skyline persists, and leaves the probability of line of sight at each distance
// as it is: correlations of the field at two azimuths are those of the definition.
func TestSkyline(t *testing.T) {
	c := namedWorld(t, "canyon")
	channel := &c.Physics.Channel
	channel.LoS.ShadowDB, channel.NLoS.ShadowDB, channel.LoS.NakagamiM, channel.NLoS.NakagamiM = 0, 0, 64, 64
	c.Users = 50
	const seeds = 400
	var s Scenario
	// Users of a seed, and seeds, are independent: 20,000 fields.
	distances := []float64{20, 60, 150, 400}
	inSight, lags := make([]float64, len(distances)), []float64{0, 15, 30, 60, 120, 180}
	products := make([]float64, len(lags))
	for seed := range uint64(seeds) {
		s.Reset(&c, seed)
		for u := range c.Users {
			for i, d := range distances {
				_, upload := s.Gain(int(seed)%c.Slots, u, 0, physics.Position{EastM: d * 0.6, NorthM: -d * 0.8})
				free := channel.FreeSpaceGain(d, c.Physics.AltitudeM)
				clear := upload > free*math.Pow(10, -1.5) // 2.3 dB of excess, not 34
				if clear {
					inSight[i]++
				}
				probit := math.Sqrt2 * math.Erfinv(2*channel.LoSProbability(d, c.Physics.AltitudeM)-1)
				if field := s.sight.at(u, -0.8, 0.6); clear != (field < probit) {
					t.Fatalf("at %v m, in sight is %v: the field is %v, probit %v", d, clear, field, probit)
				}
			}
			at := func(degrees float64) float64 {
				sin, cos := math.Sincos(degrees * math.Pi / 180)
				return s.sight.at(u, sin, cos)
			}
			for i, lag := range lags {
				products[i] += at(70) * at(70+lag)
			}
		}
	}
	n := float64(seeds * c.Users)
	for i, d := range distances {
		want := channel.LoSProbability(d, c.Physics.AltitudeM)
		if got := inSight[i] / n; math.Abs(got-want) > 4*math.Sqrt(want*(1-want)/n) {
			t.Errorf("in sight at %v m: %.4f, want %.4f", d, got, want)
		}
	}
	sum := 1.0
	for k := 1.0; k <= 8; k++ {
		sum += 2 * math.Exp(-k*k*math.Pow(math.Pi/6, 2)/2)
	}
	for i, lag := range lags {
		want := 1 / sum
		for k := 1.0; k <= 8; k++ {
			want += 2 * math.Exp(-k*k*math.Pow(math.Pi/6, 2)/2) / sum * math.Cos(k*lag*math.Pi/180)
		}
		if got := products[i] / n; math.Abs(got-want) > 4*math.Sqrt((1+want*want)/n) {
			t.Errorf("correlation over %v degrees: %.4f, want %.4f", lag, got, want)
		}
	}
}

// Users who stand keep what surrounds them; those who walk lose it with the metres.
func TestSurroundingsChangeWithMetres(t *testing.T) {
	c := namedWorld(t, "field")
	var s Scenario
	var product, metres, square, n float64
	for seed := range uint64(100) {
		s.Reset(&c, seed)
		for u := range c.Users {
			sum, way := 0.0, 0.0
			for slot := 1; slot <= 30; slot++ {
				way += s.UserPosition(slot, u).Sub(s.UserPosition(slot-1, u)).Norm()
			}
			for k := range 12 {
				sin, cos := math.Sincos(float64(k) * math.Pi / 6)
				before, after := s.shadow.at(u, sin, cos), s.shadow.at(30*c.Users+u, sin, cos)
				sum += before * after / 12
				square += after * after / 12
			}
			product, metres, n = product+sum, metres+math.Exp(-way/50), n+1
		}
	}
	if got, want := product/n, metres/n; math.Abs(got-want) > 0.06 { // 1,000 users, about seven independent azimuths each
		t.Errorf("after 30 slots the shadowing is correlated by %.3f, want %.3f", got, want)
	}
	if math.Abs(square/n-1) > 0.07 {
		t.Errorf("after 30 slots the variance of shadowing is %.3f of the one before", square/n)
	}
	c.Walking = Walking{}
	s.Reset(&c, 1)
	if s.fieldRows != 1 || s.UserPosition(0, 3) != s.UserPosition(99, 3) {
		t.Error("users that stand move")
	}
}

// Between a user that stands and an aircraft that hovers an upload runs at the same
// gain in every slot, and what is reported is that with the fading of one sample.
func TestSounding(t *testing.T) {
	c := namedWorld(t, "canyon")
	c.Users, c.Slots = 100, 1000
	s := NewScenario(&c, 8)
	logs, samples := 0.0, 0.0
	for u := range c.Users {
		to := physics.Position{EastM: 30, NorthM: 90}
		_, first := s.Gain(0, u, 0, to)
		for slot := range c.Slots {
			reported, upload := s.Gain(slot, u, 0, to)
			if upload != first {
				t.Fatalf("user %d uploads at %v, and at %v in slot %d", u, first, upload, slot)
			}
			logs += math.Log(reported / upload)
			samples++
		}
	}
	// The logarithm of Nakagami fading of m = 1 has a standard deviation of 1.28.
	if mean := logs / samples; math.Abs(mean) > 4*1.28/math.Sqrt(samples) {
		t.Errorf("the mean logarithm of reports over uploads is %v", mean)
	}
}

func TestThrottling(t *testing.T) {
	c := namedWorld(t, "phones")
	c.Slots, c.Users = 1000, 100
	s := NewScenario(&c, 5)
	counts, spells := [2]float64{}, [2]float64{} // off, on
	atStart, logSpeeds := 0.0, 0.0
	for u := range c.Users {
		logSpeeds += math.Log(s.ReportedCPUHz(u)) / float64(c.Users)
		for slot := range c.Slots {
			state := 0
			if s.Throttled(slot, u) {
				state = 1
			}
			if want := s.ReportedCPUHz(u) * []float64{1, 0.45}[state]; s.CPUHz(slot, u) != want {
				t.Fatalf("user %d, slot %d: %v Hz, want %v", u, slot, s.CPUHz(slot, u), want)
			}
			counts[state]++
			if slot == 0 {
				atStart += float64(state)
			}
			if slot > 0 && s.Throttled(slot-1, u) != (state == 1) {
				spells[state]++
			}
		}
	}
	// Some 1,330 spells of either state: five standard errors of a geometric mean.
	for state, want := range []float64{45, 30} {
		if got := counts[state] / spells[state]; math.Abs(got/want-1) > 0.15 {
			t.Errorf("state %d lasts %.1f slots, want %v", state, got, want)
		}
	}
	if duty := counts[1] / (counts[0] + counts[1]); math.Abs(duty-0.4) > 0.04 || math.Abs(atStart/100-0.4) > 0.2 {
		t.Errorf("throttled %.3f of the time, %v of 100 at the start, want 0.4", duty, atStart)
	}
	if want := math.Log(0.7e9)/2 + math.Log(2.8e9)/2; math.Abs(logSpeeds-want) > 0.16 { // sd 0.4 of one
		t.Errorf("mean logarithm of the speeds is %v, want %v", logSpeeds, want)
	}
}

func TestWindIsStationary(t *testing.T) {
	c := namedWorld(t, "gusts")
	calm := c
	calm.Wind.TurbulenceMPS = 0
	const seeds = 2000
	var s, still Scenario
	var mean, factor float64
	var turbulence, next, turn float64
	for seed := range uint64(seeds) {
		s.Reset(&c, seed)
		calm.Wind.TurnRad = 0
		still.Reset(&calm, seed) // the same mean wind, before it turns
		mean += still.WindMPS(0).Norm() / seeds
		factor += s.PowerFactor(0) / seeds
		gust := s.WindMPS(0).Sub(still.WindMPS(0))
		turbulence += gust.Dot(gust) / (2 * seeds)
		straight := c // without turning, what is not the mean is turbulence
		straight.Wind.TurnRad = 0
		s.Reset(&straight, seed)
		a, b := s.WindMPS(98).Sub(still.WindMPS(98)), s.WindMPS(99).Sub(still.WindMPS(99))
		next += a.Dot(b) / (2 * seeds)
		calm.Wind.TurnRad = 0.01
		still.Reset(&calm, seed)
		x, y := still.WindMPS(0), still.WindMPS(99)
		angle := math.Acos(min(x.Dot(y)/(x.Norm()*y.Norm()), 1))
		turn += angle * angle / seeds
	}
	for _, x := range []struct {
		what             string
		got, want, error float64 // four standard errors
	}{
		{"mean wind", mean, 6.5, 0.18},
		{"payload", factor, 1.05, 0.013},
		{"variance of turbulence at the start", turbulence, 1, 0.09},
		{"covariance of turbulence at the end", next, 0.96, 0.09},
		{"squared turn in 99 slots", turn, 0.0099, 0.0013},
	} {
		if math.Abs(x.got-x.want) > x.error {
			t.Errorf("%s: %.4f, want %.4f", x.what, x.got, x.want)
		}
	}
}

func TestGroups(t *testing.T) {
	c := namedWorld(t, "crowd")
	var s Scenario
	changes, hotTasks, otherTasks, hotUsers, otherUsers, spread, samples := 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
	var active []Arrival
	const seeds = 100
	for seed := range uint64(seeds) {
		s.Reset(&c, seed)
		for n := range c.Slots {
			if n > 0 && s.hotGroups[n] != s.hotGroups[n-1] {
				changes++
			}
			active = s.Active(n, active[:0])
			if len(active) != c.Users {
				t.Fatalf("%d of %d users are active", len(active), c.Users)
			}
			for _, a := range active {
				tasks, users := &otherTasks, &otherUsers
				if a.User%3 == s.hotGroups[n] {
					tasks, users = &hotTasks, &hotUsers
				}
				*users++
				if a.Task.Bits > 0 {
					*tasks++
				}
				at := s.UserPosition(n, a.User)
				if at != at.ClampToArea(c.Physics.AreaSideM) {
					t.Fatalf("user %d is at %v", a.User, at)
				}
			}
		}
		for u := range c.Users { // before they walk; at most 10 % of the area from its edge a clamp is rare
			d := s.UserPosition(0, u).Sub(s.groupCentres[u%3])
			spread, samples = spread+d.Dot(d)/2, samples+1
		}
	}
	for _, x := range []struct {
		what             string
		got, want, error float64
	}{
		{"changes a slot", changes / (seeds * 199), 1.0 / 40, 0.005},
		{"tasks in the hot group", hotTasks / hotUsers, 0.95, 0.005},
		{"tasks elsewhere", otherTasks / otherUsers, 0.12, 0.005},
		{"spread", math.Sqrt(spread / samples), 80, 6},
	} {
		if math.Abs(x.got-x.want) > x.error {
			t.Errorf("%s: %.4f, want %.4f", x.what, x.got, x.want)
		}
	}
}

// Whatever the decisions, and in whatever order worlds are flown in the same memory,
// users, tasks, speeds and wind are those of the seed, and two flights that hold the
// aircraft in the same places have the same gains.
func TestAScenarioIsItsSeeds(t *testing.T) {
	for _, name := range Names() {
		c := namedWorld(t, name)
		a, b := New(c, 12), New(c, 99) // b has flown something else
		for range 5 {
			b.Step(offloadAll(b))
		}
		b.Reset(12)
		var x, y Hidden
		var s, r slot.Snapshot
		for !a.Done() {
			a.Hidden(&x)
			b.Hidden(&y)
			a.Snapshot(&s)
			b.Snapshot(&r)
			if x.WindMPS != y.WindMPS || x.PowerFactor != y.PowerFactor || len(s.Users) != len(r.Users) ||
				len(s.IdleUsers) != len(r.IdleUsers) {
				t.Fatalf("%s, slot %d: %+v and %+v", name, a.Slot, x, y)
			}
			for u := range a.Users {
				if a.Users[u] != b.Users[u] || x.CPUHz[u] != y.CPUHz[u] || x.Throttled[u] != y.Throttled[u] {
					t.Fatalf("%s, slot %d: user %d differs", name, a.Slot, u)
				}
			}
			for i, u := range s.Users {
				if u.Task != r.Users[i].Task || u.Gain[0] != r.Users[i].Gain[0] || x.UploadGain[i][0] != y.UploadGain[i][0] {
					t.Fatalf("%s, slot %d: task %d differs", name, a.Slot, i)
				}
			}
			hover, serve := localAction(a, 0), localAction(b, 0)
			for i := range serve.Server {
				serve.Server[i], serve.Offload[i] = 1, 0.7
			}
			serve.Move[1] = physics.Position{EastM: 20, NorthM: -3} // gains to the first are compared
			a.Step(hover)
			b.Step(serve)
		}
	}
}

// A slot settles by the truth, of which the snapshot after it shows what was timed; of
// tasks that took longer than a slot the one after that, and of longer ones none.
func TestSettlesByTheTruth(t *testing.T) {
	c := namedWorld(t, "field")
	w := New(c, 4)
	var s slot.Snapshot
	var h Hidden
	throttled, uploads, late := 0, 0, 0
	for !w.Done() {
		w.Snapshot(&s)
		w.Hidden(&h)
		slow := 0 // tasks that take longer than a slot
		a := offloadAll(w)
		served := []int{0, 0}
		for _, m := range a.Server {
			served[m-1]++
		}
		from := []physics.Position{w.Aircraft[0].Position, w.Aircraft[1].Position}
		noise := func(m int) float64 { // the slot's, by what flight took
			d := newStream(4, purposeGust, s.Slot, 0, m)
			return 1 + 0.05*d.normal()
		}
		o := w.Step(a)
		delay := 0.0
		for i, u := range s.Users {
			m := a.Server[i] - 1
			share := c.Physics.EqualShare(h.UploadGain[i][m], c.Physics.EdgeCPUHz, float64(served[m]))
			completion := physics.CompletionS(u.Task.LocalTimeS(h.CPUHz[u.ID]), u.Task.OffloadTimeS(share), 0.8)
			delay += c.Physics.PenalizedDelayS(u.Task, completion)
			if completion > 1 {
				slow++
			}
			if h.Throttled[u.ID] {
				throttled++
				if math.Abs(h.CPUHz[u.ID]/u.CPUHz-0.45) > 1e-12 {
					t.Fatalf("a throttled CPU has %v of %v Hz", h.CPUHz[u.ID], u.CPUHz)
				}
			}
		}
		if math.Abs(o.DelayS-delay) > 1e-9 {
			t.Fatalf("slot %d took %v s, by the truth %v", s.Slot, o.DelayS, delay)
		}
		for m := range from {
			air := w.Aircraft[m].Position.Sub(from[m]).Sub(h.WindMPS).Norm()
			if want := c.Physics.Propulsion.PowerW(air) * h.PowerFactor * noise(m); math.Abs(o.FlightJ[m]/want-1) > 1e-9 {
				t.Fatalf("slot %d: flight of %d took %v J, want %v", s.Slot, m, o.FlightJ[m], want)
			}
		}
		var after slot.Snapshot
		w.Snapshot(&after)
		if f := after.Aircraft[1].Flown; f.FlightJ != o.FlightJ[1] || f.EastMPS != w.Aircraft[1].Position.EastM-from[1].EastM {
			t.Fatalf("slot %d: flown %+v", s.Slot, f)
		}
		shown := 0
		for _, r := range after.Results {
			if r.CompletionS > 2 || (r.CompletionS > 1) != (r.Slot < s.Slot) {
				t.Fatalf("after slot %d: result %+v", s.Slot, r)
			}
			if r.Slot < s.Slot {
				late++
				continue
			}
			shown++
			i := slices.IndexFunc(s.Users, func(u slot.User) bool { return u.ID == r.User })
			u := s.Users[i]
			if r.User != u.ID || r.Slot != s.Slot || r.Aircraft != a.Server[i] || r.Upload.User != u.Position ||
				r.Upload.Aircraft != from[r.Aircraft-1] {
				t.Fatalf("slot %d: result %+v of %+v", s.Slot, r, u)
			}
			if g := r.Upload.Gain(&c.Physics.Channel); math.Abs(g/h.UploadGain[i][r.Aircraft-1]-1) > 1e-6 {
				t.Fatalf("slot %d: the upload's time says a gain of %v, it ran at %v", s.Slot, g, h.UploadGain[i][r.Aircraft-1])
			}
			if hz := r.LocalCycles / r.LocalS; math.Abs(hz/h.CPUHz[u.ID]-1) > 1e-9 {
				t.Fatalf("slot %d: the local part says %v Hz, it was %v", s.Slot, hz, h.CPUHz[u.ID])
			}
			uploads++
		}
		if shown+slow != len(s.Users) {
			t.Fatalf("slot %d: %d results of %d tasks, of which %d are slow", s.Slot, shown, len(s.Users), slow)
		}
	}
	if throttled == 0 || uploads < 200 || late == 0 {
		t.Errorf("%d throttled users, %d uploads and %d late results in an episode", throttled, uploads, late)
	}
}

// Where nothing is hidden a result says what it always said.
func TestResultsOfTheStandardWorld(t *testing.T) {
	w := New(Standard(), 4)
	var s slot.Snapshot
	w.Step(offloadAll(w))
	w.Snapshot(&s)
	if len(s.Results) == 0 || s.Results[0].CompletionS <= 0 || s.Results[0].LocalS != 0 || s.Results[0].Upload != (slot.Upload{}) {
		t.Errorf("results %+v", s.Results)
	}
	for range 20 {
		w.Step(offloadAll(w))
		if w.Snapshot(&s); len(s.IdleUsers) > 0 {
			break
		}
	}
	if len(s.IdleUsers) == 0 || s.IdleUsers[0].Task != (physics.Task{}) || len(s.IdleUsers[0].Gain) != 2 || !(s.IdleUsers[0].Gain[0] > 0) {
		t.Errorf("idle users %+v", s.IdleUsers)
	}
}

// One episode after another is drawn in the same memory.
func TestScenarioReusesMemory(t *testing.T) {
	c := namedWorld(t, "field")
	s := NewScenario(&c, 0)
	seed := uint64(0)
	if n := testing.AllocsPerRun(5, func() { seed++; s.Reset(&c, seed) }); n > 0 {
		t.Errorf("%v allocations a scenario", n)
	}
}

func TestElementsAreChecked(t *testing.T) {
	for key, spoil := range map[string]func(*Config){
		"wind.mean_min_mps":         func(c *Config) { c.Wind.MeanMinMPS = 11 },
		"wind.mean_max_mps":         func(c *Config) { c.Wind.MeanMaxMPS = math.Inf(1) },
		"wind.turn_rad":             func(c *Config) { c.Wind.TurnRad = -1 },
		"wind.turbulence_mps":       func(c *Config) { c.Wind.TurbulenceMPS = math.NaN() },
		"wind.turbulence_memory":    func(c *Config) { c.Wind.TurbulenceMemory = 1.1 },
		"payload.factor_min":        func(c *Config) { c.Payload.FactorMin = 0 },
		"payload.factor_max":        func(c *Config) { c.Payload.FactorMax = 11 },
		"skyline_deg":               func(c *Config) { c.SkylineDeg = 1 },
		"shadowing_deg":             func(c *Config) { c.ShadowingDeg = -30 },
		"user_cpu_min_hz":           func(c *Config) { c.UserCPUMinHz = 0 },
		"user_cpu_max_hz":           func(c *Config) { c.UserCPUMaxHz = 1e14 },
		"throttling.factor":         func(c *Config) { c.Throttling.Factor = 2 },
		"throttling.mean_on_s":      func(c *Config) { c.Throttling.MeanOnS = 0 },
		"throttling.mean_off_s":     func(c *Config) { c.Throttling.MeanOffS = 0.5 },
		"walking.speed_sd_mps":      func(c *Config) { c.Walking.SpeedSDMPS = -1 },
		"walking.memory":            func(c *Config) { c.Walking.Memory = 2 },
		"groups.count":              func(c *Config) { c.Groups.Count = -1 },
		"groups.change_probability": func(c *Config) { c.Groups.ChangeProbability = 2 },
		"users x slots at most":     func(c *Config) { c.Slots = 50_000 },
		"groups.hot_task_probab":    func(c *Config) { c.Groups.HotTaskProbability = -0.1 },
		"groups.other_task_probab":  func(c *Config) { c.Groups.OtherTaskProbability = math.NaN() },
		"groups.spread_m":           func(c *Config) { c.Groups.SpreadM = -1 },
		"groups.speed_mps is":       func(c *Config) { c.Groups.SpeedMPS = 1e3 },
		"groups.speed_sd_mps":       func(c *Config) { c.Groups.SpeedSDMPS = 1e3 },
		"groups.memory":             func(c *Config) { c.Groups.Memory = -1 },
	} {
		c := namedWorld(t, "field")
		spoil(&c)
		if err := c.Check(); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v", key, err)
		}
	}
}

// BenchmarkScenario draws an episode of the world with the most elements.
func BenchmarkScenario(b *testing.B) {
	c, _ := Named("field")
	s := NewScenario(&c, 0)
	for i := range b.N {
		s.Reset(&c, uint64(i))
	}
}
