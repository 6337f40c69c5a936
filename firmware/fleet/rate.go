package fleet

import "math"

// rateS is how long an autopilot's clock is compared with ours before its rate
// is known.
const rateS = 5.0

// rate is how fast an autopilot's clock runs against mission time. A message
// that was held up says a smaller rate, so the least delayed one of each second
// counts.
type rate struct {
	first, last sample // of the first second, and of the present one
	beganS      float64
	lastS       float64
	perS        float64 // ms per mission second; 0: not known
}

// sample is an autopilot's time since boot, and when it was received.
type sample struct{ ms, s float64 }

// delayed is whether a sample took longer to arrive than another.
func (a sample) delayed(b sample) bool { return a.ms-1000*a.s < b.ms-1000*b.s }

func (r *rate) add(ms, now float64) {
	s := sample{ms, now}
	if r.beganS == 0 {
		*r = rate{first: s, last: s, beganS: now, lastS: now}
	}
	if now-r.beganS < 1 && r.first.delayed(s) {
		r.first = s
	}
	if r.last.delayed(s) || now-r.lastS >= 1 {
		if now-r.lastS >= 1 {
			if d := r.last.s - r.first.s; d > rateS {
				r.perS = math.Max((r.last.ms-r.first.ms)/d, 0)
			}
			r.lastS = now
		}
		r.last = s
	}
}

// msPerS is the rate, or what it should be where it is not known.
func (r *rate) msPerS() float64 {
	if r.perS > 0 {
		return r.perS
	}
	return 1000
}

// known is the rate in seconds per mission second, NaN while it is not known.
func (r *rate) known() float64 {
	if r.perS == 0 {
		return math.NaN()
	}
	return r.perS / 1000
}
