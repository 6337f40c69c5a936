package leader_test

import (
	"strings"
	"testing"
	"time"

	"prefdt/simbridge/autopilot"
	"prefdt/simbridge/rig"
	"prefdt/simbridge/simnet"
	"prefdt/telemetry"
)

// bootCopters has the fleet be ArduCopters that boot now.
func bootCopters(r *rig.Rig) {
	for i := range r.Autopilots {
		r.ReplaceAutopilot(i, func(c *autopilot.Config) { c.Copter = true })
	}
}

// An ArduCopter's checks pass in STABILIZE 18 s before they do in GUIDED. A start that is accepted in between is flown:
// it is put into GUIDED, says what it waits for, and is asked to arm once that can be.
func TestCoptersStartedBeforeGuidedCanBeArmed(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		r := rig.New(t, 2, 100000)
		bootCopters(r)
		r.StartLeader()
		r.TakeOff()
		if s := r.Autopilots[0].TimeS(); s > 35 {
			t.Fatalf("started %.1f s after its boot: there was nothing to wait for", s)
		}
		r.Await("why it waits", func(s telemetry.Status) bool {
			why := s.Aircraft[0].Reason
			return strings.Contains(why, "fail in GUIDED") && strings.Contains(why, "Need Position Estimate")
		})
		s := r.Await("slots", rig.SlotSettled(2))
		for i, a := range s.Aircraft {
			if a.Reason != "" || a.Mode != "GUIDED" || !r.Autopilots[i].State().Armed {
				t.Errorf("aircraft %d: %q, in %s", i+1, a.Reason, a.Mode)
			}
		}
	})
}

// A climb that nobody takes off for ends, and the mission says why. No pilot is named where there is none.
func TestNobodyTakesOff(t *testing.T) {
	for name, c := range map[string]struct {
		copter bool
		deny   func(*autopilot.Autopilot)
		want   string
	}{
		"PX4 refuses to arm": {false, func(a *autopilot.Autopilot) { a.RefuseArming("a propeller that is missing") },
			"no aircraft took off: aircraft 1: not armed in 10 s: Arming denied: a propeller that is missing"},
		"an ArduCopter's checks never pass in GUIDED": {true, func(a *autopilot.Autopilot) { a.DenyArming("a compass that was bent") },
			"no aircraft took off: aircraft 1: cannot be armed in GUIDED, after 45 s"},
	} {
		t.Run(name, func(t *testing.T) {
			simnet.Test(t, func(t *testing.T) {
				r := rig.New(t, 1, 100000)
				if c.copter {
					bootCopters(r)
				}
				r.StartLeader()
				r.TakeOff()
				began := time.Now()
				c.deny(r.Autopilots[0])
				s := r.Await("the mission ends", func(s telemetry.Status) bool { return s.State == telemetry.StateDone })
				if !strings.HasPrefix(s.Reason, c.want) || strings.Contains(s.Reason+s.Aircraft[0].Reason, "pilot") {
					t.Errorf("%q, the aircraft %q", s.Reason, s.Aircraft[0].Reason)
				}
				if took := time.Since(began); took > 2*time.Minute || took < time.Minute {
					t.Errorf("it ended after %v", took)
				}
				if n := r.CommandCount(0); n > 12 {
					t.Errorf("it was commanded %d times", n)
				}
			})
		})
	}
}

// Until a climb that nobody takes off for ends, the crew may launch.
func TestLaunchedAfterItWasNotArmed(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		r := rig.New(t, 1, 100000)
		r.StartLeader()
		r.TakeOff()
		r.Autopilots[0].RefuseArming("a propeller that is missing")
		r.Await("it is not armed", func(s telemetry.Status) bool { return strings.Contains(s.Aircraft[0].Reason, "not armed") })
		time.Sleep(30 * time.Second)
		r.Autopilots[0].RefuseArming("")
		r.RetryAction("launch", 1)
		r.Await("it flies", rig.SlotSettled(2))
	})
}
