package fleet

import "math"

// rateWindowS is how long an autopilot's clock is compared with the leader's before its
// rate is known.
const rateWindowS = 5.0

// clockRate is how fast an autopilot's clock runs against mission time. A delayed
// message shows a smaller rate, so the least delayed one of each second counts.
type clockRate struct {
	first, last    clockSample // of the first second, and of the present one
	beganS         float64
	rateFromS      float64 // of first
	latest         clockSample
	presentSecondS float64
	measuredMSPerS float64     // ms per mission second; 0: not known
	prompt         clockSample // the one that took least to arrive, of the last minute or two
	nextPrompt     clockSample // the same since promptFromS, which takes its place a minute later
	promptFromS    float64
}

// clockSample is an autopilot's time since boot, and when it was received.
type clockSample struct{ bootMS, receivedS float64 }

// delayedMoreThan is whether a sample took longer to arrive than another.
func (a clockSample) delayedMoreThan(b clockSample) bool {
	return a.bootMS-1000*a.receivedS < b.bootMS-1000*b.receivedS
}

func (r *clockRate) add(ms, now float64) {
	s := clockSample{ms, now}
	if r.beganS == 0 {
		*r = clockRate{first: s, last: s, beganS: now, rateFromS: now, latest: s, presentSecondS: now, prompt: s, nextPrompt: s,
			promptFromS: now}
	}
	if now-r.promptFromS > promptForS { // s alone may be one of a full buffer
		r.prompt, r.nextPrompt, r.promptFromS = r.nextPrompt, s, now
	}
	for _, p := range [...]*clockSample{&r.prompt, &r.nextPrompt} {
		if p.delayedMoreThan(s) {
			*p = s
		}
	}
	// An autopilot that was rebooted soon after its boot shows no time that goes back: it was silent,
	// and its clock shows less than half of that. The rate is measured anew. So it is where one sample alone came
	// before a silence: it may have waited in a buffer, and would show a clock that is too fast for a minute.
	const silentS, interruptedS = 2, 1
	if silence := now - r.latest.receivedS; silence > silentS && ms-r.latest.bootMS < 500*silence ||
		silence > interruptedS && r.latest == r.first {
		r.first, r.last, r.rateFromS, r.presentSecondS, r.measuredMSPerS = s, s, now, now, 0
	}
	r.latest = s
	if now-r.rateFromS < 1 && r.first.delayedMoreThan(s) {
		r.first = s
	}
	if r.last.delayedMoreThan(s) || now-r.presentSecondS >= 1 {
		if now-r.presentSecondS >= 1 {
			if d := r.last.receivedS - r.first.receivedS; d > rateWindowS {
				r.measuredMSPerS = math.Max((r.last.bootMS-r.first.bootMS)/d, 0)
			}
			r.presentSecondS = now
		}
		r.last = s
	}
}

// mostMS is the most that the autopilot's clock can show now: messages are late, never
// early, and what waited in a buffer may be followed by a message that did not. What comes
// first may all have waited: for a while nothing is too much.
func (r *clockRate) mostMS(now float64) float64 {
	if now-r.beganS < clockSlackMS/1000 {
		return math.Inf(1)
	}
	return r.prompt.bootMS + clockFastest*1000*(now-r.prompt.receivedS) + clockSlackMS
}

// sentS is when a message was sent that was received later: no message is known to have
// been faster than the promptest.
func (r *clockRate) sentS(bootMS, receivedS float64) float64 {
	return math.Min(r.prompt.receivedS+(bootMS-r.prompt.bootMS)/r.msPerS(), receivedS)
}

// promptForS is for how long the promptest sample is looked for. Clocks drift.
const promptForS = 60

// msPerS is the rate, or the nominal one where it is not known.
func (r *clockRate) msPerS() float64 {
	if r.measuredMSPerS > 0 {
		return r.measuredMSPerS
	}
	return 1000
}

// ratio is the rate in seconds per mission second, NaN while it is not known.
func (r *clockRate) ratio() float64 {
	if r.measuredMSPerS == 0 {
		return math.NaN()
	}
	return r.measuredMSPerS / 1000
}

// lateness is by how much messages of the last seconds came later than the promptest. A battery's
// messages do not say when they were sent; positions, which come the same way, do.
type lateness struct{ mostS, receivedS float64 }

// add enters that of a message, be it out of order. One that seems later than staleAfterS has another clock.
func (l *lateness) add(lateS, now float64) {
	if lateS < staleAfterS && lateS >= l.at(now) {
		*l = lateness{lateS, now}
	}
}

// at is the most of the last seconds: the longer ago, the less it counts.
func (l *lateness) at(now float64) float64 {
	const forgottenS = 4
	return l.mostS * math.Exp((l.receivedS-now)/forgottenS)
}
