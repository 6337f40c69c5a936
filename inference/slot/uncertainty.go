package slot

import (
	"math"

	"prefdt/inference/physics"
)

// Uncertainty is how far a scheduler trusts a user's figures. Its zero value takes them as
// exact.
type Uncertainty struct {
	// GainStdDev is the standard deviation of the natural logarithm of each of the
	// user's gains; nil: 0.
	GainStdDev []float64 `json:"gain_std_dev,omitempty"`
	// SlowCPUHz is the speed of the user's CPU in place of the reported one, with
	// SlowProbability.
	SlowCPUHz       float64 `json:"slow_cpu_hz,omitempty"`
	SlowProbability float64 `json:"slow_probability,omitempty"`
}

// None reports whether the figures are exact.
func (d *Uncertainty) None() bool { return len(d.GainStdDev) == 0 && !(d.SlowProbability > 0) }

// Outcome is one pair of times of a whole task, on the user's device and on the
// aircraft, that a user's figures leave possible.
type Outcome struct{ Probability, LocalS, OffloadS float64 }

// Outcomes are the possible pairs: each speed of the CPU with each rate. Their
// probabilities add up to 1.
type Outcomes struct {
	list [2 * gainPoints]Outcome
	n    int
}

// All returns the outcomes.
func (o *Outcomes) All() []Outcome { return o.list[:o.n] }

// RateFactors are the possible rates of a link over the rate at the user's gain, at the
// points of Gauss-Hermite quadrature. {1, 1, 1} is an exact gain.
type RateFactors [gainPoints]float64

const gainPoints = 3

// pointStdDevs and RateWeights, the probabilities of RateFactors, give a normal
// distribution's moments up to the fifth.
var pointStdDevs, RateWeights = [gainPoints]float64{-math.Sqrt(3), 0, math.Sqrt(3)}, [gainPoints]float64{1. / 6, 2. / 3, 1. / 6}

// RateFactors returns the possible rates to aircraft m, an index into the snapshot's.
func (u *User) RateFactors(c *physics.Channel, m int) RateFactors {
	f := RateFactors{1, 1, 1}
	if m < len(u.Uncertainty.GainStdDev) && u.Uncertainty.GainStdDev[m] > 0 {
		rate := c.RateBPS(u.Gain[m], 1)
		for k, x := range pointStdDevs {
			factor := math.Exp(x * u.Uncertainty.GainStdDev[m])
			// Where a rate rounds to zero, it is proportional to the gain.
			if f[k] = c.RateBPS(u.Gain[m]*factor, 1) / rate; !(f[k] > 0 && f[k] <= math.MaxFloat64) {
				f[k] = factor
			}
		}
	}
	return f
}

// Outcomes fills o with what a share may come to, whose rate is the one at the user's
// gain. A share without a rate stands for computing locally: the times on the
// aircraft are 0.
func (u *User) Outcomes(share physics.Share, factors *RateFactors, o *Outcomes) {
	o.n = 0
	p := 0.0
	if u.Uncertainty.SlowProbability > 0 && u.Uncertainty.SlowCPUHz > 0 {
		p = min(u.Uncertainty.SlowProbability, 1)
		o.add(p, u.Task.LocalTimeS(u.Uncertainty.SlowCPUHz), u.Task, share, factors)
	}
	if p < 1 {
		o.add(1-p, u.Task.LocalTimeS(u.CPUHz), u.Task, share, factors)
	}
}

func (o *Outcomes) add(probability, localS float64, t physics.Task, share physics.Share, factors *RateFactors) {
	switch {
	case share.RateBPS == 0:
		o.list[o.n] = Outcome{probability, localS, 0}
		o.n++
	case *factors == RateFactors{1, 1, 1}:
		o.list[o.n] = Outcome{probability, localS, t.OffloadTimeS(share)}
		o.n++
	default:
		for k, f := range factors {
			o.list[o.n] = Outcome{probability * RateWeights[k], localS,
				t.OffloadTimeS(physics.Share{CPUHz: share.CPUHz, RateBPS: share.RateBPS * f})}
			o.n++
		}
	}
}

// Expect returns the expected completion time at an offload ratio, and the expected
// delay with the penalty of a missed deadline.
func (o *Outcomes) Expect(c *physics.Constants, t physics.Task, rho float64) (completionS, delayS float64) {
	for _, x := range o.All() {
		s := physics.CompletionS(x.LocalS, x.OffloadS, rho)
		completionS += x.Probability * s
		delayS += x.Probability * c.PenalizedDelayS(t, s)
	}
	return completionS, delayS
}
