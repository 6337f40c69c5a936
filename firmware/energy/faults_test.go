package energy

import (
	"math"
	"math/rand/v2"
	"testing"
)

// After a stall the delayed messages are read at once: the counter jumps, and was not
// replaced by another.
func TestStallIsNoOtherCounter(t *testing.T) {
	const volts = 15.0
	for _, stall := range []float64{1, 3, 6, 9} {
		m := newMeter()
		drawn := 0.0
		send := func(receivedS, contentS float64) {
			drawn = 160 * contentS
			m.AddReading(receivedS, Reading{ConsumedHJ: math.Floor(drawn / 100), CurrentA: 160 / volts, VoltageV: volts,
				Charge: math.NaN()})
		}
		now := 0.0
		for ; now < 30; now += 0.25 {
			send(now, now)
		}
		// The link's buffer has one message of before the stall, and the rest at once.
		end := now + stall
		for i, content := 0, now; content <= end; content, i = content+0.25, i+1 {
			if i == 0 || content > end-1 { // what did not fit was dropped
				send(end, content)
			}
		}
		if off := math.Abs(m.DrawnJ(end) - drawn); off > m.UncertaintyJ(end) || off > 150 {
			t.Errorf("a stall of %v s: %.0f J off, stated %.0f J", stall, m.DrawnJ(end)-drawn, m.UncertaintyJ(end))
		}
	}
}

// A counter that shows less than was certainly drawn is another one, unless it is so
// little less that delayed messages may have counted it twice.
func TestCounterBelowCertainJoules(t *testing.T) {
	total := estimate{1000, 900, 1100}
	for _, c := range []struct{ shortJ, wantJ float64 }{
		{-50, 1150}, {doubleCountJ - 50, 1150}, // it goes up by one: the total is the counter's
		{doubleCountJ + 50, 1600}, // the total stays
	} {
		var a counterReference
		a.rebase(total, counterReading{count: 5, unitJ: 100})
		read := counterReading{count: 6, unitJ: 100, maxJ: 2000, certainJ: 200 + c.shortJ, trust: 1, drawn: estimate{500, 0, 600}}
		now, accepted := a.handleReading(estimate{1600, 1400, 1700}, read, true)
		if !accepted || now.J != c.wantJ {
			t.Errorf("%v J short of what was certainly drawn: accepted %v, %v J, want %v", c.shortJ, accepted, now.J, c.wantJ)
		}
	}
}

// The counter of energy consumed is missing, then its substitutes one after the other:
// when it comes back it shows what was drawn all the while.
func TestCounterComesBack(t *testing.T) {
	const volts = 15.0
	nan := math.NaN()
	for _, between := range [][]func(Reading) Reading{
		{func(r Reading) Reading { r.ConsumedHJ = nan; return r }},
		{func(r Reading) Reading { r.ConsumedHJ = nan; return r }, func(r Reading) Reading {
			r.ConsumedHJ, r.CurrentA = nan, nan
			return r
		}},
		{func(r Reading) Reading { r.ConsumedHJ, r.CurrentA = nan, nan; return r }, func(r Reading) Reading { return Absent() }},
	} {
		m := newMeter()
		truth, got := simulateFlight(m, 1.5, func(i int, j, w float64) (Reading, bool) { // a shock that the model does not have
			r := Reading{ConsumedHJ: math.Floor(j / 100), CurrentA: w / volts, VoltageV: volts, Charge: 1 - math.Floor(j/1500)/100}
			if phase := i/200 - 1; phase >= 0 && phase < len(between) {
				r = between[phase](r)
			}
			return r, true
		})
		if off := math.Abs(got - truth); off > 150 || off > m.UncertaintyJ(100) {
			t.Errorf("%d sources between: %.0f J off, stated %.0f J", len(between), got-truth, m.UncertaintyJ(100))
		}
	}
}

// Two readings in a row whose count is wrong add no joule that was not drawn, and take none away, once it is right again:
// not where it was 0, nor where it was too high by what could have been drawn; at rest and in flight, over a restart too.
func TestTwoWrongCounts(t *testing.T) {
	const volts, capacityJ, fromJ = 16.0, 150e3, 15e3
	nan := math.NaN()
	for _, powerW := range []float64{5, 160} { // at rest, in flight
		for _, everyS := range []float64{0.5, 1, 2.5, 5} {
			for _, chargeAlone := range []bool{false, true} {
				for _, byJ := range []float64{-fromJ, 2000 * everyS} {
					for _, restart := range []bool{false, true} {
						m, now := newMeter(), 0.0
						m.MaxPowerW = 6468 // the fleet's
						read := func(wrongJ float64) {
							j := math.Max(fromJ+powerW*now+wrongJ, 0)
							if wrongJ < 0 {
								j = 0
							}
							r := Reading{ConsumedHJ: math.Floor(j / 100), CurrentA: powerW / volts, VoltageV: volts,
								Charge: math.Ceil(100*(1-j/capacityJ)) / 100, BootS: 100 + now}
							if chargeAlone {
								r.ConsumedHJ, r.CurrentA = nan, nan
							}
							m.SetSpeed(now, 8.4, powerW > 100)
							m.AddReading(now, r)
							now += everyS
						}
						for range 20 {
							read(0)
						}
						drawnJ, since := m.DrawnJ(now), now
						read(byJ)
						read(byJ)
						if restart {
							s := m.State(now)
							m = &Meter{CapacityJ: m.CapacityJ, PowerW: m.PowerW, MaxPowerW: m.MaxPowerW}
							m.Restore(now, s, 0)
						}
						for range 20 {
							read(0)
						}
						unitJ := 100.0
						if chargeAlone {
							unitJ = capacityJ / 100
						}
						if off := m.DrawnJ(now) - drawnJ - powerW*(now-since); math.Abs(off) > 1.2*unitJ {
							t.Errorf("%v W, every %v s, charge alone %v, off by %v J, restart %v: %.0f J too much", powerW, everyS,
								chargeAlone, byJ, restart, off)
						}
					}
				}
			}
		}
	}
}

// With all fields four times a second, the total is exact to the counter's resolution
// at the end of each slot.
func TestExactToTheResolution(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	m := newMeter()
	p := &batteryPack{rng: rng, currentGain: 1.02, counterRoundingJ: 50, counterWrapHJ: math.Inf(1), bootS: -5, sendsBootTime: true,
		sendsConsumed: true, sendsCurrent: true}
	sum, stated, n := 0.0, 0.0, 0.0
	speed, edge := 8.0, 0.0
	m.SetSpeed(0, speed, true)
	for i := range 6000 {
		now := float64(i) / 20
		if i%20 == 0 {
			speed, edge = 6+6*rng.Float64(), 60*rng.Float64()
		}
		if i%20 == 9 {
			m.AddEdge(now, edge)
		}
		if i%20 > 10 { // computed in the rest of the slot
			p.drawnJ += edge / 9
		}
		p.drawnJ += m.PowerW(speed) / 20
		now += 0.05
		m.SetSpeed(now, speed, true)
		if i%5 == 2 {
			m.AddReading(now, p.reading(now))
		}
		if i%20 == 19 && i > 40 {
			off := math.Abs(m.DrawnJ(now) - p.drawnJ)
			if off > 60 || off > m.UncertaintyJ(now) || m.UncertaintyJ(now) > 250 {
				t.Fatalf("slot %d: %.0f J off, stated %.0f J", i/20, off, m.UncertaintyJ(now))
			}
			sum, stated, n = sum+off, stated+m.UncertaintyJ(now), n+1
		}
	}
	t.Logf("%.0f J off on average, stated %.0f J", sum/n, stated/n)
}

// A counter that does not rise while a current flows is not accepted, and is
// again when it has caught up.
func TestCounterThatStops(t *testing.T) {
	const volts = 15.0
	held := 0.0
	stopped := map[string]func(i int, j float64) float64{
		"at nothing": func(int, float64) float64 { return 0 },
		"for a while": func(i int, j float64) float64 {
			if i < 250 || i >= 600 {
				held = math.Floor(j / 100)
			}
			return held
		},
		"every 20 s only": func(_ int, j float64) float64 { return math.Floor(j/3200) * 32 },
	}
	for name, count := range stopped {
		m := newMeter()
		truth, got := simulateFlight(m, 1.2, func(i int, j, w float64) (Reading, bool) {
			return Reading{ConsumedHJ: count(i, j), CurrentA: w / volts, VoltageV: volts, Charge: math.NaN()}, true
		})
		if math.Abs(got-truth) > 300 {
			t.Errorf("%s: %.0f J, truth %.0f J, stated %.0f J", name, got, truth, m.UncertaintyJ(100))
		}
	}
}

// After a stall all delayed messages are read at once, and those before the first
// position have an extrapolated time, or none. The joules of the stall are not counted
// again by the others.
func TestStallIsCountedOnce(t *testing.T) {
	const volts, watts = 15.0, 220.0
	for _, counter := range []bool{true, false} {
		for _, stall := range []float64{0.5, 0.9, 1.6, 3, 7, 9} {
			m := newMeter()
			m.SetSpeed(0, 8.4, true)
			now := 0.0
			send := func(content, bootS float64) {
				r := Reading{math.NaN(), watts / volts, volts, math.NaN(), bootS}
				if math.Mod(content, 0.5) == 0 {
					r.CurrentA += 0.01 // as any current varies that is measured
				}
				if counter {
					r.ConsumedHJ = math.Floor(content * watts / 100)
				}
				m.AddReading(now, r)
			}
			hear := func(from, to float64) {
				for ; from < to; from += 0.25 {
					now = max(now, from)
					m.SetSpeed(now, 8.4, true)
					send(from, 50+from)
				}
			}
			hear(0, 30)
			first := 30.0
			now = first + stall
			if stall < 1 {
				send(first, 50+now) // extrapolated from the last position
			} else {
				send(first, 0)
			}
			hear(first+0.25, 60)
			if off := math.Abs(m.DrawnJ(60) - 60*watts); off > 150 || off > m.UncertaintyJ(60) {
				t.Errorf("counter %v, a stall of %v s: %.0f J off, stated %.0f J", counter, stall, m.DrawnJ(60)-60*watts,
					m.UncertaintyJ(60))
			}
		}
	}
}

// Where messages were delayed and some of them lost, the current of the rest measures
// the joules, over the autopilot's own time.
func TestStallOfACurrentAlone(t *testing.T) {
	const volts, watts = 15.0, 160.0
	m := newMeter()
	m.SetSpeed(0, 8.4, true)
	send := func(receivedS, contentS float64) {
		m.SetSpeed(receivedS, 8.4, true)
		m.AddReading(receivedS, Reading{ConsumedHJ: math.NaN(), CurrentA: watts/volts + math.Mod(contentS, 0.5)/100, VoltageV: volts,
			Charge: math.NaN(), BootS: 50 + contentS})
	}
	for i := range 41 {
		send(float64(i)/4, float64(i)/4)
	}
	for content := 10.25; content <= 18; content += 0.25 {
		if content < 12 || content > 15 {
			send(18, content)
		}
	}
	if off := math.Abs(m.DrawnJ(18) - 18*watts); off > 100 || off > m.UncertaintyJ(18) {
		t.Errorf("%.0f J off, stated %.0f J", m.DrawnJ(18)-18*watts, m.UncertaintyJ(18))
	}
}

// A counter that was reset while nothing was received, and has passed its old value,
// does not reduce the total; nor does a restart of the leader lose the evidence against
// it.
func TestResetWhileNothingWasReceived(t *testing.T) {
	const volts, watts = 15.0, 160.0
	for _, restart := range []bool{false, true} {
		m := newMeter()
		now, offset := 0.0, 0.0
		send := func(n float64) {
			m.AddReading(now-offset, Reading{ConsumedHJ: n, CurrentA: watts / volts, VoltageV: volts + math.Mod(now, 1)/1000,
				Charge: math.NaN()})
		}
		for ; now <= 10; now += 0.5 {
			send(math.Floor(now * watts / 100))
		}
		for ; now <= 110; now += 0.5 {
			send(math.NaN())
		}
		if restart {
			s := m.State(now)
			m, offset = newMeter(), now
			m.Restore(0, s, 0.5)
		}
		for since := 0.0; since <= 20; since, now = since+0.5, now+0.5 {
			send(30 + math.Floor(since*watts/100))
		}
		now -= 0.5
		if off := math.Abs(m.DrawnJ(now-offset) - now*watts); off > 150 || off > m.UncertaintyJ(now-offset) {
			t.Errorf("restart %v: %.0f J off, stated %.0f J", restart, m.DrawnJ(now-offset)-now*watts, m.UncertaintyJ(now-offset))
		}
	}
}

// Remaining charge changes nothing while there is a better source, and shows over a
// restart what was drawn where there is none.
func TestChargeRanksBelowCurrent(t *testing.T) {
	nan := math.NaN()
	m := newMeter()
	worst := 0.0
	simulateFlight(m, 1, func(i int, j, w float64) (Reading, bool) {
		worst = max(worst, math.Abs(m.DrawnJ(float64(i)/10)-j))
		// half a pack too much
		return Reading{ConsumedHJ: math.Floor(j / 100), CurrentA: w / 15, VoltageV: 15, Charge: 0.9 - float64(i/100)/20}, true
	})
	if worst > 150 {
		t.Errorf("%.0f J off beside a charge that is wrong", worst)
	}
	m, now, drawn := newMeter(), 0.0, 0.0
	m.SetSpeed(0, 8.4, true)
	for ; now < 60; now++ {
		drawn += 134.4
		m.SetSpeed(now, 8.4, true)
		m.AddReading(now, Reading{nan, nan, 15, 1 - math.Floor(drawn/1500)/100, 10 + now})
	}
	s := m.State(60)
	drawn += 60 * 300
	m = newMeter()
	m.Restore(0, s, nan)
	m.SetSpeed(0, 8.4, true)
	m.AddReading(0, Reading{nan, nan, 15, 1 - math.Floor(drawn/1500)/100, 130})
	if off := math.Abs(m.DrawnJ(0) - drawn); off > 1500 || off > m.UncertaintyJ(0) {
		t.Errorf("after a restart the charge leaves %.0f J, stated %.0f J", m.DrawnJ(0)-drawn, m.UncertaintyJ(0))
	}
}

// A counter that survives reboots of the autopilot is not taken for one that was reset.
func TestCounterThatOutlivesReboots(t *testing.T) {
	m := newMeter()
	m.SetSpeed(0, 8.4, true)
	truth, got := simulateFlight(m, 1, func(i int, j, _ float64) (Reading, bool) {
		now := float64(i) / 10
		boot := 20.0
		if now >= 50 {
			boot = -50
		}
		return Reading{math.Floor(j / 100), math.NaN(), 15, math.NaN(), now + boot + 0.1}, now < 50 || now > 55
	})
	if math.Abs(got-truth) > 150 {
		t.Errorf("%.0f J, truth %.0f J", got, truth)
	}
}

// A burst of power between two messages that come close together is counted, and not
// extrapolated.
func TestBurstOfPower(t *testing.T) {
	m := newMeter()
	send := func(now, watts float64) {
		m.AddReading(now, Reading{math.NaN(), watts / 15, 15, math.NaN(), 10 + now})
	}
	for i := range 9 {
		send(float64(i)/4, 150)
	}
	send(2.02, 2900) // 58 J of computing
	if truth, got := 358.0, m.DrawnJ(2.02); math.Abs(got-truth) > 1 {
		t.Errorf("%.0f J, truth %.0f J", got, truth)
	}
	if truth, got := 358+150*1.5, m.DrawnJ(3.52); math.Abs(got-truth) > 120 || math.Abs(got-truth) > m.UncertaintyJ(3.52) {
		t.Errorf("a second and a half later %.0f J, truth %.0f J, stated %.0f J", got, truth, m.UncertaintyJ(3.52))
	}
}

// Where messages were lost, a burst in the next one did not last all the time since the
// last: it does not contradict the counter.
func TestBurstAfterLostMessages(t *testing.T) {
	for _, lost := range []int{0, 3, 5, 10} {
		m, p := newMeter(), &batteryPack{currentGain: 1, counterWrapHJ: 1e9, sendsConsumed: true, sendsCurrent: true, sendsBootTime: true,
			bootS: -10}
		now := 0.0
		for i := range 200 {
			now = float64(i) / 10
			p.drawnJ += 20
			if i == 100 {
				p.drawnJ += 160
			}
			if r := p.reading(now); i < 100-lost || i >= 100 {
				m.AddReading(now, r)
			}
		}
		if got := m.DrawnJ(now); math.Abs(got-p.drawnJ) > 101 {
			t.Errorf("%d messages lost: %.0f J, truth %.0f J", lost, got, p.drawnJ)
		}
	}
}

// Edge energy is entered before it is drawn.
func TestEdgeEnergyNotDrawnYet(t *testing.T) {
	m := newMeter()
	m.SetSpeed(0, 8.4, true)
	m.AddEdge(0, 60)
	if got := m.DrawnJ(0); got != 60 || m.UncertaintyJ(0) < 60 {
		t.Errorf("%v J, stated %v J", got, m.UncertaintyJ(0))
	}
	m = newMeter()
	for i := range 9 {
		m.AddReading(float64(i)/4, Reading{math.NaN(), 10, 15, math.NaN(), 0})
	}
	m.AddEdge(2, 60)
	if got := m.DrawnJ(2); got != 300 || m.UncertaintyJ(2) < 60 {
		t.Errorf("%v J, stated %v J", got, m.UncertaintyJ(2))
	}
}
