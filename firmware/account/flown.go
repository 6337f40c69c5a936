package account

import (
	"prefdt/firmware/fleet"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
)

// flightMark is where an aircraft was at a settlement, and what it had drawn.
type flightMark struct {
	measured bool // in flight under command, neither position nor joules extrapolated far
	atS      float64
	position physics.Position
	totalJ   float64
}

func newFlightMark(v *fleet.View) flightMark {
	return flightMark{v.Flying && v.Measured, v.AtS, v.Position, v.TotalJ}
}

// flownUntil returns how an aircraft flew from one settlement to the next, in which it
// drew edgeJ for computing. It is zero where either end was not measured, or what was
// measured cannot be the flight of one slot: settlements that were not a slot apart,
// a position that jumped, a meter that corrected itself downwards.
func (m *flightMark) flownUntil(to *flightMark, edgeJ, speedMaxMPS float64) slot.Flown {
	seconds := to.atS - m.atS // a settlement may be late
	velocity, flightJ := to.position.Sub(m.position).Scale(1/seconds), (to.totalJ-m.totalJ-edgeJ)/seconds
	plausible := seconds > 0.5 && seconds < 1.5 && velocity.Norm() <= 2*speedMaxMPS && flightJ > 0
	if !m.measured || !to.measured || !plausible {
		return slot.Flown{}
	}
	return slot.Flown{EastMPS: velocity.EastM, NorthMPS: velocity.NorthM, FlightJ: flightJ}
}

// Flown returns how an aircraft flew in a slot, if that is the last one settled and it
// was measured; otherwise zero.
func (a *Account) Flown(number, slotNumber int) slot.Flown {
	if c := &a.aircraft[number-1]; c.flownSlot == slotNumber {
		return c.flown
	}
	return slot.Flown{}
}
