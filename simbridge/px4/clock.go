package px4

import "time"

// autopilotClock is an autopilot's own time. Its simulation may run slower or faster than
// the wall; what it draws, it draws by this time, and so does the leader count.
type autopilotClock struct {
	elapsedUS  int64       // since it was first heard; goes on over a reboot and the counter's end
	bootMS     uint32      // time_boot_ms as last read
	receivedAt time.Time   // when that was received; zero: never
	rateStart  clockSample // for the rate
}

// clockSample is one moment on both clocks.
type clockSample struct {
	elapsedUS  int64
	receivedAt time.Time
}

// reorderToleranceMS is how far time_boot_ms may fall without a reboot: frames out of order.
const reorderToleranceMS = 1000

// update takes a time_boot_ms and returns what has passed since the one before. A
// frame that was overtaken tells nothing: ok is false. After a reboot only the
// time since it is known to have passed.
func (c *autopilotClock) update(bootMS uint32, at time.Time) (passedUS int64, ok bool) {
	if c.receivedAt.IsZero() {
		c.bootMS, c.receivedAt, c.rateStart = bootMS, at, clockSample{0, at}
		return 0, true
	}
	passed := int64(int32(bootMS - c.bootMS)) // also over the counter's end, after 49.7 days
	if passed < 0 && passed > -reorderToleranceMS {
		return 0, false
	}
	rebooted := passed < 0
	if rebooted {
		passed = int64(bootMS)
	}
	c.elapsedUS += 1000 * passed
	c.bootMS, c.receivedAt = bootMS, at
	if rebooted {
		c.rateStart = clockSample{c.elapsedUS, at}
	}
	return 1000 * passed, true
}

// rate is the clock's against the wall's, 0 before a second was heard.
func (c *autopilotClock) rate() float64 {
	wall := c.receivedAt.Sub(c.rateStart.receivedAt)
	if wall < time.Second {
		return 0
	}
	return float64(c.elapsedUS-c.rateStart.elapsedUS) / float64(wall.Microseconds())
}
