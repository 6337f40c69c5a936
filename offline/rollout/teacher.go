package rollout

import (
	"prefdt/inference/checkpoint"
	"prefdt/inference/goal"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
	"prefdt/offline/teacher"
	"prefdt/simbridge/world"
)

// constantPricePolicy is the exact-dispatch teacher as a policy: it does not heed requests.
type constantPricePolicy struct {
	scheduler  teacher.Scheduler
	constants  *physics.Constants
	priceSPerJ float64
}

func (a *constantPricePolicy) Reset() { a.scheduler = teacher.Scheduler{} }

func (a *constantPricePolicy) Decide(s *slot.Snapshot, _ goal.Objective, d *slot.Decision) goal.Observation {
	x := *s
	if len(x.Users) == 0 && len(x.SyntheticUsers) > 0 && x.SyntheticUsers[0].ID >= 0 {
		x.Users = x.SyntheticUsers // motion goes by who may be there
	}
	p := &a.constants.Propulsion
	a.scheduler.Decide(a.constants, &x, a.priceSPerJ, p.BestSpeedMPS(a.constants.SpeedMaxMPS), d)
	d.Users = d.Users[:len(s.Users)]
	return goal.Observation{}
}

// NewTeacherRunner returns a flyer of the exact-dispatch teacher at a price, over the
// link of a leader with that checkpoint: what the link costs by itself.
func NewTeacherRunner(frozen *checkpoint.Checkpoint, priceSPerJ float64, c world.Config, l ReportLink) (*Runner, error) {
	f, err := NewWithPolicy(&constantPricePolicy{constants: &c.Physics, priceSPerJ: priceSPerJ}, &frozen.GoalConstants, c, l)
	if err == nil {
		f.link.forecast.Prior = frozen.Statistics.UserPrior()
	}
	return f, err
}
