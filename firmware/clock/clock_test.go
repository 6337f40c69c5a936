package clock

import (
	"testing"
	"time"
)

var (
	_ Clock = (*Real)(nil)
	_ Clock = (*Manual)(nil)
)

func fired(c <-chan time.Time) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestManualIsStopped(t *testing.T) {
	var c Manual
	after := c.After(time.Second)
	if c.Now() != 0 || fired(after) {
		t.Error("time passes by itself")
	}
	c.Advance(999 * time.Millisecond)
	if fired(after) {
		t.Error("rang too early")
	}
	c.Advance(time.Millisecond)
	if c.Now() != time.Second || !fired(after) || fired(after) {
		t.Error("did not ring once at its time")
	}
	if !fired(c.After(0)) || !fired(c.After(-time.Second)) {
		t.Error("what is past does not ring at once")
	}
}

// Timers due in one Advance fire in order of time, with the clock at it.
func TestManualFiresInOrder(t *testing.T) {
	var c Manual
	late, early := c.After(2*time.Second), c.After(time.Second)
	c.Advance(time.Minute)
	if a, b := <-early, <-late; b.Sub(a) != time.Second || c.Now() != time.Minute {
		t.Errorf("rang at %v and %v, the clock is at %v", a, b, c.Now())
	}
}

func TestReal(t *testing.T) {
	c := New()
	began := c.Now()
	if <-c.After(time.Millisecond); c.Now()-began < time.Millisecond {
		t.Error("rang too early")
	}
}

// What was open when the host was suspended is over when it wakes.
func TestRealCountsSuspension(t *testing.T) {
	c, slept := New(), time.Duration(0)
	c.suspended, c.before = func() time.Duration { return time.Hour + slept }, time.Hour
	began := c.Now()
	slept = 10 * time.Minute
	if got := c.Now() - began; got < slept || got > slept+time.Minute {
		t.Errorf("after a suspension of %v it went on by %v", slept, got)
	}
	if a, b := suspended(), suspended(); a < 0 || (b-a).Abs() > time.Millisecond {
		t.Errorf("this host was suspended for %v, then %v", a, b)
	}
}
