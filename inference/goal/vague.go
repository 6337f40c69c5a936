package goal

// Vague gathers slots in which users took the standing offer: where they went
// is not known, so the edge energy is a guess and what is left for flight may
// be off by half. Taken one by one such slots look like changes of physics;
// their mean is a measurement. (One that no guess explains is a change.)
type Vague struct {
	VagueFlightJ float64 `json:"vague_flight_j"`
	VagueModelJ  float64 `json:"vague_model_j"`
	VagueSlots   int     `json:"vague_slots"`
}

// vagueSlots make one measurement.
const vagueSlots = 8

// gather takes in a slot and reports whether there are enough for a multiplier.
func (v *Vague) gather(flightJ, modelJ float64) (factor float64, enough bool) {
	v.VagueFlightJ += flightJ
	v.VagueModelJ += modelJ
	if v.VagueSlots++; v.VagueSlots < vagueSlots {
		return 0, false
	}
	factor = v.VagueFlightJ / v.VagueModelJ
	*v = Vague{}
	return factor, true
}
