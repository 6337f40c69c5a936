// Package learned is the estimator of the policy: three small networks over what a
// mission showed in its last slots. They say at which gain an upload will run, whether
// a user's CPU is throttled, and in which wind the fleet flies.
//
// Inputs: what is configured of a mission (Surroundings), trained Parameters, and the
// snapshots of its slots. Outputs: a belief.Belief for each. Package belieftrain fits
// the parameters.
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
// Each network corrects a closed form that has no memory. A link's present sounding
// gives by Bayes' rule two normal distributions of the gain's logarithm, in sight and
// not, with the odds between them; the network attends from the link to the user's
// observations at other azimuths and slots and changes odds, means and deviations. A
// wind is one of a grid, each scored by how well the readings agree in it; the network
// changes the scores. So the features are in natural units and need no statistics.
package learned

import (
	"prefdt/inference/belief"
	"prefdt/inference/slot"
)

var _ belief.Estimator = (*Estimator)(nil)

// Estimator is a belief.Estimator. It does not allocate once it has met as many users
// and aircraft as there are.
type Estimator struct {
	memory    *Memory
	networks  *Networks[float32]
	winds     Winds
	windBatch Batch
}

// New returns the estimator of a mission.
func New(s Surroundings, p *Parameters) *Estimator {
	return &Estimator{memory: NewMemory(s, p.Window), networks: NewNetworks(p.Data)}
}

// Reset forgets everything, for another mission.
func (e *Estimator) Reset() { e.memory.Reset() }

// Memory returns what the estimator remembers.
func (e *Estimator) Memory() *Memory { return e.memory }

// Estimate fills b for a slot and remembers what the slot shows.
func (e *Estimator) Estimate(s *slot.Snapshot, b *belief.Belief) {
	m := e.memory
	m.Observe(s)
	if m.Wind || m.Payload {
		e.windBatch.Queries = m.WindQueries()
		Believe(m, e.networks.Winds.Forward(&e.windBatch).Data, &e.winds)
		e.winds.air(&b.Air)
	}
	if len(m.Soundings) > 0 {
		y := e.networks.Links.Forward(&m.Links)
		for i := range m.Soundings {
			mixture := Change(&m.Soundings[i], y.Row(i))
			mean, sd := mixture.Moments()
			b.Users[i/len(s.Aircraft)].SetLink(i%len(s.Aircraft), mean, sd)
		}
	}
	if m.Slow > 0 && len(s.Users) > 0 {
		y := e.networks.Phones.Forward(&m.Phones)
		for i := range s.Users {
			doubt := &b.Users[i].Doubt
			doubt.SlowCPUHz, doubt.SlowProbability = m.Slow*s.Users[i].CPUHz, Throttled(y.Data[i])
		}
	}
}
