package learned

import (
	"cmp"
	"iter"
	"math"
	"slices"
	"sync"

	"prefdt/inference/kernel"
	"prefdt/inference/motion"
	"prefdt/inference/physics"
	"prefdt/inference/robust"
	"prefdt/inference/slot"
)

// The wind is one of a grid of candidates. For each, a reading of an aircraft's power
// says by what the model's power at that airspeed has to be multiplied; in the true wind
// all readings say the same but for noise. A Bayes filter over the grid puts that
// together: each candidate has a probability and, given it, a normal distribution of the
// multiplier, and from slot to slot every candidate gives some of its probability to its
// neighbours.
//
// A reading may be wrong, with a small probability: so none excludes a wind by itself. A filter
// cannot forget one old reading. So there are several, begun at different slots and each begun
// anew once it is as old as the memory: none knows of anything older, and the oldest one, which
// is believed, of almost everything that is younger. A reading that contradicts a filter counts
// with the next one, if that agrees (package robust).
type windGrid struct {
	windy, payload bool
	variance       float64 // of the multiplier before any reading, where there is no payload
	window         int
	*winds
	powerW  []float64 // of the model, by the square of the airspeed
	filters []windFilter
	slot    int // of the last reading
	began   bool

	scratch   []windState
	models    []airPower
	explained []explained
	likely    []float32 // of each candidate, how well it explains a reading
}

// winds are what may blow: the same for all estimators, which do not change it.
type winds struct {
	candidates []physics.Position
	neighbours [][4]int32 // of each candidate; its own index where there is none
	priorLog   []float64  // logarithms of the candidates' probabilities before any reading
}

var (
	calm       = sync.OnceValue(func() *winds { return newWinds(0) })
	anyWind    = sync.OnceValue(func() *winds { return newWinds(windRadiusMPS) })
	strongWind = sync.OnceValue(func() *winds { return newWinds(strongestMPS) })
)

// windFilter is one filter of the grid.
type windFilter struct {
	begun    int // slot
	readings int
	outlier  robust.Outlier
	waiting  slot.Flown // with a reading that contradicts this filter, until the next
	states   []windState
}

// windState is one candidate's part in a filter.
type windState struct{ weight, mean, variance float64 }

// airPower is the model's power in one candidate wind, and its slope with airspeed.
type airPower struct{ watt, slope float64 }

// explained is how far a reading is from one candidate's expectation, and how exact that is.
type explained struct{ residual, precision float64 }

const (
	windStepMPS    = 1.5
	windRadiusMPS  = 13.6
	strongestMPS   = 15.6 // that a reserve is kept in: an aircraft that is made for less can fly in it for a while
	squareStep     = 4.0  // (m/s)^2
	powerSquares   = 640
	mostFilters    = 4
	readingNoise   = 0.05 // relative, of one reading's power
	cellNoiseMPS   = 0.45 // of the wind within a candidate's cell
	diffusion      = 0.09 // (m/s)^2 a slot and axis: turbulence and the turning of the mean
	windSpeedMPS   = 6.5  // of the wind before any reading, and its standard deviation
	windSpeedSD    = 3.0
	multiplierMean = 1.05 // before any reading
	multiplierSD   = 0.15
	// changedMultiplier is how far off 1 it is for flying to cost something else than the model says.
	changedMultiplier = 0.1
	leastWeight       = 1e-9 // below which a candidate is given up
	unexplained       = -745 // exponent of a likelihood that is 0
	wrongReading      = 0.01 // probability that a reading shows nothing
	wrongDensity      = 0.25 // of the logarithm of such a reading
	// contradicts is the density of the logarithm of a reading below which it contradicts a
	// filter: hardly more than what the wrong ones have.
	contradicts = 1.5 * wrongReading * wrongDensity
	otherWind   = 0.1 // probability that two readings contradict a filter because the wind is another
)

// newWinds returns the candidates up to a speed.
func newWinds(mostMPS float64) *winds {
	g, radius := &winds{}, int(math.Floor(mostMPS/windStepMPS))
	for north := -radius; north <= radius; north++ {
		for east := -radius; east <= radius; east++ {
			if w := (physics.Position{EastM: windStepMPS * float64(east), NorthM: windStepMPS * float64(north)}); w.Norm() <=
				mostMPS {
				g.candidates = append(g.candidates, w)
			}
		}
	}
	slices.SortStableFunc(g.candidates, func(a, b physics.Position) int {
		return cmp.Compare(math.Atan2(a.NorthM, a.EastM), math.Atan2(b.NorthM, b.EastM))
	})
	for i, w := range g.candidates {
		var near [4]int32
		for k, step := range [4]physics.Position{{EastM: windStepMPS}, {EastM: -windStepMPS}, {NorthM: windStepMPS},
			{NorthM: -windStepMPS}} {
			j := slices.IndexFunc(g.candidates, func(x physics.Position) bool { return x.Sub(w).Sub(step).Norm() < 1e-6 })
			if near[k] = int32(j); j < 0 {
				near[k] = int32(i)
			}
		}
		x := (w.Norm() - windSpeedMPS) / windSpeedSD
		g.neighbours, g.priorLog = append(g.neighbours, near), append(g.priorLog, -x*x/2-math.Log(max(w.Norm(), 1)))
	}
	return g
}

func newWindGrid(s *Surroundings, window int, blows *winds) *windGrid {
	g := &windGrid{windy: s.Wind, payload: s.Payload, variance: max(s.SensorSD*s.SensorSD, 1e-6), window: window, winds: calm()}
	if g.windy {
		g.winds = blows
	}
	for k := range powerSquares {
		g.powerW = append(g.powerW, s.Physics.Propulsion.PowerW(math.Sqrt(squareStep*float64(k))))
	}
	n := len(g.candidates)
	for range min(mostFilters, window) {
		g.filters = append(g.filters, windFilter{states: make([]windState, n)})
	}
	g.scratch, g.models, g.explained, g.likely = make([]windState, n), make([]airPower, n), make([]explained, n), make([]float32, n)
	g.reset()
	return g
}

func (g *windGrid) reset() { g.began = false }

// begin makes a filter one that knows of no reading. Without a payload flying takes what the model says, as
// far as the current sensors are exact: a filter that takes them to be would take their error for wind.
// It no longer does where a propeller is damaged: once the oldest filter has learned that (see loosen), a
// filter that begins has the multiplier to find, as with a payload, or it would take the change for wind.
func (g *windGrid) begin(f *windFilter, slot int) {
	changed := g.began && math.Abs(g.filters[g.oldest()].multiplier()-1) > changedMultiplier
	f.begun, f.readings, f.outlier = slot, 0, 0
	for i := range f.states {
		f.states[i] = windState{math.Exp(g.priorLog[i]), multiplierMean, multiplierSD * multiplierSD}
		if !g.payload && !changed {
			f.states[i].mean, f.states[i].variance = 1, g.variance
		}
	}
	f.normalise()
}

// observe lets the filters pass to a slot and take its readings.
func (g *windGrid) observe(s *slot.Snapshot) {
	passed := s.Slot - g.slot
	if passed < 0 {
		g.began = false
	}
	for j := range g.filters {
		f := &g.filters[j]
		// Filter j begins anew in every slot that is offset from a multiple of the window.
		offset := j * g.window / len(g.filters)
		since := (s.Slot + g.window - offset) % g.window
		if !g.began || since < passed {
			g.begin(f, s.Slot-min(since, s.Slot))
		}
		for range min(passed, s.Slot-f.begun) {
			g.pass(f)
		}
	}
	g.slot, g.began = s.Slot, true
	for m := range s.Aircraft {
		if flown := &s.Aircraft[m].Flown; flown.FlightJ > 0 {
			g.measure(flown)
		}
	}
}

// pass moves the wind on by a slot.
func (g *windGrid) pass(f *windFilter) {
	if !g.windy || f.readings == 0 { // the prior is as it is
		return
	}
	const give = diffusion / (2 * windStepMPS * windStepMPS) // to each neighbour
	copy(g.scratch, f.states)
	for i := range f.states {
		own := &g.scratch[i]
		weight := (1 - 4*give) * own.weight
		mean := weight * own.mean
		square := weight * (own.variance + own.mean*own.mean)
		for _, j := range g.neighbours[i] {
			if x := &g.scratch[j]; x.weight > 0 {
				w := give * x.weight
				weight += w
				mean += w * x.mean
				square += w * (x.variance + x.mean*x.mean)
			}
		}
		if f.states[i].weight = weight; weight > 0 {
			mean /= weight
			f.states[i].mean, f.states[i].variance = mean, max(square/weight-mean*mean, 1e-6)
		}
	}
}

// measure lets the filters take one aircraft's reading. One that contradicts the oldest waits for the
// next in all of them: a younger one, which excludes little, would take a sensor that is wrong for
// long for wind, and be the oldest in the end.
func (g *windGrid) measure(flown *slot.Flown) {
	g.model(flown)
	first, waits := g.oldest(), false
	for k := range g.filters {
		f := &g.filters[(first+k)%len(g.filters)]
		expectedW, density := g.update(f, flown)
		off, contradicted := math.Log(flown.FlightJ/expectedW), density < contradicts
		if contradicted && !f.outlier.Agrees(off) {
			f.outlier, f.waiting, waits = robust.Outlier(off), *flown, waits || k == 0
			continue
		}
		if waits {
			continue
		}
		if contradicted { // by both, and both count
			g.loosen(f, off)
			g.model(&f.waiting)
			_, density = g.update(f, &f.waiting)
			g.adopt(f, density)
			g.model(flown)
			_, density = g.update(f, flown)
		}
		g.adopt(f, density)
	}
}

// model fills models for what one aircraft has flown.
func (g *windGrid) model(flown *slot.Flown) {
	for i, w := range g.candidates {
		east, north := flown.EastMPS-w.EastM, flown.NorthMPS-w.NorthM
		square := east*east + north*north
		x := min(square/squareStep, powerSquares-2)
		k := int(x)
		rise := g.powerW[k+1] - g.powerW[k]
		g.models[i] = airPower{g.powerW[k] + (x-float64(k))*rise, 2 * math.Sqrt(square) * rise / squareStep}
	}
}

// adopt makes the update of a filter its state; where nothing explains the reading, it begins anew.
func (g *windGrid) adopt(f *windFilter, density float64) {
	f.states, g.scratch = g.scratch, f.states
	if f.readings, f.outlier = f.readings+1, 0; density == 0 || !f.normalise() {
		g.begin(f, f.begun)
	}
}

// update writes into scratch a filter's states after a reading, not normalised, and returns
// what was expected, with the density of the reading's logarithm.
func (g *windGrid) update(f *windFilter, flown *slot.Flown) (expectedW, density float64) {
	flightJ, errorJ2 := flown.FlightJ, flown.ErrorJ*flown.ErrorJ
	best, bestAt := math.Inf(-1), 0
	for i := range f.states {
		s, p, x := &f.states[i], &g.models[i], &g.explained[i]
		if g.likely[i] = float32(math.Inf(-1)); s.weight == 0 {
			continue
		}
		a, b := readingNoise*p.watt, cellNoiseMPS*p.slope
		x.precision = 1 / (p.watt*p.watt*s.variance + s.mean*s.mean*(a*a+b*b) + errorJ2)
		x.residual = flightJ - p.watt*s.mean
		expectedW += s.weight * p.watt * s.mean
		exponent := -x.residual * x.residual * x.precision / 2
		if exponent > best {
			best, bestAt = exponent, i
		}
		g.likely[i] = float32(exponent)
	}
	if best < unexplained {
		return expectedW, 0
	}
	kernel.Softmax(g.likely) // exponentials over their sum
	scale := math.Exp(best) / float64(g.likely[bestAt]) / math.Sqrt(2*math.Pi) * flightJ
	const wrong = wrongReading * wrongDensity
	for i := range f.states {
		s, p, x := f.states[i], &g.models[i], &g.explained[i]
		if s.weight > 0 {
			right := (1 - wrongReading) * math.Sqrt(x.precision) * float64(g.likely[i]) * scale
			share := right / (right + wrong) // that the reading is right, in this wind
			gain := p.watt * s.variance * x.precision
			step := gain * x.residual
			s.weight *= right + wrong
			s.mean += share * step
			s.variance = s.variance*(1-share*gain*p.watt) + share*(1-share)*step*step
			density += s.weight
		}
		g.scratch[i] = s
	}
	return expectedW, density
}

// loosen prepares a filter for two readings that contradict it by the same factor: that much
// flight power may have changed, with or without a payload, or the wind may be any. Or both are
// wrong, so that most of what is known of the wind has to stay.
func (g *windGrid) loosen(f *windFilter, off float64) {
	prior := windFilter{states: g.scratch}
	g.begin(&prior, 0)
	for i := range f.states {
		s, p := &f.states[i], &prior.states[i]
		x := s.mean * min(math.Abs(math.Expm1(off)), 1)
		s.variance += x * x
		own, other := (1-otherWind)*s.weight, otherWind*p.weight
		weight := own + other
		mean := (own*s.mean + other*p.mean) / weight
		square := (own*(s.variance+s.mean*s.mean) + other*(p.variance+p.mean*p.mean)) / weight
		*s = windState{weight, mean, max(square-mean*mean, 1e-6)}
	}
}

// normalise makes the sum of weights 1, and returns false if all are 0.
func (f *windFilter) normalise() bool {
	sum := 0.0
	for i := range f.states {
		sum += f.states[i].weight
	}
	if !(sum > 0) {
		return false
	}
	scale := 1 / sum
	for i := range f.states {
		if f.states[i].weight *= scale; f.states[i].weight < leastWeight {
			f.states[i].weight = 0
		}
	}
	return true
}

// oldest returns the index of the filter that has seen most.
func (g *windGrid) oldest() (oldest int) {
	for j := range g.filters {
		if g.filters[j].begun < g.filters[oldest].begun {
			oldest = j
		}
	}
	return oldest
}

// multiplier returns the expected multiplier of flight power.
func (f *windFilter) multiplier() (mean float64) {
	for i := range f.states {
		mean += f.states[i].weight * f.states[i].mean
	}
	return mean
}

// maxWinds is how many winds a belief has at most.
const maxWinds = 16

// air fills a belief with the mean multiplier and some winds, as the oldest filter has
// them: candidates at equal steps of cumulative probability (systematic resampling,
// Kitagawa 1996), which their order, that of azimuth, spreads.
func (g *windGrid) air(a *motion.Air) {
	oldest := &g.filters[g.oldest()]
	a.Multiplier = oldest.multiplier()
	for i, taken := range oldest.samples(maxWinds) {
		if g.windy {
			a.Winds = append(a.Winds, motion.Wind{MPS: g.candidates[i], Probability: taken})
		}
	}
}

// samples are at most so many of the candidates, with their probabilities.
func (f *windFilter) samples(most float64) iter.Seq2[int, float64] {
	return func(yield func(i int, taken float64) bool) {
		next, sum := 0.5/most, 0.0
		for i := range f.states {
			sum += f.states[i].weight
			taken := 0.0
			for ; next < sum && next < 1; next += 1 / most {
				taken += 1 / most
			}
			if taken > 0 && !yield(i, taken) {
				return
			}
		}
	}
}

// MeasuredAir is the filter by itself: what measured flights say of the air, whatever a policy is configured to believe. It remembers for
// longer than a policy's, for a hold of a minute or two shows the wind's speed alone.
type MeasuredAir struct {
	grid     *windGrid
	restored []motion.Air // before a restart
}

// NewMeasuredAir returns a filter of a mission.
func NewMeasuredAir(s Surroundings) *MeasuredAir {
	const windowSlots = 160
	s.Wind = true
	return &MeasuredAir{grid: newWindGrid(&s, windowSlots, strongWind())}
}

// Restore has a filter that has observed nothing begin with airs that were likely before a restart.
func (m *MeasuredAir) Restore(airs []motion.Air) { m.restored = airs }

// Observe takes a slot's flights.
func (m *MeasuredAir) Observe(s *slot.Snapshot) {
	if !m.grid.began && len(m.restored) > 0 {
		m.grid.observe(&slot.Snapshot{Slot: s.Slot})
		for i := range m.grid.filters {
			m.grid.restore(&m.grid.filters[i], m.restored)
		}
	}
	m.grid.observe(s)
}

// restore makes a filter that begins one of the likely airs of an earlier one: of what that knew they have no more than samples.
func (g *windGrid) restore(f *windFilter, airs []motion.Air) {
	const kept, apartSlots = 0.9, 5 // the share of them, and in how many slots a wind comes to be as far off as they are apart
	mean, square, share := 0.0, 0.0, 1/float64(len(airs))
	for _, air := range airs {
		mean, square = mean+share*air.Multiplier, square+share*air.Multiplier*air.Multiplier
	}
	for i := range f.states {
		f.states[i].weight *= 1 - kept
	}
	for _, air := range airs {
		wind, at := air.MeanMPS(), 0
		for i, w := range g.candidates {
			if w.Sub(wind).Norm() < g.candidates[at].Sub(wind).Norm() {
				at = i
			}
		}
		s := &f.states[at]
		s.weight, s.mean, s.variance = s.weight+kept*share, air.Multiplier, max(square-mean*mean, 1e-4)
	}
	f.readings = 1
	for range apartSlots {
		g.pass(f)
	}
}

// Likely are airs that are about equally likely, each one wind with its multiplier; none before anything was measured.
func (m *MeasuredAir) Likely() (airs []motion.Air) {
	f := &m.grid.filters[m.grid.oldest()]
	if !m.grid.began || f.readings == 0 {
		return nil
	}
	const most = 32
	for i := range f.samples(most) {
		airs = append(airs, motion.Air{Winds: []motion.Wind{{MPS: m.grid.candidates[i], Probability: 1}}, Multiplier: f.states[i].mean})
	}
	return airs
}
