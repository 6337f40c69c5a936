package learned

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"prefdt/inference/motion"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
)

// readings flies a fleet through a steady wind, and returns what is believed after each
// slot. A payload multiplies its flight power; with 1 none is configured. change turns a true
// reading into what the battery shows.
func readings(seed uint64, wind physics.Position, aircraft int, payload float64,
	change func(slot, aircraft int, flown *slot.Flown)) (believed []motion.Air) {
	return readingsOf(Surroundings{Wind: true, Payload: payload != 1}, seed, wind, aircraft, payload, change)
}

// readingsOf is readings in surroundings of their own, but for the physics.
func readingsOf(of Surroundings, seed uint64, wind physics.Position, aircraft int, payload float64,
	change func(slot, aircraft int, flown *slot.Flown)) (believed []motion.Air) {
	r := rand.New(rand.NewPCG(seed, 4))
	c := physics.DefaultConstants()
	of.Physics = &c
	m := NewMemory(of, 20)
	s := slot.Snapshot{Aircraft: make([]slot.Aircraft, aircraft)}
	for ; s.Slot < 100; s.Slot++ {
		for i := range s.Aircraft {
			sin, cos := math.Sincos(2 * math.Pi * r.Float64())
			ground := wind.Add(physics.Position{EastM: 8 * cos, NorthM: 8 * sin})
			flown := slot.Flown{EastMPS: ground.EastM, NorthMPS: ground.NorthM,
				FlightJ: payload * c.Propulsion.PowerW(8) * (1 + readingNoise*r.NormFloat64())}
			change(s.Slot, i, &flown)
			s.Aircraft[i].Flown = flown
		}
		m.Observe(&s)
		var a motion.Air
		m.wind.air(&a)
		believed = append(believed, a)
	}
	return believed
}

func clean(int, int, *slot.Flown) {}

// A current sensor that is off by some percent is not taken for wind, where the filter is told of such
// errors: exact ones it finds the wind with as before.
func TestSensorIsNoWind(t *testing.T) {
	for _, c := range []struct{ gain, sensorSD, mostMPS float64 }{{0.95, 0.04, 4}, {1, 0.04, 3}, {1, 0, 3}, {1.07, 0.04, 4}} {
		worstMPS := 0.0
		for seed := range uint64(12) {
			sin, cos := math.Sincos(float64(seed))
			wind := physics.Position{EastM: 5 * cos, NorthM: 5 * sin}
			s := Surroundings{Wind: true, SensorSD: c.sensorSD}
			for _, a := range readingsOf(s, seed, wind, 1+int(seed%3), c.gain, clean)[40:] {
				worstMPS = max(worstMPS, a.MeanMPS().Sub(wind).Norm())
			}
		}
		t.Logf("a sensor that reads %v of the truth, expected within %v: the wind is off by up to %.1f m/s", c.gain, c.sensorSD, worstMPS)
		if worstMPS > c.mostMPS {
			t.Errorf("a sensor that reads %v of the truth puts the wind off by %.1f m/s", c.gain, worstMPS)
		}
	}
}

// Readings that say how inexact they are count as little as that: a battery that is read while a CPU
// computes shows a part of that as flight. Two such, in the only slots in which a fleet moved, turned the
// wind that was believed in by 15 m/s.
func TestInexactReading(t *testing.T) {
	wind := physics.Position{EastM: 5, NorthM: 3}
	worst := func(errorJ float64) (worstMPS float64) {
		for seed := range uint64(6) {
			believed := readings(seed, wind, 2, 1, func(n, i int, f *slot.Flown) {
				if n == 40 || n == 41 {
					f.FlightJ, f.ErrorJ = f.FlightJ+60, errorJ
				}
			})
			for _, a := range believed[40:60] {
				worstMPS = max(worstMPS, a.MeanMPS().Sub(believed[39].MeanMPS()).Norm())
			}
		}
		return worstMPS
	}
	exact, inexact := worst(0), worst(60)
	t.Logf("the wind turns by %.1f m/s at most, by readings taken as exact %.1f", inexact, exact)
	if inexact > 3 || inexact > exact/2 {
		t.Errorf("inexact readings turn the wind by %.1f m/s, exact ones by %.1f", inexact, exact)
	}
}

// One wrong reading moves what is believed of wind and multiplier little, and not for long:
// it had turned the wind by up to 13 m/s, and by more than 2 m/s for 20 slots.
func TestOneWrongReading(t *testing.T) {
	step := uint64(1)
	if testing.Short() { // an emulator takes a minute
		step = 5
	}
	fly := func(k uint64, change func(n, i int, f *slot.Flown)) []motion.Air {
		seed, payload := k%12, 1+0.1*float64(k/12)
		sin, cos := math.Sincos(float64(seed))
		return readings(seed, physics.Position{EastM: 7 * cos, NorthM: 7 * sin}, 1+int(seed%3), payload, change)
	}
	undisturbed := map[uint64][]motion.Air{}
	for k := uint64(0); k < 24; k += step {
		undisturbed[k] = fly(k, clean)
	}
	for _, factor := range []float64{2, 1.5, 0.5, 0.1, 30} {
		worstMPS, worstMultiplier, longest := 0.0, 0.0, 0
		for k, without := range undisturbed {
			with := fly(k, func(n, i int, f *slot.Flown) {
				if n == 40 && i == 0 {
					f.FlightJ *= factor
				}
			})
			slots := 0
			for n := range with {
				off := with[n].MeanMPS().Sub(without[n].MeanMPS()).Norm()
				if off > 2 {
					slots++
				}
				worstMPS = max(worstMPS, off)
				worstMultiplier = max(worstMultiplier, math.Abs(with[n].Multiplier-without[n].Multiplier))
			}
			longest = max(longest, slots)
		}
		t.Logf("times %v: %.1f m/s, %d slots above 2 m/s, %.3f", factor, worstMPS, longest, worstMultiplier)
		if worstMPS > 4 || longest > 2 || worstMultiplier > 0.05 {
			t.Errorf("one reading times %v moves the wind by up to %.1f m/s, by more than 2 m/s for %d slots, the multiplier by %.3f",
				factor, worstMPS, longest, worstMultiplier)
		}
	}
}

// One in a hundred readings doubled, halved or the one before again costs nothing of what
// is known of the wind.
func TestFewWrongReadings(t *testing.T) {
	const seeds = 20
	wind := physics.Position{EastM: 6}
	square := func(list []motion.Air) (sum float64) { // of the wind's error, in the mean
		for _, a := range list[20:] {
			d := a.MeanMPS().Sub(wind).Norm()
			sum += d * d / 80 / seeds
		}
		return sum
	}
	without := 0.0
	for seed := range uint64(seeds) {
		without += square(readings(seed, wind, 2, 1.1, clean))
	}
	var last slot.Flown
	for name, wrong := range map[string]func(*slot.Flown){
		"doubled": func(f *slot.Flown) { f.FlightJ *= 2 },
		"halved":  func(f *slot.Flown) { f.FlightJ /= 2 },
		"frozen":  func(f *slot.Flown) { f.FlightJ = last.FlightJ },
	} {
		with := 0.0
		for seed := range uint64(seeds) {
			r := rand.New(rand.NewPCG(seed, 99))
			with += square(readings(seed, wind, 2, 1.1, func(_, i int, f *slot.Flown) {
				if was := *f; r.IntN(100) == 0 {
					wrong(f)
				} else {
					last = was
				}
			}))
		}
		if cleanMPS, mps := math.Sqrt(without), math.Sqrt(with); mps > 1.05*cleanMPS {
			t.Errorf("%s: the wind is known to %.2f m/s, with clean readings to %.2f", name, mps, cleanMPS)
		}
	}
}

// Two wrong readings that agree, of both aircraft in one slot, take little of what is known of the wind,
// and the multiplier is soon what it was.
func TestTwoWrongReadings(t *testing.T) {
	const seeds, slot40 = 24, 40
	for _, factor := range []float64{2, 0.5} {
		withMPS, withoutMPS, multiplier := 0.0, 0.0, 0.0
		for seed := range uint64(seeds) {
			sin, cos := math.Sincos(float64(seed))
			wind := physics.Position{EastM: 6 * cos, NorthM: 6 * sin}
			of := func(change func(n, i int, f *slot.Flown)) (meanMPS, worst float64) {
				list := readings(seed, wind, 2, 1.1, change)
				for n := slot40; n < slot40+20; n++ {
					meanMPS += list[n].MeanMPS().Sub(wind).Norm() / 20 / seeds
					if n > slot40+5 {
						worst = max(worst, math.Abs(list[n].Multiplier/1.1-1))
					}
				}
				return meanMPS, worst
			}
			x, _ := of(clean)
			y, off := of(func(n, _ int, f *slot.Flown) {
				if n == slot40 {
					f.FlightJ *= factor
				}
			})
			withoutMPS, withMPS, multiplier = withoutMPS+x, withMPS+y, max(multiplier, off)
		}
		t.Logf("times %v: the wind is off by %.2f m/s over 20 slots, with clean readings by %.2f, the multiplier by up to %.3f after 5",
			factor, withMPS, withoutMPS, multiplier)
		if withMPS > 2.1 || multiplier > 0.13 {
			t.Errorf("times %v: the wind is off by %.2f m/s over 20 slots, with clean readings by %.2f, the multiplier by up to %.3f "+
				"after 5", factor, withMPS, withoutMPS, multiplier)
		}
	}
}

// A sensor that is wrong from some slot on, in all slots or in turns, turns no wind while another one
// is right, and one alone that is wrong in turns does not either: it had, by 5 to 8 m/s.
func TestOneWrongSensor(t *testing.T) {
	const seeds, from = 12, 40
	for _, c := range []struct {
		name     string
		aircraft int
		factor   func(n int) float64
	}{
		{"one of two reads twice as much", 2, func(int) float64 { return 2 }},
		{"one of two reads half", 2, func(int) float64 { return 0.5 }},
		{"one of two reads twice as much in every second slot", 2, func(n int) float64 { return float64(1 + n%2) }},
		{"one of three reads twice and half in turn", 3, func(n int) float64 { return 0.5 + 1.5*float64(n%2) }},
		{"one alone reads twice as much in every second slot", 1, func(n int) float64 { return float64(1 + n%2) }},
		{"one alone reads half in every third", 1, func(n int) float64 { return 1 - 0.5*float64(n%3/2) }},
	} {
		with, without, multiplier := 0.0, 0.0, 0.0
		for seed := range uint64(seeds) {
			sin, cos := math.Sincos(float64(seed))
			wind := physics.Position{EastM: 6 * cos, NorthM: 6 * sin}
			of := func(change func(n, i int, f *slot.Flown)) (square float64) {
				for _, a := range readings(seed, wind, c.aircraft, 1.1, change)[from+5:] {
					off := a.MeanMPS().Sub(wind).Norm()
					square += off * off / (55 * seeds)
					multiplier = max(multiplier, math.Abs(a.Multiplier/1.1-1))
				}
				return square
			}
			without += of(clean)
			with += of(func(n, i int, f *slot.Flown) {
				if n >= from && i == 0 {
					f.FlightJ *= c.factor(n)
				}
			})
		}
		mps, cleanMPS := math.Sqrt(with), math.Sqrt(without)
		t.Logf("%s: the wind is known to %.2f m/s, with clean readings to %.2f, the multiplier to %.3f", c.name, mps, cleanMPS, multiplier)
		if mps > 1.6*cleanMPS || multiplier > 0.15 {
			t.Errorf("%s: the wind is known to %.2f m/s, with clean readings to %.2f, the multiplier to %.3f", c.name, mps, cleanMPS,
				multiplier)
		}
	}
}

// A change of flight power that lasts is followed, whatever was believed and configured: a damaged
// propeller is no payload.
func TestLastingChangeOfPower(t *testing.T) {
	for _, factor := range []float64{1.5, 0.6} {
		for seed := range uint64(12) {
			wind, payload := physics.Position{EastM: 5, NorthM: -3}, 1+0.1*float64(seed/6)
			list := readings(seed, wind, 1+int(seed%2), payload, func(n, _ int, f *slot.Flown) {
				if n >= 40 {
					f.FlightJ *= factor
				}
			})
			name := fmt.Sprintf("seed %d, times %v", seed, factor)
			if a := list[55]; math.Abs(a.Multiplier/(payload*factor)-1) > 0.15 {
				t.Errorf("%s: after 15 slots the multiplier is %.2f", name, a.Multiplier)
			}
			if a := list[70]; math.Abs(a.Multiplier/(payload*factor)-1) > 0.1 || a.MeanMPS().Sub(wind).Norm() > 2.5 {
				t.Errorf("%s: after 30 slots the multiplier is %.2f, the wind %v", name, a.Multiplier, a.MeanMPS())
			}
		}
	}
}
