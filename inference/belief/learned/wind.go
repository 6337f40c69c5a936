package learned

import (
	"cmp"
	"math"
	"slices"

	"prefdt/inference/kernel"
	"prefdt/inference/motion"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
)

// The wind is one of a grid of candidates. For each, every reading of an aircraft's
// power says by what the model's power at that airspeed has to be multiplied. In the
// true wind all readings say the same but for noise. Features of a candidate are how
// well the readings agree, as the logarithm of the likelihood of a normal distribution,
// in three ways: over the last few slots, over all of the memory as though the wind had
// not changed, and so that an older reading has the more noise the more a change of the
// wind since then would have changed it. The network makes a score of them.
type windGrid struct {
	candidates []physics.Position
	windy      bool
	payload    bool
	logPowerW  []float32 // of the model, by the square of the airspeed
	window     int

	slots    []int     // of the readings, newest last
	logs     []float32 // (readings, candidates): logarithm of the multiplier
	squares  []float32 // of those
	slopes   []float32 // and of their change with airspeed, per m/s
	features kernel.Matrix[float32]
	means    []float64 // of the logarithm of the multiplier, by candidate
	losses   []float64 // negative log-likelihoods
	scores   []float64 // before the network's
	moments  [2][]float32
	sums     []weightedSums
}

// weightedSums are of the readings in one candidate wind.
type weightedSums struct{ weight, first, second, product float64 }

const (
	windStepMPS    = 2.0
	windRadiusMPS  = 14.0
	squareStep     = 4.0 // (m/s)^2
	powerSquares   = 640
	maxReadings    = 64
	windFeatures   = 12
	windOutputs    = 2
	readingNoise   = 0.05 // relative, of one reading's power
	multiplierMean = 0.04 // of its logarithm, before any reading
	multiplierSD   = 0.15
	exactSD        = 0.01 // of the logarithm of a multiplier that is known to be 1
	MultiplierStep = 0.1  // change of the logarithm of the multiplier by an output of 1
)

// shortMemory, in slots, is that of the first of a candidate's likelihoods.
const shortMemory = 2.5

// driftVariance is how far the wind has moved on one axis after some slots, in (m/s)^2:
// turbulence of 1 m/s whose correlation from slot to slot is 0.96.
func driftVariance(slots int) float64 { return 2 * (1 - math.Pow(0.96, float64(slots))) }

func newWindGrid(c *physics.Constants, windy, payload bool, window int) *windGrid {
	g := &windGrid{windy: windy, payload: payload, window: window}
	radius := 0
	if windy {
		radius = int(windRadiusMPS / windStepMPS)
	}
	for north := -radius; north <= radius; north++ {
		for east := -radius; east <= radius; east++ {
			if east*east+north*north <= radius*radius {
				g.candidates = append(g.candidates, physics.Position{EastM: windStepMPS * float64(east), NorthM: windStepMPS * float64(north)})
			}
		}
	}
	slices.SortStableFunc(g.candidates, func(a, b physics.Position) int {
		return cmp.Compare(math.Atan2(a.NorthM, a.EastM), math.Atan2(b.NorthM, b.EastM))
	})
	for k := range powerSquares {
		g.logPowerW = append(g.logPowerW, float32(math.Log(c.Propulsion.PowerW(math.Sqrt(squareStep*float64(k))))))
	}
	n := len(g.candidates)
	g.means, g.losses, g.scores = make([]float64, n), make([]float64, n), make([]float64, n)
	g.sums = make([]weightedSums, n)
	g.moments = [2][]float32{make([]float32, n), make([]float32, n)}
	resize(&g.features, n, windFeatures)
	return g
}

func (g *windGrid) reset() { g.forget(len(g.slots)) }

// observe remembers the readings of a slot, and forgets those of more than window slots
// before it.
func (g *windGrid) observe(s *slot.Snapshot) {
	old, n := 0, len(g.candidates)
	for old < len(g.slots) && (g.slots[old] <= s.Slot-g.window || g.slots[old] > s.Slot) {
		old++
	}
	g.forget(old)
	for m := range s.Aircraft {
		f := &s.Aircraft[m].Flown
		if !(f.FlightJ > 0) {
			continue
		}
		if len(g.slots) == maxReadings {
			g.forget(1)
		}
		g.slots = append(g.slots, s.Slot)
		logJ := float32(math.Log(f.FlightJ))
		first := len(g.logs)
		for _, x := range []*[]float32{&g.logs, &g.squares, &g.slopes} {
			*x = slices.Grow(*x, n)[:first+n]
		}
		for i, w := range g.candidates {
			east, north := f.EastMPS-w.EastM, f.NorthMPS-w.NorthM
			x := float32(east*east+north*north) / squareStep
			k := min(int(x), powerSquares-2)
			low := g.logPowerW[k]
			rise := g.logPowerW[k+1] - low
			v := logJ - low - (x-float32(k))*rise
			g.logs[first+i], g.squares[first+i], g.slopes[first+i] = v, v*v, rise*rise*x*4/squareStep
		}
	}
}

// forget drops the oldest readings.
func (g *windGrid) forget(readings int) {
	g.slots = slices.Delete(g.slots, 0, readings)
	for _, x := range []*[]float32{&g.logs, &g.squares, &g.slopes} {
		*x = slices.Delete(*x, 0, readings*len(g.candidates))
	}
}

// weigh sums the readings of a memory of some slots, all with the same noise.
func (g *windGrid) weigh(slot int, memory float64) {
	const noise = readingNoise * readingNoise
	clear(g.moments[0])
	clear(g.moments[1])
	n, count := len(g.candidates), 0.0
	for r, at := range g.slots {
		a := math.Exp(-float64(slot-at) / memory)
		count += a
		kernel.AddScaled(g.moments[0], float32(a), g.logs[r*n:][:n])
		kernel.AddScaled(g.moments[1], float32(a), g.squares[r*n:][:n])
	}
	for i := range g.sums {
		g.sums[i] = weightedSums{count / noise, float64(g.moments[0][i]) / noise, float64(g.moments[1][i]) / noise, 1}
	}
}

// weighDrift sums all readings, with noise by how far the wind may have moved since.
func (g *windGrid) weighDrift(slot int) {
	const noise = readingNoise * readingNoise
	for i := range g.sums {
		g.sums[i] = weightedSums{product: 1}
	}
	n := len(g.candidates)
	for r, at := range g.slots {
		variance := float32(driftVariance(slot - at + 1))
		logs, slopes := g.logs[r*n:][:n], g.slopes[r*n:][:n]
		for i := range g.sums {
			s := &g.sums[i]
			a := 1 / (noise + slopes[i]*variance)
			s.weight += float64(a)
			s.first += float64(a * logs[i])
			s.second += float64(a * logs[i] * logs[i])
			s.product *= float64(a * noise)
		}
	}
}

// WindQueries fills the queries of all candidate winds in the present slot, until the
// next call.
func (m *Memory) WindQueries() []float32 {
	g := m.wind
	g.weigh(m.slot, shortMemory)
	g.fill(0)
	g.weighDrift(m.slot)
	g.fill(1)
	for i := range g.candidates {
		g.scores[i] = -likelihoodScale * float64(g.features.Row(i)[3])
	}
	g.weigh(m.slot, math.Inf(1))
	g.fill(2)
	count := float32(math.Log1p(float64(len(g.slots))) / 3)
	for i, w := range g.candidates {
		f := g.features.Row(i)
		f[9], f[11] = float32(w.Norm()/10), count
	}
	return g.features.Data
}

// likelihoodScale is the unit of a log-likelihood among the features.
const likelihoodScale = 8

// fill makes features of the sums, those numbered h: by how much the logarithm of the
// likelihood is below that of the best candidate, and the mean of the multiplier's.
func (g *windGrid) fill(h int) {
	sd, mean := exactSD, 0.0
	if g.payload {
		sd, mean = multiplierSD, multiplierMean
	}
	least, readings := math.Inf(1), float64(max(len(g.slots), 1))
	for i := range g.sums {
		s, f := &g.sums[i], g.features.Row(i)
		loss := 0.0
		g.means[i] = mean
		if s.weight > 0 {
			at, variance := s.first/s.weight, sd*sd+1/s.weight
			loss = max(s.second-s.first*at, 0)/2 - math.Log(s.product)/2 + (at-mean)*(at-mean)/(2*variance)
			g.means[i] = mean + (at-mean)*sd*sd/variance
		}
		least = min(least, loss)
		g.losses[i] = loss
		f[3*h+2] = float32((g.means[i] - mean) / multiplierSD)
	}
	for i, loss := range g.losses {
		f, x := g.features.Row(i), min(loss-least, 40)
		f[3*h], f[3*h+1] = float32(x/likelihoodScale), float32(math.Sqrt(x)/3)
		if h == 1 {
			f[10] = float32(min(least/readings, 3))
		}
	}
}

// Winds are the candidates with what is believed of each.
type Winds struct {
	Candidates  []physics.Position
	Probability []float64
	LogFactor   []float64 // mean of the logarithm of the multiplier
}

// Believe fills w from the network's outputs on m.WindQueries, a row for each candidate.
func Believe[T kernel.Float](m *Memory, y []T, w *Winds) {
	g := m.wind
	w.Candidates = g.candidates
	w.Probability, w.LogFactor = slices.Grow(w.Probability[:0], len(g.candidates)), slices.Grow(w.LogFactor[:0], len(g.candidates))
	top := math.Inf(-1)
	for i := range g.candidates {
		w.Probability = append(w.Probability, g.scores[i]+float64(y[windOutputs*i]))
		w.LogFactor = append(w.LogFactor, 0)
		if g.payload {
			w.LogFactor[i] = g.means[i] + MultiplierStep*float64(y[windOutputs*i+1])
		}
		top = max(top, w.Probability[i])
	}
	sum := 0.0
	for i, x := range w.Probability {
		w.Probability[i] = math.Exp(x - top)
		sum += w.Probability[i]
	}
	for i := range w.Probability {
		w.Probability[i] /= sum
	}
}

// maxWinds is how many winds a belief has at most.
const maxWinds = 16

// air fills a belief with the mean multiplier and some winds: candidates at equal steps
// of cumulative probability (systematic resampling, Kitagawa 1996), which their order,
// that of azimuth, spreads.
func (w *Winds) air(a *motion.Air) {
	next, sum := 0.5/maxWinds, 0.0
	for i, p := range w.Probability {
		a.Multiplier += p * math.Exp(w.LogFactor[i])
		sum += p
		taken := 0.0
		for ; next < sum && next < 1; next += 1. / maxWinds {
			taken += 1. / maxWinds
		}
		if taken > 0 && len(w.Candidates) > 1 {
			a.Winds = append(a.Winds, motion.Wind{MPS: w.Candidates[i], Probability: taken})
		}
	}
}
