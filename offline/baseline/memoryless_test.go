package baseline

import (
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"prefdt/inference/belief"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
	"prefdt/offline/offlinetest"
	"prefdt/simbridge/world"
)

func namedWorld(t *testing.T, name string) world.Config {
	t.Helper()
	return offlinetest.Must(world.Named(name))(t)
}

// Results, measured joules and earlier slots change nothing.
func TestMemorylessIsMemoryless(t *testing.T) {
	c := namedWorld(t, "field")
	w := world.New(c, 3)
	var s slot.Snapshot
	var first, second belief.Belief
	used := NewMemoryless(&c)
	action := world.Action{}
	for range 5 {
		w.Snapshot(&s)
		first.Resize(&s)
		used.Estimate(&s, &first)

		bare := s
		bare.Results, bare.IdleUsers, bare.Aircraft = nil, nil, append([]slot.Aircraft(nil), s.Aircraft...)
		for m := range bare.Aircraft {
			bare.Aircraft[m].Flown, bare.Aircraft[m].RemainingJ = slot.Flown{}, 0
		}
		second.Resize(&bare)
		NewMemoryless(&c).Estimate(&bare, &second)
		if !reflect.DeepEqual(first, second) {
			t.Fatalf("slot %d: %+v, without a past %+v", s.Slot, first, second)
		}
		var d slot.Decision
		d.Resize(&s)
		w.FillAction(&s, &d, &action)
		w.Step(action)
	}
}

// Over soundings drawn at distances from the prior, the logarithm of the rate is
// believed without bias, with errors as large as stated, which are below those of a
// gain taken as it is reported.
func TestMemorylessLinksAreCalibrated(t *testing.T) {
	c := namedWorld(t, "canyon")
	x, channel := NewMemoryless(&c), &c.Physics.Channel
	r := rand.New(rand.NewPCG(1, 1))
	logRate := func(gain float64) float64 { return math.Log(channel.RateBPS(gain, 1)) }
	const n = 4000
	var bias, square, stated, asReported float64
	for range n {
		distanceM, condition, large, fading := drawLink(r, &c.Physics)
		mean, stdDev, ok := x.uploadGain([]gainLikelihood{x.likelihoodOf(large*fading, physics.Position{EastM: distanceM})}, 0)
		if !ok {
			t.Fatalf("a report at %v m is ruled out", distanceM)
		}
		truth := logRate(large * [2]float64{channel.LoS.TypicalFading(), channel.NLoS.TypicalFading()}[condition])
		step := 1e-4
		slope := (logRate(math.Exp(mean+step)) - logRate(math.Exp(mean-step))) / (2 * step)
		e := logRate(math.Exp(mean)) - truth
		bias += e / n
		square += e * e / n
		stated += stdDev * slope * stdDev * slope / n
		asReported += math.Pow(logRate(large*fading)-truth, 2) / n
	}
	t.Logf("bias %.4f, mean square %.4f, stated %.4f, as reported %.4f", bias, square, stated, asReported)
	if math.Abs(bias) > 4*math.Sqrt(square/n) || math.Abs(square/stated-1) > 0.15 || square > 0.8*asReported {
		t.Errorf("bias %v, mean square %v, stated %v, of gains as reported %v", bias, square, stated, asReported)
	}
}

// The believed air has no direction, a certain sum and the payload's mean.
func TestMemorylessAir(t *testing.T) {
	c := namedWorld(t, "gusts")
	air := NewMemoryless(&c).air
	sum := 0.0
	for _, w := range air.Winds {
		sum += w.Probability
	}
	if wind := air.MeanMPS().Norm(); wind > 1e-9 || math.Abs(sum-1) > 1e-9 {
		t.Errorf("mean wind %v m/s, probabilities' sum %v", wind, sum)
	}
	if air.Multiplier != 1.05 {
		t.Errorf("multiplier %v, want the mean of 0.8 and 1.3", air.Multiplier)
	}
}

// A second aircraft behind the first, whose link has the same shadowing, makes the
// error of the first link's smaller.
func TestMemorylessLinksShareShadowing(t *testing.T) {
	c := namedWorld(t, "canyon")
	x, l := NewMemoryless(&c), c.Physics.Channel.NLoS
	r := rand.New(rand.NewPCG(2, 2))
	const n = 2000
	var alone, behind float64
	for range n {
		shadow := r.NormFloat64()
		likelihoodOf := func(distanceM float64) gainLikelihood {
			large := c.Physics.Channel.FreeSpaceGain(distanceM, c.Physics.AltitudeM) * math.Pow(10, (l.ShadowDB*shadow-l.ExcessDB)/10)
			return x.likelihoodOf(large*r.ExpFloat64(), physics.Position{EastM: distanceM})
		}
		links := []gainLikelihood{likelihoodOf(200), likelihoodOf(300)}
		truth := math.Log(c.Physics.Channel.FreeSpaceGain(200, c.Physics.AltitudeM)*l.TypicalFading()) + (l.ShadowDB*shadow-l.ExcessDB)*
			math.Ln10/10
		one, _, _ := x.uploadGain(links[:1], 0)
		both, _, _ := x.uploadGain(links, 0)
		alone += (one - truth) * (one - truth) / n
		behind += (both - truth) * (both - truth) / n
	}
	t.Logf("mean square: alone %.3f, with the link behind %.3f", alone, behind)
	if behind > 0.85*alone {
		t.Errorf("mean square error %v with the link behind, %v without", behind, alone)
	}
}
