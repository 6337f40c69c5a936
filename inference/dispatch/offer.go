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
	return o.choose(c, u, nil)
}

// choose is Choose, of a user whose rates at the whole bandwidth are known by aircraft, or not: most of a choice is their logarithms.
func (o *Offer) choose(c *physics.Constants, u *slot.User, rateBPS []float64) slot.UserDecision {
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
		expected := 1.0
		if a.ExpectedUsers > 1 { // false for NaN
			expected = a.ExpectedUsers
		}
		var share physics.Share
		if m < len(rateBPS) {
			share = physics.Share{CPUHz: a.CPUHz / expected, RateBPS: rateBPS[m]}
		} else {
			share = c.EqualShare(o.gain(c, u, m), a.CPUHz, expected)
		}
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

// gain returns a user's gain to an aircraft of the offer.
func (o *Offer) gain(c *physics.Constants, u *slot.User, m int) float64 {
	if m < len(u.Gain) && u.Gain[m] >= 0 { // false for NaN
		return u.Gain[m]
	}
	return c.Channel.MeanGain(u.Position.Sub(o.Aircraft[m].Position).Norm(), c.AltitudeM)
}
