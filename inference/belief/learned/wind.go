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
// well the readings agree, over the last few slots and over more, as the logarithm of
// the likelihood of a normal distribution; the network makes a score of them.
type windGrid struct {
	candidates []physics.Position
	windy      bool
	payload    bool
	logPowerW  []float32 // of the model, by the square of the airspeed
	window     int

	slots    []int     // of the readings, newest last
	logs     []float32 // (readings, candidates): logarithm of the multiplier
	squares  []float32 // of those
	features kernel.Matrix[float32]
	means    []float64 // of the logarithm of the multiplier, by candidate
	scores   []float64 // before the network's
	moments  [2][]float32
}

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

// windMemories are the memories, in slots, over which readings are weighed.
var windMemories = [3]float64{2.5, 8, 1000}

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
	g.means, g.scores = make([]float64, n), make([]float64, n)
	g.moments = [2][]float32{make([]float32, n), make([]float32, n)}
	resize(&g.features, n, windFeatures)
	return g
}

func (g *windGrid) reset() { g.slots, g.logs, g.squares = g.slots[:0], g.logs[:0], g.squares[:0] }

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
		g.logs, g.squares = slices.Grow(g.logs, n)[:first+n], slices.Grow(g.squares, n)[:first+n]
		for i, w := range g.candidates {
			east, north := f.EastMPS-w.EastM, f.NorthMPS-w.NorthM
			x := float32(east*east+north*north) / squareStep
			k := min(int(x), powerSquares-2)
			low := g.logPowerW[k]
			v := logJ - low - (x-float32(k))*(g.logPowerW[k+1]-low)
			g.logs[first+i], g.squares[first+i] = v, v*v
		}
	}
}

// forget drops the oldest readings.
func (g *windGrid) forget(readings int) {
	g.slots = slices.Delete(g.slots, 0, readings)
	g.logs = slices.Delete(g.logs, 0, readings*len(g.candidates))
	g.squares = slices.Delete(g.squares, 0, readings*len(g.candidates))
}

// WindQueries fills the queries of all candidate winds in the present slot, until the
// next call.
func (m *Memory) WindQueries() []float32 {
	g, slot := m.wind, m.slot
	n := len(g.candidates)
	sd := exactSD
	mean := 0.0
	if g.payload {
		sd, mean = multiplierSD, multiplierMean
	}
	for h, memory := range windMemories {
		clear(g.moments[0])
		clear(g.moments[1])
		var count float64
		for r, at := range g.slots {
			a := math.Exp(-float64(slot-at) / memory)
			count += a
			kernel.AddScaled(g.moments[0], float32(a), g.logs[r*n:][:n])
			kernel.AddScaled(g.moments[1], float32(a), g.squares[r*n:][:n])
		}
		least := math.Inf(1)
		const noise = readingNoise * readingNoise
		for i := range n {
			logL, posterior := 0.0, mean
			if count > 0 {
				at := float64(g.moments[0][i]) / count
				variance := max(float64(g.moments[1][i])/count-at*at, 0)
				logL = count*variance/(2*noise) + (at-mean)*(at-mean)/(2*(sd*sd+noise/count))
				posterior = mean + (at-mean)*sd*sd/(sd*sd+noise/count)
			}
			least = min(least, logL)
			f := g.features.Row(i)
			f[3*h], f[3*h+2] = float32(logL), float32((posterior-mean)/0.15)
			g.means[i] = posterior
		}
		for i := range n {
			f := g.features.Row(i)
			x := min(max(float64(f[3*h])-least, 0), 40)
			f[3*h], f[3*h+1] = float32(x/8), float32(math.Sqrt(x)/3)
			if h == 1 {
				g.scores[i] = -x / 2
			}
		}
		if h == 1 {
			for i := range n {
				g.features.Row(i)[10] = float32(min(least/max(count, 1), 3))
			}
		}
	}
	count := float32(math.Log1p(float64(len(g.slots))) / 3)
	for i, w := range g.candidates {
		f := g.features.Row(i)
		f[9], f[11] = float32(w.Norm()/10), count
	}
	return g.features.Data
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
