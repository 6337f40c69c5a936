package energy

import "math"

// counterReference ties the total to a counter that goes up in coarse steps.
type counterReference struct {
	UnitJ    float64  `json:"unit_j"` // joules per count; 0: no anchor
	Count    float64  `json:"count"`
	LastStep float64  `json:"step,omitempty"`   // the last one of Count, if it was more than was measured
	Base     estimate `json:"base"`             // the total at count 0
	Synced   bool     `json:"synced"`           // Base.J was set at a step, where the counter is exact
	BootS    float64  `json:"boot_s,omitempty"` // autopilot's time when Count was read; 0: unknown
	CertainJ float64  `json:"sure_j"`           // the meter's at the last step; in a State, less what it was in the end

	// Candidate is this counter laid anew at a reading that the current denies.
	// The next reading decides between the two. It is never written to in place.
	Candidate    *counterReference `json:"candidate,omitempty"`
	StepPossible bool              `json:"possible,omitempty"` // of a candidate: the step to it could have been drawn

	readS         float64 // ours
	readingNumber int     // the meter's that it was read in
}

// counterReading is one reading of a counter, and what the meter knows beside it.
type counterReading struct {
	count, unitJ       float64
	readS              float64
	bootS              float64
	readingNumber      int
	maxJ               float64  // could have been drawn since the last reading
	likelyJ            float64  // likewise, as far as current and model explain it
	likelyTotalJ       float64  // likewise, since the meter began
	maxSinceCandidateJ float64  // could have been drawn since the candidate's reading
	certainJ           float64  // was certainly drawn since the meter began
	trust              float64  // the part of that which it may not fall short of
	drawn              estimate // was drawn since the last reading
}

// rebase begins anew: the total stands, so neither a counter that was reset nor
// another one in its place makes joules appear or vanish.
func (a *counterReference) rebase(total estimate, c counterReading) {
	*a = counterReference{
		UnitJ: c.unitJ, Count: c.count, CertainJ: c.certainJ, BootS: c.bootS, readS: c.readS, readingNumber: c.readingNumber,
		Base: estimate{total.J - (c.count+0.5)*c.unitJ, total.LowJ - (c.count+1)*c.unitJ, total.HighJ - c.count*c.unitJ},
	}
}

// explained is whether current and model account for a reading: by what they say
// of the time since the last one, or of all since the anchor was laid.
func (a *counterReference) explained(c counterReading) bool {
	step := c.count - a.Count
	return step >= 0 && ((step-1)*c.unitJ <= c.likelyJ || a.Base.LowJ+c.count*c.unitJ <= c.likelyTotalJ)
}

// confirm is whether a reading is to be believed: one that is explained, or the
// second in succession that agrees on what is not. If they fell by no more than
// the last step, and that was more than was measured, it was wrong. Otherwise a
// step that could have been drawn was, and any other is a counter's that was reset
// or replaced: it counts from where the first of the two found it, and no joule
// appears or vanishes.
func (a *counterReference) confirm(total estimate, c counterReading) bool {
	next := a.Candidate
	a.Candidate = nil
	if a.explained(c) {
		return true
	}
	if next != nil && c.count == next.Count && c.readS-next.readS < receiptErrorS {
		a.Candidate = next // the same datagram, twice
		return false
	}
	step := c.count - a.Count
	if next != nil && c.count >= next.Count && (c.count-next.Count-1)*c.unitJ <= c.maxSinceCandidateJ {
		switch {
		case step < 0 && c.count >= a.Count-a.LastStep:
			a.Count -= a.LastStep
		case !next.StepPossible:
			*a = *next
		}
		return true
	}
	next = &counterReference{}
	next.rebase(total, c)
	next.StepPossible = step >= 0 && (step-1)*c.unitJ <= c.maxJ
	a.Candidate = next
	return false
}

// doubleCountJ is what messages read late may count twice of what is certain.
const doubleCountJ = 200

// handleReading reads the counter and returns the total as corrected by it or, if the
// total comes from a better source, as it was: then the anchor alone learns.
//
// A counter that fell was reset, one that rose by more than can have been drawn
// was replaced: if the next reading agrees. So was one that rose by less than
// was certainly drawn. One that stands still meanwhile is not believed.
func (a *counterReference) handleReading(total estimate, c counterReading, correct bool) (corrected estimate, believed bool) {
	if a.UnitJ == c.unitJ && !a.confirm(total, c) {
		return total, false
	}
	a.readS, a.BootS, a.readingNumber = c.readS, c.bootS, c.readingNumber
	step := c.count - a.Count
	short := c.trust*(c.certainJ-a.CertainJ) - (step+1)*c.unitJ
	switch {
	case a.UnitJ == c.unitJ && step == 0 && short > 0:
		return total, false
	case a.UnitJ != c.unitJ || short > doubleCountJ:
		a.rebase(total, c)
		return total, true
	}
	if step > 0 {
		a.LastStep, a.CertainJ = 0, c.certainJ
		if (step-1)*c.unitJ > c.drawn.HighJ {
			a.LastStep = step
		}
	}
	a.Count = c.count
	low := c.count * c.unitJ // drawn since count 0
	high, likely := low+c.unitJ, low+c.unitJ
	if step > 0 && c.drawn.HighJ >= (step-1)*c.unitJ { // the step was since the last reading
		high, likely = math.Min(high, low+c.drawn.HighJ), math.Min(high, low+c.drawn.J)
		if !a.Synced && c.drawn.J < c.unitJ {
			// It was on average half an interval ago. Until now the fraction of a
			// unit in Base was a guess; the total was not.
			a.Base.J, a.Synced = math.Min(math.Max(total.J-low-c.drawn.J/2, a.Base.LowJ), a.Base.HighJ), true
		}
	}
	if !correct {
		a.Base = a.Base.narrowed(total.LowJ-high, total.HighJ-low)
		return total, true
	}
	// The estimate goes no further than it must.
	j := math.Min(math.Max(total.J, a.Base.J+low), a.Base.J+likely)
	window := estimate{j, a.Base.LowJ + low, a.Base.HighJ + high}
	switch {
	case total.LowJ > window.HighJ || total.HighJ < window.LowJ:
		// The counter is believed, and what came of the rest is not forgotten at once.
		return estimate{j, math.Min(total.LowJ, window.LowJ), math.Max(total.HighJ, window.HighJ)}, true
	case math.IsInf(c.drawn.HighJ, 1): // so may the reading have been, that the total is of
		total.HighJ = window.HighJ
	}
	total.J = j
	return total.narrowed(window.LowJ, window.HighJ), true
}
