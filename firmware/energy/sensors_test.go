package energy

import (
	"math"
	"testing"
)

// sentReading is a reading of 15 V with the counter of what was drawn.
func sentReading(drawnJ, powerW, bootS float64) Reading {
	return Reading{ConsumedHJ: math.Floor(drawnJ / 100), CurrentA: math.Round(100*powerW/15) / 100, VoltageV: 15 + math.Mod(bootS, 1)/100,
		Charge: math.NaN(), BootS: bootS}
}

// A monitor that repeats its counter and its current unchanged for 30 s, at more or less
// power than the true one: meanwhile the model counts and is named, and afterwards the
// counter's joules, none lost and none twice.
func TestFrozenBattery(t *testing.T) {
	for _, everyS := range []float64{0.25, 0.5, 3} {
		for _, c := range []struct{ frozenW, trueW float64 }{{100, 140}, {180, 140}, {134, 134}, {134, 260}} {
			m, drawn, frozen := newMeter(), 0.0, Reading{}
			m.SetFactor(0, 140/m.PowerW(8.4))
			next := 0.0
			for i := range 1800 {
				now := float64(i) / 20
				if i > 0 {
					w := c.frozenW
					if now > 30 {
						w = c.trueW
					}
					drawn += w / 20
				}
				m.SetSpeed(now, 8.4, true)
				if now < next {
					continue
				}
				next += everyS
				r := sentReading(drawn, c.frozenW, 50+now)
				switch {
				case now <= 30:
					frozen = r
				case now < 60:
					r = frozen
					r.BootS = 50 + now
				default:
					r = sentReading(drawn, c.trueW, 50+now)
				}
				m.AddReading(now, r)
				if now > 30+2*heldMaxS && now < 60 && m.Source(now) != Model {
					t.Fatalf("every %v s, %+v: at %.1f s from %s", everyS, c, now, m.Source(now))
				}
			}
			if got := m.DrawnJ(89.95); math.Abs(got-drawn) > 100 || m.Source(89.95) != Consumed {
				t.Errorf("every %v s, %+v: %.0f J off, from %s", everyS, c, got-drawn, m.Source(89.95))
			}
		}
	}
}

// A monitor that froze on the ground, at 0 A, goes on to show that in flight: the model counts, and is named.
func TestFrozenAtRest(t *testing.T) {
	m := newMeter()
	for i := range 600 {
		now := float64(i) / 20
		m.SetSpeed(now, 8.4, now > 10)
		if i%10 == 0 {
			m.AddReading(now, Reading{ConsumedHJ: 3, CurrentA: 0, VoltageV: 16, Charge: 0.9, BootS: 50 + now})
		}
		if now > 10+2*heldMaxS && m.Source(now) != Model {
			t.Fatalf("at %.1f s from %s", now, m.Source(now))
		}
	}
	if got, want := m.DrawnJ(30), 20*m.PowerW(8.4); math.Abs(got-want) > 0.15*want {
		t.Errorf("%.0f J drawn, want about %.0f", got, want)
	}
}

// A monitor that froze in flight goes on to show that current on the ground: nothing is drawn there.
func TestFrozenAsItLands(t *testing.T) {
	for _, everyS := range []float64{0.25, 1, 3} {
		m, drawn, frozen, next := newMeter(), 0.0, Reading{}, 0.0
		for i := range 1800 {
			now := float64(i) / 20
			flying := now < 31
			if flying && i > 0 {
				drawn += 168.0 / 20
			}
			m.SetSpeed(now, 0, flying)
			if now < next {
				continue
			}
			next += everyS
			r := sentReading(drawn, 168, 50+now)
			switch {
			case now < 30:
				frozen = r
			case now < 60:
				r = frozen
				r.BootS = 50 + now
			default:
				r = sentReading(drawn, 0, 50+now)
			}
			m.AddReading(now, r)
			if off := m.DrawnJ(now) - drawn; off > 168*(freshS+everyS) {
				t.Fatalf("every %v s, at %.1f s: %.0f J too much", everyS, now, off)
			}
		}
		if off := m.DrawnJ(89.95) - drawn; math.Abs(off) > 150 {
			t.Errorf("every %v s: %.0f J off", everyS, off)
		}
	}
}

// Between two readings that come 0.5 to 6 s apart the measured current holds, with a
// counter and without, whatever the model believes; also if the autopilot's time is not known at
// one of them, as positions are without a fix.
func TestCurrentHoldsBetweenSlowReadings(t *testing.T) {
	for _, everyS := range []float64{0.5, 2.1, 3, 5, 6} {
		for _, counter := range []bool{true, false} {
			m := newMeter()
			const watts = 200.0
			next := 0.0
			for i := range 1200 {
				now := float64(i) / 20
				m.SetSpeed(now, 8.4, true) // 134 W by the model
				if now >= next {
					r := sentReading(now*watts, watts+math.Mod(now, 1.3), 50+now)
					if !counter {
						r.ConsumedHJ = math.NaN()
					}
					if math.Round(next/everyS) == 5 {
						r.BootS = 0
					}
					next += everyS
					m.AddReading(now, r)
				}
				if now < 3*everyS {
					continue
				}
				if off := m.DrawnJ(now) - now*watts; m.Source(now) == Model || math.Abs(off) > 110 {
					t.Fatalf("every %v s, counter %v: at %.1f s %+.0f J off, from %s", everyS, counter, now, off, m.Source(now))
				}
			}
		}
	}
}

// Of a battery that falls silent the measured power holds for two intervals and a half, for
// 2 s at least and 6.5 s at most; then the model counts.
func TestHowLongAReadingHolds(t *testing.T) {
	for everyS, want := range map[float64]float64{0.5: 2, 1: 2.5, 2: 5, 6: 6.5} {
		m := newMeter()
		lastS := 5 * everyS
		for i := range 6 {
			now := float64(i) * everyS
			m.SetSpeed(now, 8.4, true)
			m.AddReading(now, sentReading(150*now, 150, 50+now))
		}
		if before, after := m.Source(lastS+want-0.01), m.Source(lastS+want+0.01); before == Model || after != Model {
			t.Errorf("every %v s: from %s before %v s of silence, then from %s", everyS, before, want, after)
		}
	}
}

// Readings that are received at once after a stall were not measured at once.
func TestReadingsHoldAfterAStall(t *testing.T) {
	const everyS, stallS = 4, 9
	m := newMeter()
	for i := range 12 {
		sentS := float64(i) * everyS
		now := sentS
		if sentS > 20 && sentS < 20+stallS {
			now = 20 + stallS
		}
		m.SetSpeed(now, 8.4, true)
		if sentS > 20+stallS && m.Source(now) == Model {
			t.Errorf("at %v s the current of the reading before does not hold", now)
		}
		m.AddReading(now, sentReading(150*sentS, 150, 50+sentS))
	}
}

// An aircraft that has landed draws no more, though its battery measures that seconds later.
func TestLandedBetweenSlowReadings(t *testing.T) {
	m := newMeter()
	const watts, landedS = 200.0, 32.0
	readJ := 0.0
	for i := range 900 {
		now := float64(i) / 20
		drawnJ := watts * math.Min(now, landedS)
		m.SetSpeed(now, 0, now < landedS)
		if i%120 == 0 { // each 6 s
			m.AddReading(now, sentReading(drawnJ, (drawnJ-readJ)/6, 50+now))
			readJ = drawnJ
		}
		if off := m.DrawnJ(now) - drawnJ; now > 18 && math.Abs(off) > 110 {
			t.Fatalf("at %.1f s %+.0f J off", now, off)
		}
	}
}

// A battery that falls silent in a slot, after its computing was measured: what is counted
// on is the flight, and not the computing.
func TestSilentBatteryComputesNothing(t *testing.T) {
	m, drawn := newMeter(), 0.0
	const flightW, edgeJ, silentS = 134.4, 180.0, 21.1
	next := 0.0
	for i := range 500 {
		now := float64(i) / 20
		phase := math.Mod(now, 1)
		if i > 0 {
			drawn += flightW / 20
			if now > 20 && now <= 21 && phase > 0.45 && phase <= 0.951 {
				drawn += edgeJ / 10 // of users that the meter does not know of
			}
		}
		m.SetSpeed(now, 8.4, true)
		if now >= next && now < silentS {
			next += 0.25
			m.AddReading(now, Reading{ConsumedHJ: math.NaN(), CurrentA: (drawn - m.total.J) / math.Max(now-m.lastReadS, 0.05) / 15,
				VoltageV: 15, Charge: math.NaN(), BootS: 50 + now})
		}
		if now > silentS && math.Abs(m.DrawnJ(now)-drawn) > 100 {
			t.Fatalf("at %.2f s %+.0f J off", now, m.DrawnJ(now)-drawn)
		}
	}
}

// A window between two readings is measured, or it has a gap.
func TestGapsAreMarked(t *testing.T) {
	m := newMeter()
	send := func(now float64) Mark {
		m.SetSpeed(now, 8.4, true)
		m.AddReading(now, sentReading(now*150, 150+math.Mod(now, 0.7), 50+now))
		return m.LastReading()
	}
	now, last := 0.0, Mark{}
	for ; now < 20; now += 0.25 {
		last = send(now)
	}
	for ; now < 23; now += 0.1 {
		m.SetSpeed(now, 8.4, true)
	}
	after := send(now)
	if after.Gaps == last.Gaps || after.ResolutionJ == 0 {
		t.Errorf("after 3 s without a reading, of four a second: %+v, before %+v", after, last)
	}
	for end := now + 5; now < end; now += 0.25 {
		last = send(now)
	}
	if last.Gaps != after.Gaps || last.ResolutionJ != 0 {
		t.Errorf("later %+v", last)
	}
	m.AddReading(now, m.newest)
	if again := m.LastReading(); again != last {
		t.Errorf("a repetition is no measurement: %+v", again)
	}
}

// A restart goes on with the counter of charge where there is no other, as with PX4: its
// difference is what was drawn, while hover would be a third too much.
func TestDowntimeByTheCounterOfCharge(t *testing.T) {
	const watts = 134.4
	m, now, charge := newMeter(), 0.0, 0.0
	volts := func() float64 { return 16.2 - now/1000 }
	send := func(m *Meter, at float64) {
		m.SetSpeed(at, 8.4, true)
		r := Reading{ConsumedHJ: math.NaN(), CurrentA: watts / volts(), VoltageV: volts(), Charge: math.NaN(), BootS: 50 + now}
		m.AddReading(at, m.WithCharge(r, int32(charge/3.6)))
	}
	advance := func(seconds float64) {
		charge += watts / volts() * seconds
		now += seconds
	}
	for now < 600 {
		send(m, now)
		advance(0.4)
	}
	before, left := m.DrawnJ(now), now
	advance(9)
	again := restartMeter(t, m, left, 5, now-left)
	send(again, 5)
	if got := again.DrawnJ(5) - before; math.Abs(got-9*watts) > 110 {
		t.Errorf("%.0f J in 9 s at %v W", got, watts)
	}
	if again.Source(5) != Current {
		t.Errorf("from %s", again.Source(5))
	}
}

// The integrator gets readings in order: those that are late by the autopilot's time or by
// the counter are dropped in front of it.
func TestArrivalsAreInOrder(t *testing.T) {
	var a arrivals
	var boots, counts []float64
	integrate := func(x arrival) {
		boots, counts = append(boots, x.BootS), append(counts, x.ConsumedHJ)
		a.consumed = x.ConsumedHJ
		a.accept(x.receivedS, x.ConsumedHJ)
	}
	for _, r := range []struct{ receivedS, bootS, count float64 }{{1, 51, 10}, {1.25, 51.25, 11}, {1.3, 51.1, 10}, {1.5, 0, 12},
		{1.55, 0, 11}, {1.75, 51.75, 13}, {2, 2.5, 14}, {2.25, 52.25, 15}} {
		a.add(r.receivedS, Reading{ConsumedHJ: r.count, BootS: r.bootS}, integrate)
	}
	for i := 1; i < len(counts); i++ {
		if counts[i] < counts[i-1] || boots[i] > 0 && boots[i] < boots[i-1] {
			t.Errorf("out of order: counts %v, boot times %v", counts, boots)
		}
	}
	if len(counts) != 5 {
		t.Errorf("counts %v, want 10 11 12 13 15", counts)
	}
}
