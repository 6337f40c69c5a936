package baseline

import (
	"math"

	"prefdt/inference/physics"
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

// condition is one of a link's two conditions at a distance.
type condition struct {
	meanLog, sdLog float64 // of the large-scale gain's logarithm
	fadingM        float64 // m of Nakagami fading
	typicalLog     float64 // of the fading in an upload
	logGamma       float64 // ln Gamma(m)
}

func newCondition(c *physics.Channel, l physics.ChannelCondition, horizontalM, altitudeM float64) condition {
	lg, _ := math.Lgamma(l.NakagamiM)
	return condition{
		meanLog: math.Log(c.FreeSpaceGain(horizontalM, altitudeM)) - l.ExcessDB*math.Ln10/10, sdLog: l.ShadowDB * math.Ln10 / 10,
		fadingM: l.NakagamiM, typicalLog: math.Log(l.TypicalFading()), logGamma: lg,
	}
}

// sound returns the logarithm of the evidence of a sounded gain's logarithm, and the
// posterior of z, by quadrature: Nakagami fading makes the gain's factor Gamma(m, 1/m).
func (c *condition) sound(logG float64, prior *linkPrior) (logEvidence, z, sd float64) {
	const points, reach = 25, 4.0
	var weights, zs [points]float64
	top := math.Inf(-1)
	for k := range points {
		x := -reach + 2*reach*float64(k)/(points-1)
		zs[k] = prior.zMean + x*prior.zSD
		fading := logG - c.meanLog - c.sdLog*zs[k]
		weights[k] = -x*x/2 + c.fadingM*(fading+math.Log(c.fadingM)) - c.fadingM*math.Exp(fading) - c.logGamma
		top = max(top, weights[k])
	}
	var sum, first, second float64
	for k := range points {
		w := math.Exp(weights[k] - top)
		sum += w
		first += w * zs[k]
		second += w * zs[k] * zs[k]
	}
	z = first / sum
	return top + math.Log(sum), z, math.Sqrt(max(second/sum-z*z, 0))
}

// measure is sound for an upload's gain, which has no fading that is unknown.
func (c *condition) measure(logG float64, prior *linkPrior) (logEvidence, z float64) {
	z = (logG - c.meanLog - c.typicalLog) / c.sdLog
	x := (z - prior.zMean) / prior.zSD
	return -x*x/2 - math.Log(prior.zSD*c.sdLog), z
}

// logFading returns the mean and the variance of the logarithm of a sounding's fading,
// psi(m) - ln m and psi'(m).
func (c *condition) logFading() (mean, variance float64) {
	variance = math.Pi * math.Pi / 6
	for k := 1.0; k < c.fadingM; k++ {
		variance -= 1 / (k * k)
	}
	return c.typicalLog, variance
}

// conditions returns a link's two conditions at a distance, that in sight first.
func conditions(c *physics.Constants, horizontalM float64) [2]condition {
	return [2]condition{
		newCondition(&c.Channel, c.Channel.LoS, horizontalM, c.AltitudeM), newCondition(&c.Channel, c.Channel.NLoS, horizontalM, c.AltitudeM),
	}
}

// soundLink returns the posterior of a link after a sounding.
func soundLink(links *[2]condition, gain float64, prior *linkPrior) (p linkPosterior) {
	logG := math.Log(gain)
	var logOdds [2]float64
	var means, variances [2]float64
	for k := range links {
		evidence, z, sd := links[k].sound(logG, prior)
		probability := prior.los
		if k == 1 {
			probability = 1 - prior.los
		}
		logOdds[k] = evidence + math.Log(max(probability, 1e-12))
		means[k] = links[k].meanLog + links[k].sdLog*z + links[k].typicalLog
		variances[k] = links[k].sdLog * links[k].sdLog * sd * sd
	}
	p.los = 1 / (1 + math.Exp(logOdds[1]-logOdds[0]))
	p.logG = p.los*means[0] + (1-p.los)*means[1]
	p.logSD = math.Sqrt(p.los*(variances[0]+(means[0]-p.logG)*(means[0]-p.logG)) + (1-p.los)*(variances[1]+(means[1]-p.logG)*(means[1]-p.logG)))
	return p
}
