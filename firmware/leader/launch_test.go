package leader

import (
	"strings"
	"testing"

	"prefdt/firmware/fleet"
	"prefdt/inference/physics"
	"prefdt/telemetry"
)

// An aircraft is not launched where another takes off with it, is about to, or hovers as its
// pilot's, nearer than the separation. For one that passes or obeys the take-off waits, and
// one that stays on the ground is in nobody's way.
func TestLaunchBesideAnother(t *testing.T) {
	frozen := loadCheckpoint(t)
	for name, c := range map[string]struct {
		apartM   float64
		launched []int
		set      func(o *fleet.View)
		want     string
	}{
		"launched with it": {3, []int{1, 2}, func(*fleet.View) {}, "aircraft 1 and 2 are 3.0 m apart on the ground, want at least 10"},
		"12 m beside it":   {12, []int{1, 2}, func(*fleet.View) {}, ""},
		"launched before": {8, []int{1}, func(o *fleet.View) { o.Phase = fleet.PhaseClimbing },
			"aircraft 1 and 2 are 8.0 m apart on the ground"},
		"stays on the ground": {3, []int{1}, func(*fleet.View) {}, ""},
		"its pilot's, low": {5, []int{1}, func(o *fleet.View) { o.InAir, o.Obstacle, o.Phase, o.UpM = true, true, fleet.PhasePilot, 4 },
			"aircraft 2 hovers 5.0 m from aircraft 1"},
		"lost": {5, []int{1}, func(o *fleet.View) { o.Obstacle, o.Phase, o.Lost = true, fleet.PhasePilot, true },
			"aircraft 2 hovers 5.0 m from aircraft 1"},
		"its pilot's, passes": {5, []int{1}, func(o *fleet.View) {
			o.InAir, o.Obstacle, o.Phase, o.SpeedMPS = true, true, fleet.PhasePilot, 8
		}, ""},
		"flies, by our command": {5, []int{1}, func(o *fleet.View) {
			o.InAir, o.Obstacle, o.Phase = true, true, fleet.PhaseFlying
		}, ""},
		"at the home of one that flies": {300, []int{1}, func(o *fleet.View) {
			o.InAir, o.Obstacle, o.Phase, o.Home = true, true, fleet.PhaseFlying, &physics.Position{EastM: 403, NorthM: 400}
		}, "aircraft 1 stands 3.0 m from the home of aircraft 2"},
		"at the home of one that is lost": {300, []int{1}, func(o *fleet.View) {
			o.Obstacle, o.Lost, o.Home = true, true, &physics.Position{EastM: 403, NorthM: 400}
		}, "aircraft 1 stands 3.0 m from the home of aircraft 2"},
		"at the home of one that has landed": {300, []int{1}, func(o *fleet.View) {
			o.Home = &physics.Position{EastM: 403, NorthM: 400}
		}, ""},
	} {
		l := newInPhase(t, telemetry.StateFlying, nil, frozen.Physics, &frozen.GoalConstants)
		for i := range l.views {
			v := &l.views[i]
			*v = fleet.View{Number: i + 1, Received: true, Located: true, Position: physics.Position{EastM: 400 + c.apartM*float64(i),
				NorthM: 400}}
		}
		c.set(&l.views[1])
		err := l.checks(l.views).besideAnother(&l.views[0], c.launched)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
