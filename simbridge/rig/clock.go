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
// are delays on this clock too. One in real time is not stopped.
type Clock struct {
	manual   clock.Manual
	maxStep  time.Duration // longest time that passes at once
	slowdown float64       // real time over the clock's at rate 1

	mutex sync.Mutex
	last  time.Time // when it was advanced
	rate  float64   // how many times faster than at first it runs
}

const (
	clockTick  = time.Millisecond
	cappedStep = 2 * clockTick // of a clock that is stopped with the program: others of its threads may wait longer than this one
	maxRate    = 10            // at which autopilots, which wake every 20 ms in slots of a second, are still smooth
)

// newClock returns a clock that runs until the test ends, so many times slower than real time.
func newClock(t *testing.T, maxStep time.Duration, slowdown float64) *Clock {
	c := &Clock{maxStep: maxStep, slowdown: slowdown, last: time.Now(), rate: 1}
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
				c.advance(func() {})
			}
		}
	}()
	return c
}

// advance makes the time pass that passed since the last call, and then calls change.
func (c *Clock) advance(change func()) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	now := time.Now()
	passed := c.passed(now)
	c.last = now
	c.manual.Advance(passed)
	change()
}

// setRate sets how many times faster than at first the clock runs.
func (c *Clock) setRate(rate float64) { c.advance(func() { c.rate = rate }) }

// passed is the time since the last advance, as far as it counts. Called with the
// mutex held.
func (c *Clock) passed(now time.Time) time.Duration {
	return time.Duration(float64(min(now.Sub(c.last), c.maxStep)) * c.rate / c.slowdown)
}

func (c *Clock) Now() time.Duration {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.manual.Now() + c.passed(time.Now())
}

func (c *Clock) After(d time.Duration) <-chan time.Time {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.manual.After(d + c.passed(time.Now()))
}
