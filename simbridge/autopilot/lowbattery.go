package autopilot

import "math"

// Battery warnings with PX4's numbers, at BAT_CRIT_THR and BAT_EMERGEN_THR.
const (
	batteryCritical  = 2
	batteryEmergency = 3

	criticalCharge  = 0.07
	emergencyCharge = 0.05
)

// lowBatteryFailsafe is the failsafe of a battery that became low in flight, by
// COM_LOW_BAT_ACT: Hold for COM_FAIL_ACT_T, then Return or Land, which override any
// mode until a command or the pilot chooses another.
type lowBatteryFailsafe struct {
	warning int   // the worst since arming
	mode    Mode  // 0: none
	sinceUS int64 // when the warning was raised
}

// batteryWarning is the warning for the charge now. The unknown charge of an external
// battery is -1 %, which PX4 takes for empty.
func (v *vehicle) batteryWarning() int {
	charge := v.battery.Charge()
	if v.externalBattery != nil {
		charge = float64(v.externalBattery.BatteryRemaining) / 100
	}
	switch {
	case math.IsNaN(charge):
		return 0
	case charge < emergencyCharge:
		return batteryEmergency
	case charge < criticalCharge:
		return batteryCritical
	}
	return 0
}

// lowBatteryMode returns the mode that a low battery requires, 0 for none.
func (v *vehicle) lowBatteryMode() Mode {
	if !v.armed {
		return 0
	}
	l := &v.batteryFailsafe
	holds := func() bool { return l.mode != 0 && v.elapsedS(l.sinceUS) < v.params.get("COM_FAIL_ACT_T") }
	if w := v.batteryWarning(); w > l.warning {
		if !holds() { // else the Hold goes on
			l.sinceUS = v.timeUS
		}
		l.warning, l.mode = w, v.lowBatteryAction(w)
	}
	if holds() {
		return ModeHold
	}
	return l.mode
}

func (v *vehicle) lowBatteryAction(warning int) Mode {
	switch act := v.params.get("COM_LOW_BAT_ACT"); {
	case act == 1, act == 3 && warning == batteryCritical:
		return ModeReturn
	case act == 2, act == 3:
		return ModeLand
	}
	return 0
}
