package clock

import (
	"sync"
	"time"
)

// Manual is a clock for tests: it stands still until Advance is called. Its
// zero value is ready to use.
type Manual struct {
	mutex  sync.Mutex
	now    time.Duration
	alarms []*alarm
}

// alarm is a pending After, or a Ticker.
type alarm struct {
	at     time.Duration
	period time.Duration // 0: rings once
	rings  chan time.Time
}

func (c *Manual) Now() time.Duration {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.now
}

func (c *Manual) After(d time.Duration) <-chan time.Time {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	a := &alarm{at: c.now + max(d, 0), rings: make(chan time.Time, 1)}
	c.alarms = append(c.alarms, a)
	c.ring()
	return a.rings
}

func (c *Manual) Ticker(d time.Duration) (<-chan time.Time, func()) {
	if d <= 0 {
		panic("clock: ticker with a period that is not positive")
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	a := &alarm{at: c.now + d, period: d, rings: make(chan time.Time, 1)}
	c.alarms = append(c.alarms, a)
	return a.rings, func() { c.remove(a) }
}

// Advance lets time pass. Whatever falls into it rings in order of its time,
// each at its own moment.
func (c *Manual) Advance(d time.Duration) {
	if d < 0 {
		panic("clock: a monotonic clock does not go back")
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for end := c.now + d; ; {
		next := end
		for _, a := range c.alarms {
			next = min(next, a.at)
		}
		c.now = next
		c.ring()
		if next == end {
			return
		}
	}
}

// ring has every alarm ring whose time has come. Called with the mutex held.
func (c *Manual) ring() {
	left := c.alarms[:0]
	for _, a := range c.alarms {
		if a.at <= c.now {
			select {
			case a.rings <- time.Unix(0, 0).Add(c.now):
			default: // nobody took the last one
			}
			if a.period == 0 {
				continue
			}
			a.at += a.period
		}
		left = append(left, a)
	}
	c.alarms = left
}

func (c *Manual) remove(a *alarm) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for i := range c.alarms {
		if c.alarms[i] == a {
			c.alarms = append(c.alarms[:i], c.alarms[i+1:]...)
			return
		}
	}
}
