package energy

import "math"

const (
	consumedUnitJ = 100 // joules of a count of energy consumed
	powerAverageS = 1   // power is averaged over so long, to extrapolate with it

	// A counter that shows less than this part of what was certainly drawn is wrong:
	// beside a current that may be worse than assumed, and beside the model.
	sensorTrust = 0.8
	modelTrust  = 0.5

	burstFactor = 3 // the flight's power times this is more than any flight's

	correctedShare = 0.15 // of an interval: what a counter adds to it or takes from it at most
)

// Meter is one aircraft's joules. Times are mission seconds on one clock; calls
// in the wrong order of time count as simultaneous.
type Meter struct {
	CapacityJ float64                   // of the battery, for remaining charge
	PowerW    func(mps float64) float64 // propulsion at multiplier 1, eq. (prop)
	MaxPowerW float64                   // more than this cannot be drawn

	started  bool
	model    model
	arrivals // in front of the integrator
	charged  chargeCounter

	newest        Reading // the last one received that was a measurement
	newestS       float64 // when
	intervalS     float64 // between the last two of those, 0: none yet
	repeated      bool    // the present reading is none: it repeats the newest
	meanIntervalS float64 // between readings, on average
	extrapolatedS float64 // of the total at lastReadS, after a restart: without a reading
	source        Source
	lastPowerW    float64 // current times voltage then, or NaN
	meanPowerW    float64 // power in the second before it, measured or modelled
	heldW         float64 // power of the flight, to extrapolate with

	// Power is integrated from reading to reading. At any moment the integral may be
	// off by timingSlackJ beyond its bounds, which does not accumulate: an error of a
	// message's time, or edge energy decided and not drawn yet.
	integral     estimate
	timingSlackJ float64
	measured     bool    // the last interval was measured by a current, not modelled
	resolutionJ  float64 // of what measured it: a counter alone has one
	gaps         int     // intervals that nothing measured, so far, and gaps in the speeds
	gapHJ        float64 // energy consumed at the end of the last one
	gapEndS      float64 // when readings were last received again after they had not been

	total    estimate // drawn up to lastReadS, by all sources
	mark     Mark     // at the last reading that was a measurement
	certainJ float64  // certain lower bound of the joules drawn
	mostJ    float64  // most that was drawn by current and model, in all intervals
	consumed counterReference
	charge   counterReference
}

// State is what a restart needs.
type State struct {
	SpentJ   float64          `json:"spent_j"`
	LowJ     float64          `json:"low_j"`
	HighJ    float64          `json:"high_j"`
	Consumed counterReference `json:"consumed"`
	Charge   counterReference `json:"charge"`
	BootS    float64          `json:"boot_s,omitempty"` // autopilot's time since boot; 0: unknown
	PowerW   float64          `json:"power_w"`
	Factor   float64          `json:"factor"`
	ReadAgeS float64          `json:"read_age_s,omitempty"` // of the last reading; SpentJ is extrapolated for as long

	IntervalS float64       `json:"interval_s,omitempty"` // between the last two
	Charged   chargeCounter `json:"charged"`
}

// State returns what a restart at this moment needs.
func (m *Meter) State(nowS float64) State {
	if p := m.pending; p != nil && !p.suspectedReboot { // no message follows the pending one
		now := *m
		now.pending = nil
		now.pass(p.receivedS, p.Reading, now.integrate)
		return now.State(nowS)
	}
	f := m.estimateAt(nowS)
	s := State{SpentJ: f.J, LowJ: f.LowJ, HighJ: f.HighJ, Consumed: m.consumed, Charge: m.charge, PowerW: m.meanPowerW,
		Factor: m.model.factor, IntervalS: m.intervalS, Charged: m.charged}
	for _, a := range []*counterReference{&s.Consumed, &s.Charge} {
		a.CertainJ -= m.certainJ
		for _, b := range []**counterReference{&a.Candidate, &a.Before} {
			if *b != nil {
				*b = new(**b)
				(*b).CertainJ -= m.certainJ
			}
		}
	}
	s.ReadAgeS = m.extrapolatedS + math.Max(nowS-m.lastReadS, 0) + m.lateS
	if m.bootS > 0 {
		s.BootS = m.bootS + math.Max(nowS-m.lastReadS, 0) + m.lateS
	}
	switch {
	case nowS-math.Max(m.lastReadS, m.model.speedS) > lostS:
		s.PowerW = 0
	case s.PowerW > 0 && m.model.flying:
		// Without setpoints an aircraft hovers, and without decisions it computes
		// nothing. Extrapolated at the last power, four seconds were 20 % too much.
		s.PowerW = m.HoverW()
	}
	return s
}

// Restore continues from a State of gapS ago, NaN if that is unknown. The next readings
// show what was drawn meanwhile; until then, and where they do not, the power before is
// assumed.
func (m *Meter) Restore(nowS float64, s State, gapS float64) {
	*m = Meter{CapacityJ: m.CapacityJ, PowerW: m.PowerW, MaxPowerW: m.MaxPowerW}
	m.start(nowS)
	m.total = estimate{s.SpentJ, math.Min(s.LowJ, s.SpentJ), math.Max(s.HighJ, s.SpentJ)}
	m.integral, m.consumed, m.charge, m.bootS, m.meanPowerW = m.total, s.Consumed, s.Charge, s.BootS, s.PowerW
	m.heldW, m.intervalS, m.charged = s.PowerW, s.IntervalS, s.Charged
	m.arrivals.consumed, m.usedPercent = s.Consumed.Count, s.Charge.Count
	m.model.flying = s.PowerW > 0
	if s.Factor > 0 {
		m.model.factor = s.Factor
	}
	since := math.Inf(-1)
	if gapS >= 0 {
		since = nowS - gapS
		m.lastReadS, m.model.flightSinceReading = since, m.gapEstimate(gapS)
		m.extrapolatedS = math.Max(s.ReadAgeS, 0)
	}
	for _, a := range []*counterReference{&m.consumed, &m.charge} {
		a.readS, a.readingNumber = since, -1
		for _, b := range []**counterReference{&a.Candidate, &a.Before} {
			if *b != nil {
				*b = new(**b)
				(*b).readS, (*b).readingNumber = since, -1
			}
		}
	}
}

// DrawnJ returns the joules drawn up to nowS, as far as is known. After Restore that
// includes the leader's downtime; ModelJ does not.
func (m *Meter) DrawnJ(nowS float64) float64 { return m.estimateAt(nowS).J }

// Charge returns the remaining charge, 0 to 1, in whole points; NaN: not known. A
// jump counts from the second reading that agrees on it.
func (m *Meter) Charge() float64 {
	if m.readingCount == 0 || m.charge.UnitJ == 0 {
		return math.NaN()
	}
	return 1 - m.charge.Count/100
}

// UncertaintyJ is how far off DrawnJ may be, up or down.
func (m *Meter) UncertaintyJ(nowS float64) float64 { return m.estimateAt(nowS).uncertaintyJ() }

// estimateAt is the total at a moment. Since its last message an aircraft may have
// landed, and drawn nothing.
func (m *Meter) estimateAt(nowS float64) estimate {
	total := m.total
	var since estimate
	received := !m.model.flying || nowS-m.model.speedS <= freshS
	if received && m.Source(nowS) != Model && !math.IsNaN(m.lastPowerW) {
		seconds := math.Max(nowS-m.lastReadS, 0) + m.lateS
		flownS := seconds
		if !m.model.flying && m.lastReadS < m.model.landedS+m.intervalS { // a current is the mean since the reading before
			flownS = math.Min(seconds, math.Max(m.model.landedS-m.lastReadS+m.lateS, 0))
		}
		since = estimate{J: flownS * m.heldW, HighJ: (1 + gapError) * seconds * math.Max(m.heldW, m.meanPowerW)}
		if m.model.flying && m.lastReadS < m.model.tookOffS+m.intervalS { // likewise: part of it is of the ground
			_, flight := m.modelFlight(nowS)
			flight = flight.plus(m.model.flightSinceReading)
			since.J, since.HighJ = math.Max(since.J, flight.J), math.Max(since.HighJ, flight.HighJ)
		}
		since = since.plus(estimate{J: m.edgeSince(nowS), HighJ: m.model.edgeSinceReading.J})
	} else {
		total = total.plus(m.model.flightSinceReading).plus(m.model.edgeSinceReading)
		_, since = m.modelFlight(nowS)
		since.LowJ = 0
	}
	return total.plus(since).widened(m.undrawnEdgeJ(nowS))
}

// Mark is what was drawn up to a battery reading.
type Mark struct {
	ReadJ       float64 // DrawnJ then
	ReadModelJ  float64 // ModelJ then
	ReadS       float64 // when that was: by the autopilot's clock, or by the leader's if that was never received
	ReceivedS   float64 // likewise, always by the leader's
	Gaps        int     // the same at two readings if all that was drawn between them was measured
	ResolutionJ float64 // of ReadJ
}

// LastReading returns the mark of the last reading.
func (m *Meter) LastReading() Mark {
	return m.mark
}

// Measured is whether the last interval between readings was measured by a current, and
// ended no longer than maxAgeS ago.
func (m *Meter) Measured(nowS, maxAgeS float64) bool {
	return m.measured && nowS-m.lastReadS <= maxAgeS
}

// Source returns the source of DrawnJ.
func (m *Meter) Source(nowS float64) Source {
	if m.readingCount == 0 || nowS-math.Min(m.newestS, m.lastReadS) > m.heldS() {
		return Model
	}
	return m.source
}

// heldS is how long a reading's current holds: two intervals and a half of a battery
// that reports slowly.
func (m *Meter) heldS() float64 { return math.Min(math.Max(2.5*m.intervalS, freshS), heldMaxS) }

// AddReading enters a reading. A reading that contradicts the current, the model or the
// autopilot's clock waits until the next one agrees.
func (m *Meter) AddReading(nowS float64, r Reading) {
	r = r.valid()
	// At rest the same is measured again and again, but nothing draws as much as a flight.
	m.repeated = r.repeats(m.newest) && (m.model.flying || r.PowerW() > modelTrust*m.PowerW(0))
	if m.repeated {
		if nowS-m.newestS <= m.heldS() { // else it is frozen
			m.add(nowS, r, m.integrate)
		}
		return
	}
	first, was, wasS := m.readingCount == 0, m.newest, m.newestS
	m.newest, m.newestS = r, nowS
	m.add(nowS, r, m.integrate)
	switch bootS := r.BootS - was.BootS; {
	case first, m.pending != nil: // the interval to one that waits for the next is looked at then
	case r.BootS > 0 && was.BootS > 0 && bootS > 0: // after a stall several are received at once
		m.intervalS = bootS
	default:
		m.intervalS = nowS - wasS
	}
}

// usedPercent is the charge used, in whole per cent, NaN: not known.
func usedPercent(r Reading) float64 { return 100 - math.Round(r.Charge*100) }

// integrate enters a reading, the next in order.
func (m *Meter) integrate(r arrival) {
	nowS := r.receivedS
	m.advanceModel(nowS)
	power := r.PowerW()
	if power > m.MaxPowerW {
		power = math.NaN()
	}
	s := m.intervalTo(&r, power)
	if s.afterGap {
		m.gapEndS = nowS
	}
	if s.measured != m.measured { // the integral keeps the error of one source when the other takes over
		m.integral = m.integral.widened(m.timingSlackJ + s.timingSlackJ)
	}
	sum := m.integral.plus(s.drawn)
	prior := sum.widened(s.timingSlackJ)
	m.certainJ += s.certainJ
	m.mostJ += s.drawn.HighJ
	if r.rebooted {
		m.rebaseAtBoot(nowS, r.Reading)
	}
	total, source := m.applyCounters(prior, nowS, r.Reading, s)
	m.integral = sum.narrowed(total.LowJ-s.timingSlackJ, total.HighJ+s.timingSlackJ)
	m.integral.J = total.J
	if total.LowJ < prior.LowJ || total.HighJ > prior.HighJ { // a counter was accepted against the integral
		m.integral = total.widened(s.timingSlackJ)
	}
	drawnJ := total.J - m.total.J
	if s.seconds <= freshS && m.readingCount > 1 {
		m.meanIntervalS += (s.seconds - m.meanIntervalS) / 8
	}
	const settledHJ = 4 // a counter corrects what was estimated in a gap within so many counts
	sinceGapHJ := r.ConsumedHJ - m.gapHJ
	// So much more or less by a counter, beyond what either end's time of receipt makes of it, is not of this interval:
	// another counter took over, or one corrects what nothing measured.
	receiptJ := m.timingSlackJ + s.timingSlackJ
	corrected := s.measured && math.Abs(total.J-prior.J) > consumedUnitJ/2+correctedShare*s.drawn.J+receiptJ
	switch {
	case s.afterGap || corrected || !s.measured && source != Consumed:
		m.gaps, m.gapHJ, sinceGapHJ = m.gaps+1, r.ConsumedHJ, 0
	case math.IsNaN(m.gapHJ): // the first count since
		m.gapHJ, sinceGapHJ = r.ConsumedHJ, 0
	}
	if m.resolutionJ = 0; !s.measured || sinceGapHJ >= 0 && sinceGapHJ < settledHJ {
		m.resolutionJ = consumedUnitJ
	}
	m.total, m.source, m.measured, m.timingSlackJ = total, source, s.measured, s.timingSlackJ
	m.lastPowerW, m.extrapolatedS = power, 0
	if !m.repeated {
		m.mark = Mark{m.total.J, m.model.closedFormJ, math.Max(nowS, m.lastReadS), nowS, m.gaps, m.resolutionJ}
		if m.bootS > 0 {
			m.mark.ReadS = m.bootS
		}
	}
	m.arrivals.consumed, m.usedPercent = m.consumed.Count, m.charge.Count
	p := &m.model
	switch {
	case s.measured: // a burst of power is over before the next message
		if source == Consumed && s.seconds > 0 { // or was none, if the counter contradicts it
			power = math.Min(power, math.Max(m.meanPowerW, drawnJ/s.seconds))
		}
		m.meanPowerW += (power - m.meanPowerW) * math.Min(s.seconds/powerAverageS, 1)
		m.hold(nowS, power, s.seconds)
	case !math.IsNaN(power):
		m.meanPowerW, m.heldW = power, power
	case p.flying:
		m.meanPowerW = p.factor * m.PowerW(p.speedMPS)
		m.heldW = m.meanPowerW
	default:
		m.meanPowerW, m.heldW = 0, 0
	}
	p.flightSinceReading, p.edgeSinceReading, p.undrawnAtReadingJ = m.gapEstimate(m.lateS), estimate{}, m.undrawnNowJ(nowS)
}

// hold follows the power of the flight. Computing takes part of a slot: where there are
// several readings in one, the lesser ones have the flight alone. A longer interval has
// the edge energy decided in it.
func (m *Meter) hold(nowS, powerW, seconds float64) {
	if seconds >= 1 {
		powerW = math.Max(powerW-m.edgeSince(nowS)/seconds, 0)
	}
	if powerW < m.heldW || seconds >= 1 {
		m.heldW = powerW
		return
	}
	m.heldW += (powerW - m.heldW) * seconds / heldRiseS
}

// readingInterval is the time between two readings.
type readingInterval struct {
	seconds      float64
	drawn        estimate
	timingSlackJ float64
	certainJ     float64 // certain part of it, however good the model is
	measured     bool    // by a current
	burst        bool    // that is far above the flight's
	backToBack   bool    // the messages came closer together than they were sent
	afterGap     bool    // it is longer than a current holds, or the first since a restart
}

// intervalTo returns the interval that ends with a reading. Its length is by the
// autopilot's own time where known, for messages may have been delayed.
func (m *Meter) intervalTo(r *arrival, powerW float64) (s readingInterval) {
	nowS := r.receivedS
	dt, delayed := math.Max(nowS-m.lastReadS, 0), false
	if r.bootElapsedS < dt+stallMaxS {
		delayed = math.Abs(r.bootElapsedS-dt) > 1.5*receiptErrorS
		dt = r.bootElapsedS
	}
	s.seconds, s.backToBack = dt, dt < math.Max(receiptErrorS, 0.7*m.meanIntervalS)
	s.afterGap = m.readingCount == 1 || dt > m.heldS() && (m.intervalS > 0 || dt > heldMaxS)
	s.measured = !math.IsNaN(powerW) && !s.afterGap
	if s.measured {
		s.burst = powerW > burstFactor*math.Max(m.heldW, math.Max(m.model.factor, 1)*m.PowerW(0))
		s.drawn, s.timingSlackJ = withRelativeError(dt*powerW, currentError), receiptErrorS*powerW
		if m.lastPowerW > 0 {
			// If messages were lost, a burst did not last since the one before. Nor does a
			// high current contradict a counter: a delay may make it last too long.
			leastW := math.Min(math.Min(powerW, m.lastPowerW), math.Max(m.model.factor, 1)*m.PowerW(0))
			s.certainJ = withRelativeError(dt*leastW, currentError).LowJ
		}
		if missedS := dt - math.Max(m.meanIntervalS, receiptErrorS); missedS > 0 { // the rest of the interval was not measured
			s.certainJ *= 1 - (1-modelTrust)*missedS/dt
		}
		return s
	}
	s.drawn, s.timingSlackJ = m.model.flightSinceReading.plus(m.model.edgeSinceReading), m.undrawnEdgeJ(nowS)
	if delayed { // the model ran while no message came, and not when all came at once
		s.drawn = m.gapEstimate(dt)
	}
	s.certainJ = modelTrust * s.drawn.LowJ
	return s
}

// applyCounters corrects the integral by the counters, and returns the best source that
// the reading has.
func (m *Meter) applyCounters(total estimate, nowS float64, r Reading, s readingInterval) (estimate, Source) {
	count := func(a *counterReference, n, unitJ, trust float64) counterReading {
		c := counterReading{
			count: n, unitJ: unitJ, readS: nowS, bootS: r.BootS, readingNumber: m.readingCount,
			trust: trust, certainJ: m.certainJ, burst: s.burst, drawn: s.drawn.widened(m.timingSlackJ + s.timingSlackJ),
			afterGap: s.afterGap, maybeOld: nowS-m.gapEndS < reorderMaxS,
			measuredJ: m.mostJ + m.timingSlackJ + s.timingSlackJ, unmeasured: a.readingNumber < 0 || s.backToBack,
		}
		// A bound on the power that lasts, by the power before.
		likelyW := (1 + gapError) * math.Max(m.meanPowerW, m.HoverW())
		spareJ := reorderMaxS*likelyW + m.model.edgeSinceReading.HighJ + m.undrawnEdgeJ(nowS)
		seconds := m.counterElapsedS(a, nowS, r)
		c.maxJ = m.MaxPowerW*m.maxElapsedS(a, nowS, r) + spareJ
		if !s.measured { // nothing contradicts a higher power than before
			likelyW *= 2
		}
		// A high current in the same message is not taken as an explanation.
		c.likelyJ = likelyW*seconds + spareJ
		c.likelyTotalJ = m.total.HighJ + likelyW*s.seconds + spareJ
		if a.Candidate != nil {
			c.maxSinceCandidateJ = m.MaxPowerW*m.maxElapsedS(a.Candidate, nowS, r) + spareJ
		}
		if a.readingNumber != m.readingCount-1 || s.backToBack {
			c.drawn = estimate{unitJ, 0, math.Inf(1)}
		}
		return c
	}
	source := Model
	if !math.IsNaN(r.Charge) && m.CapacityJ > 0 {
		source = Remaining
	}
	hasCharge := source == Remaining
	if !math.IsNaN(r.PowerW()) && r.PowerW() <= m.MaxPowerW {
		source = Current
	}
	if !math.IsNaN(r.ConsumedHJ) {
		accepted := false
		total, accepted = m.consumed.handleReading(total, count(&m.consumed, r.ConsumedHJ, consumedUnitJ, sensorTrust), true)
		if m.consumed.Candidate == nil {
			m.accept(nowS, r.ConsumedHJ)
		}
		if accepted {
			if source != Current || m.charged.VoltsV == 0 { // a charge is a current's
				source = Consumed
			}
			// What it adds is evidence for the other counter, and not against itself.
			more := math.Max(total.LowJ-m.total.LowJ-s.certainJ, 0)
			m.certainJ, m.consumed.CertainJ = m.certainJ+more, m.consumed.CertainJ+more
		}
	}
	if hasCharge {
		used, unitJ := usedPercent(r), m.CapacityJ/100
		if a := &m.charge; a.UnitJ > 0 && used == a.Count-1 {
			// Charge is estimated, and goes up and down by one; unless it was reset.
			a.Base.HighJ = math.Max(a.Base.HighJ, total.HighJ-used*unitJ)
			used++
		}
		total, _ = m.charge.handleReading(total, count(&m.charge, used, unitJ, 1), source == Remaining)
	}
	return total, source
}

// counterElapsedS is how much time passed since a counter was read: by the autopilot's
// clock or, without it, by the leader's.
func (m *Meter) counterElapsedS(a *counterReference, nowS float64, r Reading) float64 {
	seconds := m.elapsedWithPauseS(a.readS, nowS)
	if bootElapsedS := r.BootS - a.BootS; r.BootS > 0 && a.BootS > 0 && bootElapsedS >= 0 && bootElapsedS < seconds+stallMaxS {
		seconds = bootElapsedS
	}
	return seconds
}

// maxElapsedS is the longest time that may have passed: joules drawn in a stall may be
// reported first by a message that follows the last one at once by the autopilot's
// clock, and count as drawn, not as another counter.
func (m *Meter) maxElapsedS(a *counterReference, nowS float64, r Reading) float64 {
	seconds := m.counterElapsedS(a, nowS, r)
	if elapsedS := m.elapsedWithPauseS(a.readS, nowS); !math.IsInf(elapsedS, 1) {
		seconds = math.Max(seconds, elapsedS)
	}
	return seconds
}

// rebaseAtBoot sets the reference of energy consumed at the autopilot's boot: its
// counter was 0 then, as its time was, so that only the gap before it is estimated by
// the model. A counter with much more than was drawn since boot survives reboots.
//
// Before a restart the leader may have extrapolated beyond the boot, while the
// autopilot sent nothing; what it extrapolated since the boot is in the counter.
func (m *Meter) rebaseAtBoot(nowS float64, r Reading) {
	bootS := nowS - r.BootS
	if bootS < m.lastReadS-m.extrapolatedS-1 || r.ConsumedHJ*consumedUnitJ > 3*m.meanPowerW*(r.BootS+1)+consumedUnitJ {
		return
	}
	atBoot := m.total.plus(m.gapEstimate(math.Max(bootS-m.lastReadS, 0))).widened(m.undrawnEdgeJ(m.lastReadS))
	if back := m.gapEstimate(math.Min(math.Max(m.lastReadS-bootS, 0), m.extrapolatedS)); back.J > 0 {
		atBoot = estimate{J: atBoot.J - back.J, LowJ: atBoot.LowJ - back.HighJ, HighJ: atBoot.HighJ}
	}
	// Whether the counter rounds, up or down, is not known.
	m.consumed = counterReference{UnitJ: consumedUnitJ, Base: atBoot.widened(consumedUnitJ / 2), Synced: true, readS: bootS,
		CertainJ: m.certainJ}
}

func (m *Meter) start(nowS float64) {
	if m.started {
		return
	}
	m.started = true
	m.lastReadS, m.lastPowerW = nowS, math.NaN()
	m.model = model{factor: 1, updatedS: nowS, speedS: nowS, decidedEdgeS: math.Inf(-1)}
}
