package evaluate

import (
	"flag"
	"math/rand/v2"
	"testing"

	"prefdt/inference/belief"
	"prefdt/inference/belief/learned"
	"prefdt/inference/goal"
	"prefdt/inference/slot"
	"prefdt/offline/baseline"
	"prefdt/offline/belieftrain"
	"prefdt/offline/offlinetest"
	"prefdt/offline/pareto"
	"prefdt/offline/rollout"
	"prefdt/offline/teacher"
)

// wrongReadings is an estimator some of whose readings of power are wrong.
type wrongReadings struct {
	belief.Estimator
	wrong   func(reading, before float64) float64
	r       *rand.Rand
	flights uint64
	befores map[int]float64 // by aircraft
	copy    slot.Snapshot
}

func (w *wrongReadings) Reset() {
	w.Estimator.Reset()
	w.flights++
	w.r, w.befores = rand.New(rand.NewPCG(w.flights, 38)), map[int]float64{}
}

func (w *wrongReadings) Estimate(s *slot.Snapshot, b *belief.Belief) {
	w.copy = *s
	w.copy.Aircraft = append([]slot.Aircraft(nil), s.Aircraft...)
	for m := range w.copy.Aircraft {
		a := &w.copy.Aircraft[m]
		reading := a.Flown.FlightJ
		if a.Flown != (slot.Flown{}) && w.r.IntN(100) == 0 {
			a.Flown.FlightJ = w.wrong(reading, w.befores[a.Number])
		}
		w.befores[a.Number] = reading
	}
	w.Estimator.Estimate(&w.copy, b)
}

// wrongSeeds makes the measured shares figures of their own: 6 are half a minute.
var wrongSeeds = flag.Int("wrong-reading-seeds", 2, "calibration seeds of TestWrongReadingsCostLittle")

// Where a wind or a payload is hidden, one in a hundred readings of power doubled, halved or
// frozen takes little more of what the policy makes of it than the same readings lost: of the
// tight hypervolume between an arm without memory and one that knows what is hidden. Flights
// that part at one slot differ by more than that for many seeds, whatever parted them.
func TestWrongReadingsCostLittle(t *testing.T) {
	ck := offlinetest.Shipped(t)
	const prices, most = 4, 0.02
	for _, name := range []string{"gusts", "field"} {
		c := offlinetest.FieldWorld(t, name)
		_, tight := pareto.References(&c, nil)
		volume := func(e belief.Estimator) (sum float64) {
			p := baseline.NewBelieving(&c.Physics, e, 0)
			f := offlinetest.Must(rollout.NewWithPolicy(p, &ck.GoalConstants, c, rollout.ReportLink{}))(t)
			for seed := range uint64(*wrongSeeds) {
				var front []pareto.Point
				for _, p.PriceSPerJ = range teacher.PricesIn(&c, prices) {
					front = append(front, f.Fly(100_000+seed, rollout.Request{Mode: goal.Preference, Omega: 0.5}).Point)
				}
				sum += pareto.Hypervolume(front, tight)
			}
			return sum
		}
		estimator := func() belief.Estimator { return learned.New(belieftrain.SurroundingsOf(&c), ck.Beliefs) }
		low, high := volume(baseline.NewMemoryless(&c)), volume(&baseline.Truth{})
		share := func(wrong func(reading, before float64) float64) float64 {
			return (volume(&wrongReadings{Estimator: estimator(), wrong: wrong}) - low) / (high - low)
		}
		lost := share(func(_, _ float64) float64 { return 0 })
		for _, x := range []struct {
			name  string
			wrong func(reading, before float64) float64
		}{
			{"doubled", func(j, _ float64) float64 { return 2 * j }},
			{"halved", func(j, _ float64) float64 { return j / 2 }},
			{"frozen", func(_, before float64) float64 { return before }},
		} {
			got := share(x.wrong)
			t.Logf("%s, %s: share of what is hidden %.3f, lost %.3f", name, x.name, got, lost)
			if !(got > lost-most) {
				t.Errorf("%s, %s: share of what is hidden %.3f, if they are lost %.3f", name, x.name, got, lost)
			}
		}
	}
}
