package learned

import (
	"math"

	"prefdt/inference/belief"
	"prefdt/inference/kernel"
	"prefdt/inference/physics"
)

// A link has two conditions, in sight and not, and a shadowing z in standard
// deviations. Without memory a sounding says by Bayes' rule how likely each condition
// is, and what z is under each. The network reads that of every observation.

// radio is the channel with what depends on nothing but its constants.
type radio struct {
	constants  *physics.Constants
	conditions [2]belief.Condition
}

func newRadio(c *physics.Constants) radio { return radio{c, belief.Conditions(&c.Channel)} }

// reading is what one gain says, sounded or of an upload.
type reading struct {
	freeLog   float64    // logarithm of the gain of free space
	threshold float64    // of a standard-normal field below which there is line of sight
	logOdds   float64    // of line of sight
	z         [2]float64 // mean of the shadowing under each condition
	residual  [2]float64 // z if there were no fading
}

// logOddsMax bounds the logarithm of odds.
const logOddsMax = 12

// unread is what a horizontal distance alone says of a link: the prior odds of line of
// sight, and no shadowing.
func (x *radio) unread(horizontalM float64) (r reading) {
	c := x.constants
	p := min(max(c.Channel.LoSProbability(horizontalM, c.AltitudeM), 1e-6), 1-1e-6)
	r.freeLog = math.Log(c.Channel.FreeSpaceGain(horizontalM, c.AltitudeM))
	r.threshold = math.Sqrt2 * math.Erfinv(2*p-1)
	r.logOdds = math.Log(p / (1 - p))
	return r
}

// read takes a gain at a horizontal distance; upload says that it has no fading.
func (x *radio) read(gain, horizontalM float64, upload bool) reading {
	r := x.unread(horizontalM)
	logG := math.Log(max(gain, 1e-30)) - r.freeLog
	var evidence [2]float64
	for k := range x.conditions {
		l := &x.conditions[k]
		r.residual[k] = l.Residual(logG)
		if upload {
			evidence[k], r.z[k] = l.Measure(logG, 0, 1)
		} else {
			evidence[k], r.z[k], _ = l.Sound(logG, 0, 1)
		}
	}
	r.logOdds = min(max(evidence[0]-evidence[1]+r.logOdds, -logOddsMax), logOddsMax)
	return r
}

// Link is what is known of a link without memory, which the network's outputs change:
// how likely line of sight is by its sounding, and the gain's distribution under each
// condition before it.
type Link struct {
	LogOdds float64    // of line of sight
	MeanLog [2]float64 // of the upload's gain under each condition, in sight first
	SDLog   [2]float64
}

// Mixture is what is believed of the logarithm of a gain: two normal distributions.
type Mixture struct {
	Sight    float64 // weight of the first
	Mean, SD [2]float64
}

const (
	logOddsStep = 2    // change of the log odds by an output of 1
	leastSD     = 0.01 // of the shadowing z
	narrowest   = -5.0 // logarithm of the narrowing of a standard deviation
	widest      = 1.0
)

// The outputs: the log odds; under each condition the logarithm of the standard
// deviation of z; under each the mean of z.
const (
	linkOdds = iota
	linkSD
	linkZ       = linkSD + 2
	LinkOutputs = linkZ + 2
)

// Change returns the mixture after the network's outputs. Outputs of 0 change nothing.
func Change[T kernel.Float](l *Link, y []T) (m Mixture) {
	m.Sight = 1 / (1 + math.Exp(-(l.LogOdds + logOddsStep*float64(y[linkOdds]))))
	for k := range m.Mean {
		m.Mean[k] = l.MeanLog[k] + l.SDLog[k]*float64(y[linkZ+k])
		m.SD[k] = l.SDLog[k] * (leastSD + math.Exp(min(max(float64(y[linkSD+k]), narrowest), widest)))
	}
	return m
}

// Moments returns the mean and the standard deviation.
func (m *Mixture) Moments() (mean, sd float64) {
	p, q := m.Sight, 1-m.Sight
	mean = p*m.Mean[0] + q*m.Mean[1]
	d := m.Mean[0] - m.Mean[1]
	return mean, math.Sqrt(p*m.SD[0]*m.SD[0] + q*m.SD[1]*m.SD[1] + p*q*d*d)
}

// A gain may be one that no belief foresees: with this probability, in a normal
// distribution of this width about the prior's middle. Without it a few such gains would
// outweigh all others in the gradient, and make every belief a wide one.
const (
	surprise   = 0.01
	surpriseSD = 5.0
)

// Loss returns the negative logarithm of the density of a gain's logarithm, and its
// gradient by the outputs that made the mixture.
func (l *Link) Loss(m *Mixture, y []float64, logG float64, grad *[LinkOutputs]float64) float64 {
	weights := [2]float64{max(m.Sight, 1e-9), max(1-m.Sight, 1e-9)}
	var logs, e [2]float64
	for k := range logs {
		e[k] = (logG - m.Mean[k]) / m.SD[k]
		logs[k] = math.Log(weights[k]) - math.Log(m.SD[k]) - e[k]*e[k]/2
	}
	wide := (logG - (l.MeanLog[0]+l.MeanLog[1])/2) / surpriseSD
	other := math.Log(surprise/surpriseSD) - wide*wide/2
	const foreseen = 1 - surprise
	top := max(logs[0], logs[1], other)
	total := top + math.Log(foreseen*(math.Exp(logs[0]-top)+math.Exp(logs[1]-top))+math.Exp(other-top))
	shares := [2]float64{foreseen * math.Exp(logs[0]-total), foreseen * math.Exp(logs[1]-total)} // a posteriori
	grad[linkOdds] = logOddsStep * (m.Sight*(shares[0]+shares[1]) - shares[0])
	for k, r := range shares {
		grad[linkZ+k] = -r * e[k] * l.SDLog[k] / m.SD[k]
		grad[linkSD+k] = 0
		if x := y[linkSD+k]; x > narrowest && x < widest {
			grad[linkSD+k] = r * (1 - e[k]*e[k]) * (1 - leastSD*l.SDLog[k]/m.SD[k])
		}
	}
	return 0.5*math.Log(2*math.Pi) - total
}

// observation is one gain in a user's memory.
type observation struct {
	arrived     int     // slot
	slot        int     // in which it was measured
	east, north float64 // unit vector of its azimuth
	walkedM     float64 // since then
	threshold   float64
	own         [ownFeatures]float32
	z           [linkAverages]float32 // of the shadowing under each condition, times its probability
}

const (
	ownFeatures       = 7
	linkRowFeatures   = ownFeatures + 8 + linkAverages
	linkAverages      = 2
	linkFeatures      = 9 // of a query, by the present sounding
	nearestFeatures   = 6 // and by the nearest upload
	linkQueryFeatures = linkFeatures + nearestFeatures
	ageScale          = 20 // slots; features of age do not depend on the length of the memory
)

// fadingNoise returns the variance of a sounding's fading, in z.
func fadingNoise(c *belief.Condition) float64 { return c.FadingVariance / (c.SDLog * c.SDLog) }

// observe makes an observation of what a gain said.
func (x *radio) observe(r *reading, to physics.Position, upload bool) (o observation) {
	sight := 1 / (1 + math.Exp(-r.logOdds))
	noise, up := float32(0), float32(1)
	if !upload {
		noise, up = float32(sight*fadingNoise(&x.conditions[0])+(1-sight)*fadingNoise(&x.conditions[1])), 0
	}
	z := sight*r.residual[0] + (1-sight)*r.residual[1]
	o.east, o.north = unit(to)
	o.threshold = r.threshold
	for k, p := range [linkAverages]float64{sight, 1 - sight} {
		o.z[k] = float32(p * min(max(r.residual[k], -4), 4))
	}
	o.own = [ownFeatures]float32{
		float32(2*sight - 1), float32(r.logOdds / 4), float32(r.threshold / 2), float32(min(max(z, -6), 6) / 2), noise / 2, up,
		distanceFeature(to.Norm()),
	}
	return o
}

func distanceFeature(horizontalM float64) float32 {
	return float32(math.Log(max(horizontalM, 10) / 200))
}

// appendRow appends the observation as it is to a present one, in a slot.
func (o *observation) appendRow(rows []float32, present *observation, slot int) []float32 {
	cos, sin := o.east*present.east+o.north*present.north, o.north*present.east-o.east*present.north
	near := math.Exp(8 * (cos - 1)) // a bell curve of 20 degrees; its sixth power, one of 8
	square := near * near
	return append(append(rows, o.own[:]...),
		float32(slot-o.slot)/ageScale, float32(min(o.walkedM, 200)/50), float32(25/(25+o.walkedM)),
		float32(cos), float32(sin), float32(near), float32(square*square*square), float32(o.threshold-present.threshold),
		o.z[0], o.z[1])
}

// link returns what a sounding says of its link, and appends its query.
func (x *radio) link(r *reading, horizontalM float64, queries []float32) (Link, []float32) {
	l := Link{LogOdds: r.logOdds}
	for k := range x.conditions {
		c := &x.conditions[k]
		l.MeanLog[k], l.SDLog[k] = r.freeLog+c.MeanLog+c.TypicalLog, c.SDLog
	}
	clip := func(z float64) float32 { return float32(min(max(z/4, -2), 2)) }
	sight := 1 / (1 + math.Exp(-r.logOdds))
	gap := (x.conditions[0].MeanLog - x.conditions[1].MeanLog) / 5
	return l, append(queries, float32(r.logOdds/4), float32(2*sight-1), float32(r.threshold/2), float32(r.z[0]), float32(r.z[1]),
		clip(r.residual[0]), clip(r.residual[1]), distanceFeature(horizontalM), float32(gap))
}

// appendNearestUpload appends what the upload that is nearest to a present link says, of
// those that arrived after a slot: how near that is, as the correlation of the shadowing of
// the two at an angle of 30 degrees and 50 m of walking, by how much that alone narrows the
// shadowing, and its own gain's reading. Without one all of it is 0.
func (u *user) appendNearestUpload(queries []float32, present *observation, slot, old int) []float32 {
	var nearest *observation
	best := 0.0
	for k := range newer(u.uploads[:], u.uploaded, old) {
		o := &u.uploads[(u.uploaded-1-k)%maxUploads]
		cos := o.east*present.east + o.north*present.north
		if near := math.Exp((cos-1)/(30*math.Pi/180)/(30*math.Pi/180) - o.walkedM/50); near > best {
			best, nearest = near, o
		}
	}
	if nearest == nil {
		return append(queries, 0, 0, 0, 0, 0, 0)
	}
	near := float32(best)
	narrowing := float32(math.Log(1.0005-best*best) / 6)
	return append(queries, near, narrowing, near*nearest.z[0]/2, near*nearest.z[1]/2, near*nearest.own[1],
		float32(slot-nearest.slot)/ageScale)
}

// unit returns the unit vector of a direction; east of none.
func unit(to physics.Position) (east, north float64) {
	if r := to.Norm(); r > 0 {
		return to.EastM / r, to.NorthM / r
	}
	return 1, 0
}
