package energy

import "math"

const (
	receiptErrorS = 0.1 // error of a message's time of receipt
	stallMaxS     = 10  // longest delay of a message
	reorderMaxS   = 1   // a single datagram may be later than its neighbours by so much
)

// arrivals puts the readings of one aircraft in order before they are integrated: late
// ones are dropped, and one whose time is in doubt waits for the next.
type arrivals struct {
	readingCount    int     // readings passed on
	lastReadS       float64 // receipt of the last of them
	lateS           float64 // by how much that was late, as after a stall of the leader
	bootS           float64 // autopilot's time then; 0: never received
	lastHadBootTime bool    // the last reading received had the autopilot's time
	pending         *pendingReading
	recent          []counterSample // energy consumed, as accepted within reorderMaxS
	pauseS          float64         // between the last two readings that were more than reorderMaxS apart
	pauseEndS       float64         // when that ended

	// The counters as the integrator accepts them, NaN: none yet.
	consumed, usedPercent float64
}

// arrival is a reading in its order.
type arrival struct {
	Reading
	receivedS    float64
	rebooted     bool    // the autopilot's time was reset since the reading before
	bootElapsedS float64 // by that time since the reading before, NaN: not known
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

// add calls integrate with the readings that are in order now that r was received.
func (a *arrivals) add(nowS float64, r Reading, integrate func(arrival)) {
	p := a.pending
	a.pending = nil
	agrees := false
	switch {
	case p == nil:
	case p.suspectedReboot:
		bootElapsedS := r.BootS - p.BootS
		if agrees = r.BootS > 0 && bootElapsedS > -reorderMaxS && bootElapsedS < nowS-p.receivedS+stallMaxS; agrees {
			a.pass(p.receivedS, p.Reading, integrate)
		}
	case r.BootS == 0 || nowS-p.receivedS > receiptErrorS:
		a.pass(p.receivedS, p.Reading, integrate)
	}
	hasBootTime := r.BootS > 0
	switch {
	case a.lastHadBootTime && !hasBootTime:
		a.pending = &pendingReading{receivedS: nowS, Reading: r}
	case !agrees && a.isOtherBoot(nowS, r):
		a.pending = &pendingReading{receivedS: nowS, suspectedReboot: true, Reading: r}
	default:
		a.pass(nowS, r, integrate)
	}
	a.lastHadBootTime = hasBootTime
}

// passOverdue passes on a reading that came without the autopilot's time, if none followed it
// at once: the next one of a slow battery comes after 6 s.
func (m *Meter) passOverdue(nowS float64) {
	if p := m.pending; p != nil && !p.suspectedReboot && nowS-p.receivedS > receiptErrorS {
		m.pending = nil
		m.pass(p.receivedS, p.Reading, m.integrate)
	}
}

// pass integrates a reading that is not late.
func (a *arrivals) pass(nowS float64, r Reading, integrate func(arrival)) {
	x := arrival{r, nowS, a.hasRebooted(nowS, r), math.NaN()}
	if !x.rebooted && (r.BootS > 0 && r.BootS < a.bootS || a.isLate(nowS, r)) {
		return // it is of a time already accounted for
	}
	switch {
	case r.BootS == 0 && a.bootS > 0:
		a.bootS += math.Max(nowS-a.lastReadS, 0) + a.lateS
	case r.BootS > 0:
		if a.bootS > 0 && !x.rebooted {
			x.bootElapsedS = r.BootS - a.bootS
		}
		a.bootS = r.BootS
	}
	a.readingCount++
	a.lateS = a.latenessS(nowS, x.bootElapsedS)
	integrate(x)
	if gapS := nowS - a.lastReadS; gapS > reorderMaxS {
		a.pauseS, a.pauseEndS = gapS, nowS
	}
	a.lastReadS = math.Max(nowS, a.lastReadS)
}

// latenessS is by how much a reading was late, if so much of the autopilot's time has passed since the one before. What comes
// as it is sent is not late, whatever that time.
func (a *arrivals) latenessS(nowS, bootElapsedS float64) float64 {
	elapsedS := nowS - a.lastReadS
	laterS := elapsedS - bootElapsedS
	asSent := elapsedS >= receiptErrorS && math.Abs(laterS) < reorderMaxS
	if lateS := a.lateS + laterS; a.readingCount > 1 && !asSent && lateS > reorderMaxS && lateS <= stallMaxS {
		return lateS
	}
	return 0
}

// isOtherBoot is whether the autopilot's time does not continue the one followed so far:
// it was rebooted, or the time is wrong.
func (a *arrivals) isOtherBoot(nowS float64, r Reading) bool {
	if r.BootS == 0 || a.bootS == 0 {
		return false
	}
	ahead := a.readingCount > 0 && r.BootS-a.bootS > a.elapsedWithPauseS(a.lastReadS-a.lateS, nowS)+reorderMaxS
	return ahead || a.hasRebooted(nowS, r)
}

// hasRebooted is whether the autopilot's time was reset: it fell by more than a message
// is delayed, or no more of it has passed than since the last reading, and it or the
// counter fell.
func (a *arrivals) hasRebooted(nowS float64, r Reading) bool {
	if r.BootS == 0 || a.bootS == 0 {
		return false
	}
	since := nowS-r.BootS > a.lastReadS-receiptErrorS
	return r.BootS < a.bootS-stallMaxS || since && (r.BootS < a.bootS || r.ConsumedHJ < a.consumed)
}

// isLate is whether the counter of energy consumed is as it was a moment ago, and the
// charge does not show another battery: a later message arrived before this one.
func (a *arrivals) isLate(nowS float64, r Reading) bool {
	for len(a.recent) > 1 && a.recent[1].readS <= nowS-reorderMaxS {
		a.recent = a.recent[1:]
	}
	if len(a.recent) == 0 || usedPercent(r) < a.usedPercent-1 {
		return false
	}
	return r.ConsumedHJ < a.consumed && r.ConsumedHJ >= a.recent[0].count
}

// accept keeps a count that was accepted.
func (a *arrivals) accept(nowS, count float64) {
	if n := len(a.recent); n > 0 && count < a.recent[n-1].count {
		a.recent = nil // it was reset
	}
	a.recent = append(a.recent, counterSample{nowS, count})
}

// elapsedWithPauseS is how much time may have passed since a reading: the delay of
// messages in a pause that has just ended is added to the time passed here.
func (a *arrivals) elapsedWithPauseS(readS, nowS float64) float64 {
	seconds := nowS - readS
	if nowS-a.pauseEndS < reorderMaxS {
		seconds += a.pauseS
	}
	return seconds
}
