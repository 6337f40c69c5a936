package simnet

import (
	"testing"
	"testing/synctest"
	"time"
)

// Test runs a test in virtual time, in parallel with others: its goroutines share nothing with
// them but the machine. The time is one at which certificates and MAVLink's signatures are valid.
// What the test starts has a minute of its time to end once its cleanup has run.
func Test(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	Bubble(t, f)
}

// Bubble is Test without others in parallel.
func Bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)))
		t.Cleanup(func() { time.Sleep(time.Minute) })
		f(t)
	})
}
