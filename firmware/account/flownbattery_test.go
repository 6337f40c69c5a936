package account

import (
	"math"
	"math/rand/v2"
	"testing"

	"prefdt/firmware/energy"
	"prefdt/firmware/fleet"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
)

// What a slot's flight took is told only where a battery measured it: a sensor that fails,
// another one that takes over, a wrong message and a new pack do not show as flight. Where the
// counter of charge took over from that of energy, a slot's flight was five times as much.
func TestFlownIsMeasured(t *testing.T) {
	all := [3]bool{true, true, true} // counter of energy, current, charge
	for _, c := range []struct {
		name   string
		fields func(s float64) [3]bool // that are measured
		count  func(s, countHJ float64) float64
	}{
		{"as it should be", func(float64) [3]bool { return all }, nil},
		{"absent", func(s float64) [3]bool {
			if s > 30 && s < 42 {
				return [3]bool{}
			}
			return all
		}, nil},
		{"hands over", func(s float64) [3]bool {
			switch {
			case s > 30 && s < 34:
				return [3]bool{false, true, false}
			case s >= 34 && s < 38:
				return [3]bool{false, false, true}
			case s >= 38 && s < 42:
				return [3]bool{false, true, true}
			}
			return all
		}, nil},
		{"the counter alone", func(s float64) [3]bool {
			if s > 30 && s < 42 {
				return [3]bool{true, false, false}
			}
			return all
		}, nil},
		{"wild", func(float64) [3]bool { return all }, func(s, countHJ float64) float64 {
			switch {
			case s > 30 && s < 30.3:
				return countHJ + 40
			case s > 36 && s < 36.3:
				return 0
			}
			return countHJ
		}},
		{"another pack", func(float64) [3]bool { return all }, func(s, countHJ float64) float64 {
			if s > 30 {
				return math.Floor(countHJ - 30*1.8)
			}
			return countHJ
		}},
	} {
		for _, multiplier := range []float64{1, 1.3} {
			for seed := range uint64(8) {
				off, worst, told := flownOff(c.fields, c.count, multiplier, seed)
				if off > 0 || told < 70 {
					t.Errorf("%s, at %v, seed %d: %d slots are off, the worst by %.2f, %d of 100 told", c.name, multiplier, seed, off,
						worst, told)
				}
			}
		}
	}
}

// flownOff flies one aircraft for 100 slots and returns the slots of which Flown is more than
// 40 % off what was drawn, and how many slots it told.
func flownOff(fields func(s float64) [3]bool, count func(s, countHJ float64) float64, multiplier float64, seed uint64) (off int,
	worst float64, told int) {
	const stepS, bootS = 0.05, 40.0
	r := rand.New(rand.NewPCG(seed, 8))
	a := newAccount()
	c := physics.DefaultConstants()
	m := energy.Meter{CapacityJ: c.BatteryCapacityJ, PowerW: c.Propulsion.PowerW, MaxPowerW: 10 * c.Propulsion.PowerW(c.SpeedMaxMPS)}
	drawnJ, coulombs, reportedJ, reportedS, speed, gust := 30e3, 30e3/16.1, 30e3, -10.0, 8.0, 1.0
	var position physics.Position
	view := func(now float64) []fleet.View {
		return []fleet.View{{
			Number: 1, Flying: true, InAir: true, AtS: now, Position: position, Charge: math.NaN(), CapacityJ: c.BatteryCapacityJ,
			Source: m.Source(now), Measured: m.Measured(now, 1), TotalJ: m.DrawnJ(now), ModelJ: m.ModelJ(now), Mark: m.LastReading(),
		}}
	}
	startJ := 0.0
	for i := -200; i <= 2000; i++ {
		now := float64(i) * stepS
		if i%20 == 0 {
			if i == 0 {
				a.Begin(100, view(0))
				a.BeginSlots(view(0), 1)
			}
			if n := i/20 - 1; n >= 0 {
				a.Settle(n, view(now), noTakers)
				if x := a.Flown(1, n); x.FlightJ > 0 {
					told++
					d := math.Abs(x.FlightJ/(drawnJ-startJ) - 1)
					if worst = max(worst, d); d > 0.4 {
						off++
					}
				}
			}
			if i >= 0 && i < 2000 {
				a.AddDecision(SlotDecision{Slot: i / 20, Snapshot: &slot.Snapshot{Aircraft: []slot.Aircraft{{Number: 1, CPUHz: 4e10}}},
					Decision: &slot.Decision{}})
			}
			startJ, speed, gust = drawnJ, 6+4*r.Float64(), 1+0.02*r.NormFloat64()
		}
		drawnJ += multiplier * gust * c.Propulsion.PowerW(speed) * stepS
		coulombs += multiplier * gust * c.Propulsion.PowerW(speed) * stepS / (16.2 - 1.8*drawnJ/150e3)
		position.EastM += speed * stepS
		if i%5 == 0 {
			f, reading := fields(now), energy.Absent()
			volts := math.Round(1000*(16.2-1.8*drawnJ/150e3)+2*r.NormFloat64()) / 1000
			reading.VoltageV, reading.BootS = volts, now+bootS
			mAh := int32(-1)
			if f[0] {
				reading.ConsumedHJ = math.Floor(drawnJ / 100)
				if count != nil {
					reading.ConsumedHJ = count(now, reading.ConsumedHJ)
				}
			}
			if f[1] {
				reading.CurrentA = math.Round(100*(drawnJ-reportedJ)/(now-reportedS)/volts) / 100
				mAh = int32(coulombs / 3.6)
				reportedJ, reportedS = drawnJ, now
			}
			if f[2] {
				reading.Charge = math.Ceil(100*(1-drawnJ/150e3)) / 100
			}
			m.AddReading(now, m.WithCharge(reading, mAh))
			m.SetSpeed(now, speed, true)
		}
	}
	return off, worst, told
}
