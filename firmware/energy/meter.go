package energy

import "math"

const (
	consumedJ = 100 // a count of energy consumed
	receiptS  = 0.1 // a message's time is off by so much
	stallS    = 10  // messages may wait for so long on their way
	meanS     = 1   // power is averaged over so long, to go on with it

	// What says less than this part of what was drawn is wrong: a counter beside
	// a current that may be worse than assumed, anything beside the model.
	sensorTrust = 0.8
	modelTrust  = 0.5

	lateS = 1 // a datagram may be late by so much, unlike those before and after it
)

// Meter is one aircraft's joules. Times are mission seconds on one clock; calls
// in the wrong order of time count as simultaneous.
type Meter struct {
	CapacityJ float64                   // of the battery, for remaining charge
	PowerW    func(mps float64) float64 // propulsion at multiplier 1, eq. (prop)
	MaxPowerW float64                   // more than this cannot be drawn

	started bool
	model   model

	readings int     // battery readings so far
	everyS   float64 // they came so far apart, on average
	readS    float64
	bootS    float64 // autopilot's time up to which is accounted for; 0: never heard
	dated    bool    // the last one told of it
	held     *held
	recent   []tick  // energy consumed, as read within lateS
	pauseS   float64 // between the last two readings that were more than lateS apart
	pausedS  float64 // when that ended
	source   Source
	powerW   float64 // current times voltage then, or NaN
	lastW    float64 // power in the second before it, measured or modelled

	// Power is integrated from reading to reading. At any moment the integral
	// may be off by slackJ beyond its bounds, which does not add up: a message's
	// time, or computing that was told of and not drawn yet.
	sum      figure
	slackJ   float64
	measured bool // it was a current's at last, not the model's

	total    figure // what was drawn up to readS, by all that is known
	sureJ    float64
	consumed anchor
	charge   anchor
}

// State is what a restart needs.
type State struct {
	SpentJ   float64 `json:"spent_j"`
	LowJ     float64 `json:"low_j"`
	HighJ    float64 `json:"high_j"`
	Consumed anchor  `json:"consumed"`
	Charge   anchor  `json:"charge"`
	BootS    float64 `json:"boot_s,omitempty"` // autopilot's time since boot; 0: unknown
	PowerW   float64 `json:"power_w"`
	Factor   float64 `json:"factor"`
}

// State returns what a restart at this moment needs.
func (m *Meter) State(nowS float64) State {
	if h := m.held; h != nil && !h.reboot { // no message follows it at once
		now := *m
		now.held = nil
		now.take(h.nowS, h.Reading)
		return now.State(nowS)
	}
	f := m.now(nowS)
	s := State{SpentJ: f.J, LowJ: f.LowJ, HighJ: f.HighJ, Consumed: m.consumed, Charge: m.charge, PowerW: m.lastW, Factor: m.model.factor}
	for _, a := range []*anchor{&s.Consumed, &s.Charge} {
		a.SureJ -= m.sureJ
		if a.Candidate != nil {
			next := *a.Candidate
			next.SureJ -= m.sureJ
			a.Candidate = &next
		}
	}
	if m.bootS > 0 {
		s.BootS = m.bootS + math.Max(nowS-m.readS, 0)
	}
	switch {
	case nowS-math.Max(m.readS, m.model.speedS) > lostS:
		s.PowerW = 0
	case s.PowerW > 0 && m.model.flying:
		// Without setpoints an aircraft hovers, and without decisions it computes
		// nothing. Counted on at the last power, four seconds were 20 % too much.
		s.PowerW = m.model.factor * m.PowerW(0)
	}
	return s
}

// Restore continues from a State of gapS ago, NaN if nobody knows how long ago
// that was. The readings to come show what was drawn meanwhile; until then, and
// where they do not, it is as much as was drawn before.
func (m *Meter) Restore(nowS float64, s State, gapS float64) {
	*m = Meter{CapacityJ: m.CapacityJ, PowerW: m.PowerW, MaxPowerW: m.MaxPowerW}
	m.start(nowS)
	m.total = figure{s.SpentJ, math.Min(s.LowJ, s.SpentJ), math.Max(s.HighJ, s.SpentJ)}
	m.sum, m.consumed, m.charge, m.bootS, m.lastW = m.total, s.Consumed, s.Charge, s.BootS, s.PowerW
	m.model.flying = s.PowerW > 0
	if s.Factor > 0 {
		m.model.factor = s.Factor
	}
	since := math.Inf(-1)
	if gapS >= 0 {
		since = nowS - gapS
		m.readS, m.model.flown = since, m.dark(gapS)
	}
	for _, a := range []*anchor{&m.consumed, &m.charge} {
		a.readS, a.reading = since, -1
		if a.Candidate != nil {
			next := *a.Candidate
			next.readS, next.reading = since, -1
			a.Candidate = &next
		}
	}
}

// At returns the joules drawn up to nowS, as far as is known. After Restore that
// includes what was drawn while nobody heard; ModelJ does not.
func (m *Meter) At(nowS float64) float64 { return m.now(nowS).J }

// Charge returns the remaining charge, 0 to 1, in whole points; NaN: not known. A
// jump counts from the second reading that agrees on it.
func (m *Meter) Charge() float64 {
	if m.readings == 0 || m.charge.UnitJ == 0 {
		return math.NaN()
	}
	return 1 - m.charge.Count/100
}

// UncertaintyJ is how far off the figure of At may be, up or down.
func (m *Meter) UncertaintyJ(nowS float64) float64 { return m.now(nowS).offJ() }

// now is the total at a moment. Since its last message an aircraft may have come
// down, and drawn nothing.
func (m *Meter) now(nowS float64) figure {
	total := m.total
	var since figure
	if m.Source(nowS) != Model && !math.IsNaN(m.powerW) {
		j := math.Max(nowS-m.readS, 0) * m.lastW
		since = figure{J: j, HighJ: (1 + darkError) * j}
	} else {
		total = total.plus(m.model.flown).plus(m.model.edge)
		_, since = m.flight(nowS)
		since.LowJ = 0
	}
	return total.plus(since).widened(m.undrawnJ(nowS))
}

// Source returns where the figure of At comes from.
func (m *Meter) Source(nowS float64) Source {
	if m.readings == 0 || nowS-m.readS > freshS {
		return Model
	}
	return m.source
}

// held is a reading that waits for the next one, because of its time: it came
// without the autopilot's after others that had it, and if it is the first of many
// that waited, the next says at once how much of that time has passed; or its time
// is of another boot, which one reading alone does not prove.
type held struct {
	nowS   float64
	reboot bool
	Reading
}

// tick is what the counter of energy consumed was at a time.
type tick struct{ readS, count float64 }

// Battery takes a reading. What one reading alone says against the current, the
// model or the autopilot's clock waits until the next one agrees.
func (m *Meter) Battery(nowS float64, r Reading) {
	r = r.valid()
	h := m.held
	m.held = nil
	agrees := false
	switch {
	case h == nil:
	case h.reboot:
		own := r.BootS - h.BootS
		if agrees = r.BootS > 0 && own > -lateS && own < nowS-h.nowS+stallS; agrees {
			m.take(h.nowS, h.Reading)
		}
	case r.BootS == 0 || nowS-h.nowS > receiptS:
		m.take(h.nowS, h.Reading)
	}
	dated := r.BootS > 0
	switch {
	case m.dated && !dated:
		m.held = &held{nowS: nowS, Reading: r}
	case !agrees && m.otherBoot(nowS, r):
		m.held = &held{nowS: nowS, reboot: true, Reading: r}
	default:
		m.take(nowS, r)
	}
	m.dated = dated
}

// otherBoot is whether the autopilot's time is not the one that was followed so
// far: it was rebooted, or what it said is wrong.
func (m *Meter) otherBoot(nowS float64, r Reading) bool {
	if r.BootS == 0 || m.bootS == 0 {
		return false
	}
	ahead := m.readings > 0 && r.BootS-m.bootS > m.sinceS(m.readS, nowS)+lateS
	return ahead || m.hasRebooted(nowS, r)
}

// outOfOrder is whether the counter of energy consumed says what it said a moment
// ago, and the charge does not say that the battery is another: a later message
// has overtaken this one.
func (m *Meter) outOfOrder(nowS float64, r Reading) bool {
	for len(m.recent) > 1 && m.recent[1].readS <= nowS-lateS {
		m.recent = m.recent[1:]
	}
	if len(m.recent) == 0 || m.charge.UnitJ > 0 && points(r) < m.charge.Count-1 {
		return false
	}
	return r.ConsumedHJ < m.consumed.Count && r.ConsumedHJ >= m.recent[0].count
}

// points are the points of charge that were used, NaN: not known.
func points(r Reading) float64 { return 100 - math.Round(r.Charge*100) }

func (m *Meter) take(nowS float64, r Reading) {
	m.start(nowS)
	m.fly(nowS)
	rebooted := m.hasRebooted(nowS, r)
	if r.BootS > 0 && r.BootS < m.bootS && !rebooted || !rebooted && m.outOfOrder(nowS, r) {
		return // it waited on its way, and is of a time that is accounted for
	}
	m.readings++
	power := r.PowerW()
	if power > m.MaxPowerW {
		power = math.NaN()
	}
	s := m.since(nowS, r, power, rebooted)
	if s.measured != m.measured { // what the one is off at this moment stays with the other
		m.sum = m.sum.widened(m.slackJ + s.slackJ)
	}
	sum := m.sum.plus(s.drawn)
	prior := sum.widened(s.slackJ)
	m.sureJ += s.sureJ
	if rebooted {
		m.rebooted(nowS, r)
	}
	total, source := m.correct(prior, nowS, r, s)
	m.sum = sum.within(total.LowJ-s.slackJ, total.HighJ+s.slackJ)
	m.sum.J = total.J
	if total.LowJ < prior.LowJ || total.HighJ > prior.HighJ { // a counter was believed against the integral
		m.sum = total.widened(s.slackJ)
	}
	drawnJ := total.J - m.total.J
	if gapS := nowS - m.readS; gapS > lateS {
		m.pauseS, m.pausedS = gapS, nowS
	}
	if s.seconds <= freshS && m.readings > 1 {
		m.everyS += (s.seconds - m.everyS) / 8
	}
	m.total, m.source, m.measured, m.slackJ = total, source, s.measured, s.slackJ
	m.readS, m.powerW = math.Max(nowS, m.readS), power
	switch {
	case r.BootS > 0:
		m.bootS = r.BootS
	case m.bootS > 0:
		m.bootS += s.seconds
	}
	p := &m.model
	p.flown, p.edge = figure{}, figure{}
	switch {
	case s.measured: // a burst of power is over before the next message
		if source == Consumed && s.seconds > 0 { // and was none, if the counter denies it
			power = math.Min(power, math.Max(m.lastW, drawnJ/s.seconds))
		}
		m.lastW += (power - m.lastW) * math.Min(s.seconds/meanS, 1)
	case !math.IsNaN(power):
		m.lastW = power
	case p.flying:
		m.lastW = p.factor * m.PowerW(p.speedMPS)
	default:
		m.lastW = 0
	}
}

// stretch is the time between two readings.
type stretch struct {
	seconds  float64
	drawn    figure
	slackJ   float64
	sureJ    float64 // of it, no matter of how good the model is
	measured bool    // by a current
	atOnce   bool    // the messages came so, or sooner than they were sent
}

// since returns the stretch that ends with a reading. Its length is told by the
// autopilot's own time, for messages may have waited on their way.
func (m *Meter) since(nowS float64, r Reading, powerW float64, rebooted bool) (s stretch) {
	dt, waited := math.Max(nowS-m.readS, 0), false
	if own := r.BootS - m.bootS; r.BootS > 0 && m.bootS > 0 && !rebooted && own < dt+stallS {
		waited = math.Abs(own-dt) > 1.5*receiptS
		dt = own
	}
	s.seconds, s.atOnce = dt, dt < math.Max(receiptS, 0.7*m.everyS)
	s.measured = !math.IsNaN(powerW) && m.readings > 1 && dt <= freshS
	if s.measured {
		s.drawn, s.slackJ = around(dt*powerW, currentError), receiptS*powerW
		if m.powerW > 0 {
			// If messages were lost, a burst did not last since the one before. Nor does
			// a high current speak against a counter: a delay may have it last too long.
			leastW := math.Min(math.Min(powerW, m.powerW), math.Max(m.model.factor, 1)*m.PowerW(0))
			s.sureJ = around(dt*leastW, currentError).LowJ
		}
		if missedS := dt - math.Max(m.everyS, receiptS); missedS > 0 { // nor was the rest of that time measured
			s.sureJ *= 1 - (1-modelTrust)*missedS/dt
		}
		return s
	}
	s.drawn, s.slackJ = m.model.flown.plus(m.model.edge), m.undrawnJ(nowS)
	if waited { // the model ran on while no message came, and stood when all came at once
		s.drawn = m.dark(dt)
	}
	s.sureJ = modelTrust * s.drawn.LowJ
	return s
}

// correct has the counters correct the integral, and returns the better of the
// sources that the reading has.
func (m *Meter) correct(total figure, nowS float64, r Reading, s stretch) (figure, Source) {
	count := func(a *anchor, n, unitJ, trust float64) count {
		c := count{
			n: n, unitJ: unitJ, readS: nowS, bootS: r.BootS, reading: m.readings,
			trust: trust, sureJ: m.sureJ, step: s.drawn.widened(m.slackJ + s.slackJ),
		}
		// More than this is not drawn for long, by what was drawn before.
		likelyW := (1 + darkError) * math.Max(m.lastW, m.model.factor*m.PowerW(0))
		spareJ := lateS*likelyW + m.model.edge.HighJ + m.undrawnJ(nowS)
		seconds := m.passedS(a, nowS, r)
		c.mostJ = m.MaxPowerW*m.longestS(a, nowS, r) + spareJ
		if !s.measured { // nothing denies that it drew more than it did
			likelyW *= 2
		}
		// A high current in the same message proves nothing.
		c.likelyJ = likelyW*seconds + spareJ
		c.knownJ = m.total.HighJ + likelyW*s.seconds + spareJ
		if a.Candidate != nil {
			c.nextJ = m.MaxPowerW*m.longestS(a.Candidate, nowS, r) + spareJ
		}
		if a.reading != m.readings-1 || s.atOnce {
			c.step = figure{unitJ, 0, math.Inf(1)}
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
		believed := false
		total, believed = m.consumed.take(total, count(&m.consumed, r.ConsumedHJ, consumedJ, sensorTrust), true)
		if m.consumed.Candidate == nil {
			if n := len(m.recent); n > 0 && r.ConsumedHJ < m.recent[n-1].count {
				m.recent = nil // it was reset
			}
			m.recent = append(m.recent, tick{nowS, r.ConsumedHJ})
		}
		if believed {
			source = Consumed
			// It is evidence for the other counter, and not against itself.
			more := math.Max(total.LowJ-m.total.LowJ-s.sureJ, 0)
			m.sureJ, m.consumed.SureJ = m.sureJ+more, m.consumed.SureJ+more
		}
	}
	if hasCharge {
		used, unitJ := points(r), m.CapacityJ/100
		if a := &m.charge; a.UnitJ > 0 && used == a.Count-1 {
			// Charge is estimated, and goes up and down by one; unless it began anew.
			a.Base.HighJ = math.Max(a.Base.HighJ, total.HighJ-used*unitJ)
			used++
		}
		total, _ = m.charge.take(total, count(&m.charge, used, unitJ, 1), source == Remaining)
	}
	return total, source
}

// sinceS is how much time may have passed since a reading: what messages may have
// waited in a pause that has just ended comes on top of what passed here.
func (m *Meter) sinceS(readS, nowS float64) float64 {
	seconds := nowS - readS
	if nowS-m.pausedS < lateS {
		seconds += m.pauseS
	}
	return seconds
}

// passedS is how much time may have passed since a counter was read: by the
// autopilot's clock or, without it, by ours.
func (m *Meter) passedS(a *anchor, nowS float64, r Reading) float64 {
	seconds := m.sinceS(a.readS, nowS)
	if own := r.BootS - a.BootS; r.BootS > 0 && a.BootS > 0 && own >= 0 && own < seconds+stallS {
		seconds = own
	}
	return seconds
}

// longestS is the longest of what may have passed: what was drawn in a stall may be
// said first by a message that the autopilot's clock has right after the last one,
// and counts as drawn, not as another counter.
func (m *Meter) longestS(a *anchor, nowS float64, r Reading) float64 {
	seconds := m.passedS(a, nowS, r)
	if ours := m.sinceS(a.readS, nowS); !math.IsInf(ours, 1) {
		seconds = math.Max(seconds, ours)
	}
	return seconds
}

// hasRebooted is whether the autopilot's time began anew: it fell by more than a
// message waits, or no more of it has passed than since the last reading, and it
// or the counter fell.
func (m *Meter) hasRebooted(nowS float64, r Reading) bool {
	if r.BootS == 0 || m.bootS == 0 {
		return false
	}
	since := nowS-r.BootS > m.readS-receiptS
	return r.BootS < m.bootS-stallS || since && (r.BootS < m.bootS || r.ConsumedHJ < m.consumed.Count)
}

// rebooted lays the anchor of energy consumed where the autopilot booted: its
// counter began at nothing then, as its time did, so that only the dark time
// before it is the model's. A counter that says much more than was drawn since
// goes on over reboots.
func (m *Meter) rebooted(nowS float64, r Reading) {
	bootS := nowS - r.BootS
	if bootS < m.readS-1 || r.ConsumedHJ*consumedJ > 3*m.lastW*(r.BootS+1)+consumedJ {
		return
	}
	atBoot := m.total.plus(m.dark(math.Max(bootS-m.readS, 0))).widened(m.undrawnJ(m.readS))
	// Whether the counter rounds, up or down, is not known.
	m.consumed = anchor{UnitJ: consumedJ, Base: atBoot.widened(consumedJ / 2), Synced: true, readS: bootS, SureJ: m.sureJ}
}

func (m *Meter) start(nowS float64) {
	if m.started {
		return
	}
	m.started = true
	m.readS, m.powerW = nowS, math.NaN()
	m.model = model{factor: 1, atS: nowS, speedS: nowS, toldS: math.Inf(-1)}
}
