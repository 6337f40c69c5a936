package goal

import (
	"math"
	"math/rand/v2"
	"testing"
)

// gustStdDevs of a fleet of two under 0, 5 and 15 % each
var gustStdDevs = []float64{0, 0.035, 0.106}

func TestGustsAreAveraged(t *testing.T) {
	for _, gust := range gustStdDevs {
		sum, worst := 0.0, 0.0
		const flights = 200
		for flight := range uint64(flights) {
			x, r := initialEstimate(), rand.New(rand.NewPCG(1, flight))
			for range 100 {
				x.addMeasurement(1.2 * (1 + gust*r.NormFloat64()))
			}
			off := x.Multiplier/1.2 - 1
			sum += off * off / flights
			worst = max(worst, math.Abs(off))
			if gust > 0 && (x.RelativeStdDev < 0.7*gust || x.RelativeStdDev > 1.4*gust) {
				t.Errorf("gust %v, flight %d: noise is taken for %.3f", gust, flight, x.RelativeStdDev)
			}
		}
		// The mean of 100 is off by a tenth of a gust; a false change now and then forgets some.
		if rms := math.Sqrt(sum); rms > 0.2*gust+1e-3 {
			t.Errorf("gust %v: after 100 slots the multiplier is off by %.4f, at worst %.4f", gust, rms, worst)
		}
	}
}

func TestShockIsFollowed(t *testing.T) {
	for _, c := range []struct {
		gust, factor float64
		slots        int // until it is known
		within       float64
	}{
		{0, 1.5, 1, 1e-9}, {0, 0.8, 1, 1e-9}, {0, 1.05, 1, 1e-9}, {0, 1.02, 3, 5e-3}, {0, 3, 2, 1e-9},
		{0.035, 1.5, 1, 0.12}, {0.035, 1.25, 2, 0.12}, {0.106, 1.5, 3, 0.3}, {0.106, 0.8, 12, 0.2},
	} {
		late := 0
		const flights = 200
		for flight := range uint64(flights) {
			x, r := initialEstimate(), rand.New(rand.NewPCG(2, flight))
			for range 50 {
				x.addMeasurement(1 + c.gust*r.NormFloat64())
			}
			for range c.slots {
				x.addMeasurement(c.factor * (1 + c.gust*r.NormFloat64()))
			}
			if math.Abs(x.Multiplier/c.factor-1) > c.within {
				late++
			}
		}
		if late > flights/50 {
			t.Errorf("gust %v: %d slots after a shock to %v, %d of %d flights were not within %v of it", c.gust, c.slots, c.factor, late, flights, c.within)
		}
	}
}

// A meter that slips once changes nothing; a drift is followed.
func TestSlipAndDrift(t *testing.T) {
	x := initialEstimate()
	for range 30 {
		x.addMeasurement(1.1)
	}
	before := x.Multiplier
	for _, slip := range []float64{5, 0.1} {
		x.addMeasurement(slip)
		x.addMeasurement(1.1)
		if math.Abs(x.Multiplier-before) > 1e-3 {
			t.Errorf("one measurement of %v moved the multiplier from %v to %v", slip, before, x.Multiplier)
		}
	}
	for slot := range 300 {
		x.addMeasurement(1.1 + 0.001*float64(slot+1))
		if at := 1.1 + 0.001*float64(slot+1); math.Abs(x.Multiplier/at-1) > 0.03 {
			t.Fatalf("slot %d of a drift: the multiplier is %.4f, measured %.4f", slot, x.Multiplier, at)
		}
	}
}

// A ledger written before the estimate had these fields is read.
func TestOldEstimate(t *testing.T) {
	x := PropulsionEstimate{Multiplier: 1.3, RelativeStdDev: 0.02}
	x.addMeasurement(1.3)
	if math.Abs(x.Multiplier-1.3) > 1e-12 || math.IsNaN(x.RelativeStdDev) {
		t.Errorf("%+v", x)
	}
}
