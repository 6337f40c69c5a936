package goal

import "math"

// Multiplier estimates the propulsion multiplier in force from one noisy
// measurement a slot: gusts are averaged, a change of physics is followed at
// once. It is the mean since the last change, and a change is found by the
// windowed generalised likelihood ratio (Lai, Sequential changepoint detection
// in quality control and dynamical systems, 1995): each run of the latest
// measurements is weighed against those before it.
type Multiplier struct {
	Factor float64         `json:"factor"`
	Weight float64         `json:"factor_weight"` // measurements that it is the mean of
	Noise  float64         `json:"noise"`         // standard deviation of one of them, relative
	Count  int             `json:"factor_count"`  // pairs that Noise is taken from
	Recent [window]float64 `json:"factor_recent"` // since the last change, the newest first
	Held   int             `json:"factor_held"`   // of Recent in use
	Odd    bool            `json:"factor_odd"`    // the last one was beyond belief, and left out
}

const (
	window      = 16
	changeRatio = 10    // log likelihood ratio of a change: one measurement 4.5 deviations off, or two 3.2
	jumpMost    = 2     // a jump beyond this ratio is believed when it is seen a second time
	weightStart = 3     // what the archived airframe counts for, before anything was measured
	weightGuess = 0.01  // what a guess counts for
	weightMost  = 100   // slots after which the mean forgets, so that it follows a drift
	noiseStart  = 0.05  // the deviation before anything was measured
	noiseLeast  = 0.005 // the least that a change is told from
	noiseFirst  = 0.1   // and, over the pairs seen, while the deviation rests on few
	noiseMost   = 3     // deviations that one difference counts for at most
)

// unmeasured is the estimate at take-off: the airframe is the archived one.
func unmeasured() Multiplier {
	return Multiplier{Factor: 1, Weight: weightStart, Noise: noiseStart}
}

// measure takes in one slot's measured multiplier and reports whether it shows
// a change.
func (x *Multiplier) measure(factor float64) (changed bool) {
	jump := factor / x.Factor
	if odd := jump > jumpMost || jump < 1.0/jumpMost; odd && !x.Odd {
		x.Odd = true
		return false
	}
	x.Odd = false
	if x.Held > 0 {
		x.noise(factor/x.Recent[0] - 1)
	}
	copy(x.Recent[1:], x.Recent[:window-1])
	x.Recent[0] = factor
	x.Held = min(x.Held+1, window)
	x.Weight = min(x.Weight+1, weightMost)
	x.Factor += (factor - x.Factor) / x.Weight
	return x.change()
}

// guess takes in a slot whose multiplier is known to lie between two bounds,
// and reports whether it shows a change: whether the nearest of what is possible
// to what was measured before does. If so, the guess stands until the next
// measurement.
func (x *Multiplier) guess(factor, least, most float64) (changed bool) {
	trial := *x
	if !trial.measure(min(max(x.Factor, least), most)) || trial.Weight != 1 {
		return false
	}
	*x = trial
	x.Factor, x.Weight = factor, weightGuess
	return true
}

// noise takes in the relative difference of two measurements in succession,
// whose variance is twice that of one, whatever the multiplier is (von Neumann
// 1941); one across a change counts for no more than noiseMost deviations.
func (x *Multiplier) noise(difference float64) {
	most := noiseMost * max(x.Noise, noiseLeast)
	variance := min(difference*difference/2, most*most)
	x.Count++
	x.Noise = math.Sqrt(x.Noise*x.Noise + (variance-x.Noise*x.Noise)/min(float64(x.Count+1), weightMost))
}

// change forgets what was measured before a change, if there was one.
func (x *Multiplier) change() (found bool) {
	noise := max(x.Noise, noiseLeast, noiseFirst/float64(x.Count+1))
	most, at, sum, since := float64(changeRatio), 0, 0.0, 0.0
	for k := 1; k <= x.Held && float64(k) < x.Weight; k++ {
		sum += x.Recent[k-1]
		n, before := float64(k), x.Weight-float64(k)
		late, early := sum/n, (x.Factor*x.Weight-sum)/before
		d := (late/early - 1) / noise
		if ratio := n * before / (n + before) * d * d / 2; ratio > most {
			most, at, since = ratio, k, late
		}
	}
	if at > 0 {
		x.Factor, x.Weight, x.Held = since, float64(at), at
	}
	return at > 0
}
