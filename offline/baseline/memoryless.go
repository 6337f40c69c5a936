package baseline

import (
	"math"

	"prefdt/inference/belief"
	"prefdt/inference/motion"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
	"prefdt/simbridge/world"
)

// Memoryless is an estimator of a slot's reports alone: it keeps nothing of earlier
// ones, neither gains nor results nor joules. Of two that were written independently
// from the definition of the field worlds it is the better one.
type Memoryless struct {
	world      *world.Config
	conditions [2]belief.Condition
	air        motion.Air
	links      []gainLikelihood // working memory, one user's
}

// gainLikelihood is what one report of a gain says of its link: the likelihood of each
// possible shadowing, in sight and out of sight, times the prior of that.
type gainLikelihood struct {
	logFree    float64 // of the free-space gain
	azimuthRad float64 // of the aircraft from the user
	likelihood [2][shadowPoints]float64
}

// Shadowing is a standard-normal variable here, on a grid.
const shadowPoints, shadowStep = 25, 1. / 3

func shadowAt(k int) float64 { return shadowStep * float64(k-shadowPoints/2) }

var _ belief.Estimator = (*Memoryless)(nil)

// NewMemoryless returns the estimator for a world. Of the configuration it takes what a
// deployment knows, and the prior of what it does not.
func NewMemoryless(c *world.Config) *Memoryless {
	x := &Memoryless{world: c, conditions: belief.Conditions(&c.Physics.Channel), air: motion.Air{Winds: windPrior(c)}}
	if c.Payload.FactorMax > 0 {
		x.air.Multiplier = (c.Payload.FactorMin + c.Payload.FactorMax) / 2
	}
	return x
}

// windPrior is a wind of uniform direction and mean speed.
func windPrior(c *world.Config) (winds []motion.Wind) {
	const speeds, headings = 4, 8
	w := &c.Wind
	if w.MeanMaxMPS == 0 {
		return nil
	}
	for i := range speeds {
		v := w.MeanMinMPS + (w.MeanMaxMPS-w.MeanMinMPS)*(float64(i)+0.5)/speeds
		for k := range headings {
			sin, cos := math.Sincos(2 * math.Pi * float64(k) / headings)
			winds = append(winds, motion.Wind{MPS: physics.Position{EastM: v * cos, NorthM: v * sin},
				Probability: 1. / (speeds * headings)})
		}
	}
	return winds
}

// Reset does nothing: there is nothing to forget.
func (x *Memoryless) Reset() {}

// Estimate fills in what is believed in a slot.
func (x *Memoryless) Estimate(s *slot.Snapshot, b *belief.Belief) {
	b.Air.Winds = append(b.Air.Winds[:0], x.air.Winds...)
	b.Air.Multiplier = x.air.Multiplier
	t := &x.world.Throttling
	for i := range s.Users {
		u := &s.Users[i]
		throttle(&b.Users[i], u, t, t.Duty())
		if !x.world.Sounding {
			continue
		}
		x.links = x.links[:0]
		for m := range s.Aircraft {
			x.links = append(x.links, x.likelihoodOf(u.Gain[m], s.Aircraft[m].Position.Sub(u.Position)))
		}
		for m := range x.links {
			if mean, stdDev, ok := x.uploadGain(x.links, m); ok {
				b.Users[i].SetLink(m, mean, stdDev)
			}
		}
	}
}

// largeScale returns the logarithm of a link's gain without fading.
func (l *gainLikelihood) largeScale(c *belief.Condition, k int) float64 {
	return l.logFree + c.MeanLog + c.SDLog*shadowAt(k)
}

// likelihoodOf computes what a report says of its link, by the density of its fading.
func (x *Memoryless) likelihoodOf(gain float64, toAircraft physics.Position) (l gainLikelihood) {
	c, distanceM := &x.world.Physics, toAircraft.Norm()
	l.logFree = math.Log(c.Channel.FreeSpaceGain(distanceM, c.AltitudeM))
	l.azimuthRad = math.Atan2(toAircraft.NorthM, toAircraft.EastM)
	sight := c.Channel.LoSProbability(distanceM, c.AltitudeM)
	priors := [2]float64{sight, 1 - sight}
	for i := range x.conditions {
		likelihood := l.likelihood[i][:]
		x.conditions[i].LogLikelihoods(math.Log(gain)-l.logFree, shadowAt(0), shadowStep, likelihood)
		for k, x := range likelihood {
			likelihood[k] = priors[i] * math.Exp(x)
		}
	}
	return l
}

// possibleAnglesDeg are the correlation angles of shadowing that are held possible, alike.
var possibleAnglesDeg = [...]float64{15, 30, 60}

// prior fills p with the density of the shadowing of a link, given what the user's
// other links of the same slot say: aircraft in about the same direction are shadowed
// by the same. Of three aircraft or more the others count as independent of each other.
func (x *Memoryless) prior(links []gainLikelihood, m int, p *[shadowPoints]float64) {
	for k := range p {
		p[k] = math.Exp(-shadowAt(k) * shadowAt(k) / 2)
	}
	if x.world.ShadowingDeg == 0 {
		return
	}
	const mostCorrelated = 0.93 // that the grid resolves
	for o := range links {
		if o == m {
			continue
		}
		angleDeg := math.Abs(math.Remainder(links[m].azimuthRad-links[o].azimuthRad, 2*math.Pi)) * 180 / math.Pi
		var said [shadowPoints]float64
		for _, degrees := range possibleAnglesDeg {
			correlation := min(math.Exp(-angleDeg*angleDeg/(2*degrees*degrees)), mostCorrelated)
			variance := 1 - correlation*correlation
			for k := range said {
				for j := range shadowPoints {
					e := shadowAt(j) - correlation*shadowAt(k)
					said[k] += (links[o].likelihood[0][j] + links[o].likelihood[1][j]) * math.Exp(-e*e/(2*variance)) / math.Sqrt(variance)
				}
			}
		}
		for k := range p {
			p[k] *= said[k]
		}
	}
}

// uploadGain returns the mean and the standard deviation of the logarithm of the gain
// that an upload has, given what a user's links reported in this slot: Bayes over
// line of sight and shadowing. The moments are those of the logarithm of the rate, which
// decides, expressed as a gain's. It returns false for what the model rules out.
func (x *Memoryless) uploadGain(links []gainLikelihood, m int) (mean, stdDev float64, ok bool) {
	c := &x.world.Physics.Channel
	var prior [shadowPoints]float64
	x.prior(links, m, &prior)
	sum, first, second := 0.0, 0.0, 0.0
	for i := range x.conditions {
		condition := &x.conditions[i]
		for k := range shadowPoints {
			weight := links[m].likelihood[i][k] * prior[k]
			logRate := math.Log(c.RateBPS(math.Exp(links[m].largeScale(condition, k)+condition.TypicalLog), 1))
			sum += weight
			first += weight * logRate
			second += weight * logRate * logRate
		}
	}
	if !(sum > 0) {
		return 0, 0, false
	}
	logRate := first / sum
	rate := math.Exp(logRate)
	// rate = log2(1+snr), so that d log rate / d log gain is
	snr := math.Expm1(rate * math.Ln2)
	slope := snr / ((1 + snr) * math.Ln2 * rate)
	return math.Log(c.GainOf(rate, 1)), math.Sqrt(max(second/sum-logRate*logRate, 0)) / slope, true
}
