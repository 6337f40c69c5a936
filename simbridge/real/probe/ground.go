package probe

import (
	"math"
	"strings"

	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"
	"github.com/bluenviron/gomavlib/v3/pkg/message"
)

func boot(s *station) {
	n := len(s.texts)
	s.set("mode", s.mode())
	s.set("arming at once", s.arm())
	s.until(nil, 0.5)
	s.set("its text", s.denial(n))
	s.disarm()
	s.watch()
	passes := func() bool { return s.healthy && s.bootS > 0 }
	if !s.await("good checks", passes, 90) {
		return
	}
	s.set("checks pass", s.bootS)
	if s.kind == ArduPilot {
		s.setMode(commanded)
		s.set("arming when commanded", s.arm())
		s.disarm()
		s.until(func() bool { return !s.healthy }, 3)
		s.await("good checks when commanded", passes, 60)
		s.set("checks pass when commanded", s.bootS)
	}
	s.set("arming then", s.arm())
	s.set("disarms itself", s.timeUntil(func() bool { return s.heartbeat != nil && !s.armed() }, 30))
}

// denial is the last text about arming since there were n.
func (s *station) denial(n int) string {
	text := "none"
	for _, t := range s.texts[n:] {
		if strings.HasPrefix(t, "Arm") {
			text = t
		}
	}
	return text
}

var groundModesOf = []role{position, hold, returning, land, commanded, unknown}

func groundFigures() (all []Figure) {
	for _, r := range groundModesOf {
		all = append(all, Figure{Name: string(r)}, Figure{Name: string(r) + " is reported"}, Figure{Name: "arming in " + string(r)},
			Figure{Name: "checks in " + string(r)})
	}
	return append(all, Figure{Name: "text of a denial"})
}

func groundModes(s *station) {
	for _, r := range groundModesOf {
		s.set(string(r), s.setMode(r))
		s.until(nil, 1)
		s.set(string(r)+" is reported", s.mode())
		s.set("checks in "+string(r), map[bool]string{true: "good", false: "bad"}[s.healthy])
		n := len(s.texts)
		s.set("arming in "+string(r), s.arm())
		if s.until(nil, 0.5); r == land {
			s.set("text of a denial", s.denial(n))
		}
		s.disarm()
	}
}

// askedParameters are read by the first of their names that the autopilot has, in SI units.
var askedParameters = []struct {
	figure, unit string
	names        map[Kind]map[string]float64 // and its unit
}{
	{"speed limit", "m/s", both("MPC_XY_VEL_MAX", named{"WPNAV_SPEED": 0.01, "WP_SPD": 1})},
	{"climb", "m/s", both("MPC_Z_V_AUTO_UP", named{"WPNAV_SPEED_UP": 0.01, "WP_SPD_UP": 1})},
	{"descent", "m/s", both("MPC_Z_V_AUTO_DN", named{"WPNAV_SPEED_DN": 0.01, "WP_SPD_DN": 1})},
	{"land speed", "m/s", both("MPC_LAND_SPEED", named{"LAND_SPEED": 0.01, "LAND_SPD_MS": 1})},
	{"slow below", "m", both("MPC_LAND_ALT1", named{"LAND_ALT_LOW": 0.01, "LAND_ALT_LOW_M": 1})},
	{"return height", "m", both("RTL_RETURN_ALT", named{"RTL_ALT": 0.01, "RTL_ALT_M": 1})},
	{"lost setpoints", "s", both("COM_OF_LOSS_T", named{"GUID_TIMEOUT": 1})},
	{"position gain", "1/s", both("MPC_XY_P", named{"PSC_POSXY_P": 1, "PSC_NE_POS_P": 1})},
	{"acceleration", "m/s2", both("", named{"WPNAV_ACCEL": 0.01, "WP_ACC": 1})},
	{"jerk", "m/s3", both("", named{"PSC_JERK_XY": 1, "PSC_JERK_NE": 1})},
	{"land fast", "m/s", both("", named{"LAND_SPEED_HIGH": 0.01, "LAND_SPD_HIGH_MS": 1})},
}

type named = map[string]float64

func both(px4 string, copter named) map[Kind]map[string]float64 {
	m := map[Kind]map[string]float64{ArduPilot: copter}
	if px4 != "" {
		m[PX4] = named{px4: 1}
	}
	return m
}

func parameterFigures() (all []Figure) {
	for _, p := range askedParameters {
		f := Figure{Name: p.figure, Unit: p.unit, Abs: 0.01}
		if p.names[PX4] == nil {
			f.On = []Kind{ArduPilot}
		}
		all = append(all, f)
	}
	return append(all, Figure{Name: "of an integer"}, Figure{Name: "its type"}, Figure{Name: "by its number"}, Figure{Name: "unknown"},
		Figure{Name: "set"}, Figure{Name: "set with a wrong type"}, Figure{Name: "set unknown"})
}

// read asks for a parameter by name: nil where it has none.
func (s *station) read(name string) *common.MessageParamValue {
	delete(s.params, name)
	s.node.WriteMessageAll(&common.MessageParamRequestRead{TargetSystem: 1, TargetComponent: 1, ParamId: name, ParamIndex: -1})
	s.until(func() bool { return s.params[name] != nil }, 1)
	return s.params[name]
}

// write sets a parameter, and says how it is answered.
func (s *station) write(name string, value float32, as common.MAV_PARAM_TYPE) string {
	delete(s.params, name)
	s.node.WriteMessageAll(&common.MessageParamSet{TargetSystem: 1, TargetComponent: 1, ParamId: name, ParamValue: value, ParamType: as})
	if s.until(func() bool { return s.params[name] != nil }, 1); s.params[name] == nil {
		return "NONE"
	}
	return number(float64(s.params[name].ParamValue))
}

// writeInteger sets a parameter of a PX4.
func (s *station) writeInteger(name string, value int32) {
	s.write(name, math.Float32frombits(uint32(value)), common.MAV_PARAM_TYPE_INT32)
}

func parameters(s *station) {
	for _, p := range askedParameters {
		for name, unit := range p.names[s.kind] {
			if m := s.read(name); m != nil {
				s.set(p.figure, float64(m.ParamValue)*unit)
			}
		}
	}
	integer := map[Kind]string{PX4: "COM_OBL_RC_ACT", ArduPilot: "FS_GCS_ENABLE"}[s.kind]
	if m := s.read(integer); m != nil {
		bits := float64(int32(math.Float32bits(m.ParamValue)))
		s.set("of an integer", map[bool]string{true: "bits", false: "number"}[bits < 100 && bits > 0])
		s.set("its type", strings.TrimPrefix(m.ParamType.String(), "MAV_PARAM_TYPE_"))
		delete(s.params, integer)
		s.node.WriteMessageAll(&common.MessageParamRequestRead{TargetSystem: 1, TargetComponent: 1, ParamIndex: int16(m.ParamIndex)})
		s.until(func() bool { return s.params[integer] != nil }, 1)
		s.set("by its number", map[bool]string{true: "answered", false: "not"}[s.params[integer] != nil])
	}
	s.set("unknown", map[bool]string{true: "answered", false: "not"}[s.read("NO_SUCH_PARAM") != nil])
	real32 := map[Kind]string{PX4: "COM_OF_LOSS_T", ArduPilot: "GUID_TIMEOUT"}[s.kind]
	s.set("set", s.write(real32, 2, common.MAV_PARAM_TYPE_REAL32))
	s.set("set with a wrong type", s.write(real32, 3, common.MAV_PARAM_TYPE_INT32))
	s.set("set unknown", s.write("NO_SUCH_PARAM", 1, common.MAV_PARAM_TYPE_REAL32))
	s.write(real32, 1, common.MAV_PARAM_TYPE_REAL32)
}

// askedStreams are those that the leader reads.
var askedStreams = []struct {
	name    string
	message message.Message
}{
	{"HEARTBEAT", &common.MessageHeartbeat{}}, {"position", &common.MessageGlobalPositionInt{}},
	{"landed state", &common.MessageExtendedSysState{}}, {"status", &common.MessageSysStatus{}},
	{"battery", &common.MessageBatteryStatus{}},
}

// askedRates are in Hz; 0: off, -1: the default.
var askedRates = []struct {
	name string
	hz   float64
}{{" 1 Hz", 1}, {" 4 Hz", 4}, {" 20 Hz", 20}, {" off", 0}, {" default", -1}}

func streamFigures() (all []Figure) {
	for _, x := range askedStreams {
		for _, r := range askedRates {
			f := Figure{Name: x.name + r.name, Unit: "Hz", Abs: 0.4, Rel: 0.15}
			if r.hz == 20 {
				f.Abs = 3 // some of a real PX4's come when it has something new, and its load varies
			}
			all = append(all, f)
		}
	}
	return append(all, Figure{Name: "of an unknown message"}, Figure{Name: "interval"}, Figure{Name: "request"},
		Figure{Name: "request of an unknown message"})
}

func askStreams(s *station) {
	const countS = 5.0
	s.watching = false
	for _, r := range askedRates {
		us := 1e6 / r.hz
		switch r.hz {
		case 0:
			us = -1
		case -1:
			us = 0
		}
		for _, x := range askedStreams {
			s.command(common.MAV_CMD_SET_MESSAGE_INTERVAL, float64(x.message.GetID()), us)
		}
		s.until(nil, 1)
		clear(s.counts)
		began := s.nowS
		s.until(nil, countS)
		for _, x := range askedStreams {
			s.set(x.name+r.name, float64(s.counts[x.message.GetID()])/(s.nowS-began))
		}
	}
	s.watch()
	const noMessage = 65_000
	s.set("of an unknown message", s.command(common.MAV_CMD_SET_MESSAGE_INTERVAL, noMessage, 1e6))
	s.interval = nil
	s.set("interval", s.command(common.MAV_CMD_GET_MESSAGE_INTERVAL, float64((&common.MessageExtendedSysState{}).GetID())))
	s.set("request", s.command(common.MAV_CMD_REQUEST_MESSAGE, float64((&common.MessageAutopilotVersion{}).GetID())))
	s.set("request of an unknown message", s.command(common.MAV_CMD_REQUEST_MESSAGE, noMessage))
}

func reboot(s *station) {
	if s.kind == ArduPilot {
		s.set("energy before", map[bool]string{true: "counted", false: "none"}[s.battery != nil && s.battery.EnergyConsumed > 0])
	}
	s.set("answer", s.command(common.MAV_CMD_PREFLIGHT_REBOOT_SHUTDOWN, 1))
	s.until(nil, 1)
	s.power(false)
	s.set("mode", s.mode())
	s.set("armed", s.armed())
	s.watch()
	s.battery = nil
	s.await("good checks", func() bool { return s.healthy && s.battery != nil }, 90)
	s.until(nil, 2)
	if s.battery != nil {
		s.set("energy", float64(s.battery.EnergyConsumed))
		s.set("remaining", float64(s.battery.BatteryRemaining))
	}
	s.set("height", s.at.Position.UpM)
}
