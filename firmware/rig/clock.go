package rig

import (
	"sync"
	"testing"
	"time"

	"prefdt/firmware/clock"
)

// Clock is the time that leader and autopilots share in a test. It runs with the
// machine's as long as that lets this program run, and stands while it does not:
// a machine with other work makes a test take longer, and no slot late. What the
// program itself is late with is late on this clock too.
type Clock struct {
	manual clock.Manual

	mutex sync.Mutex
	last  time.Time // when it was advanced
}

const (
	clockTick    = time.Millisecond
	maxClockStep = 5 * time.Millisecond // that passes at once
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

// passed is the time since it was advanced, as far as it counts. The mutex is held.
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

func (c *Clock) Ticker(d time.Duration) (<-chan time.Time, func()) { return c.manual.Ticker(d) }
