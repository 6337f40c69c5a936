package autopilot

import (
	"math"
	"reflect"

	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"
	"github.com/bluenviron/gomavlib/v3/pkg/message"

	"prefdt/simbridge/battery"
)

// sender is the MAVLink source of a message.
type sender struct{ system, component uint8 }

// Traffic counts the messages that reached an autopilot.
type Traffic struct {
	Setpoints int // followed
	Refused   int // setpoints in an unknown frame, or without a finite component
	Commands  int // COMMAND_LONG and COMMAND_INT
	Malformed int // frames that could not be parsed
	Cut       int // messages that the cut links lost, in either direction
	Delayed   int // datagrams that were sent late
	Silent    int // HEARTBEATs that were not sent, or lost
}

// handleMessage handles a received message and returns the answers.
func (v *vehicle) handleMessage(from sender, m message.Message, t *Traffic) []message.Message {
	system, component := target(m)
	v.receivedTarget, v.receivedFrom = system, int(from.system)
	if system > 0 && system != int(v.conf.SystemID) || component > 1 {
		v.noteReceived(Received{Other: m})
		return nil
	}
	switch m.(type) {
	case *common.MessageSetPositionTargetLocalNed, *common.MessageSetPositionTargetGlobalInt, *common.MessageCommandLong,
		*common.MessageCommandInt:
	default: // those are noted once they are read
		v.noteReceived(Received{Other: m})
	}
	switch m := m.(type) {
	case *common.MessageHeartbeat:
		if v.timeUS < v.stationIgnoredUntilUS {
			break
		}
		if v.conf.Copter && float64(from.system) == v.params.get("SYSID_MYGCS") || !v.conf.Copter && m.Type == common.MAV_TYPE_GCS {
			v.gcsHeartbeatUS = max(v.timeUS, 1)
		}
	case *common.MessageBatteryStatus:
		if from.system == v.conf.SystemID && from.component != 1 && v.conf.Battery == (battery.Fields{}) {
			v.externalBattery = m
			// It is relayed when the stream is next due.
			v.streams.find(float32(m.GetID())).pending = true
		}
	case *common.MessageSetPositionTargetLocalNed:
		t.countSetpoint(v.handleSetpointLocalNED(m))
	case *common.MessageSetPositionTargetGlobalInt:
		t.countSetpoint(v.handleSetpointGlobalInt(m))
	case *common.MessageSetMode: // PX4 makes a command of it
		return v.handleCommand(from, command{common.MAV_CMD_DO_SET_MODE, [7]float64{float64(m.BaseMode), float64(m.CustomMode >> 16 & 0xff),
			float64(m.CustomMode >> 24)}})
	case *common.MessageCommandLong:
		t.Commands++
		return v.handleCommand(from, command{m.Command, [7]float64{float64(m.Param1), float64(m.Param2), float64(m.Param3),
			float64(m.Param4), float64(m.Param5), float64(m.Param6), float64(m.Param7)}})
	case *common.MessageCommandInt:
		t.Commands++
		return v.handleCommand(from, command{m.Command, [7]float64{float64(m.Param1), float64(m.Param2), float64(m.Param3),
			float64(m.Param4), degrees(m.X), degrees(m.Y), float64(m.Z)}})
	case *common.MessageParamRequestRead, *common.MessageParamRequestList:
		if v.timeUS < v.parametersBusyUntilUS {
			return nil
		}
	}
	switch m := m.(type) {
	case *common.MessageParamRequestRead:
		i := int(m.ParamIndex)
		if i >= 0 {
			return v.paramValues(i, i+1)
		}
		return v.namedParameter(v.index(m.ParamId))
	case *common.MessageParamRequestList:
		return v.paramValues(0, len(v.params))
	case *common.MessageParamSet:
		if v.conf.Copter && v.params.index(m.ParamId) >= 0 && v.params.set(m.ParamId, float64(m.ParamValue)) {
			return v.namedParameter(v.params.index(m.ParamId))
		}
		if !v.conf.Copter {
			return v.namedParameter(v.params.handleParamSet(m))
		}
	}
	return nil
}

// target returns the system and component that a message is addressed to, 0 for all, -1
// for a message without an address.
func target(m message.Message) (system, component int) {
	field := func(name string) int {
		if f := reflect.ValueOf(m).Elem().FieldByName(name); f.IsValid() {
			return int(f.Uint())
		}
		return -1
	}
	return field("TargetSystem"), field("TargetComponent")
}

// namedParameter is the PARAM_VALUE of one that was asked for by its name: an ArduCopter does not tell its number then.
func (v *vehicle) namedParameter(i int) []message.Message {
	out := v.paramValues(i, i+1)
	if v.conf.Copter && len(out) > 0 {
		out[0].(*common.MessageParamValue).ParamIndex = math.MaxUint16
	}
	return out
}

// paramValues are PARAM_VALUEs as this kind of autopilot encodes them.
func (v *vehicle) paramValues(from, to int) []message.Message {
	out := v.params.paramValues(from, to)
	if v.conf.Copter {
		out = plainParameters(out)
	}
	if v.conf.LaterNames {
		out = renamed(out)
	}
	return out
}

func (t *Traffic) countSetpoint(followed bool) {
	if followed {
		t.Setpoints++
	} else {
		t.Refused++
	}
}

// degrees is a COMMAND_INT coordinate; the largest integer means unknown.
func degrees(x int32) float64 {
	if x == math.MaxInt32 {
		return math.NaN()
	}
	return float64(x) / 1e7
}

// command is a MAVLink command, from either message.
type command struct {
	id    common.MAV_CMD
	param [7]float64 // param[0] is the specification's param 1
}

const forceMagic = 21196 // param 2 of COMPONENT_ARM_DISARM: in spite of the checks

// handleCommand executes a command and answers with the requested message, if any,
// then with COMMAND_ACK.
func (v *vehicle) handleCommand(from sender, c command) []message.Message {
	v.noteReceived(Received{Command: c.id, Param: c.param})
	result, out := v.execute(c)
	return append(out, &common.MessageCommandAck{Command: c.id, Result: result, TargetSystem: from.system, TargetComponent: from.component})
}

func (v *vehicle) execute(c command) (result common.MAV_RESULT, out []message.Message) {
	const accepted, rejected = common.MAV_RESULT_ACCEPTED, common.MAV_RESULT_TEMPORARILY_REJECTED
	switch c.id {
	case common.MAV_CMD_COMPONENT_ARM_DISARM:
		return v.armOrDisarm(c.param), nil
	case common.MAV_CMD_DO_SET_MODE:
		// A main mode that PX4 does not know is accepted and changes nothing.
		if v.conf.Copter {
			mode, known := CopterMode(uint32(clamp(orZero(c.param[1]), 0, 255)))
			if !known || !v.requestMode(mode) {
				return common.MAV_RESULT_FAILED, nil
			}
			break
		}
		if mode, known := parseSetMode(c.param); known && (mode == 0 || !v.requestMode(mode)) {
			return rejected, nil
		}
	case common.MAV_CMD_NAV_TAKEOFF:
		if v.conf.Copter {
			return v.copterTakeOff(c.param[6]), nil
		}
		v.takeoffUpM = v.takeoffTargetUpM(c.param)
		v.requestMode(ModeTakeoff)
	case common.MAV_CMD_NAV_LAND:
		v.requestMode(ModeLand)
	case common.MAV_CMD_NAV_RETURN_TO_LAUNCH:
		v.requestMode(ModeReturn)
	case common.MAV_CMD_SET_MESSAGE_INTERVAL:
		s := v.streams.find(float32(c.param[0]))
		switch {
		case s == nil && v.conf.Copter:
			return common.MAV_RESULT_DENIED, nil
		case s == nil || math.IsNaN(c.param[1]):
			return common.MAV_RESULT_FAILED, nil
		case s.id == heartbeatID && !v.conf.Copter: // once a second, whatever is asked
			return accepted, nil
		}
		s.setInterval(float32(c.param[1]), v.timeUS)
	case common.MAV_CMD_GET_MESSAGE_INTERVAL:
		m := &common.MessageMessageInterval{MessageId: uint16(clamp(orZero(c.param[0]), 0, math.MaxUint16))} // 0: not sent
		if s := v.streams.find(float32(c.param[0])); s != nil {
			m.IntervalUs = int32(min(s.intervalUS, math.MaxInt32))
		}
		return accepted, []message.Message{m}
	case common.MAV_CMD_REQUEST_MESSAGE:
		s := v.streams.find(float32(c.param[0]))
		switch {
		case s == nil && v.conf.Copter:
			return common.MAV_RESULT_FAILED, nil
		case s == nil:
			return common.MAV_RESULT_DENIED, nil
		}
		return accepted, []message.Message{s.build(v)}
	case common.MAV_CMD_REQUEST_AUTOPILOT_CAPABILITIES:
		return accepted, []message.Message{autopilotVersion(v)}
	case common.MAV_CMD_PREFLIGHT_REBOOT_SHUTDOWN:
		switch {
		case !v.conf.Copter: // not in PX4's simulation
			return common.MAV_RESULT_DENIED, nil
		case v.armed:
			return common.MAV_RESULT_FAILED, nil
		}
		v.reboot(false)
	default:
		return common.MAV_RESULT_UNSUPPORTED, nil
	}
	return accepted, nil
}

func (v *vehicle) armOrDisarm(param [7]float64) common.MAV_RESULT {
	switch {
	case param[0] == 1:
		if !v.arm() {
			return v.refusal()
		}
	case param[0] != 0:
		return common.MAV_RESULT_UNSUPPORTED
	case v.armed && !v.landed && param[1] != forceMagic:
		v.queueStatusText(common.MAV_SEVERITY_CRITICAL, "Disarming denied: not landed")
		return v.refusal()
	case v.armed:
		v.disarm("Disarmed by external command")
	}
	return common.MAV_RESULT_ACCEPTED
}

// refusal is how what is not possible now is answered.
func (v *vehicle) refusal() common.MAV_RESULT {
	if v.conf.Copter {
		return common.MAV_RESULT_FAILED
	}
	return common.MAV_RESULT_TEMPORARILY_REJECTED
}

// takeoffTargetUpM is the height to climb to by NAV_TAKEOFF; NaN: stay on the ground.
func (v *vehicle) takeoffTargetUpM(param [7]float64) float64 {
	switch {
	case param[4] == 0 && param[5] == 0:
		return math.NaN() // accepted, but PX4 does not take off towards (0, 0)
	case math.IsNaN(param[6]) || math.IsInf(param[6], 0):
		return v.home.UpM + 2.5 // MIS_TAKEOFF_ALT
	}
	return param[6] - v.conf.Origin.AltM
}

// parseSetMode reads DO_SET_MODE: base mode with the custom flag, PX4's main and sub
// mode. Mode 0 is one that PX4 has, or could have, and is not simulated.
func parseSetMode(param [7]float64) (m Mode, known bool) {
	if math.IsNaN(param[0]) || uint32(clamp(param[0], 0, 255))&uint32(common.MAV_MODE_FLAG_CUSTOM_MODE_ENABLED) == 0 {
		return 0, false
	}
	for m := range modeNames {
		if float64(m>>16&0xff) == param[1] && (float64(m>>24) == param[2] || m>>24 == 0) {
			return m, true
		}
	}
	return 0, param[1] >= 1 && param[1] <= 7
}
