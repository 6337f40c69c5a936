package dispatch

import (
	"math"

	"prefdt/inference/physics"
	"prefdt/inference/slot"
)

// Offer is the standing offer that each slot's beacon publishes: what a user needs
// to decide for itself when its report or its decision was lost.
type Offer struct {
	PriceSPerJ float64
	Aircraft   []OfferAircraft
}

// OfferAircraft is one aircraft of a standing offer.
type OfferAircraft struct {
	Number        int // as slot.Aircraft.Number
	Position      physics.Position
	CPUHz         float64 // 0: it is not on offer, because nobody would choose it
	ExpectedUsers float64 // that will share it
}

// Choose returns the choice of a user without a decision: local or, at an aircraft's
// expected share, the option of least delay, penalty and priced edge energy. The
// share is the aircraft's CPU (and bandwidth, under contention) over
// max(1, ExpectedUsers). u.Gain is in the order of o.Aircraft; an entry that is
// missing, NaN or negative is replaced by the closed-form mean at that distance.
// Server in the result indexes o.Aircraft, from 1; CPUHz and CompletionS are expected.
func (o *Offer) Choose(c *physics.Constants, u *slot.User) slot.UserDecision {
	localS := u.Task.LocalTimeS(u.CPUHz)
	decision := slot.UserDecision{CompletionS: localS}
	if !(localS > 0 && localS <= math.MaxFloat64) {
		return decision
	}
	price := clampPrice(o.PriceSPerJ)
	least := c.PenalizedDelayS(u.Task, localS)
	for m := range o.Aircraft {
		a := &o.Aircraft[m]
		if !(a.CPUHz > 0 && a.CPUHz <= math.MaxFloat64) {
			continue
		}
		var gain float64
		if m < len(u.Gain) && u.Gain[m] >= 0 { // false for NaN
			gain = u.Gain[m]
		} else {
			gain = c.Channel.MeanGain(u.Position.Sub(a.Position).Norm(), c.AltitudeM)
		}
		expected := 1.0
		if a.ExpectedUsers > 1 { // false for NaN
			expected = a.ExpectedUsers
		}
		share := c.EqualShare(gain, a.CPUHz, expected)
		if !(share.RateBPS > 0 && share.CPUHz > 0) {
			continue
		}
		if rho, costS := bestOffload(c, u.Task, localS, share, price); costS < least {
			least = costS
			decision = slot.UserDecision{
				Server: m + 1, Offload: rho, CPUHz: share.CPUHz,
				CompletionS: physics.CompletionS(localS, u.Task.OffloadTimeS(share), rho),
			}
		}
	}
	return decision
}
