package energy

import (
	"encoding/json"
	"math"
	"testing"
)

// restartMeter is a meter that continues from another's State, encoded as in the ledger.
func restartMeter(t *testing.T, m *Meter, leftS, nowS, gapS float64) *Meter {
	t.Helper()
	raw, err := json.Marshal(m.State(leftS))
	if err != nil {
		t.Fatal(err)
	}
	var s State
	if err := json.Unmarshal(raw, &s); err != nil {
		t.Fatal(err)
	}
	again := newMeter()
	again.Restore(nowS, s, gapS)
	return again
}

// Right after the first reading since a restart the total includes the downtime by the
// counter, whatever the model estimates; the model's joules do not include it, so that
// the differences since give the multiplier.
func TestDowntimeIsCountedByTheCounter(t *testing.T) {
	for _, c := range []struct{ gapS, absentW float64 }{{0.3, 150}, {3, 168}, {7, 250}, {20, 100}, {60, 168}} {
		for _, gapKnown := range []bool{true, false} {
			for _, dated := range []bool{true, false} {
				m, drawn, now := newMeter(), 0.0, 0.0
				send := func(m *Meter, at float64) {
					r := Reading{ConsumedHJ: math.Floor(drawn / 100), CurrentA: 10, VoltageV: 15, Charge: math.NaN()}
					if dated {
						r.BootS = 30 + now
					}
					m.SetSpeed(at, 8.4, true)
					m.AddReading(at, r)
				}
				for ; now < 60; now += 0.25 {
					send(m, now)
					drawn += 150 * 0.25
				}
				left := now
				drawn += c.absentW * c.gapS
				now += c.gapS
				gap := c.gapS
				if !gapKnown {
					gap = math.NaN()
				}
				const laterS = 5 // a clock that was reset
				again := restartMeter(t, m, left, laterS, gap)
				began := now
				at := func() float64 { return now - began + laterS }
				send(again, at())
				// a count, and what the first was past one
				if off := math.Abs(again.DrawnJ(at()) - drawn); off > 1.5*consumedUnitJ || off > again.UncertaintyJ(at()) {
					t.Errorf("%+v, gap known %v, dated %v: %.0f J off right after the first reading", c, gapKnown, dated, off)
				}
				firstJ, firstModelJ := again.DrawnJ(at()), again.ModelJ(at())
				if firstModelJ > again.PowerW(0)*0.1 {
					t.Errorf("%+v: the model has %v J of the absence", c, firstModelJ)
				}
				for range 240 {
					drawn += 150 * 0.25
					now += 0.25
					send(again, at())
				}
				gained, model := again.DrawnJ(at())-firstJ, again.ModelJ(at())-firstModelJ
				if want := again.PowerW(8.4) * 60; math.Abs(model-want) > 1e-6*want {
					t.Errorf("%+v: the model gained %v J, want %v J", c, model, want)
				}
				if factor, want := gained/model, 150/again.PowerW(8.4); math.Abs(factor/want-1) > 0.02 {
					t.Errorf("%+v, gap known %v, dated %v: multiplier %.3f, want %.3f", c, gapKnown, dated, factor, want)
				}
			}
		}
	}
}

// A kill between two messages loses none: neither one that waits for its time, nor one
// that the current contradicts and the next is to confirm.
func TestKillBetweenTwoMessagesLosesNone(t *testing.T) {
	m := newMeter()
	send := func(m *Meter, at, count, bootS float64) {
		m.AddReading(at, Reading{ConsumedHJ: count, CurrentA: 10, VoltageV: 15, Charge: math.NaN(), BootS: bootS})
	}
	now := 0.0
	for ; now < 60; now += 0.25 {
		send(m, now, math.Floor(now*1.5), 50+now)
	}
	send(m, 69.75, math.Floor(69.75*1.5), 0) // after a pause, and before a position
	if m.pending == nil {
		t.Fatal("it does not wait")
	}
	again := restartMeter(t, m, 69.75, 0, 2)
	again.AddReading(0, Absent()) // the counter is missing
	if off := again.DrawnJ(0) - 71.75*150; math.Abs(off) > 2*consumedUnitJ {
		t.Errorf("waiting for its time: %.0f J off", off)
	}

	m = newMeter()
	for now = 0; now < 60; now += 0.25 {
		send(m, now, math.Floor(now*1.5), 0)
	}
	send(m, 60, 2, 0) // another battery
	if m.consumed.Candidate == nil {
		t.Fatal("it does not wait")
	}
	again = restartMeter(t, m, 60, 0, 4)
	send(again, 0, 2+4*3, 0) // 300 W in the downtime
	if off := again.DrawnJ(0) - 60*150 - 4*300; math.Abs(off) > consumedUnitJ {
		t.Errorf("waiting for the next: %.0f J off right after the first reading", off)
	}
	if s := again.Source(0); s != Consumed {
		t.Errorf("source %s", s)
	}
}

// One reading of an empty or a full battery does not change the charge; two do.
func TestChargeJumpsWithItsSecondReading(t *testing.T) {
	m := newMeter()
	if !math.IsNaN(m.Charge()) {
		t.Errorf("%v before any reading", m.Charge())
	}
	send := func(at, charge float64) {
		m.AddReading(at, Reading{ConsumedHJ: math.Floor(at), CurrentA: 10, VoltageV: 15, Charge: charge})
	}
	now := 0.0
	for ; now < 10; now += 0.5 {
		send(now, 0.8)
	}
	for _, wild := range []float64{0, 0.3, 1} {
		send(now, wild)
		if m.Charge() != 0.8 {
			t.Errorf("%v after one reading of %v", m.Charge(), wild)
		}
		send(now+0.5, 0.8)
		now++
	}
	send(now, 0.3)
	send(now+0.5, 0.3)
	if math.Abs(m.Charge()-0.3) > 1e-9 {
		t.Errorf("%v after two readings of 0.3", m.Charge())
	}
}

// Where only a current is known, as with PX4 and an external battery, downtime counts as
// hover: without a leader nothing is computed, and setpoints end. The first reading
// after it is more exact, and is not applied to all of it.
func TestDowntimeWithoutACounterIsHover(t *testing.T) {
	const volts, edgeW, bootS = 15.8, 50, 30
	for _, factor := range []float64{1, 1.5} {
		for _, gapS := range []float64{2, 4, 8} {
			m := newMeter()
			m.SetFactor(0, factor)
			cruiseW, hoverW := factor*m.PowerW(8)+edgeW, factor*m.PowerW(0)
			drawn, now := 0.0, 0.0
			send := func(m *Meter, mps, watt float64) {
				m.SetSpeed(now, mps, true)
				m.AddReading(now, Reading{ConsumedHJ: math.NaN(), CurrentA: watt / volts, VoltageV: volts, Charge: math.NaN(),
					BootS: bootS + now})
			}
			for ; now < 60; now += 0.4 {
				send(m, 8, cruiseW)
				drawn += cruiseW * 0.4
			}
			left := now
			now += gapS
			absentJ := hoverW * gapS
			before := m.DrawnJ(left)
			again := restartMeter(t, m, left, now, gapS)
			send(again, 0, hoverW)
			if got := again.DrawnJ(now) - before; math.Abs(got-absentJ) > 0.05*absentJ {
				t.Errorf("multiplier %v, %v s away: %.0f J, want %.0f J", factor, gapS, got, absentJ)
			}
		}
	}
}

// An autopilot rebooted just before the leader was killed: what the leader extrapolated
// until it was killed is in the counter, which began at that boot, and so is nothing that an
// aircraft that came down did not draw.
func TestRebootBeforeTheKill(t *testing.T) {
	for _, c := range []struct{ silentS, downS, afterW float64 }{{0.3, 14, 0}, {2, 14, 0}, {2, 14, 250}, {4, 3, 160}, {8, 30, 20}} {
		const watts, volts, rebootS = 290.0, 15.0, 60.0
		m, drawn, now := newMeter(), 0.0, 0.0
		m.SetSpeed(0, 8.4, true)
		for ; now <= rebootS; now += 0.25 {
			m.SetSpeed(now, 8.4, true)
			m.AddReading(now, Reading{BootS: 100 + now, ConsumedHJ: math.Floor(now * watts / 100), CurrentA: watts / volts, VoltageV: volts,
				Charge: math.NaN()})
		}
		drawn = rebootS * watts
		left := rebootS + c.silentS
		now = left + c.downS
		again := restartMeter(t, m, left, now, c.downS)
		first := now // alone it does not prove a reboot
		for end := now + 3; now < end; now += 0.5 {
			since := c.afterW * (now - rebootS)
			again.AddReading(now, Reading{BootS: now - rebootS, ConsumedHJ: math.Floor(since / 100), CurrentA: c.afterW / volts,
				VoltageV: volts, Charge: math.NaN()})
			if off := again.DrawnJ(now) - drawn - since; now > first &&
				(math.Abs(off) > again.UncertaintyJ(now) || math.Abs(off) > 100+watts*c.silentS) {
				t.Errorf("%+v: %.0f J off at %.1f s, stated %.0f J", c, off, now-rebootS, again.UncertaintyJ(now))
			}
		}
	}
}
