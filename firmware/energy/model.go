package energy

import "math"

const (
	receptionGapS = 0.5 // between two messages of an aircraft that is heard
	freshS        = 2   // a battery reading or a speed is used for so long
	lostS         = 10  // an aircraft unheard for so long is lost, and its model ends
	edgeDoneS     = 2   // computing that was decided on is done after so long
)

// How far the sources are off, as a fraction of what they say: a current sensor
// that is calibrated; the propulsion model in wind; what an aircraft does that
// is not heard.
const (
	currentError = 0.03
	modelError   = 0.15
	gapError     = 0.5
)

// model is the last resort: propulsion at the measured speed, times the last
// measured multiplier, and the edge energy of the decisions sent.
type model struct {
	flying   bool
	speedMPS float64
	speedS   float64 // when it was measured
	factor   float64 // the multiplier

	updatedS           float64  // up to when
	closedFormJ        float64  // propulsion since the meter began, multiplier 1
	flightSinceReading estimate // since the last reading
	edgeSinceReading   estimate // likewise
	decidedEdgeJ       float64  // edge energy of the last decision
	decidedEdgeS       float64
}

// SetSpeed takes a measured speed; an aircraft that is not flying draws nothing
// by the model. What is no speed is as if nothing had been said of it.
func (m *Meter) SetSpeed(nowS, speedMPS float64, flying bool) {
	if !(speedMPS >= 0 && speedMPS <= math.MaxFloat64) {
		return
	}
	m.start(nowS)
	m.advanceModel(nowS)
	m.model.speedS, m.model.speedMPS, m.model.flying = math.Max(nowS, m.model.speedS), speedMPS, flying
}

// SetFactor sets the multiplier the model uses from now on.
func (m *Meter) SetFactor(nowS, factor float64) {
	m.start(nowS)
	m.advanceModel(nowS)
	m.model.factor = factor
}

// AddEdge tells the model of edge energy in the decisions sent. Whom a decision
// does not reach computes elsewhere.
func (m *Meter) AddEdge(nowS, edgeJ float64) {
	m.start(nowS)
	m.model.edgeSinceReading = m.model.edgeSinceReading.plus(estimate{J: edgeJ, HighJ: edgeJ})
	m.model.decidedEdgeJ, m.model.decidedEdgeS = edgeJ, nowS
}

// ModelJ returns the closed form of the flight at multiplier 1, since the meter
// began or was restored. It counts from the first Speed on and knows nothing of the
// time before: not of the absence that At covers after Restore. To divide joules by
// it, take what both gained after the first reading since then. After freshS without
// a speed the aircraft is taken to hover, after lostS for lost.
func (m *Meter) ModelJ(nowS float64) float64 {
	closed, _ := m.modelFlight(nowS)
	return m.model.closedFormJ + closed
}

// modelFlight is what the model says of the time from its last to now.
func (m *Meter) modelFlight(nowS float64) (closedJ float64, drawn estimate) {
	p := &m.model
	if !p.flying {
		return 0, estimate{}
	}
	from, to := p.updatedS-p.speedS, math.Max(nowS, p.updatedS)-p.speedS // the speed's age
	during := func(low, high float64) float64 {
		return math.Min(math.Max(to, low), high) - math.Min(math.Max(from, low), high)
	}
	cruiseW, hoverW := math.Min(m.PowerW(p.speedMPS), m.MaxPowerW), m.PowerW(0)
	closedJ = during(0, freshS)*cruiseW + during(freshS, lostS)*hoverW
	if to <= receptionGapS {
		return closedJ, withRelativeError(p.factor*closedJ, modelError)
	}
	// Unheard it may have come down, or fly still after the model has ended.
	mostJ := (1 + gapError) * (to - from) * math.Max(cruiseW, hoverW)
	return closedJ, estimate{J: p.factor * closedJ, HighJ: p.factor * mostJ}
}

// advanceModel brings the model up to now.
func (m *Meter) advanceModel(nowS float64) {
	p := &m.model
	closed, drawn := m.modelFlight(nowS)
	p.closedFormJ, p.flightSinceReading, p.updatedS = p.closedFormJ+closed, p.flightSinceReading.plus(drawn), math.Max(nowS, p.updatedS)
}

// undrawnEdgeJ is edge energy that was decided on and may not have been drawn yet.
func (m *Meter) undrawnEdgeJ(nowS float64) float64 {
	if nowS-m.model.decidedEdgeS > edgeDoneS {
		return 0
	}
	return m.model.decidedEdgeJ
}

// gapEstimate is what was drawn in a time of which nothing is known but what was
// drawn before it.
func (m *Meter) gapEstimate(seconds float64) estimate {
	if m.meanPowerW == 0 {
		return estimate{}
	}
	mostW := math.Max(m.meanPowerW, m.model.factor*m.PowerW(0))
	return estimate{J: seconds * m.meanPowerW, HighJ: (1 + gapError) * seconds * mostW}
}
