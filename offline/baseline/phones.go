package baseline

import (
	"prefdt/inference/belief"
	"prefdt/inference/slot"
	"prefdt/simbridge/world"
)

// phoneFilter is the exact filter of one user's CPU, which is throttled in spells of
// geometric length: a timed local part tells its speed, and from then on the
// probability relaxes.
type phoneFilter struct {
	nominalHz   float64 // as last reported
	slot        int     // of the last timed part
	probability float64 // that it was throttled then
}

// measure takes the speed out of a result that has it.
func (p *phoneFilter) measure(r *slot.Result, t *world.Throttling) {
	if !(r.LocalS > 0 && r.LocalCycles > 0 && p.nominalHz > 0) || r.Slot < p.slot {
		return
	}
	p.slot, p.probability = r.Slot, 0
	if r.LocalCycles/r.LocalS < p.nominalHz*(1+t.Factor)/2 {
		p.probability = 1
	}
}

// at returns the probability that the CPU is throttled in a slot.
func (p *phoneFilter) at(slot int, t *world.Throttling) float64 {
	x := p.probability
	for range min(slot-p.slot, 1000) {
		x = x*(1-1/t.MeanOnS) + (1-x)/t.MeanOffS
	}
	return x
}

// throttle adds the uncertainty of a user's CPU to what is believed of it.
func throttle(u *belief.User, s *slot.User, t *world.Throttling, probability float64) {
	if t.Factor > 0 {
		u.Uncertainty.SlowCPUHz, u.Uncertainty.SlowProbability = s.CPUHz*t.Factor, probability
	}
}
