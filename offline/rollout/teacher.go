package rollout

import (
	"prefdt/inference/checkpoint"
	"prefdt/inference/goal"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
	"prefdt/offline/teacher"
	"prefdt/simbridge/world"
)

// constantPricePolicy is the exact-dispatch teacher as a policy: it ignores requests.
type constantPricePolicy struct {
	scheduler  teacher.Scheduler
	constants  *physics.Constants
	priceSPerJ float64
}

func (p *constantPricePolicy) Reset() { p.scheduler = teacher.Scheduler{} }

func (p *constantPricePolicy) Decide(s *slot.Snapshot, _ goal.Objective, d *slot.Decision) goal.Observation {
	x := *s
	x.Users = s.LikelyUsers() // for motion
	propulsion := &p.constants.Propulsion
	p.scheduler.Decide(p.constants, &x, p.priceSPerJ, propulsion.BestSpeedMPS(p.constants.SpeedMaxMPS), d)
	d.Users = d.Users[:len(s.Users)]
	return goal.Observation{}
}

// NewTeacherRunner returns a runner of the exact-dispatch teacher at a price, over the
// link of a leader with that checkpoint: what the link costs by itself.
func NewTeacherRunner(frozen *checkpoint.Checkpoint, priceSPerJ float64, c world.Config, l ReportLink) (*Runner, error) {
	l.Prior = frozen.UserPrior()
	return NewWithPolicy(&constantPricePolicy{constants: &c.Physics, priceSPerJ: priceSPerJ}, &frozen.GoalConstants, c, l)
}
