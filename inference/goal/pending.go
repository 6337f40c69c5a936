package goal

// PendingEstimate gathers slots in which users took the standing offer: where they went
// is not known, so the edge energy is a guess and what is left for flight may
// be off by half. Taken one by one such slots look like changes of physics;
// their mean is a measurement. (One that no guess explains is a change.)
type PendingEstimate struct {
	PendingFlightJ float64 `json:"vague_flight_j"`
	PendingModelJ  float64 `json:"vague_model_j"`
	PendingSlots   int     `json:"vague_slots"`
}

// slotsPerEstimate make one measurement.
const slotsPerEstimate = 8

// addPending takes in a slot and reports whether there are enough for a multiplier.
func (v *PendingEstimate) addPending(flightJ, modelJ float64) (factor float64, enough bool) {
	v.PendingFlightJ += flightJ
	v.PendingModelJ += modelJ
	if v.PendingSlots++; v.PendingSlots < slotsPerEstimate {
		return 0, false
	}
	factor = v.PendingFlightJ / v.PendingModelJ
	*v = PendingEstimate{}
	return factor, true
}
