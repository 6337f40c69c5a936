package baseline

import (
	"prefdt/inference/belief"
	"prefdt/inference/goal"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
	"prefdt/offline/teacher"
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
	scheduler teacher.Scheduler
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
	x.scheduler = teacher.Scheduler{}
}

// Decide writes the decision of a slot into d; it ignores the objective.
func (x *Believing) Decide(s *slot.Snapshot, _ goal.Objective, d *slot.Decision) goal.Observation {
	x.belief.Resize(s)
	x.estimator.Estimate(s, &x.belief)
	x.belief.Apply(s, &x.believed)
	x.scheduler.Decide(x.constants, &x.believed, x.PriceSPerJ, &x.belief.Air, d)
	return goal.Observation{}
}
