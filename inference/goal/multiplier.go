package goal

import "math"

// PropulsionEstimate estimates the propulsion multiplier in force from one noisy
// measurement a slot: gusts are averaged, a change of physics is followed at
// once. It is the mean since the last change, and a change is found by the
// windowed generalised likelihood ratio (Lai, Sequential changepoint detection
// in quality control and dynamical systems, 1995): each run of the latest
// measurements is weighed against those before it.
type PropulsionEstimate struct {
	Multiplier        float64               `json:"factor"`
	MultiplierWeight  float64               `json:"factor_weight"` // measurements that it is the mean of
	RelativeStdDev    float64               `json:"noise"`         // standard deviation of one of them, relative
	StdDevPairs       int                   `json:"factor_count"`  // pairs that Noise is taken from
	RecentMultipliers [recentWindow]float64 `json:"factor_recent"` // since the last change, the newest first
	RecentCount       int                   `json:"factor_held"`   // of Recent in use
	OutlierPending    bool                  `json:"factor_odd"`    // the last one was beyond belief, and left out
}

const (
	recentWindow   = 16
	changeLogRatio = 10    // log likelihood ratio of a change: one measurement 4.5 deviations off, or two 3.2
	maxJump        = 2     // a jump beyond this ratio is believed when it is seen a second time
	initialWeight  = 3     // what the archived airframe counts for, before anything was measured
	guessWeight    = 0.01  // what a guess counts for
	maxWeight      = 100   // slots after which the mean forgets, so that it follows a drift
	initialStdDev  = 0.05  // the deviation before anything was measured
	minStdDev      = 0.005 // the least that a change is told from
	earlyStdDev    = 0.1   // and, over the pairs seen, while the deviation rests on few
	maxDeviations  = 3     // deviations that one difference counts for at most
)

// initialEstimate is the estimate at take-off: the airframe is the archived one.
func initialEstimate() PropulsionEstimate {
	return PropulsionEstimate{Multiplier: 1, MultiplierWeight: initialWeight, RelativeStdDev: initialStdDev}
}

// addMeasurement takes in one slot's measured multiplier and reports whether it shows
// a change.
func (x *PropulsionEstimate) addMeasurement(factor float64) (changed bool) {
	jump := factor / x.Multiplier
	if odd := jump > maxJump || jump < 1.0/maxJump; odd && !x.OutlierPending {
		x.OutlierPending = true
		return false
	}
	x.OutlierPending = false
	if x.RecentCount > 0 {
		x.updateStdDev(factor/x.RecentMultipliers[0] - 1)
	}
	copy(x.RecentMultipliers[1:], x.RecentMultipliers[:recentWindow-1])
	x.RecentMultipliers[0] = factor
	x.RecentCount = min(x.RecentCount+1, recentWindow)
	x.MultiplierWeight = min(x.MultiplierWeight+1, maxWeight)
	x.Multiplier += (factor - x.Multiplier) / x.MultiplierWeight
	return x.detectChange()
}

// addInterval takes in a slot whose multiplier is known to lie between two bounds,
// and reports whether it shows a change: whether the nearest of what is possible
// to what was measured before does. If so, the guess stands until the next
// measurement.
func (x *PropulsionEstimate) addInterval(factor, least, most float64) (changed bool) {
	trial := *x
	if !trial.addMeasurement(min(max(x.Multiplier, least), most)) || trial.MultiplierWeight != 1 {
		return false
	}
	*x = trial
	x.Multiplier, x.MultiplierWeight = factor, guessWeight
	return true
}

// updateStdDev takes in the relative difference of two measurements in succession,
// whose variance is twice that of one, whatever the multiplier is (von Neumann
// 1941); one across a change counts for no more than maxDeviations deviations.
func (x *PropulsionEstimate) updateStdDev(difference float64) {
	most := maxDeviations * max(x.RelativeStdDev, minStdDev)
	variance := min(difference*difference/2, most*most)
	x.StdDevPairs++
	x.RelativeStdDev = math.Sqrt(x.RelativeStdDev*x.RelativeStdDev + (variance-x.RelativeStdDev*x.RelativeStdDev)/min(float64(x.StdDevPairs+1), maxWeight))
}

// detectChange forgets what was measured before a change, if there was one.
func (x *PropulsionEstimate) detectChange() (found bool) {
	noise := max(x.RelativeStdDev, minStdDev, earlyStdDev/float64(x.StdDevPairs+1))
	most, at, sum, since := float64(changeLogRatio), 0, 0.0, 0.0
	for k := 1; k <= x.RecentCount && float64(k) < x.MultiplierWeight; k++ {
		sum += x.RecentMultipliers[k-1]
		n, before := float64(k), x.MultiplierWeight-float64(k)
		late, early := sum/n, (x.Multiplier*x.MultiplierWeight-sum)/before
		d := (late/early - 1) / noise
		if ratio := n * before / (n + before) * d * d / 2; ratio > most {
			most, at, since = ratio, k, late
		}
	}
	if at > 0 {
		x.Multiplier, x.MultiplierWeight, x.RecentCount = since, float64(at), at
	}
	return at > 0
}
