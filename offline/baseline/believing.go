package baseline

import (
	"prefdt/inference/belief"
	"prefdt/inference/dispatch"
	"prefdt/inference/goal"
	"prefdt/inference/motion"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
	"prefdt/simbridge/world"
)

// Believing is a scheduler at one price of energy that decides on what an estimator
// believes: exact dispatch, and motion in the air that there is believed to be.
// Schedulers of this kind differ in their estimators alone.
type Believing struct {
	PriceSPerJ float64

	constants *physics.Constants
	estimator belief.Estimator
	belief    belief.Belief
	believed  slot.Snapshot
	solver    dispatch.Solver
	planner   motion.Planner
	limiter   motion.Limiter
	targets   []physics.Position
	positions []physics.Position
}

// NewBelieving returns a scheduler for a world with these constants.
func NewBelieving(c *physics.Constants, e belief.Estimator, priceSPerJ float64) *Believing {
	return &Believing{constants: c, estimator: e, PriceSPerJ: priceSPerJ}
}

// Watch gives an estimator that may know it the world.
func (x *Believing) Watch(w *world.World) {
	if e, ok := x.estimator.(*Truth); ok {
		e.Watch(w)
	}
}

// Reset prepares for another mission.
func (x *Believing) Reset() {
	x.estimator.Reset()
	x.planner.Reset()
}

// Decide writes the decision of a slot into d; it ignores the objective.
func (x *Believing) Decide(s *slot.Snapshot, _ goal.Objective, d *slot.Decision) goal.Observation {
	d.Resize(s)
	x.belief.Resize(s)
	x.estimator.Estimate(s, &x.belief)
	x.belief.Apply(s, &x.believed)
	x.solver.Solve(x.constants, &x.believed, x.PriceSPerJ, d)
	x.planner.Observe(s.Users)
	x.targets = x.planner.Targets(x.constants, s.Aircraft, x.targets)
	x.positions = x.positions[:0]
	for m := range s.Aircraft {
		x.positions = append(x.positions, s.Aircraft[m].Position)
		d.Move[m] = x.planner.MoveInAir(x.constants, s, m, x.targets[m], &x.belief.Air, x.PriceSPerJ)
	}
	x.limiter.Limit(x.positions, d.Move, motion.Limits{
		SpeedMaxMPS: x.constants.SpeedMaxMPS, SeparationM: x.constants.SeparationM, AreaSideM: x.constants.AreaSideM,
	})
	return goal.Observation{}
}
