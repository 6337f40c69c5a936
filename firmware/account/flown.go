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

// markFlights is called at each settlement.
func (a *Account) markFlights(views []fleet.View) {
	for i := range views {
		v, marks := &views[i], &a.aircraft[i].marks
		marks[0], marks[1] = marks[1], flightMark{v.Flying && v.Measured, v.AtS, v.Position, v.TotalJ}
	}
}

// Flown returns how an aircraft flew in a slot, if that is the last one settled: its
// displacement and what it drew for flight, by the time between the settlements, for
// one may be late. It is zero where either end was not measured, or what was measured
// cannot be one slot's flight: a position that jumped, a meter that corrected itself. It
// is zero, too, if a user took the slot's offer: on which aircraft it computed is not
// known, and how much, and alone it may draw as much as the flight.
func (a *Account) Flown(number, slotNumber int) slot.Flown {
	from, to := &a.aircraft[number-1].marks[0], &a.aircraft[number-1].marks[1]
	r := a.results[slotNumber]
	if a.flownSlot != slotNumber || r == nil || r.offerUsers > 0 || !from.measured || !to.measured {
		return slot.Flown{}
	}
	seconds := to.atS - from.atS
	velocity := to.position.Sub(from.position).Scale(1 / seconds)
	flightJ := (to.totalJ - from.totalJ - r.aircraftEdgeJ[number-1]) / seconds
	if !(seconds > 0.5 && seconds < 1.5 && velocity.Norm() <= 2*a.SpeedMaxMPS && flightJ > 0) {
		return slot.Flown{}
	}
	return slot.Flown{EastMPS: velocity.EastM, NorthMPS: velocity.NorthM, FlightJ: flightJ}
}
