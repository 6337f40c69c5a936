package energy

import "math"

const (
	freshS = 2  // a battery reading or a speed is used for so long
	lostS  = 10 // an aircraft unheard for so long is lost, and its model ends
)

// Meter is one aircraft's joules. Times are mission seconds on one clock; calls
// in the wrong order of time count as simultaneous.
type Meter struct {
	CapacityJ float64                   // of the battery, for remaining charge
	PowerW    func(mps float64) float64 // propulsion at multiplier 1, eq. (prop)
	MaxPowerW float64                   // more than this cannot be drawn

	started  bool
	flying   bool
	source   Source
	factor   float64 // last measured propulsion multiplier
	speedMPS float64
	modelS   float64 // when the speed was measured
	modelJ   float64 // propulsion up to then, multiplier 1
	edgeJ    float64 // of the decisions sent

	readS       float64 // of the last battery reading
	countS      float64 // of the last one that the anchor took
	atS         float64 // of the last estimate
	atJ         float64 // that estimate
	modelAtJ    float64
	edgeAtJ     float64
	powerW      float64 // current times voltage then, or NaN
	anchor      anchor
	gapJ        float64 // drawn before a restart at most, beyond what dt explains
	hasReadings bool

	driftJ float64 // how far the estimate may have drifted since a counter last said
	lostJ  float64 // what stayed uncertain when counters began anew
}

// How far the sources are off, as a fraction of what they measured: a current
// sensor that is calibrated, and the propulsion model in wind.
const (
	currentError = 0.03
	modelError   = 0.15
)

// State is what a restart needs.
type State struct {
	SpentJ float64 `json:"spent_j"`
	Anchor anchor  `json:"anchor"`
	Source Source  `json:"source"`
	DriftJ float64 `json:"drift_j,omitempty"`
	LostJ  float64 `json:"lost_j,omitempty"`
}

// Restore continues from a State: the next reading of its counter shows what
// was drawn meanwhile.
func (m *Meter) Restore(s State) {
	m.atJ, m.anchor, m.driftJ, m.lostJ = s.SpentJ, s.Anchor, s.DriftJ, s.LostJ
	m.gapJ = math.Inf(1)
}

// State returns what a restart at this moment needs.
func (m *Meter) State(nowS float64) State {
	return State{SpentJ: m.At(nowS), Anchor: m.anchor, Source: m.Source(nowS), DriftJ: m.driftJ + m.error(nowS)*(m.At(nowS)-m.atJ), LostJ: m.lostJ}
}

// UncertaintyJ is how far off the figure of At may be, up or down: the counter's
// resolution, and what drifted where there was none.
func (m *Meter) UncertaintyJ(nowS float64) float64 {
	return m.anchor.UnitJ + m.driftJ + m.lostJ + m.error(nowS)*math.Max(m.At(nowS)-m.atJ, 0)
}

// error is the fraction by which the present source may be off.
func (m *Meter) error(nowS float64) float64 {
	if m.Source(nowS) != Model && !math.IsNaN(m.powerW) {
		return currentError
	}
	return modelError
}

// Skip adds what the model says was drawn in a gap that no counter covers.
func (m *Meter) Skip(gapS, powerW float64) {
	if m.anchor.UnitJ == 0 && gapS > 0 {
		m.atJ += gapS * powerW
		m.driftJ += modelError * gapS * powerW
	}
}

// SetFactor sets the multiplier the model uses from now on.
func (m *Meter) SetFactor(nowS, factor float64) {
	if m.Source(nowS) == Model {
		m.rebase(nowS, m.At(nowS)) // what the model said so far stays
	}
	m.factor = factor
}

// AddEdge tells the model of edge energy in the decisions sent.
func (m *Meter) AddEdge(edgeJ float64) { m.edgeJ += edgeJ }

// Speed takes a measured speed; an aircraft that is not flying draws nothing
// by the model.
func (m *Meter) Speed(nowS, speedMPS float64, flying bool) {
	m.start(nowS)
	m.modelJ = m.ModelJ(nowS)
	m.modelS, m.speedMPS, m.flying = math.Max(nowS, m.modelS), speedMPS, flying
}

// ModelJ returns the closed form of the flight so far at multiplier 1. After
// freshS without a speed the aircraft is taken to hover, after lostS for lost.
func (m *Meter) ModelJ(nowS float64) float64 {
	if !m.flying {
		return m.modelJ
	}
	age := math.Max(nowS-m.modelS, 0)
	cruise := math.Min(age, freshS)
	hover := math.Min(age, lostS) - cruise
	return m.modelJ + cruise*m.PowerW(m.speedMPS) + hover*m.PowerW(0)
}

// Battery takes a reading.
func (m *Meter) Battery(nowS float64, r Reading) {
	m.start(nowS)
	dt := math.Max(nowS-m.readS, 0)
	power := r.PowerW()
	if power > m.MaxPowerW {
		power = math.NaN()
	}
	estimate := m.modelled(nowS)
	switch {
	case dt > freshS || !m.hasReadings: // a gap: the model bridges it
	case !math.IsNaN(power) && !math.IsNaN(m.powerW):
		estimate = m.atJ + dt*(power+m.powerW)/2
	case !math.IsNaN(power):
		estimate = m.atJ + dt*power
	}
	drift := modelError
	if !math.IsNaN(power) && m.hasReadings && dt <= freshS {
		drift = currentError
	}
	m.driftJ += drift * math.Max(estimate-m.atJ, 0)
	used := power
	if math.IsNaN(used) && dt > 0 {
		used = (estimate - m.atJ) / dt
	}
	if math.IsNaN(used) || used < 0 {
		used = 0
	}
	maxJ := m.MaxPowerW*(nowS-m.countS) + m.gapJ // since the anchor's last count
	switch {
	case !math.IsNaN(r.ConsumedHJ):
		m.source = Consumed
		estimate = m.pull(estimate, 100, r.ConsumedHJ, used, dt, maxJ)
		m.countS, m.gapJ = nowS, 0
	case !math.IsNaN(power):
		m.source = Current // the anchor stays, in case its counter comes back
	case !math.IsNaN(r.Charge) && m.CapacityJ > 0:
		m.source = Remaining
		estimate = m.pull(estimate, m.CapacityJ/100, 100-math.Round(r.Charge*100), used, dt, maxJ)
		m.countS, m.gapJ = nowS, 0
	default:
		m.source = Model
	}
	m.rebase(nowS, estimate)
	m.readS = m.atS
	m.powerW, m.hasReadings = power, true
}

// pull corrects an estimate by a counter. What drifted since its last count is
// known again, unless it began anew.
func (m *Meter) pull(estimateJ, unitJ, count, powerW, dtS, maxJ float64) float64 {
	was := m.anchor
	estimateJ = m.anchor.pull(estimateJ, unitJ, count, powerW, dtS, maxJ)
	if was.UnitJ != unitJ || m.anchor.BaseJ != was.BaseJ && !(m.anchor.Synced && !was.Synced) {
		m.lostJ += m.driftJ + was.UnitJ
	}
	m.driftJ = 0
	return estimateJ
}

// At returns the joules drawn up to nowS, as far as is known.
func (m *Meter) At(nowS float64) float64 {
	if m.Source(nowS) != Model && !math.IsNaN(m.powerW) {
		return m.atJ + math.Max(nowS-m.readS, 0)*m.powerW
	}
	return m.modelled(nowS)
}

// Source returns where the figure of At comes from.
func (m *Meter) Source(nowS float64) Source {
	if !m.hasReadings || nowS-m.readS > freshS {
		return Model
	}
	return m.source
}

// modelled is the last estimate plus what the model says was drawn since.
func (m *Meter) modelled(nowS float64) float64 {
	return m.atJ + m.factor*(m.ModelJ(nowS)-m.modelAtJ) + m.edgeJ - m.edgeAtJ
}

func (m *Meter) rebase(nowS, estimateJ float64) {
	m.atS, m.atJ = math.Max(nowS, m.atS), estimateJ
	m.modelAtJ, m.edgeAtJ = m.ModelJ(nowS), m.edgeJ
}

func (m *Meter) start(nowS float64) {
	if m.started {
		return
	}
	m.started = true
	m.atS, m.readS, m.countS, m.modelS = nowS, nowS, nowS, nowS
	if m.factor == 0 {
		m.factor = 1
	}
	m.powerW = math.NaN()
}
