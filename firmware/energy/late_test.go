package energy

import (
	"math"
	"testing"
)

// Frames that waited in a buffer while a link was cut show what the battery showed before. The counter's joules count once.
func TestOldReadingsAfterAGap(t *testing.T) {
	for _, oldS := range [][]float64{{0.1}, {0.5}, {1}, {3}, {5.5}, {0.5, 1, 1.5}} {
		for _, gapS := range []float64{6, 15} {
			const watts, everyS, fromS = 260.0, 0.5, 20.0
			m := newMeter()
			m.SetFactor(0, watts/m.PowerW(8.4))
			for i := range 240 {
				now := float64(i) * everyS / 2
				m.SetSpeed(now, 8.4, true)
				if math.Mod(now, everyS) != 0 || now > fromS && now < fromS+gapS {
					continue
				}
				shownS := []float64{now}
				if now == fromS+gapS {
					shownS = nil
					for _, s := range oldS {
						shownS = append(shownS, fromS+s)
					}
				}
				for _, s := range shownS {
					r := sentReading(s*watts, watts, 50+now)
					if s < now { // a position has not come yet
						r.BootS = 0
					}
					m.AddReading(now, r)
				}
			}
			if got, want := m.DrawnJ(59.75), 59.75*watts; math.Abs(got-want) > 250 {
				t.Errorf("of %v s after the cut, received %.0f s after it: %.0f J, want %.0f", oldS, gapS, got, want)
			}
		}
	}
}

// What was drawn since a reading that was received late is counted from when it was sent, and stays counted where no other follows and
// the model takes over.
func TestLateReading(t *testing.T) {
	const powerW, everyS, lateS = 170.0, 4.5, 5.0
	m := newMeter()
	m.SetFactor(0, powerW/m.PowerW(8.4))
	before := 0.0
	for now := 0.0; now < 60; now += 0.1 {
		m.SetSpeed(now, 8.4, true)
		switch reads := math.Mod(now, everyS) < 0.1 && now < 40; {
		case reads:
			m.AddReading(now, sentReading(powerW*now, powerW, 50+now))
		case now > 45 && now < 45.05:
			r := sentReading(powerW*(now-lateS), powerW, 50+now-lateS)
			m.AddReading(now, r)
		}
		drawnJ := m.DrawnJ(now)
		if off := drawnJ - powerW*now; math.Abs(off) > 150 || drawnJ < before-100 {
			t.Fatalf("at %.1f s %.0f J off, %.0f J more", now, off, drawnJ-before)
		}
		before = drawnJ
	}
}
