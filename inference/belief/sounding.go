package belief

import (
	"math"

	"prefdt/inference/physics"
)

// Condition is one of a link's two conditions, in line of sight or not, in logarithms of
// gain relative to that of free space. Its shadowing z counts in standard deviations.
type Condition struct {
	MeanLog, SDLog float64 // of the large-scale gain
	TypicalLog     float64 // of the fading in an upload, which is that of a sounding's mean logarithm
	FadingVariance float64 // of the logarithm of a sounding's fading, psi'(m)

	fadingM float64 // m of Nakagami fading
	logNorm float64 // m ln m - ln Gamma(m)
}

// Conditions returns the two conditions of a channel, that in line of sight first.
func Conditions(c *physics.Channel) [2]Condition {
	return [2]Condition{newCondition(&c.LoS), newCondition(&c.NLoS)}
}

func newCondition(l *physics.ChannelCondition) Condition {
	variance := math.Pi * math.Pi / 6 // psi'(1)
	for k := 1.0; k < l.NakagamiM; k++ {
		variance -= 1 / (k * k)
	}
	logGamma, _ := math.Lgamma(l.NakagamiM)
	return Condition{
		MeanLog: -l.ExcessDB * math.Ln10 / 10, SDLog: max(l.ShadowDB, 0.1) * math.Ln10 / 10,
		TypicalLog: math.Log(l.TypicalFading()), FadingVariance: variance,
		fadingM: l.NakagamiM, logNorm: l.NakagamiM*math.Log(l.NakagamiM) - logGamma,
	}
}

// LogLikelihoods fills list with the logarithm of the density of a sounded gain's
// logarithm at the shadowings z, z + step, and so on: Nakagami fading makes the gain's
// factor Gamma(m, 1/m).
func (c *Condition) LogLikelihoods(logG, z, step float64, list []float64) {
	fading, each := logG-c.MeanLog-c.SDLog*z, c.SDLog*step
	factor, ratio := math.Exp(fading), math.Exp(-each)
	for k := range list {
		list[k] = c.logNorm + c.fadingM*(fading-each*float64(k)-factor)
		factor *= ratio
	}
}

// Sound returns what a sounding says by Bayes' rule: the logarithm of its evidence, and
// the mean and the standard deviation of the shadowing, which was normal before it.
func (c *Condition) Sound(logG, priorMean, priorSD float64) (logEvidence, z, sd float64) {
	const points, reach = 25, 4.0
	const step = 2 * reach / (points - 1)
	var weights [points]float64
	c.LogLikelihoods(logG, priorMean-reach*priorSD, step*priorSD, weights[:])
	top := math.Inf(-1)
	at := func(k int) float64 { return -reach + step*float64(k) }
	for k := range weights {
		weights[k] -= at(k) * at(k) / 2
		top = max(top, weights[k])
	}
	var sum, first, second float64
	for k, w := range weights {
		w, x := math.Exp(w-top), at(k)
		sum += w
		first += w * x
		second += w * x * x
	}
	x := first / sum
	return top + math.Log(sum), priorMean + priorSD*x, priorSD * math.Sqrt(max(second/sum-x*x, 0))
}

// Measure is Sound for an upload's gain, which carries the typical fading.
func (c *Condition) Measure(logG, priorMean, priorSD float64) (logEvidence, z float64) {
	z = c.Residual(logG)
	x := (z - priorMean) / priorSD
	return -x*x/2 - math.Log(priorSD*c.SDLog), z
}

// Residual returns the shadowing that a gain has if its fading is the typical one.
func (c *Condition) Residual(logG float64) float64 {
	return (logG - c.MeanLog - c.TypicalLog) / c.SDLog
}
