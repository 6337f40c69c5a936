package fleet

import (
	"fmt"
	"slices"

	"github.com/bluenviron/gomavlib/v3"
	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"
	"github.com/bluenviron/gomavlib/v3/pkg/message"
)

// Mode is PX4's custom mode as HEARTBEAT carries it: main mode << 16 | sub mode << 24.
type Mode uint32

const (
	ModePosition Mode = 3 << 16
	ModeTakeoff  Mode = 4<<16 | 2<<24
	ModeHold     Mode = 4<<16 | 3<<24
	ModeReturn   Mode = 4<<16 | 5<<24
	ModeLand     Mode = 4<<16 | 6<<24
	ModeOffboard Mode = 6 << 16
)

var modeNames = map[Mode]string{
	ModePosition: "POSCTL", ModeTakeoff: "AUTO.TAKEOFF", ModeHold: "AUTO.LOITER", ModeReturn: "AUTO.RTL", ModeLand: "AUTO.LAND", ModeOffboard: "OFFBOARD",
}

func (m Mode) String() string {
	if name, ok := modeNames[m]; ok {
		return name
	}
	return fmt.Sprintf("%d.%d", m>>16&0xff, m>>24)
}

func setMode(m Mode) *common.MessageCommandLong {
	return &common.MessageCommandLong{
		Command: common.MAV_CMD_DO_SET_MODE,
		Param1:  float32(common.MAV_MODE_FLAG_CUSTOM_MODE_ENABLED),
		Param2:  float32(m >> 16 & 0xff), Param3: float32(m >> 24),
	}
}

// messageKind is what a message may do to an aircraft.
type messageKind uint8

const (
	kindForbidden messageKind = iota // never sent
	kindHarmless                     // moves nothing: requests, parameter reads, heartbeats, texts
	kindArm                          // starts the motors
	kindTakeOff                      // leaves the ground
	kindMode                         // changes the mode
	kindSetpoint                     // steers in OFFBOARD
)

// classify returns what a message may do, and the mode that it commands.
func classify(m message.Message) (messageKind, Mode) {
	switch m := m.(type) {
	case *common.MessageHeartbeat, *common.MessageParamRequestRead, *common.MessageStatustext, *common.MessageNamedValueFloat:
		return kindHarmless, 0
	case *common.MessageSetPositionTargetGlobalInt:
		return kindSetpoint, 0
	case *common.MessageCommandLong:
		switch m.Command {
		case common.MAV_CMD_REQUEST_MESSAGE, common.MAV_CMD_SET_MESSAGE_INTERVAL:
			return kindHarmless, 0
		case common.MAV_CMD_COMPONENT_ARM_DISARM:
			if m.Param1 == 1 && m.Param2 == 0 { // the leader never disarms, and never by force
				return kindArm, 0
			}
		case common.MAV_CMD_NAV_TAKEOFF:
			return kindTakeOff, ModeTakeoff
		case common.MAV_CMD_DO_SET_MODE:
			return kindMode, Mode(uint32(m.Param2)<<16 | uint32(m.Param3)<<24)
		}
	}
	return kindForbidden, 0
}

// modesAllowed are the modes that may be commanded in a phase.
var modesAllowed = map[Phase][]Mode{
	PhaseClimbing: {ModeHold}, // to be armed in; the take-off is a command of its own
	PhaseEngaging: {ModeOffboard},
	PhaseLanding:  {ModeLand, ModeReturn},
	PhaseStopping: {ModeHold},
}

// refusal is the gate: why an aircraft must not be sent a message now, or empty if it
// may. A message that moves an aircraft needs an order that its pilot did not end, and
// a recent state: commands a HEARTBEAT, setpoints a position.
func (a *aircraft) refusal(now float64, m message.Message) string {
	what, mode := classify(m)
	switch {
	case what == kindHarmless:
		return ""
	case what == kindForbidden:
		return "the leader has no use for such a message"
	case a.foreign != "":
		return "its autopilot is " + a.foreign
	case a.phase == PhasePilot:
		return "it is with its pilot: " + a.pilotReason
	case a.phase == PhaseIdle:
		return "it has no order"
	case a.phase == PhaseRejoining:
		return "it was not received since the restart"
	case !a.positionFresh(now):
		return fmt.Sprintf("its position is %.1f s old", now-a.positionS)
	case what == kindSetpoint && now-a.heartbeatS > heartbeatTimeoutS, what != kindSetpoint && !a.heartbeatFresh(now):
		return fmt.Sprintf("its last HEARTBEAT is %.1f s old", now-a.heartbeatS)
	}
	switch what {
	case kindArm:
		switch {
		case !a.launchOrdered || a.homeward || a.phase != PhaseClimbing:
			return "it has no order to leave the ground"
		case !a.onGround() || a.armed:
			return "it is not on the ground with its motors off"
		case a.mode != ModeHold && a.mode != ModeTakeoff:
			return "it cannot be armed in " + a.mode.String()
		case a.armingTimedOut(now):
			return fmt.Sprintf("it was asked to arm for %v s", armingTimeoutS)
		}
	case kindTakeOff:
		switch {
		case a.homeward || a.phase != PhaseClimbing:
			return "it is not to climb"
		case !a.armed:
			return "it is not armed"
		case !a.launchOrdered && !a.inAir():
			return "it has no order to leave the ground"
		}
	case kindMode:
		switch {
		case !slices.Contains(modesAllowed[a.phase], mode):
			return "its phase has no use for " + mode.String()
		case a.phase == PhaseClimbing && (a.armed || !a.launchOrdered):
			return "only one that is to be armed is asked for " + mode.String()
		case a.phase == PhaseClimbing && a.armingTimedOut(now):
			return fmt.Sprintf("it was asked to arm for %v s", armingTimeoutS)
		case a.phase != PhaseClimbing && !a.armed:
			return "it is not armed"
		}
	case kindSetpoint:
		switch {
		case !a.armed:
			return "it is not armed"
		case a.phase == PhaseClimbing:
			return "it climbs by itself" // the autopilot flies its own take-off
		case a.phase != PhaseEngaging && a.mode != ModeOffboard:
			return "it is in " + a.mode.String()
		}
	}
	return ""
}

// send sends a message on a channel, if the gate permits it; nothing else in the
// package sends. The aircraft is nil for a broadcast. The node drops a message
// silently when the link cannot keep up; a sent message is never taken for a received
// one.
func (f *Fleet) send(l *endpointLink, c *gomavlib.Channel, a *aircraft, m message.Message) bool {
	now, why := f.nowS(), ""
	switch what, _ := classify(m); {
	case c == nil:
		return false
	case a != nil:
		if why = a.refusal(now, m); why == "" && what != kindHarmless && c != a.channel {
			why = "this is not its link"
		}
	case what != kindHarmless:
		why = "it is not addressed to an aircraft"
	}
	if why != "" {
		f.counts.GateRefused++
		f.Log.Debug("not sent", "message", fmt.Sprintf("%T", m), "reason", why)
		return false
	}
	if a != nil {
		a.recordSent(now, m)
		setTarget(m, uint8(a.conf.SystemID))
	}
	l.node.WriteFrameTo(c, l.encode(c, m)) // cannot fail: the message is encoded already
	return true
}

// recordSent keeps when a mode or arming was commanded: a change of mode that follows
// is the leader's, and arming is commanded for a limited time.
func (a *aircraft) recordSent(now float64, m message.Message) {
	switch what, mode := classify(m); what {
	case kindSetpoint:
		a.setpointSentS = now
	case kindArm, kindMode, kindTakeOff:
		if a.phase == PhaseClimbing && !a.armed && !a.armingRequested {
			a.armingRequested, a.armingRequestedS = true, now
		}
		if what != kindArm {
			a.modeRequestedS[mode] = now
		}
	}
}

// armingTimedOut is whether arming was commanded for armingTimeoutS in this order.
func (a *aircraft) armingTimedOut(now float64) bool {
	return a.armingRequested && now-a.armingRequestedS > armingTimeoutS
}

func setTarget(m message.Message, system uint8) {
	switch m := m.(type) {
	case *common.MessageCommandLong:
		m.TargetSystem, m.TargetComponent = system, autopilotComponent
	case *common.MessageSetPositionTargetGlobalInt:
		m.TargetSystem, m.TargetComponent = system, autopilotComponent
	case *common.MessageParamRequestRead:
		m.TargetSystem, m.TargetComponent = system, autopilotComponent
	}
}
