package leader_test

import (
	"fmt"
	"math"
	"testing"

	"prefdt/simbridge/autopilot"
	"prefdt/simbridge/geo"
	"prefdt/simbridge/rig"
	"prefdt/simbridge/simnet"
	"prefdt/telemetry"
)

// The joules of slots and of transit are what the batteries lost in them, whatever the interval of their messages, on both autopilots,
// where flying comes to cost half as much again in the middle of the mission.
func TestSlowBatteries(t *testing.T) {
	t.Parallel()
	for _, copter := range []bool{false, true} {
		for _, everyS := range []float64{0.2, 1, 2.25, 3, 6} {
			t.Run(fmt.Sprintf("copter %v, each %g s", copter, everyS), func(t *testing.T) {
				simnet.Test(t, func(t *testing.T) {
					const slots = 100
					r := rig.New(t, 2, slots)
					for i := range r.Autopilots {
						r.ReplaceAutopilot(i, func(c *autopilot.Config) {
							modelW := c.PowerW
							c.Copter, c.Battery.EveryS = copter, everyS
							c.PowerW = func(slot int, v geo.Local) float64 {
								if slot >= slots/2 {
									return 1.5 * modelW(slot, v)
								}
								return modelW(slot, v)
							}
						})
					}
					r.SetUsers(10, 10)
					r.StartLeader()
					r.Await("the leader", rig.AnyStatus)
					r.TakeOff()
					r.Await("slots", rig.Flying)
					before := r.BatteryLossJ()
					s := r.Await("the last slot", func(s telemetry.Status) bool { return s.Slot == slots-1 })
					during := r.BatteryLossJ() - before
					if off := s.SpentJ/during - 1; math.Abs(off) > 0.01 {
						t.Errorf("%.0f J are of the slots, the batteries lost %.0f: %+.2f %%", s.SpentJ, during, 100*off)
					}
				})
			})
		}
	}
}
