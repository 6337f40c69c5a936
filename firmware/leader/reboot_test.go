package leader_test

import (
	"math"
	"testing"

	"prefdt/simbridge/rig"
	"prefdt/simbridge/simnet"
	"prefdt/telemetry"
)

// An autopilot that is rebooted in the air sends nothing for five seconds, and its
// counter and its time are reset. Its counter has what it drew since: only the moment
// before the boot is estimated by the model. If it fell it drew nothing, and what was
// settled meanwhile, at hover, is stated as an error.
func TestRebootCostsNoJoules(t *testing.T) {
	t.Parallel()
	for name, inAir := range map[string]bool{"flies on": true, "falls": false} {
		t.Run(name, func(t *testing.T) {
			simnet.Test(t, func(t *testing.T) {
				r := rig.New(t, 2, 2000)
				f := r.FlyToSlot(6)
				r.Autopilots[1].Reboot(inAir)
				s := r.Await("it is received again", func(s telemetry.Status) bool {
					a := s.Aircraft[1]
					return s.Slot > 14 && a.AgeS != nil && *a.AgeS < 1 && a.EnergySource == "energy_consumed"
				})
				s = r.Await("two slots on", rig.SlotSettled(s.Slot+2))
				if !r.Eventually(func() bool { return !math.IsNaN(r.AccountErrorJ(s)) }) {
					t.Fatal("no beacon after it")
				}
				off := r.AccountErrorJ(s)
				row := f.Report().LastRow
				stated := 0.0
				for _, a := range row.Aircraft {
					stated += a.ErrorJ
				}
				t.Logf("off by %+.0f J, the row of slot %d states %.0f J", off, row.Slot, stated)
				// Two counters of 100 J, and a quarter of a second before the boot.
				if inAir && math.Abs(off) > 200 || off < -200 {
					t.Errorf("off by %+.0f J", off)
				}
				if math.Abs(off) > stated {
					t.Errorf("off by %+.0f J, the row states %.0f J", off, stated)
				}
				f.Kill()
			})
		})
	}
}
