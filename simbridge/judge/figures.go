package judge

import "math"

// Figures are numbers of a flight that no rule bounds.
type Figures struct {
	Ended          bool      `json:"ended"`            // it took its course
	LedgerErrorJ   float64   `json:"ledger_error_j"`   // of the last status, outside the slots too, against the batteries
	MinSeparationM float64   `json:"min_separation_m"` // horizontal, of two in the air; 1e9: there never were two
	MissedSlots    int       `json:"missed_slots"`
	SlowestAnswerS float64   `json:"slowest_answer_s"`         // from delivery to answer
	LeftForPacks   []float64 `json:"left_for_packs,omitempty"` // shares, of packs that alone ended a flight
	CounterResets  bool      `json:"counter_resets,omitempty"` // of a battery: the model alone bridged a gap
}

// figures of a flight.
func (f *flight) figures() Figures {
	x := Figures{Ended: f.complete && f.end.Failure == "", MinSeparationM: 1e9,
		CounterResets: f.has("battery_reset", "autopilot_reboot")}
	f.eachPair(func(_, _ *aircraft, s, o *state, apart point) {
		if s.heightM() > 1 && o.heightM() > 1 {
			x.MinSeparationM = min(x.MinSeparationM, horizontalM(apart))
		}
	})
	if n := len(f.statuses); n > 0 {
		s := &f.statuses[n-1]
		x.MissedSlots, x.LedgerErrorJ = s.MissedSlots, s.toldJ()
		for _, a := range f.aircraft {
			x.LedgerErrorJ -= a.spentJ(s.timeS)
		}
		x.LedgerErrorJ = math.Abs(x.LedgerErrorJ)
	}
	for _, o := range f.orders {
		if slow := o.answeredS - o.deliveredS; slow > 0 && !math.IsInf(slow, 0) {
			x.SlowestAnswerS = max(x.SlowestAnswerS, slow)
		}
	}
	return x
}
