// Package clock is the leader's only source of time: a monotonic clock that is passed
// to every package that needs one, so that nothing in a slot reads the wall clock and
// tests control time (Manual).
package clock

import "time"

// Clock returns the time since some fixed instant and waits for a later one.
type Clock interface {
	Now() time.Duration
	After(d time.Duration) <-chan time.Time
}

// Real is the host's monotonic clock, counted from New. It counts the time in which the
// host was suspended, which Go's does not: what was received before is old then, and an
// order that was open is over. After does not count it, and fires later.
type Real struct {
	start     time.Time
	suspended func() time.Duration // since the host booted
	before    time.Duration        // of that, until New
}

// New returns a clock that starts now.
func New() *Real { return &Real{time.Now(), suspended, suspended()} }

func (c *Real) Now() time.Duration {
	const readingError = 10 * time.Millisecond // between the two clocks that are subtracted
	return time.Since(c.start) + (c.suspended() - c.before).Round(readingError)
}

func (c *Real) After(d time.Duration) <-chan time.Time { return time.After(d) }
