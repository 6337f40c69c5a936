package baseline

import (
	"math"

	"prefdt/inference/belief"
	"prefdt/inference/motion"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
	"prefdt/simbridge/world"
)

// OneShot is an estimator of a slot's reports alone: it keeps nothing of earlier ones,
// neither gains nor results nor joules. It was written from the definition of the field
// worlds, independently of the other memoryless estimator, to check that one.
type OneShot struct {
	world *world.Config
	air   motion.Air
	nodes []linkNode // working memory
}

// linkNode is one possible large-scale state of a link.
type linkNode struct{ logRate, weight float64 }

var _ belief.Estimator = (*OneShot)(nil)

// NewOneShot returns the estimator for a world. Of the configuration it takes what a
// deployment knows, and the prior of what it does not.
func NewOneShot(c *world.Config) *OneShot {
	x := &OneShot{world: c, air: motion.Air{Winds: windPrior(c)}}
	if c.Payload.FactorMax > 0 {
		x.air.Multiplier = (c.Payload.FactorMin + c.Payload.FactorMax) / 2
	}
	return x
}

// windPrior is a wind of uniform direction and mean speed. Its probabilities add up to
// less than 1: motion counts what a way costs above flight at v*, but an aircraft that
// does not know the wind ends its way by standing over the ground, which takes more.
// Scaled so that standing is the floor, a way costs what it adds to standing, and one
// that saves little delay is flown slowly, near the ground speed of least power.
func windPrior(c *world.Config) (winds []motion.Wind) {
	const speeds, headings = 8, 16
	w := &c.Wind
	if w.MeanMaxMPS == 0 {
		return nil
	}
	_, floorW := c.Physics.MinPower()
	standW := 0.0
	for i := range speeds {
		v := w.MeanMinMPS + (w.MeanMaxMPS-w.MeanMinMPS)*(float64(i)+0.5)/speeds
		standW += c.Physics.Propulsion.PowerW(v) / speeds
		for k := range headings {
			sin, cos := math.Sincos(2 * math.Pi * float64(k) / headings)
			winds = append(winds, motion.Wind{MPS: physics.Position{EastM: v * cos, NorthM: v * sin}})
		}
	}
	for i := range winds {
		winds[i].Probability = floorW / standW / (speeds * headings)
	}
	return winds
}

// Reset does nothing: there is nothing to forget.
func (x *OneShot) Reset() {}

// Estimate fills in what is believed in a slot.
func (x *OneShot) Estimate(s *slot.Snapshot, b *belief.Belief) {
	b.Air.Winds = append(b.Air.Winds[:0], x.air.Winds...)
	b.Air.Multiplier = x.air.Multiplier
	t := &x.world.Throttling
	for i := range s.Users {
		u := &s.Users[i]
		if t.Factor > 0 {
			b.Users[i].Doubt.SlowCPUHz = t.Factor * u.CPUHz
			b.Users[i].Doubt.SlowProbability = t.MeanOnS / (t.MeanOnS + t.MeanOffS)
		}
		for m := range s.Aircraft {
			if x.world.Sounding && u.Gain[m] > 0 {
				if mean, stdDev, ok := x.uploadGain(u.Gain[m], s.Aircraft[m].Position.Sub(u.Position).Norm()); ok {
					b.Users[i].SetLink(m, mean, stdDev)
				}
			}
		}
	}
}

// uploadGain returns the mean and the standard deviation of the logarithm of the gain
// that an upload has, given one sounding at a distance: Bayes over line of sight and
// shadowing, with the likelihood of the sounding's Nakagami fading. The moments are
// those of the logarithm of the rate, which decides, expressed as a gain's. It returns
// false for a sounding that the model rules out.
func (x *OneShot) uploadGain(gain, horizontalM float64) (mean, stdDev float64, ok bool) {
	const points, span = 24, 4.0 // of shadowing, on either side of 0, up to span standard deviations
	c := &x.world.Physics
	sight := c.Channel.LoSProbability(horizontalM, c.AltitudeM)
	logFree, logGain := math.Log(c.Channel.FreeSpaceGain(horizontalM, c.AltitudeM)), math.Log(gain)
	x.nodes = x.nodes[:0]
	sum := 0.0
	add := func(l *physics.ChannelCondition, prior float64) {
		lgamma, _ := math.Lgamma(l.NakagamiM)
		scale, logTypical := prior*math.Exp(l.NakagamiM*math.Log(l.NakagamiM)-lgamma), math.Log(l.TypicalFading())
		for k := -points; k <= points; k++ {
			z := span * float64(k) / points
			large := logFree + (l.ShadowDB*z-l.ExcessDB)*math.Ln10/10
			fade := logGain - large // whose density is Gamma's, of the logarithm
			weight := scale * math.Exp(-z*z/2+l.NakagamiM*(fade-math.Exp(fade)))
			sum += weight
			x.nodes = append(x.nodes, linkNode{math.Log(c.Channel.RateBPS(math.Exp(large+logTypical), 1)), weight})
		}
	}
	add(&c.Channel.LoS, sight)
	add(&c.Channel.NLoS, 1-sight)
	if !(sum > 0) {
		return 0, 0, false
	}
	logRate, variance := 0.0, 0.0
	for _, n := range x.nodes {
		logRate += n.weight * n.logRate / sum
	}
	for _, n := range x.nodes {
		variance += n.weight * (n.logRate - logRate) * (n.logRate - logRate) / sum
	}
	rate := math.Exp(logRate)
	believed := c.Channel.GainOf(rate, 1)
	// d log rate / d log gain of rate = log2(1+snr)
	snr := math.Expm1(rate * math.Ln2)
	slope := snr / ((1 + snr) * math.Ln2 * rate)
	return math.Log(believed), math.Sqrt(variance) / slope, true
}
