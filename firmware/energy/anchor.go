package energy

import "math"

// anchor ties an estimate to a counter that goes up in coarse steps.
type anchor struct {
	UnitJ  float64 `json:"unit_j"` // joules per count; 0: no anchor
	Count  float64 `json:"count"`
	BaseJ  float64 `json:"base_j"` // the estimate at count 0
	Synced bool    `json:"synced"` // BaseJ was set at a step, where the counter is exact
}

// pull returns the estimate as corrected by a count. powerW and dtS say how far
// past the last step the truth can be, maxJ what can have been drawn at most.
//
// A counter that fell was reset, and one that rose by more than can have been
// drawn was replaced: the estimate stands and the anchor is laid anew, so
// neither makes joules appear or vanish.
func (a *anchor) pull(estimateJ, unitJ, count, powerW, dtS, maxJ float64) float64 {
	step := count - a.Count
	if a.UnitJ != unitJ || step < 0 || (step-1)*unitJ > maxJ {
		*a = anchor{UnitJ: unitJ, Count: count, BaseJ: estimateJ - (count+0.5)*unitJ}
		return estimateJ
	}
	a.Count = count
	if step > 0 && !a.Synced {
		// The step was on average half an interval ago. Until now the fraction
		// of a unit in BaseJ was a guess; the estimate was not.
		a.BaseJ = estimateJ - count*unitJ - math.Min(powerW*dtS/2, unitJ)
		a.Synced = true
		return estimateJ
	}
	low := a.BaseJ + count*unitJ
	high := low + unitJ
	if step > 0 && powerW*dtS < unitJ {
		high = low + powerW*dtS
	}
	return math.Min(math.Max(estimateJ, low), high)
}
