package px4

import "time"

// clock is an autopilot's own time. Its simulation may run slower or faster than
// the wall; what it draws, it draws by this time, and so does the leader count.
type clock struct {
	us     int64     // since it was first heard; goes on over a reboot and the counter's end
	bootMS uint32    // time_boot_ms as last read
	at     time.Time // when that was received; zero: never
	first  mark      // for the rate
}

// mark is one moment on both clocks.
type mark struct {
	us int64
	at time.Time
}

// lateMS is how far time_boot_ms may fall without a reboot: frames out of order.
const lateMS = 1000

// read takes a time_boot_ms and returns what has passed since the one before. A
// frame that was overtaken tells nothing: ok is false. After a reboot only the
// time since it is known to have passed.
func (c *clock) read(bootMS uint32, at time.Time) (passedUS int64, ok bool) {
	if c.at.IsZero() {
		c.bootMS, c.at, c.first = bootMS, at, mark{0, at}
		return 0, true
	}
	passed := int64(int32(bootMS - c.bootMS)) // also over the counter's end, after 49.7 days
	if passed < 0 && passed > -lateMS {
		return 0, false
	}
	rebooted := passed < 0
	if rebooted {
		passed = int64(bootMS)
	}
	c.us += 1000 * passed
	c.bootMS, c.at = bootMS, at
	if rebooted {
		c.first = mark{c.us, at}
	}
	return 1000 * passed, true
}

// rate is the clock's against the wall's, 0 before a second was heard.
func (c *clock) rate() float64 {
	wall := c.at.Sub(c.first.at)
	if wall < time.Second {
		return 0
	}
	return float64(c.us-c.first.us) / float64(wall.Microseconds())
}
