package energy

import "math"

// anchor ties the total to a counter that goes up in coarse steps.
type anchor struct {
	UnitJ  float64 `json:"unit_j"` // joules per count; 0: no anchor
	Count  float64 `json:"count"`
	Step   float64 `json:"step,omitempty"`   // the last one of Count, if it was more than was measured
	Base   figure  `json:"base"`             // the total at count 0
	Synced bool    `json:"synced"`           // Base.J was set at a step, where the counter is exact
	BootS  float64 `json:"boot_s,omitempty"` // autopilot's time when Count was read; 0: unknown
	SureJ  float64 `json:"sure_j"`           // the meter's at the last step; in a State, less what it was in the end

	// Candidate is this counter laid anew at a reading that the current denies.
	// The next reading decides between the two. It is never written to in place.
	Candidate *anchor `json:"candidate,omitempty"`
	Possible  bool    `json:"possible,omitempty"` // of a candidate: the step to it could have been drawn

	readS   float64 // ours
	reading int     // the meter's that it was read in
}

// count is one reading of a counter, and what the meter knows beside it.
type count struct {
	n, unitJ float64
	readS    float64
	bootS    float64
	reading  int
	mostJ    float64 // could have been drawn since the last reading
	likelyJ  float64 // likewise, as far as current and model explain it
	knownJ   float64 // likewise, since the meter began
	nextJ    float64 // could have been drawn since the candidate's reading
	sureJ    float64 // was certainly drawn since the meter began
	trust    float64 // the part of that which it may not fall short of
	step     figure  // was drawn since the last reading
}

// lay begins anew: the total stands, so neither a counter that was reset nor
// another one in its place makes joules appear or vanish.
func (a *anchor) lay(total figure, c count) {
	*a = anchor{
		UnitJ: c.unitJ, Count: c.n, SureJ: c.sureJ, BootS: c.bootS, readS: c.readS, reading: c.reading,
		Base: figure{total.J - (c.n+0.5)*c.unitJ, total.LowJ - (c.n+1)*c.unitJ, total.HighJ - c.n*c.unitJ},
	}
}

// explained is whether current and model account for a reading: by what they say
// of the time since the last one, or of all since the anchor was laid.
func (a *anchor) explained(c count) bool {
	step := c.n - a.Count
	return step >= 0 && ((step-1)*c.unitJ <= c.likelyJ || a.Base.LowJ+c.n*c.unitJ <= c.knownJ)
}

// confirm is whether a reading is to be believed: one that is explained, or the
// second in succession that agrees on what is not. If they fell by no more than
// the last step, and that was more than was measured, it was wrong. Otherwise a
// step that could have been drawn was, and any other is a counter's that was reset
// or replaced: it counts from where the first of the two found it, and no joule
// appears or vanishes.
func (a *anchor) confirm(total figure, c count) bool {
	next := a.Candidate
	a.Candidate = nil
	if a.explained(c) {
		return true
	}
	if next != nil && c.n == next.Count && c.readS-next.readS < receiptS {
		a.Candidate = next // the same datagram, twice
		return false
	}
	step := c.n - a.Count
	if next != nil && c.n >= next.Count && (c.n-next.Count-1)*c.unitJ <= c.nextJ {
		switch {
		case step < 0 && c.n >= a.Count-a.Step:
			a.Count -= a.Step
		case !next.Possible:
			*a = *next
		}
		return true
	}
	next = &anchor{}
	next.lay(total, c)
	next.Possible = step >= 0 && (step-1)*c.unitJ <= c.mostJ
	a.Candidate = next
	return false
}

// doubtJ is what messages read late may count twice of what is certain.
const doubtJ = 200

// take reads the counter and returns the total as corrected by it or, if the
// total comes from a better source, as it was: then the anchor alone learns.
//
// A counter that fell was reset, one that rose by more than can have been drawn
// was replaced: if the next reading agrees. So was one that rose by less than
// was certainly drawn. One that stands still meanwhile is not believed.
func (a *anchor) take(total figure, c count, correct bool) (corrected figure, believed bool) {
	if a.UnitJ == c.unitJ && !a.confirm(total, c) {
		return total, false
	}
	a.readS, a.BootS, a.reading = c.readS, c.bootS, c.reading
	step := c.n - a.Count
	short := c.trust*(c.sureJ-a.SureJ) - (step+1)*c.unitJ
	switch {
	case a.UnitJ == c.unitJ && step == 0 && short > 0:
		return total, false
	case a.UnitJ != c.unitJ || short > doubtJ:
		a.lay(total, c)
		return total, true
	}
	if step > 0 {
		a.Step, a.SureJ = 0, c.sureJ
		if (step-1)*c.unitJ > c.step.HighJ {
			a.Step = step
		}
	}
	a.Count = c.n
	low := c.n * c.unitJ // drawn since count 0
	high, likely := low+c.unitJ, low+c.unitJ
	if step > 0 && c.step.HighJ >= (step-1)*c.unitJ { // the step was since the last reading
		high, likely = math.Min(high, low+c.step.HighJ), math.Min(high, low+c.step.J)
		if !a.Synced && c.step.J < c.unitJ {
			// It was on average half an interval ago. Until now the fraction of a
			// unit in Base was a guess; the total was not.
			a.Base.J, a.Synced = math.Min(math.Max(total.J-low-c.step.J/2, a.Base.LowJ), a.Base.HighJ), true
		}
	}
	if !correct {
		a.Base = a.Base.within(total.LowJ-high, total.HighJ-low)
		return total, true
	}
	// The estimate goes no further than it must.
	j := math.Min(math.Max(total.J, a.Base.J+low), a.Base.J+likely)
	window := figure{j, a.Base.LowJ + low, a.Base.HighJ + high}
	switch {
	case total.LowJ > window.HighJ || total.HighJ < window.LowJ:
		// The counter is believed, and what came of the rest is not forgotten at once.
		return figure{j, math.Min(total.LowJ, window.LowJ), math.Max(total.HighJ, window.HighJ)}, true
	case math.IsInf(c.step.HighJ, 1): // so may the reading have been, that the total is of
		total.HighJ = window.HighJ
	}
	total.J = j
	return total.within(window.LowJ, window.HighJ), true
}
