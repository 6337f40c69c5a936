package energy

import (
	"math"
	"math/rand/v2"
	"testing"

	"prefdt/inference/physics"
)

func newMeter() *Meter {
	p := physics.DefaultConstants().Propulsion
	return &Meter{CapacityJ: 150e3, PowerW: p.PowerW, MaxPowerW: 3000}
}

func TestAbsentValues(t *testing.T) {
	none := math.MaxUint16
	for name, c := range map[string]struct {
		r    Reading
		want Reading
	}{
		"PX4 SITL":    {FromBatteryStatus([]uint16{16200, uint16(none)}, -100, -1, 97), Reading{math.NaN(), math.NaN(), 16.2, 0.97, 0}},
		"no battery":  {FromBatteryStatus([]uint16{uint16(none)}, -1, -1, -1), Absent()},
		"zero volts":  {FromBatteryStatus([]uint16{0, 0}, 500, 3, 0), Reading{3, 5, math.NaN(), 0, 0}},
		"cells":       {FromBatteryStatus([]uint16{4000, 4100, uint16(none)}, 1000, 0, 100), Reading{0, 10, 8.1, 1, 0}},
		"over 100 %":  {FromBatteryStatus(nil, -1, -1, 101), Absent()},
		"sys absent":  {FromBatteryStatus([]uint16{uint16(none)}, -1, -1, -1), Absent()},
		"sys present": {FromBatteryStatus([]uint16{15000}, 200, -1, 50), Reading{math.NaN(), 2, 15, 0.5, 0}},
	} {
		got := [4]float64{c.r.ConsumedHJ, c.r.CurrentA, c.r.VoltageV, c.r.Charge}
		want := [4]float64{c.want.ConsumedHJ, c.want.CurrentA, c.want.VoltageV, c.want.Charge}
		for i := range got {
			if math.IsNaN(got[i]) != math.IsNaN(want[i]) || math.Abs(got[i]-want[i]) > 1e-9 {
				t.Errorf("%s: field %d is %v, want %v", name, i, got[i], want[i])
			}
		}
	}
}

// TestMeasured: an interval counts as measured if a current ended it, lately.
func TestMeasured(t *testing.T) {
	nan := math.NaN()
	current, none := Reading{nan, 10, 15, nan, 0}, Reading{nan, nan, 15, 0.5, 0}
	for _, c := range []struct {
		name     string
		readings []Reading // four in a second
		ageS     float64
		want     bool
	}{
		{"nothing yet", nil, 0, false},
		{"one", []Reading{current}, 0, false},
		{"two", []Reading{current, current}, 0.5, true},
		{"long ago", []Reading{current, current}, 1.1, false},
		{"no current", []Reading{current, current, none}, 0, false},
		{"the charge alone", []Reading{none, none, none}, 0, false},
	} {
		m, now := newMeter(), 100.0
		m.SetSpeed(now, 8, true)
		for _, r := range c.readings {
			now += 0.25
			m.AddReading(now, r)
		}
		if got := m.Measured(now+c.ageS, 1); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// TestLastReading: a delayed message ends its interval when it was sent.
func TestLastReading(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		name          string
		bootS         float64 // at the first reading; 0: never received
		readS         [3]float64
		wantS, wantAt float64 // between the last two
	}{
		{"by the autopilot's clock", 50, [3]float64{100, 100.25, 100.7}, 0.25, 50.5},
		{"by receipt", 0, [3]float64{100, 100.25, 100.7}, 0.45, 100.7},
	} {
		m := newMeter()
		var totalJ [3]float64
		at := 0.0
		for i, now := range c.readS {
			r := Reading{nan, 10 + float64(i%2)/1000, 15, nan, 0}
			if c.bootS > 0 {
				r.BootS = c.bootS + 0.25*float64(i)
			}
			m.SetSpeed(now, 8, true)
			m.AddReading(now, r)
			k := m.LastReading()
			totalJ[i], at = k.ReadJ, k.ReadS
		}
		if got := totalJ[2] - totalJ[1]; math.Abs(got-150*c.wantS) > 0.01 || math.Abs(at-c.wantAt) > 1e-9 {
			t.Errorf("%s: %v J at %v s, want %v J at %v s", c.name, got, at, 150*c.wantS, c.wantAt)
		}
	}
}

// simulateFlight plays 100 s of a flight whose speed and edge load change, with a
// battery message every half second made by send, and returns the true and the
// metered joules.
func simulateFlight(m *Meter, factor float64, send func(i int, trueJ, powerW float64) (Reading, bool)) (trueJ, gotJ float64) {
	rng := rand.New(rand.NewPCG(1, 2))
	speed, edgeW, lastJ := 8.4, 0.0, 0.0
	for i := range 1000 {
		now := float64(i) / 10
		if i%10 == 0 {
			speed, edgeW = 6+6*rng.Float64(), 60*rng.Float64()
			m.AddEdge(now, edgeW) // one slot's edge energy is known when it is decided
		}
		m.SetSpeed(now, speed, true)
		power := m.PowerW(speed)*factor + edgeW
		if i%5 == 0 {
			if r, ok := send(i, trueJ, (trueJ-lastJ)*2); ok {
				m.AddReading(now, r)
			}
			lastJ = trueJ
		}
		trueJ += power / 10
	}
	return trueJ, m.DrawnJ(100)
}

func TestSourcesAgreeWithTruth(t *testing.T) {
	nan := math.NaN()
	volts := 15.0
	for _, c := range []struct {
		name   string
		factor float64
		worstJ float64
		source Source
		send   func(i int, trueJ, powerW float64) (Reading, bool)
	}{
		{"counter and current", 1, 60, Consumed, func(_ int, j, w float64) (Reading, bool) {
			return Reading{math.Floor(j / 100), math.Round(w/volts*100) / 100, volts, nan, 0}, true
		}},
		{"counter alone", 1, 60, Consumed, func(_ int, j, _ float64) (Reading, bool) {
			return Reading{math.Floor(j / 100), nan, volts, nan, 0}, true
		}},
		{"counter alone, shock", 1.5, 200, Consumed, func(_ int, j, _ float64) (Reading, bool) {
			return Reading{math.Floor(j / 100), nan, volts, nan, 0}, true
		}},
		{"rounded counter", 1, 60, Consumed, func(_ int, j, w float64) (Reading, bool) {
			return Reading{math.Round(j / 100), w / volts, volts, nan, 0}, true
		}},
		{"current", 1.5, 100, Current, func(_ int, _, w float64) (Reading, bool) {
			return Reading{nan, math.Round(w/volts*100) / 100, volts, nan, 0}, true
		}},
		{"charge", 1.5, 1500, Remaining, func(_ int, j, _ float64) (Reading, bool) {
			return Reading{nan, nan, volts, 1 - math.Floor(j/1500)/100, 0}, true
		}},
		{"nothing", 1, 60, Model, func(int, float64, float64) (Reading, bool) { return Absent(), true }},
		{"silence", 1, 60, Model, func(int, float64, float64) (Reading, bool) { return Reading{}, false }},
		{"the counter comes and goes", 1, 100, Consumed, func(i int, j, w float64) (Reading, bool) {
			if i/200%2 == 1 {
				return Reading{nan, w / volts, volts, nan, 0}, true
			}
			return Reading{math.Floor(j / 100), w / volts, volts, nan, 0}, true
		}},
		{"the counter is reset half way", 1, 100, Consumed, func(i int, j, w float64) (Reading, bool) {
			if i >= 500 {
				j -= 8000
			}
			return Reading{math.Max(0, math.Floor(j/100)), w / volts, volts, nan, 0}, true
		}},
		{"a wild count", 1, 150, Consumed, func(i int, j, w float64) (Reading, bool) {
			if i == 300 {
				j = 9e7
			}
			return Reading{math.Floor(j / 100), w / volts, volts, nan, 0}, true
		}},
	} {
		m := newMeter()
		truth, got := simulateFlight(m, c.factor, c.send)
		if math.Abs(got-truth) > c.worstJ {
			t.Errorf("%s: %.1f J, truth %.1f J", c.name, got, truth)
		}
		if m.Source(100) != c.source {
			t.Errorf("%s: source %s, want %s", c.name, m.Source(100), c.source)
		}
	}
}

func TestLostAircraft(t *testing.T) {
	m := newMeter()
	m.AddReading(0, Reading{0, 10, 15, math.NaN(), 0})
	m.SetSpeed(0, 8.4, true)
	if s := m.Source(1); s != Consumed {
		t.Errorf("source %s", s)
	}
	if s := m.Source(5); s != Model {
		t.Errorf("source of an unheard aircraft %s", s)
	}
	at10, at60 := m.DrawnJ(10), m.DrawnJ(60)
	if at60 != at10 {
		t.Errorf("a lost aircraft draws %v J on", at60-at10)
	}
	if want := m.PowerW(0); math.Abs(m.DrawnJ(9)-m.DrawnJ(8)-want) > 1e-9 {
		t.Errorf("unheard, it draws %v W, want hover, %v W", m.DrawnJ(9)-m.DrawnJ(8), want)
	}
}

func TestRestoreReadsDowntime(t *testing.T) {
	m := newMeter()
	for i := range 100 {
		m.AddReading(float64(i)/2, Reading{float64(i), 13.33, 15, math.NaN(), 0})
	}
	s := m.State(49.5)
	again := newMeter()
	again.Restore(1000, s, math.NaN())
	again.AddReading(1000, Reading{180, 13.33, 15, math.NaN(), 0})
	if got := again.DrawnJ(1000) - s.SpentJ; math.Abs(got-8100) > 200 {
		t.Errorf("81 counts later: %v J", got)
	}
	reset := newMeter()
	reset.Restore(1000, s, math.NaN())
	reset.AddReading(1000, Reading{2, 13.33, 15, math.NaN(), 0})
	if got := reset.DrawnJ(1000) - s.SpentJ; got != 0 {
		t.Errorf("a reset while away moved the figure by %v J", got)
	}
}

// The sources hand over to one another in flight, each way, and the total stays within
// the meter's own uncertainty.
func TestHandOverMidFlight(t *testing.T) {
	nan := math.NaN()
	const volts = 15.0
	full := func(j, w float64) Reading {
		return Reading{math.Floor(j / 100), math.Round(w/volts*100) / 100, volts, 1 - math.Floor(j/1500)/100, 0}
	}
	without := map[Source]func(Reading) Reading{
		Consumed:  func(r Reading) Reading { return r },
		Current:   func(r Reading) Reading { r.ConsumedHJ = nan; return r },
		Remaining: func(r Reading) Reading { r.ConsumedHJ, r.CurrentA = nan, nan; return r },
		Model:     func(Reading) Reading { return Absent() },
	}
	all := []Source{Consumed, Current, Remaining, Model}
	for _, first := range all {
		for _, second := range all {
			m := newMeter()
			last, worst := 0.0, 0.0
			truth, got := simulateFlight(m, 1.1, func(i int, j, w float64) (Reading, bool) {
				s := first
				if i >= 300 && i < 700 {
					s = second
				}
				now := float64(i) / 10
				if i%100 == 95 && m.Source(now) != s {
					t.Errorf("%s, %s: slot %d from %s", first, second, i/10, m.Source(now))
				}
				if at := m.DrawnJ(now); at < last-1501 {
					t.Errorf("%s, %s: fell from %v to %v J", first, second, last, at)
				} else {
					last = at
				}
				// Between two messages power may change by some 200 W.
				worst = max(worst, math.Abs(m.DrawnJ(now)-j)-m.UncertaintyJ(now)-100)
				return without[s](full(j, w)), true
			})
			if worst > 0 {
				t.Errorf("%s, %s: off by %.0f J more than the meter states", first, second, worst)
			}
			if off := math.Abs(got - truth); off > m.UncertaintyJ(100) {
				t.Errorf("%s, %s: %.0f J off at the end, uncertainty %.0f J", first, second, off, m.UncertaintyJ(100))
			}
			if u := m.UncertaintyJ(100); first == Consumed && second == Consumed && u > 350 || u < 1 {
				t.Errorf("%s, %s: uncertainty %.0f J", first, second, u)
			}
		}
	}
}

// A battery that reports a full charge again does not reduce the total.
func TestResetsAreNeverCredited(t *testing.T) {
	nan := math.NaN()
	for name, send := range map[string]func(i int, j float64) Reading{
		"100 % on disarm": func(i int, j float64) Reading {
			if i >= 600 {
				j -= 10500
			}
			return Reading{nan, nan, 15, 1 - math.Floor(j/1500)/100, 0}
		},
		"counter wraps at 16 bits": func(_ int, j float64) Reading {
			return Reading{math.Mod(math.Floor(j/100)+65500, 65536), nan, 15, nan, 0}
		},
		"battery swapped": func(i int, j float64) Reading {
			if i >= 500 {
				j -= 8000
			}
			return Reading{math.Max(math.Floor(j/100), 0), nan, 15, 1 - math.Floor(math.Max(j, 0)/1500)/100, 0}
		},
	} {
		m := newMeter()
		last := 0.0
		truth, got := simulateFlight(m, 1, func(i int, j, _ float64) (Reading, bool) {
			at := m.DrawnJ(float64(i) / 10)
			if at < last-200 {
				t.Errorf("%s: %v J were given back", name, last-at)
			}
			last = at
			return send(i, j), true
		})
		if math.Abs(got-truth) > max(200, m.UncertaintyJ(100)) {
			t.Errorf("%s: %.0f J, truth %.0f J, uncertainty %.0f", name, got, truth, m.UncertaintyJ(100))
		}
	}
}
