package account

import (
	"cmp"
	"math"
	"slices"

	"prefdt/firmware/energy"
	"prefdt/firmware/fleet"
	"prefdt/inference/goal"
)

// The propulsion multiplier is measured over what the batteries saw: from one reading of
// each aircraft to a later one, never over joules that the model supplied. A slot counts
// one settlement later, when the readings show what was computed in it, and results tell
// who computed by the offer.

const (
	computeS = 0.55 // a slot's computing: from decide_by to its end
	doneS    = 0.15 // before its end all of it is done
	lateS    = 1    // a reading may show it so long after

	// A window is measured once its error, by what its ends may not show of the computing
	// and by the counter's resolution, is this part of its flight, or it is as long as that.
	measuredError = 0.1
	maxWindowS    = 24
	offersWindowS = 4              // or so long, if its error is of what users of the offer computed: that evens out
	firstWindowS  = 2.5            // the first counts as much as the airframe's own multiplier
	edgeSlots     = maxWindowS + 8 // slots whose computing is remembered
)

// window is the flight of one aircraft from one reading to another.
type window struct {
	open     bool // from is set
	afterGap bool // as the first reading after a gap
	from, to windowEnd
	airJ     float64 // closed form of all its flight, through the air
	modelJ   float64 // over the ground
}

// windowEnd is a reading.
type windowEnd struct {
	energy.Mark
	airJ  float64 // closed form up to it, through the air
	lateS float64 // how late it may be, see [fleet.View]
}

// slotEdge is the computing in a slot, corrected by results as they arrive.
type slotEdge struct {
	endS          float64
	aircraftEdgeJ []float64 // of decisions, by aircraft, from number 1
	offerUsers    int       // users without a decision that accepted the offer
	offerShare    []float64 // of their computing that an aircraft is expected to have, likewise

	expectedJ, mostJ, limitJ float64 // of one of those users, and at most of all of them
}

// offerEdgeJ is the expected computing of those users.
func (e *slotEdge) offerEdgeJ() float64 { return min(float64(e.offerUsers)*e.expectedJ, e.limitJ) }

// drawn is the share of the slot's computing that is drawn up to a moment.
func (e *slotEdge) drawn(atS float64) float64 {
	return min(max((atS-e.endS)/computeS+1, 0), 1)
}

// shown is the share of the slot's computing that a reading at a moment shows, and its standard
// deviation: all or nothing in the middle, where a CPU may have been done early, or have begun late.
func (e *slotEdge) shown(atS float64) (share, deviation float64) {
	share = min(max((atS-e.endS+computeS)/(computeS-doneS), 0), 1)
	return share, math.Sqrt(share * (1 - share))
}

// trailEnd is where the window before a measurement began, and the multiplier that was believed in then.
type trailEnd struct {
	multiplier float64
	from       []windowEnd // by aircraft
}

// trailLength is how many windows before the present one are kept, to find a change that each alone is too inexact to show.
const trailLength = 4

// restartWindows begins every window anew at the next settlement.
func (a *Account) restartWindows() {
	a.trail = nil
	for i := range a.aircraft {
		a.aircraft[i].window.open = false
	}
}

// advanceWindows ends the windows at the last readings before a settlement. A window
// begins anew after a gap in what was measured, and after an aircraft's positions were
// lost or refused: nobody knows what it did meanwhile, and the model has it hover.
func (a *Account) advanceWindows(views []fleet.View) {
	flown := cmp.Or(a.objective.State().Air.Flown, 1)
	for i := range a.aircraft {
		w, v := &a.aircraft[i].window, &views[i]
		w.airJ += (v.ModelJ - w.modelJ) * flown
		w.modelJ = v.ModelJ
		if v.Mark != w.to.Mark {
			w.to = windowEnd{v.Mark, w.airJ - (v.ModelJ-v.ReadModelJ)*flown, v.LateS}
		}
		switch {
		case !v.InAir || !v.Placed:
			if w.open {
				w.open, a.trail = false, nil
			}
		case !w.open || w.from.Gaps != w.to.Gaps:
			w.open, w.afterGap, w.from, a.trail = true, true, w.to, nil
		case w.afterGap && w.from.ResolutionJ > w.to.ResolutionJ && w.to.ReceivedS-w.from.ReceivedS < offersWindowS:
			// A counter corrects for a while what a gap or a restart left out.
			w.afterGap, w.from, a.trail = false, w.to, nil
		}
	}
}

// near is whether a reading at a moment may show a part of the slot's computing.
func (e *slotEdge) near(atS float64) bool { return atS > e.endS-computeS && atS < e.endS+lateS }

// measure returns the flight of the windows up to the settlement before, once each of
// them has a new reading and together they are long enough; and begins the next ones
// there.
func (a *Account) measure(views []fleet.View) (x goal.Measurement) {
	var of []int // aircraft
	for i := range a.aircraft {
		w, v := &a.aircraft[i].window, &views[i]
		advanced := w.to.ReceivedS-w.from.ReceivedS > 0.5
		switch {
		case v.InAir && w.open && advanced:
			of = append(of, i)
		case v.InAir && w.open && v.Source != energy.Model:
			return goal.Measurement{} // its battery reports slowly
		}
	}
	if len(of) == 0 {
		return goal.Measurement{}
	}
	from := make([]windowEnd, len(a.aircraft))
	for i := range a.aircraft {
		from[i] = a.aircraft[i].window.from
	}
	x, batteryJ, seconds := a.flight(of, from)
	// Flight that came to take more cannot wait until it is known exactly by how much: in every slot
	// until then aircraft fly on that should be on their way home. Nor can a wrong reading of that kind.
	exact := measuredError * x.ModelFlightJ
	long := x.ErrorJ <= exact || batteryJ <= exact && seconds >= offersWindowS || seconds >= maxWindowS
	first := a.objective.State().RecentCount == 0
	if first && seconds < firstWindowS || !long && !a.objective.Contradicts(&x) {
		return goal.Measurement{}
	}
	if x.Changed = a.hasChanged(of, &x); x.Changed {
		a.trail = nil
	} else {
		a.trail = append(a.trail[max(len(a.trail)-trailLength+1, 0):], trailEnd{a.objective.PropulsionMultiplier(), from})
	}
	for _, i := range of {
		w := &a.aircraft[i].window
		w.from, w.afterGap = w.to, false
	}
	return x
}

// hasChanged is whether flight came to take more in the last windows: together they say so beyond their error, which is mostly of
// what their ends do not show of the computing. Each alone moves what is believed a little, and is then measured by that.
func (a *Account) hasChanged(of []int, x *goal.Measurement) bool {
	return slices.ContainsFunc(a.trail, func(e trailEnd) bool {
		y, _, seconds := a.flight(of, e.from)
		return seconds <= maxWindowS && y.Exceeds(e.multiplier) && x.TakesMore(e.multiplier)
	})
}

// flight is that of some aircraft from readings to those of the settlement before, by how much what batteries show of it may be off, and
// its length.
func (a *Account) flight(of []int, from []windowEnd) (x goal.Measurement, batteryJ, seconds float64) {
	fromS, toS, variance := math.Inf(1), math.Inf(-1), 0.0
	for _, i := range of {
		from, w := &from[i], &a.aircraft[i].window
		fromS, toS = min(fromS, from.ReceivedS), max(toS, w.to.ReceivedS)
		flightJ := w.to.airJ - from.airJ
		x.EnergyJ += w.to.ReadJ - from.ReadJ
		x.ModelFlightJ += flightJ
		hidden := [2]float64{} // may not show, at either end
		for _, e := range a.edges {
			decidedJ, offerJ := e.aircraftEdgeJ[i], e.offerEdgeJ()*e.offerShare[i]
			drawn := e.drawn(w.to.ReceivedS) - e.drawn(from.ReceivedS)
			x.EdgeJ += (decidedJ + offerJ) * drawn
			for k, atS := range [2]float64{from.ReceivedS, w.to.ReceivedS} {
				if e.near(atS) {
					hidden[k] = max(hidden[k], (decidedJ+offerJ)/2)
				}
			}
		}
		powerW := flightJ / (w.to.ReceivedS - from.ReceivedS)
		for k, end := range [2]*windowEnd{from, &w.to} {
			variance += hidden[k]*hidden[k] + end.ResolutionJ*end.ResolutionJ
			x.LateJ = math.Hypot(x.LateJ, powerW*end.lateS/2) // half of the most is its deviation
		}
	}
	batteryJ = math.Sqrt(variance)
	for _, e := range a.edges {
		if n := float64(e.offerUsers); n > 0 { // each took anything from nothing to the most, which has a variance of a twelfth
			drawn := e.drawn(toS) - e.drawn(fromS)
			variance += min(n*e.mostJ*e.mostJ, e.limitJ*e.limitJ) / 12 * drawn * drawn
		}
	}
	seconds = toS - fromS
	x.ErrorJ, x.Slots = math.Sqrt(variance), max(int(math.Round(seconds)), 1)
	return x, batteryJ, seconds
}
