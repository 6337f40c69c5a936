package energy

import "math"

const (
	heardS = 0.5 // between two messages of an aircraft that is heard
	freshS = 2   // a battery reading or a speed is used for so long
	lostS  = 10  // an aircraft unheard for so long is lost, and its model ends
	edgeS  = 2   // computing that was decided on is done after so long
)

// How far the sources are off, as a fraction of what they say: a current sensor
// that is calibrated; the propulsion model in wind; what an aircraft does that
// is not heard.
const (
	currentError = 0.03
	modelError   = 0.15
	darkError    = 0.5
)

// model is the last resort: propulsion at the measured speed, times the last
// measured multiplier, and the edge energy of the decisions sent.
type model struct {
	flying   bool
	speedMPS float64
	speedS   float64 // when it was measured
	factor   float64 // the multiplier

	atS     float64 // up to when
	closedJ float64 // propulsion since the meter began, multiplier 1
	flown   figure  // since the last reading
	edge    figure  // likewise
	toldJ   float64 // edge energy of the last decision
	toldS   float64
}

// Speed takes a measured speed; an aircraft that is not flying draws nothing
// by the model. What is no speed is as if nothing had been said of it.
func (m *Meter) Speed(nowS, speedMPS float64, flying bool) {
	if !(speedMPS >= 0 && speedMPS <= math.MaxFloat64) {
		return
	}
	m.start(nowS)
	m.fly(nowS)
	m.model.speedS, m.model.speedMPS, m.model.flying = math.Max(nowS, m.model.speedS), speedMPS, flying
}

// SetFactor sets the multiplier the model uses from now on.
func (m *Meter) SetFactor(nowS, factor float64) {
	m.start(nowS)
	m.fly(nowS)
	m.model.factor = factor
}

// AddEdge tells the model of edge energy in the decisions sent. Whom a decision
// does not reach computes elsewhere.
func (m *Meter) AddEdge(nowS, edgeJ float64) {
	m.start(nowS)
	m.model.edge = m.model.edge.plus(figure{J: edgeJ, HighJ: edgeJ})
	m.model.toldJ, m.model.toldS = edgeJ, nowS
}

// ModelJ returns the closed form of the flight at multiplier 1, since the meter
// began or was restored. It counts from the first Speed on and knows nothing of the
// time before: not of the absence that At covers after Restore. To divide joules by
// it, take what both gained after the first reading since then. After freshS without
// a speed the aircraft is taken to hover, after lostS for lost.
func (m *Meter) ModelJ(nowS float64) float64 {
	closed, _ := m.flight(nowS)
	return m.model.closedJ + closed
}

// flight is what the model says of the time from its last to now.
func (m *Meter) flight(nowS float64) (closedJ float64, drawn figure) {
	p := &m.model
	if !p.flying {
		return 0, figure{}
	}
	from, to := p.atS-p.speedS, math.Max(nowS, p.atS)-p.speedS // the speed's age
	during := func(low, high float64) float64 {
		return math.Min(math.Max(to, low), high) - math.Min(math.Max(from, low), high)
	}
	cruiseW, hoverW := math.Min(m.PowerW(p.speedMPS), m.MaxPowerW), m.PowerW(0)
	closedJ = during(0, freshS)*cruiseW + during(freshS, lostS)*hoverW
	if to <= heardS {
		return closedJ, around(p.factor*closedJ, modelError)
	}
	// Unheard it may have come down, or fly still after the model has ended.
	mostJ := (1 + darkError) * (to - from) * math.Max(cruiseW, hoverW)
	return closedJ, figure{J: p.factor * closedJ, HighJ: p.factor * mostJ}
}

// fly brings the model up to now.
func (m *Meter) fly(nowS float64) {
	p := &m.model
	closed, drawn := m.flight(nowS)
	p.closedJ, p.flown, p.atS = p.closedJ+closed, p.flown.plus(drawn), math.Max(nowS, p.atS)
}

// undrawnJ is edge energy that was decided on and may not have been drawn yet.
func (m *Meter) undrawnJ(nowS float64) float64 {
	if nowS-m.model.toldS > edgeS {
		return 0
	}
	return m.model.toldJ
}

// dark is what was drawn in a time of which nothing is known but what was
// drawn before it.
func (m *Meter) dark(seconds float64) figure {
	if m.lastW == 0 {
		return figure{}
	}
	mostW := math.Max(m.lastW, m.model.factor*m.PowerW(0))
	return figure{J: seconds * m.lastW, HighJ: (1 + darkError) * seconds * mostW}
}
