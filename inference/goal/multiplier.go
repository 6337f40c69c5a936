package goal

import (
	"math"

	"prefdt/inference/robust"
)

// PropulsionEstimate estimates the propulsion multiplier, measured flight power
// over the model's, from one noisy measurement a slot: gusts are averaged, and a
// change of the airframe or the wind is followed at once. The estimate is the
// mean since the last change. A change is detected by the windowed generalised
// likelihood ratio (Lai, Sequential changepoint detection in quality control and
// dynamical systems, 1995), which compares each run of the latest measurements
// with those before it. One measurement alone may be a wrong reading: a change that rests
// on it is undone, unless the next measurement agrees (package robust), and a larger jump
// counts then only.
type PropulsionEstimate struct {
	Multiplier        float64               `json:"factor"`
	MultiplierWeight  float64               `json:"factor_weight"` // number of measurements in the mean
	RelativeStdDev    float64               `json:"noise"`         // of one measurement
	StdDevPairs       int                   `json:"factor_count"`  // pairs of measurements that RelativeStdDev rests on
	RecentMultipliers [recentWindow]float64 `json:"factor_recent"` // measurements since the last change, the newest first
	RecentCount       int                   `json:"factor_held"`   // entries of RecentMultipliers in use
	// Outlier is of the last measurement, if that was an outlier, or a change alone: then
	// Before is the estimate without it.
	Outlier robust.Outlier `json:"factor_doubt,omitempty"`
	Before  EstimateBefore `json:"factor_before,omitzero"`
}

// EstimateBefore has the fields of a PropulsionEstimate that one measurement changes.
type EstimateBefore struct {
	Multiplier, MultiplierWeight, RelativeStdDev float64
	StdDevPairs, RecentCount                     int
}

const (
	recentWindow   = 16
	changeLogRatio = 10    // log likelihood ratio that counts as a change: one measurement 4.5 deviations off, or two 3.2
	maxJump        = 2     // a ratio beyond this is an outlier, unless the next measurement agrees
	initialWeight  = 3     // weight of the archived airframe, in measurements
	intervalWeight = 0.01  // weight of an estimate from an interval
	maxWeight      = 100   // the mean forgets older measurements, so that it follows a drift
	initialStdDev  = 0.05  // the relative deviation before anything was measured
	minStdDev      = 0.005 // the least deviation assumed in detecting a change
	earlyStdDev    = 0.1   // and, divided by the pairs, while the deviation rests on few of them
	maxDeviations  = 3     // the most that one difference counts for, in deviations
)

// initialEstimate is the estimate at take-off: that of the archived airframe.
func initialEstimate() PropulsionEstimate {
	return PropulsionEstimate{Multiplier: 1, MultiplierWeight: initialWeight, RelativeStdDev: initialStdDev}
}

// addMeasurement adds a measured multiplier and reports whether it reveals a change.
func (e *PropulsionEstimate) addMeasurement(measured float64) (changed bool) {
	return e.add(measured, false)
}

// add is addMeasurement; by one that is a change for a reason of its own the mean begins anew.
func (e *PropulsionEstimate) add(measured float64, change bool) (changed bool) {
	e.endDoubt(measured)
	off, outlier, adopted := math.Log(measured/e.Multiplier), e.Outlier, e.Before != (EstimateBefore{})
	e.Outlier, e.Before = 0, EstimateBefore{}
	if math.Abs(off) > math.Log(maxJump) && !outlier.Agrees(off) {
		e.Outlier = robust.Outlier(off)
		return false
	}
	before := EstimateBefore{e.Multiplier, e.MultiplierWeight, e.RelativeStdDev, e.StdDevPairs, e.RecentCount}
	if e.RecentCount > 0 {
		e.updateStdDev(measured/e.RecentMultipliers[0] - 1)
	}
	copy(e.RecentMultipliers[1:], e.RecentMultipliers[:recentWindow-1])
	e.RecentMultipliers[0] = measured
	e.RecentCount = min(e.RecentCount+1, recentWindow)
	e.MultiplierWeight = min(e.MultiplierWeight+1, maxWeight)
	e.Multiplier += (measured - e.Multiplier) / e.MultiplierWeight
	if changed = e.detectChange(); change && !changed {
		e.Multiplier, e.MultiplierWeight, e.RecentCount, changed = measured, 1, 1, true
	}
	if changed && e.MultiplierWeight == 1 && (outlier == 0 || adopted) { // a second change of its own is doubtful again
		e.Outlier, e.Before = robust.Outlier(off), before
	}
	return changed
}

// putOff puts off a measurement that would alone be a change, until the next one agrees, and returns whether it did.
func (e *PropulsionEstimate) putOff(measured float64) bool {
	off, trial := math.Log(measured/e.Multiplier), *e
	if e.RecentCount == 0 || e.Outlier.Agrees(off) || !trial.addMeasurement(measured) || trial.MultiplierWeight != 1 {
		return false
	}
	e.Outlier = robust.Outlier(off)
	return true
}

// endDoubt undoes a change that one measurement alone showed, if the next one does not agree.
func (e *PropulsionEstimate) endDoubt(measured float64) {
	if e.Before != (EstimateBefore{}) && !e.Outlier.Agrees(math.Log(measured/e.Before.Multiplier)) {
		e.undo()
	}
}

// undo drops the last measurement.
func (e *PropulsionEstimate) undo() {
	b := &e.Before
	e.Multiplier, e.MultiplierWeight, e.RelativeStdDev = b.Multiplier, b.MultiplierWeight, b.RelativeStdDev
	e.StdDevPairs, e.RecentCount = b.StdDevPairs, min(b.RecentCount, recentWindow-1)
	copy(e.RecentMultipliers[:], e.RecentMultipliers[1:])
	e.Outlier = 0
}

// addInterval adds a slot whose multiplier is only known to lie between two bounds,
// and reports whether it reveals a change: whether even the value within the
// bounds that is nearest to the present estimate does. If so, the slot's
// estimate holds until the next measurement.
func (e *PropulsionEstimate) addInterval(estimate, least, most float64) (changed bool) {
	trial := *e
	if !trial.addMeasurement(min(max(e.Multiplier, least), most)) || trial.MultiplierWeight != 1 {
		return false
	}
	*e = trial
	e.Multiplier, e.MultiplierWeight = estimate, intervalWeight
	return true
}

// updateStdDev adds the relative difference of two successive measurements, whose
// variance is twice that of one, whatever the multiplier is (von Neumann 1941).
// A difference across a change is limited to maxDeviations deviations.
func (e *PropulsionEstimate) updateStdDev(difference float64) {
	most := maxDeviations * max(e.RelativeStdDev, minStdDev)
	variance := min(difference*difference/2, most*most)
	e.StdDevPairs++
	e.RelativeStdDev = math.Sqrt(e.RelativeStdDev*e.RelativeStdDev + (variance-e.RelativeStdDev*e.RelativeStdDev)/min(
		float64(e.StdDevPairs+1), maxWeight))
}

// detectChange drops the measurements before a change, if it finds one.
func (e *PropulsionEstimate) detectChange() (found bool) {
	noise := max(e.RelativeStdDev, minStdDev, earlyStdDev/float64(e.StdDevPairs+1))
	most, at, sum, since := float64(changeLogRatio), 0, 0.0, 0.0
	for k := 1; k <= e.RecentCount && float64(k) < e.MultiplierWeight; k++ {
		sum += e.RecentMultipliers[k-1]
		n, before := float64(k), e.MultiplierWeight-float64(k)
		late, early := sum/n, (e.Multiplier*e.MultiplierWeight-sum)/before
		d := (late/early - 1) / noise
		if ratio := n * before / (n + before) * d * d / 2; ratio > most {
			most, at, since = ratio, k, late
		}
	}
	if at > 0 {
		e.Multiplier, e.MultiplierWeight, e.RecentCount = since, float64(at), at
	}
	return at > 0
}
