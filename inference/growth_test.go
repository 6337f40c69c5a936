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

// The time of a decision grows about as its users do, and an estimator does not triple it.
// Times are compared within this run, slot by slot in turn, by the least of some rounds.
func TestGrowth(t *testing.T) {
	if testing.Short() {
		t.Skip("an emulator takes minutes")
	}
	const few, many, slots, rounds, most, mostEstimator = 250, 2000, 8, 5, 1.15, 3
	ck := shippedCheckpoint(t)
	for _, aircraft := range []int{2, 8} {
		decide := []func(){
			decideInTurn(t, ck, DecoderDispatch, aircraft, few, false),
			decideInTurn(t, ck, DecoderDispatch, aircraft, many, false),
			decideInTurn(t, ck, DecoderDispatch, aircraft, few, true),
			decideInTurn(t, ck, DecoderDispatch, aircraft, many, true),
		}
		took := make([]float64, len(decide)) // by the same 8 slots, the least of all rounds
		for round := range rounds + 1 {
			for k, d := range decide {
				from := cpuTime(t)
				for range slots {
					d()
				}
				switch s := (cpuTime(t) - from).Seconds(); {
				case round == 1:
					took[k] = s
				case round > 1: // in the first, memory grows
					took[k] = min(took[k], s)
				}
			}
		}
		exponent := math.Log(took[1]/took[0]) / math.Log(many/few)
		t.Logf("M=%d: exponent %.2f from %d to %d users; with an estimator %.2f and %.2f times as long", aircraft, exponent, few, many, took[2]/took[0], took[3]/took[1])
		if exponent > most {
			t.Errorf("M=%d: a decision grows by the power %.2f of the users, want at most %v", aircraft, exponent, most)
		}
		if x := max(took[2]/took[0], took[3]/took[1]); x > mostEstimator {
			t.Errorf("M=%d: with an estimator a decision takes %.2f times as long, want at most %v", aircraft, x, mostEstimator)
		}
	}
}
