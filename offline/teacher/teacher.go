// Package teacher flies the exact-dispatch teacher: a price of energy for each
// slot of an episode comes in; the decisions it takes, and the delay and the
// joules they cost, go out. The corpus records its flights slot by slot, the
// evaluation measures the policy against its sweep of prices.
//
// A slot's association and ratios are the exact dispatch at the price. Motion
// is towards the places of least expected delay for the users heard so far, as
// fast as the price makes worth while.
package teacher

import (
	"math"

	"prefdt/inference/dispatch"
	"prefdt/inference/motion"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
	"prefdt/offline/pareto"
	"prefdt/simbridge/world"
)

// SettledSlot is one slot of a flight, valid until the callback that receives it returns.
type SettledSlot struct {
	Snapshot *slot.Snapshot
	Decision *slot.Decision
	Outcome  *world.Outcome
}

// Scheduler flies episodes. It holds the working memory; its zero value is ready,
// and one pilot flies one world at a time.
type Scheduler struct {
	solver   dispatch.Solver
	tracker  motion.Planner
	envelope motion.Limiter

	snapshot  slot.Snapshot
	decision  slot.Decision
	action    world.Action
	targets   []physics.Position
	positions []physics.Position
}

// Fly takes a world from its first slot to its last at the price of each slot,
// in seconds per joule. each, if not nil, receives every slot after it settled.
func (p *Scheduler) Fly(w *world.World, priceSPerJ func(slot int) float64, each func(SettledSlot)) pareto.Point {
	var total pareto.Point
	c := &w.Config.Physics
	speedMPS := c.Propulsion.BestSpeedMPS(c.SpeedMaxMPS)
	p.tracker.Reset()
	for !w.Done() {
		w.Snapshot(&p.snapshot)
		p.Decide(c, &p.snapshot, priceSPerJ(p.snapshot.Slot), speedMPS, &p.decision)
		w.FillAction(&p.snapshot, &p.decision, &p.action)
		outcome := w.Step(p.action)
		total.DelayS += outcome.DelayS
		total.EnergyJ += outcome.EnergyJ()
		if each != nil {
			each(SettledSlot{&p.snapshot, &p.decision, outcome})
		}
	}
	return total
}

// Decide fills the decision of one slot: dispatch at the price, and motion,
// at the speed given once a target is reached.
func (p *Scheduler) Decide(c *physics.Constants, s *slot.Snapshot, priceSPerJ, speedMPS float64, d *slot.Decision) {
	d.Resize(s)
	p.solver.Solve(c, s, priceSPerJ, d)
	p.tracker.Observe(s.Users)
	p.targets = p.tracker.Targets(c, s.Aircraft, p.targets)
	p.positions = p.positions[:0]
	for m := range s.Aircraft {
		at := s.Aircraft[m].Position
		p.positions = append(p.positions, at)
		dash := p.tracker.SpeedMPS(c, m, s.Slots-s.Slot, p.targets[m].Sub(at).Norm(), priceSPerJ)
		d.Move[m] = motion.MoveToward(at, p.targets[m], speedMPS, dash)
	}
	p.envelope.Limit(p.positions, d.Move, motion.Limits{
		SpeedMaxMPS: c.SpeedMaxMPS, SeparationM: c.SeparationM, AreaSideM: c.AreaSideM,
	})
}

// ConstantPrice is a flight at one price.
func ConstantPrice(priceSPerJ float64) func(int) float64 {
	return func(int) float64 { return priceSPerJ }
}

// PricesIn returns the sweep of the front in a world: Prices, scaled to what its
// computers cost.
func PricesIn(c *world.Config, n int) []float64 {
	prices, scale := Prices(n), c.PriceScale()
	for i := range prices {
		prices[i] *= scale
	}
	return prices
}

// Prices returns the sweep of the front in the standard world: 0, then n-1
// prices in geometric progression from 2e-5 to 1 second per joule. Beyond 1, up
// to 3 where nothing at all is offloaded, its fleet saves 0.03 % of its energy
// for about 1 % more delay.
func Prices(n int) []float64 {
	const first, last = 2e-5, 1.0
	prices := make([]float64, n)
	for i := 1; i < n; i++ {
		prices[i] = first * math.Pow(last/first, float64(i-1)/float64(max(n-2, 1)))
	}
	return prices
}
