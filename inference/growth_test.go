package inference

import (
	"math"
	"syscall"
	"testing"
	"time"
)

// cpuTime is what this process has computed for: what others compute beside it does not count.
func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// The time of a decision grows no faster than by a little more than its users do. Times are
// compared within this run, in turn, by the least of some rounds.
func TestGrowth(t *testing.T) {
	if testing.Short() {
		t.Skip("an emulator takes minutes")
	}
	const slots, rounds, mostExponent = 2, 3, 1.15
	users := [2]int{250, 2000}
	ck := shippedCheckpoint(t)
	for _, aircraft := range []int{2, 8} {
		var decide [2]func()
		for k := range users {
			decide[k] = decideInTurn(t, ck, DecoderDispatch, aircraft, users[k], false)
		}
		least := [2]float64{math.Inf(1), math.Inf(1)} // seconds for all slots
		for range rounds {
			for k := range users {
				from := cpuTime(t)
				for range slots {
					decide[k]()
				}
				least[k] = min(least[k], (cpuTime(t) - from).Seconds())
			}
		}
		exponent := math.Log(least[1]/least[0]) / math.Log(float64(users[1])/float64(users[0]))
		t.Logf("M=%d: %.1f and %.1f ms a decision for %d users, exponent %.2f", aircraft, 1e3*least[0]/slots, 1e3*least[1]/slots, users,
			exponent)
		if exponent > mostExponent {
			t.Errorf("M=%d: a decision grows by the power %.2f of the users, want at most %v", aircraft, exponent, mostExponent)
		}
	}
}
