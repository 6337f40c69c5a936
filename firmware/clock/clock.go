// Package clock is the leader's only source of time: a monotonic clock that is passed
// to every package that needs one, so that nothing in a slot reads the wall clock and
// tests control time (Manual).
package clock

import "time"

// Clock returns the time since some fixed instant and waits for a later one.
type Clock interface {
	Now() time.Duration
	After(d time.Duration) <-chan time.Time
	// Ticker ticks every d, which must be positive, until stop is called. One tick that
	// is not received is kept; further ones are dropped.
	Ticker(d time.Duration) (ticks <-chan time.Time, stop func())
}

// Real is the host's monotonic clock, counted from New.
type Real struct{ start time.Time }

// New returns a clock that starts now.
func New() *Real { return &Real{time.Now()} }

func (c *Real) Now() time.Duration                     { return time.Since(c.start) }
func (c *Real) After(d time.Duration) <-chan time.Time { return time.After(d) }

func (c *Real) Ticker(d time.Duration) (<-chan time.Time, func()) {
	t := time.NewTicker(d)
	return t.C, t.Stop
}
