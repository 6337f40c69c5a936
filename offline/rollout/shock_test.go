package rollout

import (
	"math"
	"testing"

	"prefdt/inference/belief/learned"
	"prefdt/inference/duty"
	"prefdt/inference/goal"
	"prefdt/simbridge/world"
)

// reaching is a planner that notes, in the first slot in which a shock can be known, what a flight
// home at once would leave in each pack.
type reaching struct {
	DutyPlanner
	flight *Runner
	slot   int
	packs  *Packs
	leftJ  []float64 // -Inf: it had left before
}

func (p *reaching) Plan(in *duty.Input) *duty.Plan {
	if in.Slot == p.slot {
		for m := range p.flight.world.Aircraft {
			p.leftJ = append(p.leftJ, math.Inf(-1))
			a := &p.flight.world.Aircraft[m]
			for mps := 3.0; mps <= 15 && !a.Lost; mps++ {
				p.leftJ[m] = max(p.leftJ[m], p.packs.EnergyJ[m]-p.flight.duty.climbJ[m]-a.SpentJ-p.flight.world.TouchdownJ(m, mps))
			}
		}
	}
	return p.DutyPlanner.Plan(in)
}

// TestShockIsNoWind checks that an aircraft whose flight suddenly takes half as much again comes home
// with its reserve, or with what a flight home at once leaves, where wind is believed in and no payload
// is configured: stronger wind was believed in then, and descents of up to 3.8 kJ beyond the pack.
func TestShockIsNoWind(t *testing.T) {
	// Two readings agree after two slots; what a slot of flight takes beside it is not foreseen.
	const knownAfter, slotJ = 3, 300
	for _, wind := range []world.Wind{{}, {MeanMinMPS: 4, MeanMaxMPS: 7, TurnRad: 0.05, TurbulenceMPS: 1, TurbulenceMemory: 0.9}} {
		for seed := uint64(100_500); seed < 100_503; seed++ {
			for _, at := range []int{3, 15, 35} {
				c := world.Standard()
				c.Slots, c.Wind, c.Shock = 60, wind, world.Shock{FromSlot: at, Factor: 1.5}
				f := plannedRunner(t, c)
				f.Believe(shippedCheckpoint(t).NewEstimator(learned.Surroundings{Physics: &c.Physics, Wind: true}))
				packs := &Packs{EnergyJ: []float64{36e3, 40e3}, Landed: true}
				p := &reaching{DutyPlanner: f.Planner, flight: f, slot: at + knownAfter, packs: packs}
				f.Planner = p
				r := f.Fly(seed, Request{Mode: goal.Ceiling, BudgetJ: 1e5, Packs: packs})
				for m, j := range r.SpentJ {
					if leftJ := packs.EnergyJ[m] - j; leftJ < min(p.leftJ[m], 0)-slotJ {
						t.Errorf("wind %v, seed %d, shock at %d: aircraft %d is down with %.0f J, it could have had %.0f",
							wind.MeanMaxMPS, seed, at, m+1, leftJ, p.leftJ[m])
					}
				}
				if r.ServedSlots < 50 {
					t.Errorf("wind %v, seed %d, shock at %d: %d slots served", wind.MeanMaxMPS, seed, at, r.ServedSlots)
				}
			}
		}
	}
}
