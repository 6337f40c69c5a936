package command

import "testing"

// What time cures of a leader's refusals, and what a person must.
func TestTransient(t *testing.T) {
	for reason, want := range map[string]bool{
		"cannot start: aircraft 1 was not received yet":                                         true,
		"cannot start: aircraft 1: no position or heartbeat for 3 s":                            true,
		"cannot start: aircraft 2: parameters [COM_OF_LOSS_T MPC_XY_VEL_MAX] were not read yet": true,
		"cannot start: aircraft 2: its pre-arm checks fail: heading estimate not stable":        true,
		// measured over a second at first
		"cannot start: aircraft 2: its clock runs at 0.900 of the mission's, want within 5 %":           true,
		"cannot start: aircraft 2: is armed, in POSCTL; want it on the ground with its motors off":      false,
		"cannot start: aircraft 1 has an unsafe failsafe: COM_OBL_RC_ACT is 0, want 5 (Hold)":           false,
		"cannot start: aircraft 1 and 2 are 3.0 m apart, want at least 10":                              false,
		"cannot start: aircraft 1 is 400 m from its start, want at most 200":                            false,
		"cannot launch aircraft 3: this fleet has 2":                                                    false,
		"key \"crew-1\" is not known":                                                                   false,
		"cannot start: aircraft 1 has 900 J left of its pack's 150000; change its battery":              false,
		"cannot start: the mission is done, which accepts resume, clear, new":                           false,
		"a command without a signature, which commands.unsigned does not allow; unsigned is not obeyed": false,
	} {
		if Transient(reason) != want {
			t.Errorf("%q: %v", reason, !want)
		}
	}
}

func TestWaiting(t *testing.T) {
	for reason, want := range map[string]string{
		"cannot start: aircraft 2: was received for less than the 5 s that readiness takes; send it again": "waiting for autopilots (1 " +
			"of 2 ready): aircraft 2: was received for less than the 5 s that readiness takes",
		"cannot start: aircraft 1: its pre-arm checks fail: heading estimate not stable; cure that": "waiting for autopilots (0 of 2 " +
			"ready): aircraft 1: its pre-arm checks fail: heading estimate not stable",
		"not yet": "waiting for autopilots (0 of 2 ready): not yet",
	} {
		if got := Waiting(reason, 2); got != want {
			t.Errorf("%q: %q", reason, got)
		}
	}
}
