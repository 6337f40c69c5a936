package autopilot

import (
	"fmt"
	"math"
	"slices"

	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"
	"github.com/bluenviron/gomavlib/v3/pkg/message"

	"prefdt/simbridge/battery"
	"prefdt/simbridge/geo"
)

// ArduCopter in place of PX4, as measured on 4.7-dev. The vehicle keeps PX4's modes inside:
// GUIDED is ModeTakeoff in a take-off and ModeOffboard else, BRAKE is ModeHold, LOITER
// ModePosition. What differs is here.

// ModeStabilize is an ArduCopter's after it booted.
const ModeStabilize Mode = 1 << 16

// copterModes are ArduCopter's custom modes, and their names.
var copterModes = map[Mode]struct {
	custom uint32
	name   string
}{
	ModeStabilize: {0, "STABILIZE"},
	ModeTakeoff:   {4, "GUIDED"},
	ModeOffboard:  {4, "GUIDED"},
	ModePosition:  {5, "LOITER"},
	ModeReturn:    {6, "RTL"},
	ModeLand:      {9, "LAND"},
	ModeHold:      {17, "BRAKE"},
}

// ModeOf is the mode of a HEARTBEAT, GUIDED without a take-off, and its autopilot's word for it.
func ModeOf(h *common.MessageHeartbeat) (m Mode, name string) {
	if h.Autopilot != common.MAV_AUTOPILOT_ARDUPILOTMEGA {
		m = Mode(h.CustomMode)
		return m, m.String()
	}
	if m, known := CopterMode(h.CustomMode); known {
		return m, copterModes[m].name
	}
	return 0, fmt.Sprintf("mode %d", h.CustomMode)
}

func (v *vehicle) modeName() string {
	if v.conf.Copter {
		return copterModes[v.mode].name
	}
	return v.mode.String()
}

// How long after its boot the checks pass, as measured: an ArduCopter's in GUIDED need a position estimate too.
const (
	px4ReadyS         = 4.2
	copterInitialiseS = 1.5
	copterReadyS      = 23.6
	guidedReadyS      = 41.6
)

// unready is why the checks fail, in an ArduCopter's mode; empty: they pass. An ArduCopter's battery failsafe lasts until its boot.
func (v *vehicle) unready() string {
	s := v.elapsedS(v.bootUS)
	if v.bootUS == 0 {
		s += v.conf.BootedS
	}
	switch {
	case v.armingDenial != "":
		return v.armingDenial
	case !v.conf.Copter && s < px4ReadyS:
		return "Resolve system health failures first"
	case !v.conf.Copter:
	case s < copterInitialiseS:
		return "System not initialised"
	case s < copterReadyS:
		return "AHRS: waiting for home"
	case s < guidedReadyS && v.intendedMode != ModeStabilize:
		return "Need Position Estimate"
	case v.copterFailsafe.battery:
		return "Battery failsafe"
	}
	return ""
}

const (
	copterLandDetectS = 1.5
	copterLoiterS     = 10 // over home: RTL_LOIT_TIME is 5 s, it comes to rest before, and begins slowly to descend
)

const copterSinkMPS = 2.5 // in LOITER, with the throttle at zero

// CopterMode is the mode of an ArduCopter's custom mode, GUIDED without a take-off.
func CopterMode(custom uint32) (m Mode, known bool) {
	for m, c := range copterModes {
		if c.custom == custom && m != ModeTakeoff {
			return m, true
		}
	}
	return 0, false
}

// copterParams are those that the leader reads, safe for a leader with system id 250, and fast
// enough to follow it.
func copterParams(capacityJ float64) params {
	return params{
		{"BATT_CAPACITY", capacityJ / 3.6 / battery.MeanVoltageV, false}, // mAh
		{"BATT_CRT_VOLT", 0, false},
		{"BATT_FS_CRT_ACT", 1, true},
		{"BATT_FS_LOW_ACT", 2, true},
		{"BATT_LOW_VOLT", 14.5, false},
		{"FENCE_ENABLE", 0, true},
		{"FS_GCS_ENABLE", 1, true},
		{"FS_GCS_TIMEOUT", 5, false},
		{"FS_OPTIONS", 16, true},
		{"GUID_TIMEOUT", 1, false},
		{"LAND_ALT_LOW", 1000, false}, // cm
		{"LAND_SPEED", 50, false},     // cm/s
		{"LAND_SPEED_HIGH", 0, false}, // cm/s; 0: WPNAV_SPEED_DN
		{"PSC_JERK_XY", 20, false},
		{"PSC_POSXY_P", 1, false},
		{"RTL_ALT", 1500, false}, // cm
		{"RTL_CONE_SLOPE", 3, false},
		{"SYSID_ENFORCE", 1, true},
		{"SYSID_MYGCS", 250, true},
		{"WPNAV_ACCEL", 500, false}, // cm/s/s
		{"WPNAV_SPEED", 1000, false},
		{"WPNAV_SPEED_DN", 150, false},
		{"WPNAV_SPEED_UP", 250, false},
	}
}

// counterparts are what an ArduCopter has in place of PX4's parameters that the dynamics use: its
// own parameter, and that one's unit in PX4's (0.01: cm in m); without a name, a constant.
var counterparts = map[string]struct {
	name string
	unit float64
}{
	"MPC_XY_VEL_MAX":   {"WPNAV_SPEED", 0.01},
	"MPC_XY_CRUISE":    {"WPNAV_SPEED", 0.01},
	"MPC_Z_VEL_MAX_UP": {"WPNAV_SPEED_UP", 0.01},
	"MPC_Z_V_AUTO_UP":  {"WPNAV_SPEED_UP", 0.01},
	"MPC_TKO_SPEED":    {"WPNAV_SPEED_UP", 0.01},
	"MPC_Z_VEL_MAX_DN": {"WPNAV_SPEED_DN", 0.01},
	"MPC_Z_V_AUTO_DN":  {"WPNAV_SPEED_DN", 0.01},
	"MPC_LAND_SPEED":   {"LAND_SPEED", 0.01},
	"MPC_LAND_ALT1":    {"LAND_ALT_LOW", 0.01},
	"RTL_RETURN_ALT":   {"RTL_ALT", 0.01},
	"COM_OF_LOSS_T":    {"", 1},
	"COM_DISARM_LAND":  {"", 0.5},
	"COM_DISARM_PRFLT": {"", 10},
	"COM_LOW_BAT_ACT":  {"", 1},
	"COM_OBL_RC_ACT":   {"", 3},
}

// copterFailsafe is why an ArduCopter left the mode that it was commanded.
type copterFailsafe struct {
	gcs, battery bool  // the battery's lasts until the next boot
	lowSinceUS   int64 // its voltage is low since; 0: it is not
}

// applyCopterFailsafes sends it home, or down, when its ground station or its battery fails. Each
// does so once: a mode that is commanded later stays.
func (v *vehicle) applyCopterFailsafes() {
	const lowS = 10
	f := &v.copterFailsafe
	actions := map[float64]Mode{1: ModeLand, 2: ModeReturn}
	if !v.armed || v.landed {
		f.gcs, f.lowSinceUS = false, 0
		return
	}
	silent := v.gcsHeartbeatUS != 0 && v.elapsedS(v.gcsHeartbeatUS) > v.params.get("FS_GCS_TIMEOUT")
	if enabled := v.params.get("FS_GCS_ENABLE"); silent && !f.gcs && enabled != 0 {
		v.setIntendedMode(map[bool]Mode{true: ModeLand, false: ModeReturn}[enabled == 5 || enabled == 7])
		v.queueStatusText(common.MAV_SEVERITY_WARNING, "GCS Failsafe")
	}
	f.gcs = silent
	switch low := float64(v.battery.SysStatus().VoltageBattery)/1000 < v.params.get("BATT_LOW_VOLT"); {
	case !low:
		f.lowSinceUS = 0
	case f.lowSinceUS == 0:
		f.lowSinceUS = v.timeUS
	case !f.battery && v.elapsedS(f.lowSinceUS) > lowS:
		f.battery = true
		if m := actions[v.params.get("BATT_FS_LOW_ACT")]; m != 0 {
			v.setIntendedMode(m)
		}
		v.queueStatusText(common.MAV_SEVERITY_WARNING, "Battery 1 low voltage")
	}
}

// guidedVelocity follows the setpoints of GUIDED, and stops at the last target where they end, as measured.
func (v *vehicle) guidedVelocity() geo.Local {
	if late := v.elapsedS(v.setpointUS) > v.params.get("GUID_TIMEOUT"); late {
		if v.setpointUS == 0 || math.IsNaN(v.setpoint.Position.EastM) {
			return v.stopVelocity()
		}
		v.setpoint.Velocity = geo.Local{} // it goes to its last target, and stays there
	}
	v.holdPosition = v.body.Position
	return v.offboardVelocity()
}

// stopVelocity stops the vehicle, and keeps it where it came to a stop.
func (v *vehicle) stopVelocity() geo.Local {
	if v.body.SpeedMPS() > 0.5 {
		v.holdPosition.EastM, v.holdPosition.NorthM = v.body.Position.EastM, v.body.Position.NorthM
		return geo.Local{UpM: v.holdPosition.UpM - v.body.Position.UpM}
	}
	return v.velocityTowards(v.holdPosition)
}

// copterAcceleration is towards a velocity within WPNAV_ACCEL and PSC_JERK_XY, from the present
// one: no more than can be taken back by the time that the velocity is reached, after
// ArduPilot's sqrt_controller. The drag is made up for.
func (v *vehicle) copterAcceleration(want geo.Local) (east, north float64) {
	gainPerS, share := 1.3, 0.75 // in GUIDED
	switch v.mode {
	case ModeHold:
		gainPerS, share = 2, 1
	case ModeReturn:
		gainPerS, share = 0.8, 0.5
	}
	most, jerk := share*v.params.get("WPNAV_ACCEL")/100, v.params.get("PSC_JERK_XY")
	missing := want.Sub(v.body.Velocity)
	missing.UpM = 0
	if off := missing.HorizontalM(); off > 0 {
		missing = missing.Scale(min(gainPerS*off, math.Sqrt(2*jerk*off), most) / off)
	}
	change, step := math.Hypot(missing.EastM-v.accel.EastM, missing.NorthM-v.accel.NorthM), jerk*stepS
	if change <= step {
		return missing.EastM, missing.NorthM
	}
	return v.accel.EastM + (missing.EastM-v.accel.EastM)*step/change, v.accel.NorthM + (missing.NorthM-v.accel.NorthM)*step/change
}

// copterTakeOff begins a take-off to a height above home: in GUIDED, armed, on the ground.
func (v *vehicle) copterTakeOff(heightM float64) common.MAV_RESULT {
	if v.mode != ModeOffboard || !v.armed || !v.landed || !(heightM > 0) {
		return common.MAV_RESULT_FAILED
	}
	v.takeoffUpM = v.home.UpM + v.driftM() + heightM
	v.setIntendedMode(ModeTakeoff)
	return common.MAV_RESULT_ACCEPTED
}

// laterNames are what later versions of ArduCopter call parameters, and how many of them one is in their unit.
var laterNames = map[string]struct {
	name string
	unit float64
}{
	"LAND_ALT_LOW":    {"LAND_ALT_LOW_M", 0.01},
	"LAND_SPEED":      {"LAND_SPD_MS", 0.01},
	"LAND_SPEED_HIGH": {"LAND_SPD_HIGH_MS", 0.01},
	"PSC_JERK_XY":     {"PSC_JERK_NE", 1},
	"PSC_POSXY_P":     {"PSC_NE_POS_P", 1},
	"SYSID_ENFORCE":   {"MAV_OPTIONS", 1},
	"SYSID_MYGCS":     {"MAV_GCS_SYSID", 1},
	"WPNAV_ACCEL":     {"WP_ACC", 0.01},
	"WPNAV_SPEED":     {"WP_SPD", 0.01},
	"WPNAV_SPEED_DN":  {"WP_SPD_DN", 0.01},
	"WPNAV_SPEED_UP":  {"WP_SPD_UP", 0.01},
}

// index is that of a parameter by the name that its version has; -1: none.
func (v *vehicle) index(name string) int {
	return slices.IndexFunc(v.params, func(p param) bool {
		if later, ok := laterNames[p.name]; ok && v.conf.LaterNames {
			return later.name == name
		}
		return p.name == name
	})
}

// renamed gives parameters the names and units of a later version.
func renamed(out []message.Message) []message.Message {
	for _, m := range out {
		if p, ok := m.(*common.MessageParamValue); ok {
			if later, ok := laterNames[p.ParamId]; ok {
				p.ParamId, p.ParamValue = later.name, float32(later.unit)*p.ParamValue
			}
		}
	}
	return out
}

// plainParameters undoes PX4's encoding of integers, which are small here.
func plainParameters(out []message.Message) []message.Message {
	for _, m := range out {
		if p, ok := m.(*common.MessageParamValue); ok && p.ParamType == common.MAV_PARAM_TYPE_INT32 {
			p.ParamValue, p.ParamType = float32(int32(math.Float32bits(p.ParamValue))), common.MAV_PARAM_TYPE_INT8
		}
	}
	return out
}
