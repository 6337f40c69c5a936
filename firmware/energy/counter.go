package energy

import "math"

// counterReference ties the total to a counter that goes up in coarse steps.
type counterReference struct {
	UnitJ    float64  `json:"unit_j"` // joules per count; 0: no reference
	Count    float64  `json:"count"`
	LastStep float64  `json:"step,omitempty"`   // the last step of Count, if it was more than was measured
	Base     estimate `json:"base"`             // the total at count 0
	Synced   bool     `json:"synced"`           // Base.J was set at a step, where the counter is exact
	BootS    float64  `json:"boot_s,omitempty"` // autopilot's time when Count was read; 0: unknown
	CertainJ float64  `json:"sure_j"`           // the meter's at the last step; in a State, less the meter's at that time

	// Candidate is this counter rebased at a reading that the current contradicts. The
	// next reading decides between the two. It is never changed in place.
	Candidate    *counterReference `json:"candidate,omitempty"`
	StepPossible bool              `json:"possible,omitempty"` // of a candidate: the step to it could have been drawn

	// Before is this counter as it was before it was rebased, until it counts on from there: readings that go on from
	// Before show that those that rebased it were wrong. It is never changed in place.
	Before *counterReference `json:"before,omitempty"`

	readS         float64 // when it was read, by the leader's clock
	readingNumber int     // the meter's readingCount then
	measuredJ     float64 // the meter's then
}

// counterReading is one reading of a counter, with the meter's bounds on it.
type counterReading struct {
	count, unitJ       float64
	readS              float64
	bootS              float64
	readingNumber      int
	maxJ               float64  // most that could have been drawn since the last reading
	likelyJ            float64  // most of that which current and model explain
	likelyTotalJ       float64  // likewise, since the meter began
	maxSinceCandidateJ float64  // most that could have been drawn since the candidate's reading
	certainJ           float64  // certainly drawn since the meter began
	burst              bool     // the current is far above the flight's
	trust              float64  // the part of certainJ that the counter must show
	drawn              estimate // drawn since the last reading
	measuredJ          float64  // most that was drawn by current and model, since the meter began
	unmeasured         bool     // not all of what was drawn since the reference was read is in it
	afterGap           bool     // that was long ago
	maybeOld           bool     // it may have waited in a buffer since before that: the next ones show it
}

// rebase sets the reference at a reading: the total stays, so neither a counter that was
// reset nor another one in its place adds or removes joules.
func (a *counterReference) rebase(total estimate, c counterReading) {
	*a = counterReference{
		UnitJ: c.unitJ, Count: c.count, CertainJ: c.certainJ, BootS: c.bootS, readS: c.readS, readingNumber: c.readingNumber,
		measuredJ: c.measuredJ,
		Base:      estimate{total.J - (c.count+0.5)*c.unitJ, total.LowJ - (c.count+1)*c.unitJ, total.HighJ - c.count*c.unitJ},
	}
}

// replace rebases the reference, which may prove wrong.
func (a *counterReference) replace(by counterReference) {
	before := *a
	before.Candidate = nil
	if a.Before != nil { // it has not counted since
		before = *a.Before
	}
	*a = by
	a.Before = &before
}

// resumes is whether a reading goes on from the counter as it was before it was rebased.
func (a *counterReference) resumes(total estimate, c counterReading) bool {
	b, fromJ := a.Before, c.count*c.unitJ
	return b != nil && c.count >= b.Count && b.Base.LowJ+fromJ <= c.likelyTotalJ && b.Base.HighJ+fromJ+c.unitJ >= total.LowJ
}

// explained is whether current and model account for a reading: by their estimate since
// the last reading, or since the reference was set.
func (a *counterReference) explained(c counterReading) bool {
	step := c.count - a.Count
	return step >= 0 && ((step-1)*c.unitJ <= c.likelyJ || a.Base.LowJ+c.count*c.unitJ <= c.likelyTotalJ)
}

// confirm is whether a reading is accepted: one that is explained, or the second in
// succession that agrees on an unexplained step. If they go on from the counter as it was before
// it was rebased, that was wrong. If they fell by no more than the last
// step, and that was more than was measured, that step was. Otherwise a step that
// could have been drawn was drawn, and any other is of a counter that was reset or
// replaced: it counts from the first of the two readings, and no joule is added or
// removed. A step in a burst of current is decided when that is over: a sensor at the end of
// its range shows the burst in several readings, and the current alone counts meanwhile.
func (a *counterReference) confirm(total estimate, c counterReading) bool {
	next := a.Candidate
	a.Candidate = nil
	resumes := a.resumes(total, c)
	if a.explained(c) {
		return true
	}
	if next != nil && c.count == next.Count && c.readS-next.readS < receiptErrorS {
		a.Candidate = next // the same datagram, twice
		return false
	}
	if next != nil && c.burst && c.readS-next.readS < burstMaxS {
		a.Candidate = next
		return false
	}
	step := c.count - a.Count
	// A reading that follows the reference in fewer joules than the candidate is its own.
	follows := step >= 0 && (step-1)*c.unitJ <= c.maxJ
	if next != nil && c.count >= next.Count && (c.count-next.Count-1)*c.unitJ <= c.maxSinceCandidateJ &&
		!(follows && next.Count < a.Count) {
		switch {
		case resumes:
			*a = *a.Before
		case step < 0 && c.count >= a.Count-a.LastStep:
			a.Count -= a.LastStep
		case !next.StepPossible:
			a.replace(*next)
		}
		return true
	}
	next = &counterReference{}
	next.rebase(total, c)
	next.StepPossible = follows
	a.Candidate = next
	return false
}

const burstMaxS = 5 // a burst of computing ends within so long

// doubleCountJ is how much of certainJ may be counted twice by delayed messages.
const doubleCountJ = 200

// handleReading enters a reading and returns the total corrected by it or, if the total
// comes from a better source, unchanged: then only the reference is narrowed.
//
// If the next reading agrees, a counter that fell was reset, and one that rose by more
// than can have been drawn was replaced. So was one that rose by less than was certainly
// drawn, but for the first after a gap. One that does not rise meanwhile is not accepted.
func (a *counterReference) handleReading(total estimate, c counterReading, correct bool) (corrected estimate, accepted bool) {
	if a.UnitJ == c.unitJ && !a.confirm(total, c) {
		return total, false
	}
	step := c.count - a.Count
	short := c.trust*(c.certainJ-a.CertainJ) - (step+1)*c.unitJ
	if a.UnitJ == c.unitJ && short > doubleCountJ && c.maybeOld {
		return total, false
	}
	measuredJ := c.measuredJ - a.measuredJ
	a.readS, a.BootS, a.readingNumber, a.measuredJ = c.readS, c.bootS, c.readingNumber, c.measuredJ
	switch {
	case a.UnitJ == c.unitJ && step == 0 && short > 0:
		return total, false
	case a.UnitJ != c.unitJ || short > doubleCountJ:
		a.rebase(total, c)
		return total, true
	}
	if step > 0 {
		a.LastStep, a.CertainJ, a.Before = 0, c.certainJ, nil
		if (step-1)*c.unitJ > measuredJ && !c.unmeasured {
			a.LastStep = step
		}
	}
	a.Count = c.count
	low := c.count * c.unitJ // drawn since count 0
	high, likely := low+c.unitJ, low+c.unitJ
	if step > 0 && c.drawn.HighJ >= (step-1)*c.unitJ { // the step was since the last reading
		high, likely = math.Min(high, low+c.drawn.HighJ), math.Min(high, low+c.drawn.J)
		if !a.Synced && c.drawn.J < c.unitJ {
			// The step was on average half an interval ago. Until now the fraction of a
			// unit in Base was assumed; the total was not.
			a.Base.J, a.Synced = math.Min(math.Max(total.J-low-c.drawn.J/2, a.Base.LowJ), a.Base.HighJ), true
		}
	}
	if !correct {
		a.Base = a.Base.narrowed(total.LowJ-high, total.HighJ-low)
		return total, true
	}
	// The estimate is changed no further than necessary, unless it is of a gap.
	j := math.Min(math.Max(total.J, a.Base.J+low), a.Base.J+likely)
	if j != total.J && c.afterGap {
		j = a.Base.J + (low+likely)/2
	}
	window := estimate{j, a.Base.LowJ + low, a.Base.HighJ + high}
	switch {
	case total.LowJ > window.HighJ || total.HighJ < window.LowJ:
		// The counter is accepted, and the bounds keep the previous estimate.
		return estimate{j, math.Min(total.LowJ, window.LowJ), math.Max(total.HighJ, window.HighJ)}, true
	case math.IsInf(c.drawn.HighJ, 1): // the total's own reading may be off by as much
		total.HighJ = window.HighJ
	}
	total.J = j
	return total.narrowed(window.LowJ, window.HighJ), true
}
