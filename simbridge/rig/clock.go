package rig

import (
	"sync"
	"testing"
	"time"

	"prefdt/firmware/clock"
)

// Clock is the time that leader and autopilots share in a test. It runs with real time
// while this program is scheduled, and is stopped while it is not: other load on the
// machine makes a test take longer, and no slot late. Delays of the program itself
// are delays on this clock too.
type Clock struct {
	manual clock.Manual

	mutex sync.Mutex
	last  time.Time // when it was advanced
}

const (
	clockTick    = time.Millisecond
	maxClockStep = 5 * time.Millisecond // longest time that passes at once
)

// newClock returns a clock that runs until the test ends.
func newClock(t *testing.T) *Clock {
	c := &Clock{last: time.Now()}
	stop, stopped := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(stop); <-stopped })
	go func() {
		defer close(stopped)
		tick := time.NewTicker(clockTick)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				c.mutex.Lock()
				passed := c.passed()
				c.last = time.Now()
				c.manual.Advance(passed)
				c.mutex.Unlock()
			}
		}
	}()
	return c
}

// passed is the time since the last advance, as far as it counts. Called with the
// mutex held.
func (c *Clock) passed() time.Duration { return min(time.Since(c.last), maxClockStep) / slowdown }

func (c *Clock) Now() time.Duration {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.manual.Now() + c.passed()
}

func (c *Clock) After(d time.Duration) <-chan time.Time {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.manual.After(d + c.passed())
}
