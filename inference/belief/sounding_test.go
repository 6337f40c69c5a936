package belief

import (
	"math"
	"testing"

	"prefdt/inference/physics"
)

// What a sounding says is Bayes' rule: evidence and moments are those of integrating the
// densities of shadowing and of fading on a fine grid, whatever is known before it.
func TestSound(t *testing.T) {
	c := physics.DefaultConstants()
	for k, condition := range []physics.ChannelCondition{c.Channel.LoS, c.Channel.NLoS} {
		l := Conditions(&c.Channel)[k]
		m := condition.NakagamiM
		logGamma, _ := math.Lgamma(m)
		tried := 0
		for _, prior := range []struct{ mean, sd float64 }{{0, 1}, {-1.5, 0.4}, {0.5, 0.05}} {
			for _, db := range []float64{10, 0, -20, -45} {
				logG := db * math.Ln10 / 10
				var sum, first, second float64
				const step = 1e-3
				for x := -7.0; x <= 7; x += step {
					z := prior.mean + prior.sd*x
					f := logG + condition.ExcessDB*math.Ln10/10 - condition.ShadowDB*math.Ln10/10*z
					w := math.Exp(-x*x/2+m*f+m*math.Log(m)-m*math.Exp(f)-logGamma) * step
					sum, first, second = sum+w, first+w*z, second+w*z*z
				}
				mean := first / sum
				sd := math.Sqrt(second/sum - mean*mean)
				if math.Abs(mean-prior.mean) > 2.5*prior.sd {
					continue // beyond what the quadrature is for
				}
				tried++
				evidence, z, gotSD := l.Sound(logG, prior.mean, prior.sd)
				const points, reach = 25, 4.0 // of its quadrature
				if d := evidence + math.Log(2*reach/(points-1)) - math.Log(sum); math.Abs(d) > 0.01 {
					t.Errorf("condition %d, %v dB: evidence off by %v", k, db, d)
				}
				if math.Abs(z-mean) > 0.02*prior.sd || math.Abs(gotSD-sd) > 0.02*prior.sd {
					t.Errorf("condition %d, %v dB after %v: %.4f +- %.4f, want %.4f +- %.4f", k, db, prior, z, gotSD, mean, sd)
				}
			}
		}
		if tried < 5 {
			t.Errorf("condition %d: %d cases were tried", k, tried)
		}
		// An upload carries the typical fading, which is a sounding's in the mean of logarithms.
		if _, z := l.Measure(l.MeanLog+l.SDLog*0.7+l.TypicalLog, 0, 1); math.Abs(z-0.7) > 1e-12 ||
			math.Abs(math.Log(condition.TypicalFading())-l.TypicalLog) > 1e-12 {
			t.Errorf("condition %d: an upload at 0.7 is taken for %v", k, z)
		}
	}
}
