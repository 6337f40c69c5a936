package clock

import (
	"slices"
	"sync"
	"time"
)

// Manual is a clock for tests: it is stopped until Advance is called. Its zero value is
// ready to use.
type Manual struct {
	mutex  sync.Mutex
	now    time.Duration
	timers []timer
}

// timer is a pending After.
type timer struct {
	at    time.Duration
	fires chan time.Time // has room for the one time
}

func (c *Manual) Now() time.Duration {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.now
}

func (c *Manual) After(d time.Duration) <-chan time.Time {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	fires := make(chan time.Time, 1)
	c.timers = append(c.timers, timer{c.now + max(d, 0), fires})
	c.fireDue()
	return fires
}

// Advance advances the clock. Timers that are due fire in order of their time, each
// with the clock at it.
func (c *Manual) Advance(d time.Duration) {
	if d < 0 {
		panic("clock: a monotonic clock does not go back")
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for end := c.now + d; ; {
		next := end
		for _, a := range c.timers {
			next = min(next, a.at)
		}
		c.now = next
		c.fireDue()
		if next == end {
			return
		}
	}
}

// fireDue fires every timer that is due. Called with the mutex held.
func (c *Manual) fireDue() {
	c.timers = slices.DeleteFunc(c.timers, func(a timer) bool {
		if a.at > c.now {
			return false
		}
		a.fires <- time.Unix(0, 0).Add(c.now)
		return true
	})
}
