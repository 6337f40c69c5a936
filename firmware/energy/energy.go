// Package energy meters the joules that an aircraft has drawn, from its autopilot's
// battery messages and, where they are missing, from the propulsion model.
//
// Inputs: battery readings and measured speeds, with the mission time of their receipt
// and the autopilot's time since boot; the edge energy of decisions; the propulsion
// multiplier. Outputs: the total drawn, with the name of its source and a bound on its
// error; the remaining charge. Called by package fleet, one Meter an aircraft; the
// leader reads the total in each settlement.
//
// Sources, in this order, with hand-over either way: the autopilot's counter of
// energy consumed; current times voltage, integrated; remaining charge times
// capacity; the model, propulsion(measured speed) x last measured multiplier +
// edge energy of the decisions sent. A counter too coarse for a slot is a reference:
// one of the finer sources interpolates between its counts; a counter of charge stands in
// for one of energy. Between two readings, up to 6 s apart, the measured flight power holds.
//
// No reading is accepted alone against the others. One that is older than the last, by
// its counter, is ignored; a step of a counter that current and model do not explain
// counts when the next reading agrees, and so does a reboot. Two may be wrong as well: where
// the counter then goes on from before, that step is undone. Only a current cannot be
// checked where there is no counter: it counts up to MaxPowerW.
package energy

import (
	"math"
	"slices"
)

// Source names where the joules come from; the values are those of the status message.
type Source string

const (
	Consumed  Source = "energy_consumed"
	Current   Source = "current_voltage"
	Remaining Source = "remaining_charge"
	Model     Source = "model"
)

// Worse returns the source of the two that is later in the order.
func Worse(a, b Source) Source {
	order := []Source{Consumed, Current, Remaining, Model}
	if slices.Index(order, a) > slices.Index(order, b) {
		return a
	}
	return b
}

// Reading is one battery message. NaN: the autopilot did not report the field.
type Reading struct {
	ConsumedHJ float64 // energy consumed since boot, hectojoules
	CurrentA   float64
	VoltageV   float64
	Charge     float64 // remaining, 0 to 1
	BootS      float64 // autopilot's time since boot; 0: not known
}

// Absent is a reading without any field.
func Absent() Reading {
	nan := math.NaN()
	return Reading{ConsumedHJ: nan, CurrentA: nan, VoltageV: nan, Charge: nan}
}

// PowerW returns current times voltage, NaN when either is absent.
func (r Reading) PowerW() float64 { return r.CurrentA * r.VoltageV }

// repeats is whether a reading shows a current, and all that the one before it showed. In
// flight no two measurements are the same: it is the last one again, as autopilots and
// relays send it until there is a new one, and a frozen monitor for ever, on the ground too.
func (r Reading) repeats(was Reading) bool {
	same := func(v, was float64) bool { return v == was || math.IsNaN(v) && math.IsNaN(was) }
	return r.CurrentA >= 0 && r.CurrentA == was.CurrentA && same(r.ConsumedHJ, was.ConsumedHJ) && same(r.VoltageV, was.VoltageV) &&
		same(r.Charge, was.Charge)
}

// valid returns the reading with values that no battery has marked as absent.
func (r Reading) valid() Reading {
	within := func(v, least, most float64) float64 {
		if v >= least && v <= most {
			return v
		}
		return math.NaN()
	}
	most := math.MaxFloat64
	r.ConsumedHJ, r.CurrentA = within(r.ConsumedHJ, 0, math.MaxInt32), within(r.CurrentA, 0, most)
	r.VoltageV, r.Charge = within(r.VoltageV, math.SmallestNonzeroFloat64, most), within(r.Charge, 0, 1)
	if !(r.BootS > 0 && r.BootS <= most) {
		r.BootS = 0
	}
	return r
}

// FromBatteryStatus converts the fields of BATTERY_STATUS, or those that SYS_STATUS has. Any
// negative value is absent: -100 cA is sent where no current is measured. So is a voltage of 0 or
// UINT16_MAX.
func FromBatteryStatus(voltagesMV []uint16, currentCA int16, consumedHJ int32, remainingPercent int8) Reading {
	r := Absent()
	if consumedHJ >= 0 {
		r.ConsumedHJ = float64(consumedHJ)
	}
	if currentCA >= 0 {
		r.CurrentA = float64(currentCA) / 100
	}
	sum := 0.0
	for _, mv := range voltagesMV {
		if mv != math.MaxUint16 {
			sum += float64(mv) / 1000
		}
	}
	if sum > 0 {
		r.VoltageV = sum
	}
	if remainingPercent >= 0 && remainingPercent <= 100 {
		r.Charge = float64(remainingPercent) / 100
	}
	return r
}

// estimate is an amount of joules, and its bounds as long as the sensors are no worse
// than assumed.
type estimate struct {
	J     float64 `json:"j"`
	LowJ  float64 `json:"low_j"`
	HighJ float64 `json:"high_j"`
}

// withRelativeError is an amount with a relative error.
func withRelativeError(j, off float64) estimate { return estimate{j, j * (1 - off), j * (1 + off)} }

func (f estimate) plus(g estimate) estimate {
	return estimate{f.J + g.J, f.LowJ + g.LowJ, f.HighJ + g.HighJ}
}

func (f estimate) widened(byJ float64) estimate { return estimate{f.J, f.LowJ - byJ, f.HighJ + byJ} }

// narrowed narrows an estimate to the bounds of a better source. Where the two
// contradict each other, the better source is accepted.
func (f estimate) narrowed(lowJ, highJ float64) estimate {
	low, high := math.Max(f.LowJ, lowJ), math.Min(f.HighJ, highJ)
	if low > high {
		low, high = lowJ, highJ
	}
	return estimate{math.Min(math.Max(f.J, low), high), low, high}
}

// uncertaintyJ is how far off the amount may be, up or down.
func (f estimate) uncertaintyJ() float64 { return math.Max(f.HighJ-f.J, f.J-f.LowJ) }
