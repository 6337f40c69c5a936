package goal

import (
	"math"
	"math/rand/v2"
	"testing"

	"prefdt/inference/physics"
)

// gustStdDevs are the relative deviations of the flight power of two aircraft under
// gusts of 0, 5 and 15 % each.
var gustStdDevs = []float64{0, 0.035, 0.106}

func TestGustsAreAveraged(t *testing.T) {
	for _, gust := range gustStdDevs {
		sum, worst := 0.0, 0.0
		const flights = 200
		for flight := range uint64(flights) {
			e, r := initialEstimate(), rand.New(rand.NewPCG(1, flight))
			for range 100 {
				e.addMeasurement(1.2 * (1 + gust*r.NormFloat64()))
			}
			relative := e.Multiplier/1.2 - 1
			sum += relative * relative / flights
			worst = max(worst, math.Abs(relative))
			if gust > 0 && (e.RelativeStdDev < 0.7*gust || e.RelativeStdDev > 1.4*gust) {
				t.Errorf("gust %v, flight %d: noise is estimated as %.3f", gust, flight, e.RelativeStdDev)
			}
		}
		// The mean of 100 is off by a tenth of a gust; a false change now and then drops some.
		if rms := math.Sqrt(sum); rms > 0.2*gust+1e-3 {
			t.Errorf("gust %v: after 100 slots the multiplier is off by %.4f, at worst %.4f", gust, rms, worst)
		}
	}
}

func TestShockIsFollowed(t *testing.T) {
	for _, c := range []struct {
		gust, multiplier float64
		slots            int // until it is known
		within           float64
	}{
		{0, 1.5, 1, 1e-9}, {0, 0.8, 1, 1e-9}, {0, 1.05, 1, 1e-9}, {0, 1.02, 3, 5e-3}, {0, 3, 2, 1e-9},
		{0.035, 1.5, 1, 0.12}, {0.035, 1.25, 2, 0.12}, {0.106, 1.5, 3, 0.3}, {0.106, 0.8, 12, 0.2},
	} {
		late := 0
		const flights = 200
		for flight := range uint64(flights) {
			e, r := initialEstimate(), rand.New(rand.NewPCG(2, flight))
			for range 50 {
				e.addMeasurement(1 + c.gust*r.NormFloat64())
			}
			for range c.slots {
				e.addMeasurement(c.multiplier * (1 + c.gust*r.NormFloat64()))
			}
			if math.Abs(e.Multiplier/c.multiplier-1) > c.within {
				late++
			}
		}
		if late > flights/50 {
			t.Errorf("gust %v: %d slots after a shock to %v, %d of %d flights were not within %v of it", c.gust, c.slots, c.multiplier,
				late, flights, c.within)
		}
	}
}

// One outlier changes nothing; a drift is followed.
func TestOutlierAndDrift(t *testing.T) {
	e := initialEstimate()
	for range 30 {
		e.addMeasurement(1.1)
	}
	before := e.Multiplier
	for _, outlier := range []float64{5, 0.1} {
		e.addMeasurement(outlier)
		e.addMeasurement(1.1)
		if math.Abs(e.Multiplier-before) > 1e-3 {
			t.Errorf("one measurement of %v moved the multiplier from %v to %v", outlier, before, e.Multiplier)
		}
	}
	for slot := range 300 {
		e.addMeasurement(1.1 + 0.001*float64(slot+1))
		if at := 1.1 + 0.001*float64(slot+1); math.Abs(e.Multiplier/at-1) > 0.03 {
			t.Fatalf("slot %d of a drift: the multiplier is %.4f, measured %.4f", slot, e.Multiplier, at)
		}
	}
}

// A measurement that stands alone lasts one slot, if that: whatever its size, and whatever
// another one beside it is.
func TestMeasurementsThatStandAlone(t *testing.T) {
	for _, c := range []struct {
		name  string
		wrong []float64
		now   float64 // most that the multiplier is off while they are there
	}{
		{"one aircraft of two reads twice as much", []float64{1.5}, 0.5}, {"a half", []float64{0.75}, 0.25},
		{"twice", []float64{2.02}, 1e-3},
		{"in both directions", []float64{2.3, 0.3}, 1e-3}, {"in both directions", []float64{0.3, 2.3}, 1e-3},
		{"smaller in both directions", []float64{1.4, 0.7}, 0.4}, {"one after the other", []float64{2.3, 1.0, 2.3}, 1e-3},
	} {
		for _, gust := range []float64{0, 0.035} {
			r := rand.New(rand.NewPCG(5, 6))
			e := initialEstimate()
			for range 40 {
				e.addMeasurement(1.1 * (1 + gust*r.NormFloat64()))
			}
			before, stdDev := e.Multiplier, e.RelativeStdDev
			for _, x := range c.wrong {
				e.addMeasurement(1.1 * x)
				if off := math.Abs(e.Multiplier/before - 1); off > c.now+4*gust/5 {
					t.Errorf("%s, gusts %v: the multiplier is off by %.3f", c.name, gust, off)
				}
			}
			for k := range 3 {
				e.addMeasurement(1.1 * (1 + gust*r.NormFloat64()))
				if off := math.Abs(e.Multiplier/before - 1); k > 0 && off > 0.01+gust/5 || e.MultiplierWeight < 30 {
					t.Errorf("%s, gusts %v: %d slots later the multiplier is off by %.3f, with a weight of %v", c.name, gust, k, off,
						e.MultiplierWeight)
				}
			}
			if e.RelativeStdDev > stdDev*1.3+0.02 {
				t.Errorf("%s, gusts %v: the noise was %.3f, and is %.3f", c.name, gust, stdDev, e.RelativeStdDev)
			}
		}
	}
}

// A ledger written before the estimate had these fields is read.
func TestOldEstimate(t *testing.T) {
	e := PropulsionEstimate{Multiplier: 1.3, RelativeStdDev: 0.02}
	e.addMeasurement(1.3)
	if math.Abs(e.Multiplier-1.3) > 1e-12 || math.IsNaN(e.RelativeStdDev) {
		t.Errorf("%+v", e)
	}
}

// A window contradicts what is believed by more than three of its errors, in either direction.
func TestContradicts(t *testing.T) {
	o := newObjective()
	for _, tt := range []struct {
		energyJ float64
		want    bool
	}{{1000, false}, {1100 + 290, false}, {1100 + 310, true}, {1100 - 290, false}, {1100 - 310, true}} {
		if got := o.Contradicts(&Measurement{EnergyJ: tt.energyJ, EdgeJ: 100, ModelFlightJ: 1000, ErrorJ: 100, Slots: 4}); got != tt.want {
			t.Errorf("%v J of 1100: %v", tt.energyJ, got)
		}
	}
}

// A window that took less than believed, by no more than its error, is no change alone. One that took less beyond its
// error is, and so are two that agree.
func TestCheaperWithinItsError(t *testing.T) {
	c := physics.DefaultConstants()
	o := New(testConstants(), &c, 100, 1)
	fly := func(energyJ, errorJ float64) float64 {
		x := &Measurement{EnergyJ: energyJ, ErrorJ: errorJ, ModelFlightJ: 100, Slots: 1}
		o.Settle(Settlement{Slots: 1, Flying: 1, EnergyJ: energyJ, Measured: x})
		return o.PropulsionMultiplier()
	}
	begin := func() {
		o = New(testConstants(), &c, 100, 1)
		for range 10 {
			fly(100, 1)
		}
	}
	begin()
	if got := fly(85, 17); got < 0.98 {
		t.Errorf("15 %% less with an error of 17 %%: %v", got)
	}
	if got := fly(100, 1); got < 0.98 {
		t.Errorf("and then as before: %v", got)
	}
	fly(85, 17)
	if got := fly(85, 17); got > 0.9 {
		t.Errorf("15 %% less twice: %v", got)
	}
	begin()
	if got := fly(85, 1); got > 0.9 {
		t.Errorf("15 %% less with an error of 1 %%: %v", got)
	}
	begin()
	fly(193, 27)
	if got := fly(54, 23); got < 0.8 || got > 1.1 {
		t.Errorf("93 %% more, then 46 %% less with an error of 23 %%: %v", got)
	}
	begin()
	fly(149, 7)
	fly(276, 14)
	if got := fly(150, 1); got > 1.6 {
		t.Errorf("49 %% more, then 176, then 50: %v", got)
	}
	begin()
	if got := fly(125, 17); got < 1.1 {
		t.Errorf("25 %% more with an error of 17 %%: %v", got)
	}
	begin()
	for range 10 {
		fly(93, 9)
		fly(107, 9)
	}
	fly(132, 7) // the change came in its middle
	if got := fly(148, 7); got < 1.45 {
		t.Errorf("32 %% more, then 48: %v", got)
	}
}
