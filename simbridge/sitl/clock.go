package sitl

import "time"

// autopilotClock is an autopilot's own time. Its simulation may run slower or faster than
// wall time; its energy is drawn by this time, and the leader counts by it too.
type autopilotClock struct {
	elapsedUS  int64       // since the first message; continues over a reboot and when time_boot_ms wraps
	bootMS     uint32      // time_boot_ms as last read
	receivedAt time.Time   // when that was received; zero: never
	rateStart  clockSample // for the rate
}

// clockSample is one moment on both clocks.
type clockSample struct {
	elapsedUS  int64
	receivedAt time.Time
}

// reorderToleranceMS is how far time_boot_ms may decrease without a reboot, by frames that
// arrive out of order.
const reorderToleranceMS = 1000

// update handles a time_boot_ms and returns the time since the one before. For a frame
// out of order ok is false. After a reboot only the time since the reboot is known.
func (c *autopilotClock) update(bootMS uint32, at time.Time) (passedUS int64, ok bool) {
	if c.receivedAt.IsZero() {
		c.bootMS, c.receivedAt, c.rateStart = bootMS, at, clockSample{0, at}
		return 0, true
	}
	passed := int64(int32(bootMS - c.bootMS)) // also when the counter wraps, after 49.7 days
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

// rate is the clock's rate to the wall clock, 0 before a second has passed.
func (c *autopilotClock) rate() float64 {
	wall := c.receivedAt.Sub(c.rateStart.receivedAt)
	if wall < time.Second {
		return 0
	}
	return float64(c.elapsedUS-c.rateStart.elapsedUS) / float64(wall.Microseconds())
}
