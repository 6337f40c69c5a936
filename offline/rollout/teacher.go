package rollout

import (
	"prefdt/inference/checkpoint"
	"prefdt/inference/goal"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
	"prefdt/offline/teacher"
	"prefdt/simbridge/world"
)

// atPrice is the exact-dispatch teacher as a policy: it does not heed requests.
type atPrice struct {
	pilot      teacher.Pilot
	constants  *physics.Constants
	priceSPerJ float64
}

func (a *atPrice) Reset() { a.pilot = teacher.Pilot{} }

func (a *atPrice) Decide(s *slot.Snapshot, _ goal.Objective, d *slot.Decision) goal.Seen {
	x := *s
	if len(x.Users) == 0 && len(x.Imagined) > 0 && x.Imagined[0].ID >= 0 {
		x.Users = x.Imagined // motion goes by who may be there
	}
	p := &a.constants.Propulsion
	a.pilot.Decide(a.constants, &x, a.priceSPerJ, p.BestSpeedMPS(a.constants.SpeedMaxMPS), d)
	d.Users = d.Users[:len(s.Users)]
	return goal.Seen{}
}

// NewTeacher returns a flyer of the exact-dispatch teacher at a price, over the
// link of a leader with that checkpoint: what the link costs by itself.
func NewTeacher(frozen *checkpoint.Checkpoint, priceSPerJ float64, c world.Config, l Link) (*Flyer, error) {
	f, err := NewOf(&atPrice{constants: &c.Physics, priceSPerJ: priceSPerJ}, &frozen.Scales, c, l)
	if err == nil {
		f.link.forecast.Usual = frozen.Standard.Crowd()
	}
	return f, err
}
