package baseline

import (
	"prefdt/inference/slot"
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
func (p *phoneFilter) measure(r *slot.Result, t *spells) {
	if !(r.LocalS > 0 && r.LocalCycles > 0 && p.nominalHz > 0) || r.Slot < p.slot {
		return
	}
	p.slot, p.probability = r.Slot, 0
	if r.LocalCycles/r.LocalS < p.nominalHz*(1+t.factor)/2 {
		p.probability = 1
	}
}

// at returns the probability that the CPU is throttled in a slot.
func (p *phoneFilter) at(slot int, t *spells) float64 {
	x := p.probability
	for range min(slot-p.slot, 1000) {
		x = x*(1-1/t.meanOnS) + (1-x)/t.meanOffS
	}
	return x
}

// spells are the spells of throttling, which a filter is tuned to.
type spells struct{ factor, meanOnS, meanOffS float64 }

// duty is the share of time that a CPU is throttled.
func (t *spells) duty() float64 { return t.meanOnS / (t.meanOnS + t.meanOffS) }
