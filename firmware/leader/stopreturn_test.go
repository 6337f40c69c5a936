package leader_test

import (
	"testing"

	"prefdt/simbridge/autopilot"
	"prefdt/simbridge/rig"
	"prefdt/simbridge/simnet"
	"prefdt/telemetry"
)

// A return after a stop brings home every aircraft that the stop has left in the air,
// whether it has reported its Hold yet or not; a pilot's stays in the air.
func TestReturnAfterStop(t *testing.T) {
	t.Parallel()
	for name, inHold := range map[string]bool{"at once": false, "once they hold": true} {
		t.Run(name, func(t *testing.T) {
			simnet.Test(t, func(t *testing.T) {
				r := rig.New(t, 3, 100000)
				r.FlyToSlot(5)
				r.Autopilots[2].SetModeByRC(autopilot.ModePosition)
				r.Await("the leader knows", func(s telemetry.Status) bool { return s.Aircraft[2].Mode == "POSCTL" })
				r.MustSendAction("stop")
				if inHold {
					r.Await("both hold", func(s telemetry.Status) bool {
						return s.Aircraft[0].Mode == "AUTO.LOITER" && s.Aircraft[1].Mode == "AUTO.LOITER"
					})
				}
				r.MustSendAction("return")
				if s := r.Await("done", rig.Done); *s.Aircraft[0].Battery < 0.5 || *s.Aircraft[1].Battery < 0.5 {
					t.Errorf("their batteries brought them down, at %v and %v", *s.Aircraft[0].Battery, *s.Aircraft[1].Battery)
				}
				for i := range 2 {
					if !r.Eventually(func() bool { return r.Landed(i) }) || r.HomeDistanceM(i) > 5 {
						t.Errorf("aircraft %d: landed %v, %.0f m from its home", i+1, r.Landed(i), r.HomeDistanceM(i))
					}
				}
				if r.Landed(2) || r.Autopilots[2].State().Mode != autopilot.ModePosition {
					t.Errorf("the pilot's aircraft is in %s", r.Autopilots[2].State().Mode)
				}
			})
		})
	}
}
