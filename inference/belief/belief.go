// Package belief has what a scheduler holds true of a slot beyond what is reported:
// the gains at which uploads will run, which phones are throttled, the wind.
//
// Inputs: a snapshot, with the results and flight joules of earlier slots, and an
// Estimator, which may remember them. Outputs: a snapshot for the exact dispatch, in
// which each user's figures are what is believed of them, and the air that aircraft
// fly in. The policy's estimator is its network; package baseline has estimators
// without one: of a slot's reports alone, of filters, and of the hidden truth.
package belief

import (
	"math"
	"slices"

	"prefdt/inference/motion"
	"prefdt/inference/slot"
)

// Belief is what an Estimator makes of one slot.
type Belief struct {
	Air   motion.Air
	Users []User // in the order of the snapshot's users with a task
}

// User is what is believed of one user.
type User struct {
	Gain        []float64 // that its upload will have, to each aircraft in the snapshot's order
	Uncertainty slot.Uncertainty
}

// Estimator forms beliefs slot by slot; it may remember earlier slots of a mission.
type Estimator interface {
	Reset()
	// Estimate fills b, which Resize has made the report's, for a slot.
	Estimate(s *slot.Snapshot, b *Belief)
}

// Resize makes the belief what a snapshot reports, taken as exact, in calm air. It
// reuses the belief's memory.
func (b *Belief) Resize(s *slot.Snapshot) {
	b.Air = motion.Air{Winds: b.Air.Winds[:0]}
	b.Users = slices.Grow(b.Users[:0], len(s.Users))[:len(s.Users)]
	for i := range b.Users {
		u := &b.Users[i]
		u.Gain = append(u.Gain[:0], s.Users[i].Gain...)
		u.Uncertainty = slot.Uncertainty{GainStdDev: u.Uncertainty.GainStdDev[:0]}
	}
}

// SetLink sets what is believed of the gain to aircraft m, an index into the
// snapshot's: the mean of its natural logarithm and the standard deviation.
func (u *User) SetLink(m int, meanLog, stdDevLog float64) {
	u.Gain[m] = math.Exp(meanLog)
	for len(u.Uncertainty.GainStdDev) <= m {
		u.Uncertainty.GainStdDev = append(u.Uncertainty.GainStdDev, 0)
	}
	u.Uncertainty.GainStdDev[m] = stdDevLog
}

// Apply writes into dst the snapshot as it is believed to be. dst shares the memory of
// both.
func (b *Belief) Apply(s, dst *slot.Snapshot) {
	users := append(dst.Users[:0], s.Users...)
	*dst = *s
	for i := range users {
		users[i].Gain, users[i].Uncertainty = b.Users[i].Gain, b.Users[i].Uncertainty
	}
	dst.Users = users
}
