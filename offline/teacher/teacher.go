// Package teacher flies episodes of the simulated world: Runner by any
// scheduler, Scheduler as the exact-dispatch teacher that the policy imitates.
//
// Inputs: a world at its first slot, and the price of energy in each slot.
// Outputs: the decisions, and the delay and joules that they cost. The corpus
// records these flights slot by slot; the evaluation measures the policy
// against a sweep of the teacher's prices.
//
// A slot's association and offload ratios are the exact dispatch at the price.
// Aircraft move towards the positions of least expected delay for the users
// received so far, as fast as the price makes worth while.
package teacher

import (
	"math"

	"prefdt/inference/dispatch"
	"prefdt/inference/goal"
	"prefdt/inference/motion"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
	"prefdt/offline/pareto"
	"prefdt/simbridge/world"
)

// SettledSlot is one slot of a flight, valid until the function that receives it
// returns.
type SettledSlot struct {
	Snapshot *slot.Snapshot
	Decision *slot.Decision
	Outcome  *world.Outcome
}

// Runner flies episodes, slot by slot. It holds the working memory; its zero
// value is ready, and it flies one world at a time.
type Runner struct {
	snapshot slot.Snapshot
	decision slot.Decision
	action   world.Action
}

// Fly takes a world from its present slot to its last. decide fills the
// decision of each slot; each, if not nil, receives every slot after it settled.
func (r *Runner) Fly(w *world.World, decide func(*slot.Snapshot, *slot.Decision), each func(SettledSlot)) pareto.Point {
	var total pareto.Point
	for !w.Done() {
		w.Snapshot(&r.snapshot)
		decide(&r.snapshot, &r.decision)
		w.FillAction(&r.snapshot, &r.decision, &r.action)
		outcome := w.Step(r.action)
		total.DelayS += outcome.DelayS
		total.EnergyJ += outcome.EnergyJ()
		if each != nil {
			each(SettledSlot{&r.snapshot, &r.decision, outcome})
		}
	}
	return total
}

// Settlement returns what a slot cost as an objective settles it. w is the world
// after the step, o the step's outcome.
func Settlement(w *world.World, o *world.Outcome) goal.Settlement {
	s := goal.Settlement{DelayS: o.DelayS, EnergyJ: o.EnergyJ()}
	for m := range w.Aircraft {
		s.EdgeJ += o.EdgeJ[m] / w.Config.EdgeEnergyFactor() // the closed form
		if o.FlightJ[m] > 0 {
			s.ModelFlightJ += w.Config.Physics.Propulsion.PowerW(w.Aircraft[m].SpeedMPS)
		}
		if !w.Aircraft[m].Lost { // from the next slot on
			s.Flying++
		}
	}
	return s
}

// Scheduler is the exact-dispatch teacher. It holds the working memory; its zero
// value is ready, and one scheduler serves one world at a time.
type Scheduler struct {
	Solver dispatch.Solver

	runner    Runner
	planner   motion.Planner
	limiter   motion.Limiter
	targets   []physics.Position
	positions []physics.Position
}

// Fly takes a world from its first slot to its last at the price of each slot,
// in seconds per joule. each, if not nil, receives every slot after it settled.
func (t *Scheduler) Fly(w *world.World, priceSPerJ func(slot int) float64, each func(SettledSlot)) pareto.Point {
	t.planner.Reset()
	return t.runner.Fly(w, func(s *slot.Snapshot, d *slot.Decision) {
		t.Decide(&w.Config.Physics, s, priceSPerJ(s.Slot), &motion.Air{}, d)
	}, each)
}

// Decide fills the decision of one slot: dispatch at the price, and motion in the air that there is
// believed to be.
func (t *Scheduler) Decide(c *physics.Constants, s *slot.Snapshot, priceSPerJ float64, air *motion.Air, d *slot.Decision) {
	t.Observe(c, s, d)
	t.Solver.At(priceSPerJ, d)
	t.Move(c, s, air, d)
}

// Observe begins a slot: its users are added to those that motion is planned for.
func (t *Scheduler) Observe(c *physics.Constants, s *slot.Snapshot, d *slot.Decision) {
	d.Resize(s)
	t.Solver.Begin(c, s)
	t.planner.Observe(s.Users)
	t.targets = t.planner.Targets(c, s.Aircraft, t.targets)
}

// SpendAboveFloorJ dispatches the slot at a price and returns what that spends above
// the flight floor, in joules, by a measured multiplier of flight power.
func (t *Scheduler) SpendAboveFloorJ(c *physics.Constants, s *slot.Snapshot, priceSPerJ, multiplier float64, d *slot.Decision) float64 {
	t.Solver.At(priceSPerJ, d)
	return t.planner.SpendAboveFloorJ(c, s, t.targets, &motion.Air{}, multiplier, d)
}

// Move flies each aircraft towards its target as fast as the decision's price makes
// worth while, and at v* once it is there.
func (t *Scheduler) Move(c *physics.Constants, s *slot.Snapshot, air *motion.Air, d *slot.Decision) {
	t.positions = t.positions[:0]
	for m := range s.Aircraft {
		t.positions = append(t.positions, s.Aircraft[m].Position)
		d.Move[m] = t.planner.MoveInAir(c, s, m, t.targets[m], air, d.PriceSPerJ)
	}
	motion.StayNearHome(s, d.Move, t.planner.BestSpeedMPS())
	t.limiter.Limit(t.positions, d.Move, motion.LimitsOf(c))
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
