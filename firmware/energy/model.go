package energy

import "math"

const (
	receptionGapS = 0.5 // longest time between messages of an aircraft that is received
	freshS        = 2   // a battery reading or a speed is used for so long
	lostS         = 10  // an aircraft not received for so long is lost, and its model ends
	edgeDoneS     = 2   // a decision's edge energy is drawn after so long
	edgeBusyS     = 0.5 // and most of it after this, with its slot

	// A battery monitor may take so long from one measurement to the next: 6 s
	// (docs/wire.md) and what a message is late.
	heldMaxS  = 6.5
	heldRiseS = 5 // a power that rises within a second may be computing, and counts as the flight's after so long
)

// Relative errors of the sources: a calibrated current sensor; the propulsion model in
// wind; the flight of an aircraft that is not received.
const (
	currentError = 0.03
	modelError   = 0.15
	gapError     = 0.5
)

// model is the last resort: propulsion at the measured speed, times the last
// measured multiplier, and the edge energy of the decisions sent.
type model struct {
	flying   bool
	landedS  float64 // when it flew no more; 0: it has not flown
	tookOffS float64 // when it flew last after it had not; 0: it has not flown
	speedMPS float64
	speedS   float64 // when the speed was measured
	factor   float64 // the propulsion multiplier

	updatedS           float64  // time up to which the model was advanced
	closedFormJ        float64  // propulsion since the meter began, multiplier 1
	flightSinceReading estimate // since the last reading
	edgeSinceReading   estimate // likewise
	undrawnAtReadingJ  float64  // edge energy that was decided before, and not drawn then
	decidedEdgeJ       float64  // edge energy of the last decision
	decidedEdgeS       float64
}

// SetSpeed enters a measured speed; an aircraft that is not flying draws nothing by the
// model. A value that is no speed is ignored.
func (m *Meter) SetSpeed(nowS, speedMPS float64, flying bool) {
	if !(speedMPS >= 0 && speedMPS <= math.MaxFloat64) {
		return
	}
	m.passOverdue(nowS)
	m.advanceModel(nowS)
	if m.model.flying && nowS-m.model.speedS > freshS {
		m.gaps++
	}
	if m.model.flying && !flying {
		m.model.landedS = nowS
	}
	if !m.model.flying && flying {
		m.model.tookOffS = nowS
	}
	m.model.speedS, m.model.speedMPS, m.model.flying = math.Max(nowS, m.model.speedS), speedMPS, flying
}

// SetFactor sets the multiplier the model uses from now on.
func (m *Meter) SetFactor(nowS, factor float64) {
	m.advanceModel(nowS)
	m.model.factor = factor
}

// HoverW is what hovering takes at that multiplier.
func (m *Meter) HoverW() float64 { return m.model.factor * m.PowerW(0) }

// AddEdge adds the edge energy of the decisions sent. A user that its decision does not
// reach computes elsewhere, so that it is an upper bound.
func (m *Meter) AddEdge(nowS, edgeJ float64) {
	m.start(nowS)
	m.model.edgeSinceReading = m.model.edgeSinceReading.plus(estimate{J: edgeJ, HighJ: edgeJ})
	m.model.decidedEdgeJ, m.model.decidedEdgeS = edgeJ, nowS
}

// ModelJ returns the closed form of the flight at multiplier 1, since the meter began or
// was restored. It counts from the first SetSpeed on, and not the leader's downtime
// that DrawnJ includes after Restore. To divide joules by it, use the differences of
// both after the first reading since then. After freshS without a speed the aircraft is
// assumed to hover, after lostS to be lost.
func (m *Meter) ModelJ(nowS float64) float64 {
	closed, _ := m.modelFlight(nowS)
	return m.model.closedFormJ + closed
}

// modelFlight is the model's estimate from its last update to now.
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
	// Not received, it may have landed, or fly on after the model has ended.
	mostJ := (1 + gapError) * (to - from) * math.Max(cruiseW, hoverW)
	return closedJ, estimate{J: p.factor * closedJ, HighJ: p.factor * mostJ}
}

func (m *Meter) advanceModel(nowS float64) {
	m.start(nowS)
	p := &m.model
	closed, drawn := m.modelFlight(nowS)
	p.closedFormJ, p.flightSinceReading, p.updatedS = p.closedFormJ+closed, p.flightSinceReading.plus(drawn), math.Max(nowS, p.updatedS)
}

// undrawnEdgeJ is edge energy that was decided and may not have been drawn yet.
func (m *Meter) undrawnEdgeJ(nowS float64) float64 {
	if nowS-m.model.decidedEdgeS > edgeDoneS {
		return 0
	}
	return m.model.decidedEdgeJ
}

// undrawnNowJ is the part of the last decision's edge energy that is not drawn yet, if it is
// drawn evenly.
func (m *Meter) undrawnNowJ(nowS float64) float64 {
	return m.model.decidedEdgeJ * math.Min(math.Max(1-(nowS-m.model.decidedEdgeS)/edgeBusyS, 0), 1)
}

// edgeSince is the edge energy drawn since the last reading.
func (m *Meter) edgeSince(nowS float64) float64 {
	return m.model.undrawnAtReadingJ + m.model.edgeSinceReading.J - m.undrawnNowJ(nowS)
}

// gapEstimate is what was drawn in a time without messages, by the power before it.
func (m *Meter) gapEstimate(seconds float64) estimate {
	if m.meanPowerW == 0 {
		return estimate{}
	}
	mostW := math.Max(m.meanPowerW, m.HoverW())
	return estimate{J: seconds * m.meanPowerW, HighJ: (1 + gapError) * seconds * mostW}
}
