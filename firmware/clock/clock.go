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

// Real is the host's monotonic clock, counted from New.
type Real struct{ start time.Time }

// New returns a clock that starts now.
func New() *Real { return &Real{time.Now()} }

func (c *Real) Now() time.Duration                     { return time.Since(c.start) }
func (c *Real) After(d time.Duration) <-chan time.Time { return time.After(d) }
