package account

import (
	"math"

	"prefdt/firmware/fleet"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
)

// flightMark is where an aircraft was at a settlement, and what it had drawn.
type flightMark struct {
	measured  bool // in flight under command, neither position nor joules extrapolated far
	atS       float64
	position  physics.Position
	readS     float64 // the last battery reading: since then joules are extrapolated
	receivedS float64 // when it was received, by the leader's clock
	readJ     float64
	gaps      int     // of what was measured, until then
	coarseJ   float64 // the resolution of what measured it
}

// markFlights is called at each settlement.
func (a *Account) markFlights(views []fleet.View) {
	for i := range views {
		v, marks := &views[i], &a.aircraft[i].marks
		marks[0], marks[1] = marks[1], flightMark{v.Flying && v.Measured, v.AtS, v.Position, v.ReadS, v.ReceivedS, v.ReadJ, v.Gaps,
			v.ResolutionJ}
	}
}

// Flown returns how an aircraft flew in a slot, if that is the last one settled: its
// displacement by the time between the settlements, for one may be late, and what it
// drew for flight by the time between the last battery readings before them, less the
// computing that shows between these; how exactly that is known is in ErrorJ. It is zero
// where either end was not measured, or what was measured cannot be one slot's flight:
// a position that jumped, a meter that corrected itself, an autopilot that rebooted, a
// counter alone, which is as coarse as a slot. It
// is zero, too, if a user took the slot's offer, be it one that the account does not count: on which
// aircraft it computed is not known, and how much, and alone it may draw as much as the flight.
func (a *Account) Flown(number, slotNumber int) slot.Flown {
	from, to := &a.aircraft[number-1].marks[0], &a.aircraft[number-1].marks[1]
	r := a.results[slotNumber]
	if a.flownSlot != slotNumber || r == nil || r.offerUsers > 0 || r.uncounted || !from.measured || !to.measured ||
		from.gaps != to.gaps || from.coarseJ+to.coarseJ > 0 {
		return slot.Flown{}
	}
	isSlot := func(seconds float64) bool { return seconds > 0.5 && seconds < 1.5 }
	seconds, readingSeconds := to.atS-from.atS, to.readS-from.readS
	velocity := to.position.Sub(from.position).Scale(1 / seconds)
	edgeJ, errorJ := 0.0, 0.0
	for _, e := range a.edges {
		x := e.aircraftEdgeJ[number-1]
		shownFrom, fromError := e.shown(from.receivedS)
		shownTo, toError := e.shown(to.receivedS)
		edgeJ, errorJ = edgeJ+x*(shownTo-shownFrom), math.Hypot(errorJ, x*math.Hypot(fromError, toError))
	}
	flightJ := (to.readJ - from.readJ - edgeJ) / readingSeconds
	if !(isSlot(seconds) && isSlot(readingSeconds) && velocity.Norm() <= 2*a.SpeedMaxMPS && flightJ > 0) {
		return slot.Flown{}
	}
	return slot.Flown{EastMPS: velocity.EastM, NorthMPS: velocity.NorthM, FlightJ: flightJ, ErrorJ: errorJ / readingSeconds}
}
