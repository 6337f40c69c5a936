package learned

import (
	"math"
	"math/rand/v2"
	"testing"

	"prefdt/inference/motion"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
)

// The wind and the multiplier are found from the power at some velocities, also where
// slots are missed, and no reading makes a belief that is none.
func TestWindFilter(t *testing.T) {
	r := rand.New(rand.NewPCG(43, 1))
	c := physics.DefaultConstants()
	for _, payload := range []bool{true, false} {
		for _, wind := range []physics.Position{{EastM: 5}, {EastM: -3, NorthM: 4}, {NorthM: -8}} {
			factor := 1.2
			if !payload {
				factor = 1
			}
			m := NewMemory(Surroundings{Physics: &c, Wind: true, Payload: payload}, 20)
			s := slot.Snapshot{Aircraft: make([]slot.Aircraft, 2)}
			believe := func() (a motion.Air) {
				m.wind.air(&a)
				return a
			}
			for ; s.Slot < 60; s.Slot++ {
				if s.Slot%7 == 3 {
					continue // missed
				}
				for i := range s.Aircraft {
					ground := physics.Position{EastM: 6 * r.NormFloat64(), NorthM: 6 * r.NormFloat64()}
					power := factor * c.Propulsion.PowerW(ground.Sub(wind).Norm()) * (1 + readingNoise*r.NormFloat64())
					s.Aircraft[i].Flown = slot.Flown{EastMPS: ground.EastM, NorthMPS: ground.NorthM, FlightJ: power}
				}
				m.Observe(&s)
			}
			a := believe()
			if off := a.MeanMPS().Sub(wind).Norm(); off > 1.5 || math.Abs(a.Multiplier-factor) > 0.06 {
				t.Errorf("payload %v: a wind of %v times %v is taken for %v times %.3f", payload, wind, factor, a.MeanMPS(), a.Multiplier)
			}
			for i, f := range m.wind.filters {
				if age := m.wind.slot - f.begun; age < 0 || age >= 20 {
					t.Errorf("filter %d is of slot %d, now it is %d", i, f.begun, m.wind.slot)
				}
			}
			for i := range s.Aircraft {
				s.Aircraft[i].Flown.FlightJ = 1e9
			}
			for range 3 {
				s.Slot++
				m.Observe(&s)
			}
			a = believe()
			if x := a.MeanMPS().Norm(); math.IsNaN(x) || math.IsNaN(a.Multiplier) || len(a.Winds) == 0 {
				t.Errorf("after readings that nothing explains: %+v", a)
			}
			prior := multiplierMean
			if !payload {
				prior = 1
			}
			if math.Abs(a.Multiplier-prior) > 1e-9 || a.MeanMPS().Norm() > 1 {
				t.Errorf("payload %v: after readings that nothing explains, %v times %.3f is believed, want what is before any", payload,
					a.MeanMPS(), a.Multiplier)
			}
		}
	}
}
