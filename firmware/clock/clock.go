// Package clock is the leader's only source of time: monotonic, and passed in,
// so that nothing in a slot reads the wall clock.
package clock

import "time"

// Clock tells the time since some fixed instant and waits for a later one.
type Clock interface {
	Now() time.Duration
	After(d time.Duration) <-chan time.Time
	// Ticker ticks every d, which must be positive, until stop is called. A tick
	// that nobody waits for is kept; further ones are dropped.
	Ticker(d time.Duration) (ticks <-chan time.Time, stop func())
}

// Real is the machine's monotonic clock, counted from its making.
type Real struct{ start time.Time }

// New returns a clock that starts now.
func New() *Real { return &Real{time.Now()} }

func (c *Real) Now() time.Duration                     { return time.Since(c.start) }
func (c *Real) After(d time.Duration) <-chan time.Time { return time.After(d) }

func (c *Real) Ticker(d time.Duration) (<-chan time.Time, func()) {
	t := time.NewTicker(d)
	return t.C, t.Stop
}

// Wall is the machine's wall clock, which may be wrong and may be set at any
// time. Only what the outside dates by it may ask: MAVLink's signatures.
func Wall() time.Time { return time.Now() }
