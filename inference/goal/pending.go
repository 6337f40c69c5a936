package goal

// PendingEstimate gathers slots in which users decided by the standing offer. Which
// aircraft they chose is not known, so the slot's edge energy is an estimate and
// the rest, for flight, may be wrong by half. One by one, such slots would look
// like changes of the multiplier; their mean is one measurement. (A slot that no
// possible edge energy explains is a change; see addInterval.)
type PendingEstimate struct {
	PendingFlightJ float64 `json:"vague_flight_j"`
	PendingModelJ  float64 `json:"vague_model_j"`
	PendingSlots   int     `json:"vague_slots"`
}

// slotsPerEstimate is the number of slots in one measurement.
const slotsPerEstimate = 8

// addPending adds slots; once there are enough, it returns their measurement.
func (p *PendingEstimate) addPending(flightJ, modelJ float64, slots int) (multiplier float64, enough bool) {
	p.PendingFlightJ += flightJ
	p.PendingModelJ += modelJ
	if p.PendingSlots += slots; p.PendingSlots < slotsPerEstimate {
		return 0, false
	}
	multiplier = p.PendingFlightJ / p.PendingModelJ
	*p = PendingEstimate{}
	return multiplier, true
}
