package autopilot

import (
	"testing"

	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"
)

func TestLowBattery(t *testing.T) {
	type when struct {
		percent int8
		mode    Mode // five seconds later, and
		after   Mode // at once
	}
	for name, c := range map[string]struct {
		action float64
		whens  []when
	}{
		"a warning alone":      {0, []when{{6, ModeOffboard, ModeOffboard}, {4, ModeOffboard, ModeOffboard}}},
		"land":                 {2, []when{{8, ModeOffboard, ModeOffboard}, {6, ModeLand, ModeHold}}},
		"return, then land":    {3, []when{{6, ModeReturn, ModeHold}, {4, ModeLand, ModeHold}}},
		"unknown from outside": {3, []when{{-1, ModeLand, ModeHold}}},
	} {
		t.Run(name, func(t *testing.T) {
			v := hovering().vehicle
			v.params.set("COM_LOW_BAT_ACT", c.action)
			v.setIntendedMode(ModeOffboard)
			stream := func(seconds float64) {
				for range int(seconds * 1e6 / stepUS) {
					v.setpointUS = v.timeUS
					v.step()
				}
			}
			for _, w := range c.whens {
				v.externalBattery = &common.MessageBatteryStatus{BatteryRemaining: w.percent}
				stream(0.1)
				if v.mode != w.after {
					t.Errorf("at %d %% it is in %v, want %v", w.percent, v.mode, w.after)
				}
				stream(5)
				if v.mode != w.mode {
					t.Errorf("5 s after %d %% it is in %v, want %v", w.percent, v.mode, w.mode)
				}
			}
			// A commanded mode overrides the failsafe.
			v.requestMode(ModeOffboard)
			stream(6)
			if v.mode != ModeOffboard {
				t.Errorf("is in %v, OFFBOARD was commanded", v.mode)
			}
		})
	}
}

// A worse warning during the Hold does not prolong it.
func TestWorseWhileItHolds(t *testing.T) {
	v := hovering().vehicle
	v.params.set("COM_LOW_BAT_ACT", 3)
	v.externalBattery = &common.MessageBatteryStatus{BatteryRemaining: 6}
	fly(v, 3)
	v.externalBattery = &common.MessageBatteryStatus{BatteryRemaining: 4}
	fly(v, 1.9)
	if v.mode != ModeHold {
		t.Errorf("is in %v after 4.9 s", v.mode)
	}
	fly(v, 0.2)
	if v.mode != ModeLand {
		t.Errorf("is in %v after 5.1 s", v.mode)
	}
}

// A battery that is low already when arming triggers no failsafe.
func TestLowAtArming(t *testing.T) {
	v := newVehicle(testConfig())
	v.params.set("COM_LOW_BAT_ACT", 2)
	v.externalBattery = &common.MessageBatteryStatus{BatteryRemaining: 6}
	v.arm()
	fly(v, 6)
	if v.mode != ModeHold {
		t.Errorf("is in %v", v.mode)
	}
}
