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
	timers []*timer
}

// timer is a pending After, or a Ticker.
type timer struct {
	at     time.Duration
	period time.Duration // 0: fires once
	fires  chan time.Time
}

func (c *Manual) Now() time.Duration {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.now
}

func (c *Manual) After(d time.Duration) <-chan time.Time {
	return c.add(d, 0).fires
}

func (c *Manual) add(d, period time.Duration) *timer {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	a := &timer{at: c.now + max(d, 0), period: period, fires: make(chan time.Time, 1)}
	c.timers = append(c.timers, a)
	c.fireDue()
	return a
}

func (c *Manual) Ticker(d time.Duration) (<-chan time.Time, func()) {
	if d <= 0 {
		panic("clock: ticker with a period that is not positive")
	}
	a := c.add(d, d)
	return a.fires, func() {
		c.mutex.Lock()
		defer c.mutex.Unlock()
		c.timers = slices.DeleteFunc(c.timers, func(t *timer) bool { return t == a })
	}
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
	left := c.timers[:0]
	for _, a := range c.timers {
		if a.at <= c.now {
			select {
			case a.fires <- time.Unix(0, 0).Add(c.now):
			default: // the last tick was not received
			}
			if a.period == 0 {
				continue
			}
			a.at += a.period
		}
		left = append(left, a)
	}
	c.timers = left
}
