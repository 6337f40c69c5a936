package energy

import "math"

const (
	consumedUnitJ = 100 // joules of a count of energy consumed
	receiptErrorS = 0.1 // error of a message's time of receipt
	stallMaxS     = 10  // longest delay of a message
	powerAverageS = 1   // power is averaged over so long, to extrapolate with it

	// A counter that shows less than this part of what was certainly drawn is wrong:
	// beside a current that may be worse than assumed, and beside the model.
	sensorTrust = 0.8
	modelTrust  = 0.5

	reorderMaxS = 1 // a single datagram may be later than its neighbours by so much
)

// Meter is one aircraft's joules. Times are mission seconds on one clock; calls
// in the wrong order of time count as simultaneous.
type Meter struct {
	CapacityJ float64                   // of the battery, for remaining charge
	PowerW    func(mps float64) float64 // propulsion at multiplier 1, eq. (prop)
	MaxPowerW float64                   // more than this cannot be drawn

	started bool
	model   model

	readingCount    int     // battery readings so far
	meanIntervalS   float64 // between them, on average
	lastReadS       float64
	bootS           float64 // autopilot's time up to which joules are accounted; 0: never received
	extrapolatedS   float64 // of the total at lastReadS, after a restart: without a reading
	lastHadBootTime bool    // the last reading had the autopilot's time
	pending         *pendingReading
	recent          []counterSample // energy consumed, as read within reorderMaxS
	pauseS          float64         // between the last two readings that were more than reorderMaxS apart
	pauseEndS       float64         // when that ended
	source          Source
	lastPowerW      float64 // current times voltage then, or NaN
	meanPowerW      float64 // power in the second before it, measured or modelled

	// Power is integrated from reading to reading. At any moment the integral may be
	// off by timingSlackJ beyond its bounds, which does not accumulate: an error of a
	// message's time, or edge energy decided and not drawn yet.
	integral     estimate
	timingSlackJ float64
	measured     bool // the last interval was measured by a current, not modelled

	total    estimate // drawn up to lastReadS, by all sources
	certainJ float64  // certain lower bound of the joules drawn
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
}

// State returns what a restart at this moment needs.
func (m *Meter) State(nowS float64) State {
	if p := m.pending; p != nil && !p.suspectedReboot { // no message follows the pending one
		now := *m
		now.pending = nil
		now.applyReading(p.receivedS, p.Reading)
		return now.State(nowS)
	}
	f := m.estimateAt(nowS)
	s := State{SpentJ: f.J, LowJ: f.LowJ, HighJ: f.HighJ, Consumed: m.consumed, Charge: m.charge, PowerW: m.meanPowerW, Factor: m.model.factor}
	for _, a := range []*counterReference{&s.Consumed, &s.Charge} {
		a.CertainJ -= m.certainJ
		if a.Candidate != nil {
			a.Candidate = new(*a.Candidate)
			a.Candidate.CertainJ -= m.certainJ
		}
	}
	s.ReadAgeS = m.extrapolatedS + math.Max(nowS-m.lastReadS, 0)
	if m.bootS > 0 {
		s.BootS = m.bootS + math.Max(nowS-m.lastReadS, 0)
	}
	switch {
	case nowS-math.Max(m.lastReadS, m.model.speedS) > lostS:
		s.PowerW = 0
	case s.PowerW > 0 && m.model.flying:
		// Without setpoints an aircraft hovers, and without decisions it computes
		// nothing. Extrapolated at the last power, four seconds were 20 % too much.
		s.PowerW = m.model.factor * m.PowerW(0)
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
		if a.Candidate != nil {
			a.Candidate = new(*a.Candidate)
			a.Candidate.readS, a.Candidate.readingNumber = since, -1
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
	if m.Source(nowS) != Model && !math.IsNaN(m.lastPowerW) {
		j := math.Max(nowS-m.lastReadS, 0) * m.meanPowerW
		since = estimate{J: j, HighJ: (1 + gapError) * j}
	} else {
		total = total.plus(m.model.flightSinceReading).plus(m.model.edgeSinceReading)
		_, since = m.modelFlight(nowS)
		since.LowJ = 0
	}
	return total.plus(since).widened(m.undrawnEdgeJ(nowS))
}

// LastReading returns DrawnJ at the last reading, and when that was: by the autopilot's
// clock, or by the leader's if the autopilot's time was never received.
func (m *Meter) LastReading() (totalJ, atS float64) {
	if m.bootS > 0 {
		return m.total.J, m.bootS
	}
	return m.total.J, m.lastReadS
}

// Measured is whether the last interval between readings was measured by a current, and
// ended no longer than maxAgeS ago.
func (m *Meter) Measured(nowS, maxAgeS float64) bool {
	return m.measured && nowS-m.lastReadS <= maxAgeS
}

// Source returns the source of DrawnJ.
func (m *Meter) Source(nowS float64) Source {
	if m.readingCount == 0 || nowS-m.lastReadS > freshS {
		return Model
	}
	return m.source
}

// pendingReading is a reading that waits for the next one, because of its time. Either
// it came without the autopilot's time after others that had it: if it is the first of
// many that were delayed, the next shows how much of that time has passed. Or its time
// is of another boot, which one reading alone does not prove.
type pendingReading struct {
	receivedS       float64
	suspectedReboot bool
	Reading
}

// counterSample is the counter of energy consumed at a time.
type counterSample struct{ readS, count float64 }

// AddReading enters a reading. A reading that contradicts the current, the model or the
// autopilot's clock waits until the next one agrees.
func (m *Meter) AddReading(nowS float64, r Reading) {
	r = r.valid()
	p := m.pending
	m.pending = nil
	agrees := false
	switch {
	case p == nil:
	case p.suspectedReboot:
		bootElapsedS := r.BootS - p.BootS
		if agrees = r.BootS > 0 && bootElapsedS > -reorderMaxS && bootElapsedS < nowS-p.receivedS+stallMaxS; agrees {
			m.applyReading(p.receivedS, p.Reading)
		}
	case r.BootS == 0 || nowS-p.receivedS > receiptErrorS:
		m.applyReading(p.receivedS, p.Reading)
	}
	hasBootTime := r.BootS > 0
	switch {
	case m.lastHadBootTime && !hasBootTime:
		m.pending = &pendingReading{receivedS: nowS, Reading: r}
	case !agrees && m.isOtherBoot(nowS, r):
		m.pending = &pendingReading{receivedS: nowS, suspectedReboot: true, Reading: r}
	default:
		m.applyReading(nowS, r)
	}
	m.lastHadBootTime = hasBootTime
}

// isOtherBoot is whether the autopilot's time does not continue the one followed so far:
// it was rebooted, or the time is wrong.
func (m *Meter) isOtherBoot(nowS float64, r Reading) bool {
	if r.BootS == 0 || m.bootS == 0 {
		return false
	}
	ahead := m.readingCount > 0 && r.BootS-m.bootS > m.elapsedWithPauseS(m.lastReadS, nowS)+reorderMaxS
	return ahead || m.hasRebooted(nowS, r)
}

// outOfOrder is whether the counter of energy consumed is as it was a moment ago, and
// the charge does not show another battery: a later message arrived before this one.
func (m *Meter) outOfOrder(nowS float64, r Reading) bool {
	for len(m.recent) > 1 && m.recent[1].readS <= nowS-reorderMaxS {
		m.recent = m.recent[1:]
	}
	if len(m.recent) == 0 || m.charge.UnitJ > 0 && usedPercent(r) < m.charge.Count-1 {
		return false
	}
	return r.ConsumedHJ < m.consumed.Count && r.ConsumedHJ >= m.recent[0].count
}

// usedPercent is the charge used, in whole per cent, NaN: not known.
func usedPercent(r Reading) float64 { return 100 - math.Round(r.Charge*100) }

func (m *Meter) applyReading(nowS float64, r Reading) {
	m.advanceModel(nowS)
	rebooted := m.hasRebooted(nowS, r)
	if r.BootS > 0 && r.BootS < m.bootS && !rebooted || !rebooted && m.outOfOrder(nowS, r) {
		return // it was delayed, and is of a time already accounted for
	}
	m.readingCount++
	power := r.PowerW()
	if power > m.MaxPowerW {
		power = math.NaN()
	}
	s := m.intervalTo(nowS, r, power, rebooted)
	if s.measured != m.measured { // the integral keeps the error of one source when the other takes over
		m.integral = m.integral.widened(m.timingSlackJ + s.timingSlackJ)
	}
	sum := m.integral.plus(s.drawn)
	prior := sum.widened(s.timingSlackJ)
	m.certainJ += s.certainJ
	if rebooted {
		m.rebaseAtBoot(nowS, r)
	}
	total, source := m.applyCounters(prior, nowS, r, s)
	m.integral = sum.narrowed(total.LowJ-s.timingSlackJ, total.HighJ+s.timingSlackJ)
	m.integral.J = total.J
	if total.LowJ < prior.LowJ || total.HighJ > prior.HighJ { // a counter was accepted against the integral
		m.integral = total.widened(s.timingSlackJ)
	}
	drawnJ := total.J - m.total.J
	if gapS := nowS - m.lastReadS; gapS > reorderMaxS {
		m.pauseS, m.pauseEndS = gapS, nowS
	}
	if s.seconds <= freshS && m.readingCount > 1 {
		m.meanIntervalS += (s.seconds - m.meanIntervalS) / 8
	}
	m.total, m.source, m.measured, m.timingSlackJ = total, source, s.measured, s.timingSlackJ
	m.lastReadS, m.lastPowerW, m.extrapolatedS = math.Max(nowS, m.lastReadS), power, 0
	switch {
	case r.BootS > 0:
		m.bootS = r.BootS
	case m.bootS > 0:
		m.bootS += s.seconds
	}
	p := &m.model
	p.flightSinceReading, p.edgeSinceReading = estimate{}, estimate{}
	switch {
	case s.measured: // a burst of power is over before the next message
		if source == Consumed && s.seconds > 0 { // or was none, if the counter contradicts it
			power = math.Min(power, math.Max(m.meanPowerW, drawnJ/s.seconds))
		}
		m.meanPowerW += (power - m.meanPowerW) * math.Min(s.seconds/powerAverageS, 1)
	case !math.IsNaN(power):
		m.meanPowerW = power
	case p.flying:
		m.meanPowerW = p.factor * m.PowerW(p.speedMPS)
	default:
		m.meanPowerW = 0
	}
}

// readingInterval is the time between two readings.
type readingInterval struct {
	seconds      float64
	drawn        estimate
	timingSlackJ float64
	certainJ     float64 // certain part of it, however good the model is
	measured     bool    // by a current
	backToBack   bool    // the messages came closer together than they were sent
}

// intervalTo returns the interval that ends with a reading. Its length is by the
// autopilot's own time where known, for messages may have been delayed.
func (m *Meter) intervalTo(nowS float64, r Reading, powerW float64, rebooted bool) (s readingInterval) {
	dt, delayed := math.Max(nowS-m.lastReadS, 0), false
	if bootElapsedS := r.BootS - m.bootS; r.BootS > 0 && m.bootS > 0 && !rebooted && bootElapsedS < dt+stallMaxS {
		delayed = math.Abs(bootElapsedS-dt) > 1.5*receiptErrorS
		dt = bootElapsedS
	}
	s.seconds, s.backToBack = dt, dt < math.Max(receiptErrorS, 0.7*m.meanIntervalS)
	s.measured = !math.IsNaN(powerW) && m.readingCount > 1 && dt <= freshS
	if s.measured {
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
			trust: trust, certainJ: m.certainJ, drawn: s.drawn.widened(m.timingSlackJ + s.timingSlackJ),
		}
		// A bound on the power that lasts, by the power before.
		likelyW := (1 + gapError) * math.Max(m.meanPowerW, m.model.factor*m.PowerW(0))
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
			if n := len(m.recent); n > 0 && r.ConsumedHJ < m.recent[n-1].count {
				m.recent = nil // it was reset
			}
			m.recent = append(m.recent, counterSample{nowS, r.ConsumedHJ})
		}
		if accepted {
			source = Consumed
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

// elapsedWithPauseS is how much time may have passed since a reading: the delay of
// messages in a pause that has just ended is added to the time passed here.
func (m *Meter) elapsedWithPauseS(readS, nowS float64) float64 {
	seconds := nowS - readS
	if nowS-m.pauseEndS < reorderMaxS {
		seconds += m.pauseS
	}
	return seconds
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

// hasRebooted is whether the autopilot's time was reset: it fell by more than a message
// is delayed, or no more of it has passed than since the last reading, and it or the
// counter fell.
func (m *Meter) hasRebooted(nowS float64, r Reading) bool {
	if r.BootS == 0 || m.bootS == 0 {
		return false
	}
	since := nowS-r.BootS > m.lastReadS-receiptErrorS
	return r.BootS < m.bootS-stallMaxS || since && (r.BootS < m.bootS || r.ConsumedHJ < m.consumed.Count)
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
	m.consumed = counterReference{UnitJ: consumedUnitJ, Base: atBoot.widened(consumedUnitJ / 2), Synced: true, readS: bootS, CertainJ: m.certainJ}
}

func (m *Meter) start(nowS float64) {
	if m.started {
		return
	}
	m.started = true
	m.lastReadS, m.lastPowerW = nowS, math.NaN()
	m.model = model{factor: 1, updatedS: nowS, speedS: nowS, decidedEdgeS: math.Inf(-1)}
}
