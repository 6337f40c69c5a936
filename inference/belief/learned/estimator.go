// Package learned is the estimator of the policy: two small networks over what a mission
// showed in its last slots, which say at which gain an upload will run and whether a
// user's CPU is throttled, and Bayes filters of the wind that the fleet flies in.
//
// Inputs: what is configured of a mission (Surroundings), trained Parameters, and the
// snapshots of its slots. Outputs: a belief.Belief for each. Package belieftrain fits
// the parameters, and runs the same networks forward (Networks, Memory, Change, Believe).
//
// # What is remembered
//
// Memory keeps what arrived in the last Window slots: of each user its soundings and
// timed uploads, and the speeds that its results show; of the fleet the power that was
// measured at a velocity. An older slot cannot reach a belief, so that an estimator
// which begins in the middle of a mission is after Window slots the same as one that
// was there from the start. The belief of a link or of a CPU depends on its own user's
// memory and on the configuration alone.
//
// # What is believed
//
// Each network starts from a closed form without memory, so that its features are in
// natural units and need no statistics.
//
// Links: Bayes' rule on the present sounding gives the odds of line of sight. The network
// attends from the link to its user's observations, each with its angle from the link,
// its age and how far the user has walked since. It changes the odds and gives, for
// either condition, the mean and the standard deviation of the shadowing: the mean is an
// average of the shadowing that was observed, by weights that attention learns, and a
// correction. What the nearest timed upload says is a feature by itself.
//
// CPUs: the probability of throttling, from the speeds that the user's last results show.
//
// Wind: Bayes filters over a grid of candidates, none of which knows of anything older
// than the memory, with the multiplier of flight power. No network changes them: trained
// on the likelihood, it was less sure of the wind, and aircraft that are not sure stand
// over the ground, where they learn nothing of it.
package learned

import (
	"prefdt/inference/belief"
	"prefdt/inference/slot"
)

var _ belief.Estimator = (*Estimator)(nil)

// Estimator is a belief.Estimator. It does not allocate once it has met as many users
// and aircraft as there are.
type Estimator struct {
	memory   *Memory
	networks *Networks[float32]
}

// New returns the estimator of a mission.
func New(s Surroundings, p *Parameters) *Estimator {
	return &Estimator{memory: NewMemory(s, p.Window), networks: NewNetworks(p.Data)}
}

// Reset forgets everything, for another mission.
func (e *Estimator) Reset() { e.memory.Reset() }

// Memory returns what the estimator remembers.
func (e *Estimator) Memory() *Memory { return e.memory }

// usersAtOnce is how many users the networks are run for at once: what they compute of a
// user's observations, 30 kB for each aircraft, is then read again while it is in the
// processor's cache, and takes no more memory for more users.
const usersAtOnce = 32

// Estimate fills b for a slot and remembers what the slot shows.
func (e *Estimator) Estimate(s *slot.Snapshot, b *belief.Belief) {
	e.memory.remember(s)
	if e.memory.Wind || e.memory.Payload {
		e.memory.wind.air(&b.Air)
	}
	for first := 0; first < len(s.Users); first += usersAtOnce {
		next := min(first+usersAtOnce, len(s.Users))
		e.memory.query(s, s.Users[first:next])
		e.estimateUsers(s.Users[first:next], len(s.Aircraft), b.Users[first:next])
	}
}

// estimateUsers fills the beliefs of users that the memory was queried for.
func (e *Estimator) estimateUsers(users []slot.User, aircraft int, b []belief.User) {
	m := e.memory
	if len(m.LinkPriors) > 0 {
		y := e.networks.Links.Forward(&m.Links)
		for i := range m.LinkPriors {
			mixture := Change(&m.LinkPriors[i], y.Row(i))
			mean, sd := mixture.Moments()
			b[i/aircraft].SetLink(i%aircraft, mean, sd)
		}
	}
	if m.Slow > 0 {
		y := e.networks.Phones.Forward(&m.Phones)
		for i := range users {
			uncertainty := &b[i].Uncertainty
			uncertainty.SlowCPUHz, uncertainty.SlowProbability = m.Slow*users[i].CPUHz, Throttled(y.Data[i])
		}
	}
}
