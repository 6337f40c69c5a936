package baseline

import (
	"math"

	"prefdt/inference/belief"
)

// A link's state, as estimated: whether there is line of sight, and the shadowing z in
// standard deviations, which scales the shadowing of both conditions.
//
// The prior of z is a normal distribution and that of line of sight a probability.
// Without memory they are N(0, 1) and P_LoS; a filter has them from earlier slots.

// linkPrior is what is known of a link before its sounding.
type linkPrior struct {
	los        float64 // probability of line of sight
	zMean, zSD float64
}

// linkPosterior is what is known after it.
type linkPosterior struct {
	los   float64
	logG  float64 // mean of the logarithm of the gain that an upload runs at
	logSD float64 // and its standard deviation
}

// soundLink returns the posterior of a link after a sounding; logFree is the logarithm of
// the gain of free space.
func soundLink(conditions *[2]belief.Condition, logFree, gain float64, prior *linkPrior) (p linkPosterior) {
	logG := math.Log(gain) - logFree
	var logOdds [2]float64
	var means, variances [2]float64
	for k := range conditions {
		c := &conditions[k]
		evidence, z, sd := c.Sound(logG, prior.zMean, prior.zSD)
		probability := prior.los
		if k == 1 {
			probability = 1 - prior.los
		}
		logOdds[k] = evidence + math.Log(max(probability, 1e-12))
		means[k] = logFree + c.MeanLog + c.SDLog*z + c.TypicalLog
		variances[k] = c.SDLog * c.SDLog * sd * sd
	}
	p.los = 1 / (1 + math.Exp(logOdds[1]-logOdds[0]))
	p.logG = p.los*means[0] + (1-p.los)*means[1]
	p.logSD = math.Sqrt(p.los*(variances[0]+(means[0]-p.logG)*(means[0]-p.logG)) +
		(1-p.los)*(variances[1]+(means[1]-p.logG)*(means[1]-p.logG)))
	return p
}
