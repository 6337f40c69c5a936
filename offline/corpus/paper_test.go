package corpus

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"prefdt/offline/pareto"
)

// Preferences are drawn within the band, matched to the nearest share, and in the corner from its
// window alone.
func TestDrawOmega(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 5))
	shares := []float64{0.2, 0.5, 0.6}
	var counts [3]int
	for range 3000 {
		omega, err := DrawOmega(rng, shares, 0)
		if err != nil || omega < 0.15 || omega > 0.65 {
			t.Fatalf("omega %v outside the band, %v", omega, err)
		}
		counts[pareto.Nearest(shares, omega)]++
	}
	for i, n := range counts {
		if n < 300 {
			t.Errorf("member %d is flown %d times", i, n)
		}
	}
	for range 100 {
		if omega, err := DrawOmega(rng, []float64{0, 0.01, 0.02, 0.03, 0.5, 1}, 1); err != nil || omega > 0.03 {
			t.Errorf("omega %v outside the corner's window, %v", omega, err)
		}
	}
	for range 3 {
		if omega, err := DrawOmega(rng, []float64{math.NaN()}, 0); err == nil || !strings.Contains(err.Error(), "from NaN to NaN") {
			t.Fatalf("omega %v of shares that are no numbers, %v", omega, err)
		}
	}
}
