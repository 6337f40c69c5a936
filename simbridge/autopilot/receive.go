package autopilot

import (
	"math"

	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"
	"github.com/bluenviron/gomavlib/v3/pkg/message"

	"prefdt/simbridge/battery"
)

// sender is who a message came from.
type sender struct{ system, component uint8 }

// Traffic counts what reached an autopilot.
type Traffic struct {
	Setpoints int // followed
	Refused   int // setpoints in a frame it does not know, or without a finite component
	Commands  int // COMMAND_LONG and COMMAND_INT
	Malformed int // frames that did not parse
}

// handleMessage takes a message in and returns the answers.
func (v *vehicle) handleMessage(from sender, m message.Message, t *Traffic) []message.Message {
	switch m := m.(type) {
	case *common.MessageHeartbeat:
		if m.Type == common.MAV_TYPE_GCS {
			v.gcsHeartbeatUS = max(v.timeUS, 1)
		}
	case *common.MessageSetPositionTargetLocalNed:
		if v.isAddressed(m.TargetSystem, m.TargetComponent) {
			t.countSetpoint(v.handleSetpointLocalNED(m))
		}
	case *common.MessageSetPositionTargetGlobalInt:
		if v.isAddressed(m.TargetSystem, m.TargetComponent) {
			t.countSetpoint(v.handleSetpointGlobalInt(m))
		}
	case *common.MessageSetMode:
		if v.isAddressed(m.TargetSystem, 0) { // PX4 makes a command of it
			return v.handleCommand(from, command{common.MAV_CMD_DO_SET_MODE, [7]float64{float64(m.BaseMode), float64(m.CustomMode >> 16 & 0xff), float64(m.CustomMode >> 24)}})
		}
	case *common.MessageCommandLong:
		if v.isAddressed(m.TargetSystem, m.TargetComponent) {
			t.Commands++
			return v.handleCommand(from, command{m.Command, [7]float64{float64(m.Param1), float64(m.Param2), float64(m.Param3),
				float64(m.Param4), float64(m.Param5), float64(m.Param6), float64(m.Param7)}})
		}
	case *common.MessageCommandInt:
		if v.isAddressed(m.TargetSystem, m.TargetComponent) {
			t.Commands++
			return v.handleCommand(from, command{m.Command, [7]float64{float64(m.Param1), float64(m.Param2), float64(m.Param3),
				float64(m.Param4), degrees(m.X), degrees(m.Y), float64(m.Z)}})
		}
	case *common.MessageBatteryStatus:
		if from.system == v.conf.SystemID && from.component != 1 && v.conf.Battery == (battery.Fields{}) {
			v.externalBattery = m
			// Its stream sends what is new, when it is due.
			v.streams.find(float32(m.GetID())).pending = true
		}
	case *common.MessageParamRequestRead:
		if v.isAddressed(m.TargetSystem, m.TargetComponent) {
			i := int(m.ParamIndex)
			if i < 0 {
				i = v.params.index(m.ParamId)
			}
			if i >= 0 && i < len(v.params) {
				return []message.Message{v.params.paramValue(i)}
			}
		}
	case *common.MessageParamRequestList:
		if v.isAddressed(m.TargetSystem, m.TargetComponent) {
			out := make([]message.Message, len(v.params))
			for i := range out {
				out[i] = v.params.paramValue(i)
			}
			return out
		}
	case *common.MessageParamSet:
		if v.isAddressed(m.TargetSystem, m.TargetComponent) {
			if i, ok := v.params.handleParamSet(m); ok {
				return []message.Message{v.params.paramValue(i)}
			}
		}
	}
	return nil
}

func (t *Traffic) countSetpoint(followed bool) {
	if followed {
		t.Setpoints++
	} else {
		t.Refused++
	}
}

func (v *vehicle) isAddressed(system, component uint8) bool {
	return (system == 0 || system == v.conf.SystemID) && component <= 1
}

// degrees is a COMMAND_INT coordinate; the largest integer says it is unknown.
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

const forceMagic = 21196 // param 2 of COMPONENT_ARM_DISARM: whatever the checks say

// handleCommand obeys a command and answers with the message asked for, then with COMMAND_ACK.
func (v *vehicle) handleCommand(from sender, c command) []message.Message {
	ack := &common.MessageCommandAck{Command: c.id, TargetSystem: from.system, TargetComponent: from.component}
	var out []message.Message
	refuse := func(r common.MAV_RESULT) { ack.Result = r }
	if v.conf.OnReceived != nil {
		h := v.newReceived()
		h.Command, h.Param = c.id, c.param
		v.conf.OnReceived(h)
	}
	switch c.id {
	case common.MAV_CMD_COMPONENT_ARM_DISARM:
		switch {
		case c.param[0] == 1:
			if !v.arm() {
				refuse(common.MAV_RESULT_TEMPORARILY_REJECTED)
			}
		case c.param[0] != 0:
			refuse(common.MAV_RESULT_UNSUPPORTED)
		case v.armed && !v.landed && c.param[1] != forceMagic:
			v.queueStatusText(common.MAV_SEVERITY_CRITICAL, "Disarming denied: not landed")
			refuse(common.MAV_RESULT_TEMPORARILY_REJECTED)
		case v.armed:
			v.disarm("Disarmed by external command")
		}
	case common.MAV_CMD_DO_SET_MODE:
		// A main mode that PX4 does not know is accepted and changes nothing.
		if mode, known := parseSetMode(c.param); known && (mode == 0 || !v.requestMode(mode)) {
			refuse(common.MAV_RESULT_TEMPORARILY_REJECTED)
		}
	case common.MAV_CMD_NAV_TAKEOFF:
		v.takeoffUpM = c.param[6] - v.conf.Origin.AltM
		if math.IsNaN(c.param[6]) || math.IsInf(c.param[6], 0) {
			v.takeoffUpM = v.conf.Start.UpM + 2.5 // MIS_TAKEOFF_ALT
		}
		if c.param[4] == 0 && c.param[5] == 0 {
			v.takeoffUpM = math.NaN() // accepted, but PX4 does not take off towards (0, 0)
		}
		v.requestMode(ModeTakeoff)
	case common.MAV_CMD_NAV_LAND:
		v.requestMode(ModeLand)
	case common.MAV_CMD_NAV_RETURN_TO_LAUNCH:
		v.requestMode(ModeReturn)
	case common.MAV_CMD_SET_MESSAGE_INTERVAL:
		s := v.streams.find(float32(c.param[0]))
		if s == nil || math.IsNaN(c.param[1]) {
			refuse(common.MAV_RESULT_FAILED)
			break
		}
		s.setInterval(float32(c.param[1]), v.timeUS)
	case common.MAV_CMD_GET_MESSAGE_INTERVAL:
		m := &common.MessageMessageInterval{MessageId: uint16(clamp(orZero(c.param[0]), 0, math.MaxUint16))} // 0: not sent
		if s := v.streams.find(float32(c.param[0])); s != nil {
			m.IntervalUs = int32(min(s.intervalUS, math.MaxInt32))
		}
		out = append(out, m)
	case common.MAV_CMD_REQUEST_MESSAGE:
		if s := v.streams.find(float32(c.param[0])); s != nil {
			out = append(out, s.build(v))
		} else {
			refuse(common.MAV_RESULT_DENIED)
		}
	case common.MAV_CMD_REQUEST_AUTOPILOT_CAPABILITIES:
		out = append(out, autopilotVersion(v))
	case common.MAV_CMD_PREFLIGHT_REBOOT_SHUTDOWN: // not in PX4's simulation
		refuse(common.MAV_RESULT_DENIED)
	default:
		refuse(common.MAV_RESULT_UNSUPPORTED)
	}
	return append(out, ack)
}

// parseSetMode reads DO_SET_MODE: base mode with the custom flag, PX4's main and sub
// mode. Mode 0 is one that PX4 has, or could have, and that is not simulated.
func parseSetMode(param [7]float64) (m Mode, known bool) {
	if math.IsNaN(param[0]) || uint32(clamp(param[0], 0, 255))&uint32(common.MAV_MODE_FLAG_CUSTOM_MODE_ENABLED) == 0 {
		return 0, false
	}
	for _, m := range []Mode{ModePosition, ModeTakeoff, ModeHold, ModeReturn, ModeLand, ModeOffboard} {
		if float64(m>>16&0xff) == param[1] && (float64(m>>24) == param[2] || m>>24 == 0) {
			return m, true
		}
	}
	return 0, param[1] >= 1 && param[1] <= 7
}
