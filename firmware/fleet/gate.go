package fleet

import (
	"fmt"
	"slices"

	"github.com/bluenviron/gomavlib/v3"
	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"
	"github.com/bluenviron/gomavlib/v3/pkg/message"
)

// kind is what a message may do to an aircraft.
type kind uint8

const (
	kindUnknown  kind = iota // never sent
	kindPlain                // moves nothing: requests, parameter reads, heartbeats, announcements
	kindArm                  // starts the motors
	kindTakeOff              // leaves the ground
	kindMode                 // changes the mode
	kindSetpoint             // steers in OFFBOARD
)

// kindOf is what a message may do, and the mode that it asks for.
func kindOf(m message.Message) (kind, Mode) {
	switch m := m.(type) {
	case *common.MessageHeartbeat, *common.MessageParamRequestRead, *common.MessageStatustext, *common.MessageNamedValueFloat:
		return kindPlain, 0
	case *common.MessageSetPositionTargetGlobalInt:
		return kindSetpoint, 0
	case *common.MessageCommandLong:
		switch m.Command {
		case common.MAV_CMD_REQUEST_MESSAGE, common.MAV_CMD_SET_MESSAGE_INTERVAL:
			return kindPlain, 0
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
	return kindUnknown, 0
}

// modesAsked are the modes that may be asked for in a phase.
var modesAsked = map[Phase][]Mode{
	PhaseClimbing: {ModeHold}, // to be armed in; the take-off is a command of its own
	PhaseEngaging: {ModeOffboard},
	PhaseLanding:  {ModeLand, ModeReturn},
	PhaseStopping: {ModeHold},
}

// refusal is the gate: why an aircraft must not be sent a message now, or
// nothing if it may. Whatever moves an aircraft needs an order of ours that its
// pilot did not end, and a state that was heard lately: commands a HEARTBEAT,
// setpoints a position.
func (a *aircraft) refusal(now float64, m message.Message) string {
	what, mode := kindOf(m)
	switch {
	case what == kindPlain:
		return ""
	case what == kindUnknown:
		return "the leader has no use for such a message"
	case a.phase == PhaseTaken:
		return "it is with its pilot: " + a.why
	case a.order == OrderNone || a.phase == PhaseIdle:
		return "it has no order"
	case !a.positionFresh(now):
		return fmt.Sprintf("its position is %.1f s old", now-a.positionS)
	case what == kindSetpoint && now-a.beatS > beatlessS:
		return fmt.Sprintf("its last HEARTBEAT is %.1f s old", now-a.beatS)
	case what != kindSetpoint && !a.beatFresh(now):
		return fmt.Sprintf("its last HEARTBEAT is %.1f s old", now-a.beatS)
	}
	switch what {
	case kindArm:
		switch {
		case !a.launched || a.order != OrderFly || a.phase != PhaseClimbing:
			return "it has no order to leave the ground"
		case !a.onGround() || a.armed:
			return "it is not on the ground with its motors off"
		case a.mode != ModeHold && a.mode != ModeTakeoff:
			return "it cannot be armed in " + a.mode.String()
		case a.armingEnded(now):
			return fmt.Sprintf("it was asked to arm for %v s", armS)
		}
	case kindTakeOff:
		switch {
		case a.order != OrderFly || a.phase != PhaseClimbing:
			return "it is not to climb"
		case !a.armed:
			return "it is not armed"
		case !a.launched && !a.inAir():
			return "it has no order to leave the ground"
		}
	case kindMode:
		switch {
		case !slices.Contains(modesAsked[a.phase], mode):
			return "its phase has no use for " + mode.String()
		case a.phase == PhaseClimbing && (a.armed || !a.launched):
			return "only one that is to be armed is asked for " + mode.String()
		case a.phase == PhaseClimbing && a.armingEnded(now):
			return fmt.Sprintf("it was asked to arm for %v s", armS)
		case a.phase != PhaseClimbing && !a.armed:
			return "it is not armed"
		}
	case kindSetpoint:
		switch {
		case !a.armed:
			return "it is not armed"
		case a.phase == PhaseClimbing:
			return "it climbs by itself"
		case a.phase != PhaseEngaging && a.mode != ModeOffboard:
			return "it is in " + a.mode.String()
		}
	}
	return ""
}

// send puts a message on a channel, if the gate lets it: the only way out of the
// package. The aircraft is nil for what is addressed to nobody. The node drops
// it silently when the link cannot keep up; nothing here takes a sent message
// for a received one.
func (f *Fleet) send(l *link, c *gomavlib.Channel, a *aircraft, m message.Message) bool {
	now, why := f.nowS(), ""
	switch what, _ := kindOf(m); {
	case c == nil:
		return false
	case a != nil:
		if why = a.refusal(now, m); why == "" && what != kindPlain && c != a.channel {
			why = "its link is another"
		}
	case what != kindPlain:
		why = "it is addressed to nobody"
	}
	if why != "" {
		f.counts.Refused++
		f.Log.Debug("not sent", "message", fmt.Sprintf("%T", m), "reason", why)
		return false
	}
	if a != nil {
		a.record(now, m)
		address(m, uint8(a.conf.SystemID))
	}
	l.node.WriteFrameTo(c, l.frame(c, m)) // cannot fail: the message is encoded already
	return true
}

// record keeps when something was asked for: a change of mode that follows is
// ours, and arming is asked for only so long.
func (a *aircraft) record(now float64, m message.Message) {
	switch what, mode := kindOf(m); what {
	case kindSetpoint:
		a.streamedS = now
	case kindArm, kindMode, kindTakeOff:
		if a.phase == PhaseClimbing && !a.armed && !a.arming {
			a.arming, a.armingS = true, now
		}
		if what != kindArm {
			a.askedFor[mode] = now
		}
	}
}

// armingEnded is whether arming was asked for as long as it is for one order.
func (a *aircraft) armingEnded(now float64) bool { return a.arming && now-a.armingS > armS }

// address fills in whom a message is for.
func address(m message.Message, system uint8) {
	switch m := m.(type) {
	case *common.MessageCommandLong:
		m.TargetSystem, m.TargetComponent = system, autopilotComponent
	case *common.MessageSetPositionTargetGlobalInt:
		m.TargetSystem, m.TargetComponent = system, autopilotComponent
	case *common.MessageParamRequestRead:
		m.TargetSystem, m.TargetComponent = system, autopilotComponent
	}
}
