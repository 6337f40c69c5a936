package fleet

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/bluenviron/gomavlib/v3"
	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"
	"github.com/bluenviron/gomavlib/v3/pkg/message"
)

// messageKind is what a message may do to an aircraft.
type messageKind uint8

const (
	kindForbidden messageKind = iota // never sent
	kindHarmless                     // moves nothing: requests, parameter reads, heartbeats, texts
	kindArm                          // starts the motors
	kindTakeOff                      // leaves the ground
	kindMode                         // changes the mode
	kindSetpoint                     // steers
)

// classify returns what a message may do, and the mode that it commands an autopilot.
func classify(kind autopilot, m message.Message) (messageKind, Mode) {
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
			return kindTakeOff, kind.commandedMode(m)
		case common.MAV_CMD_DO_SET_MODE:
			return kindMode, kind.commandedMode(m)
		}
	}
	return kindForbidden, 0
}

// modesAllowed are the modes that may be commanded in a phase, by their roles.
var modesAllowed = map[Phase][]Role{
	PhaseClimbing: {RoleArmable}, // the take-off is a command of its own
	PhaseEngaging: {RoleCommanded},
	PhaseLanding:  {RoleLand, RoleReturn},
	PhaseStopping: {RoleHold},
}

// refusal is the gate: why an aircraft must not be sent a message now, or empty if it
// may. A message that moves an aircraft needs an order that its pilot did not end, and
// a recent state: commands a HEARTBEAT, setpoints a position.
func (a *aircraft) refusal(now float64, m message.Message) string {
	kind := a.params.kind()
	what, mode := classify(kind, m)
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
		case a.launchedS == 0 || a.homeward || a.phase != PhaseClimbing:
			return "it has no order to leave the ground"
		case !a.onGround() || a.armed:
			return "it is not on the ground with its motors off"
		case !a.armable():
			return "it cannot be armed in " + a.modeName()
		case !a.checksPass(now):
			return "its pre-arm checks do not pass in " + a.modeName()
		case a.armingTimedOut(now):
			return fmt.Sprintf("it was asked to arm for %v s", armingTimeoutS)
		case a.launchTimedOut(now):
			return fmt.Sprintf("its order is %v s old", launchTimeoutS)
		}
	case kindTakeOff:
		switch {
		case a.homeward || a.phase != PhaseClimbing:
			return "it is not to climb"
		case !a.armed:
			return "it is not armed"
		case a.launchedS == 0 && !a.inAir():
			return "it has no order to leave the ground"
		case !a.onGround() && !kind.traits().climbsAgain:
			return "it has left the ground"
		}
	case kindMode:
		switch {
		case !slices.ContainsFunc(modesAllowed[a.phase], func(r Role) bool { return kind.traits().modes[r] == mode }):
			return "its phase has no use for " + kind.modeName(mode)
		case a.phase == PhaseClimbing && (a.armed || a.launchedS == 0):
			return "only one that is to be armed is asked for " + kind.modeName(mode)
		case a.phase == PhaseClimbing && a.armingTimedOut(now):
			return fmt.Sprintf("it was asked to arm for %v s", armingTimeoutS)
		case a.phase == PhaseClimbing && a.checksTimedOut(now):
			return fmt.Sprintf("its checks were waited for for %v s", checksTimeoutS)
		case a.phase == PhaseClimbing && a.launchTimedOut(now):
			return fmt.Sprintf("its order is %v s old", launchTimeoutS)
		case a.phase != PhaseClimbing && !a.armed:
			return "it is not armed"
		case a.phase == PhaseEngaging && a.failsafe && !kind.traits().endsHoldItself:
			return "its autopilot reports a failsafe"
		}
	case kindSetpoint:
		switch {
		case !a.armed:
			return "it is not armed"
		case a.phase == PhaseClimbing:
			return "it climbs by itself" // the autopilot flies its own take-off
		case a.phase != PhaseEngaging && a.role() != RoleCommanded:
			return "it is in " + a.modeName()
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
	kind := assumed
	if a != nil {
		kind = a.params.kind()
	}
	switch what, _ := classify(kind, m); {
	case c == nil:
		return false
	case a != nil:
		if why = a.refusal(now, m); why == "" && what != kindHarmless && c != a.channel {
			why = "this is not its link"
		} else if why == "" && what != kindHarmless && f.stoodStill(f.Clock.Now()) {
			why = "the leader stood still since it decided"
		} else if why == "" && what != kindHarmless && a.heartbeatS < f.heartbeatsFromS {
			why = "no HEARTBEAT since the leader stood still"
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
	switch what, mode := classify(a.params.kind(), m); what {
	case kindSetpoint:
		a.setpointSentS = now
	case kindArm, kindMode, kindTakeOff:
		switch {
		case a.phase != PhaseClimbing || a.armed || a.armingRequestedS > 0:
		case what == kindArm || !a.params.kind().traits().preArmByMode:
			a.armingRequestedS = now
		case a.checksSinceS == 0: // the mode alone is commanded: its checks decide when it is armed
			a.checksSinceS = now
		}
		if what != kindArm {
			a.modeRequestedS[mode] = now
		}
		if what == kindTakeOff {
			a.takeoffSentS = now
		}
	}
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

// retryCommand repeats a command at most every commandRetryS. Its effect is judged by
// the autopilot's state messages, not by its acknowledgement.
//
// A command must respect what the pilot did until now, not until a HEARTBEAT of up to
// two seconds ago: a recent one is requested first, and waited for at most a second.
func (a *aircraft) retryCommand(f *Fleet, now float64, m message.Message) []message.Message {
	if now-a.commandedS < commandRetryS || !a.heartbeatFresh(now) {
		return nil
	}
	if now-a.heartbeatS > recentHeartbeatS {
		a.awaitsHeartbeatS = cmp.Or(a.awaitsHeartbeatS, now)
		f.requestMessages(a.link, a.channel, a, &common.MessageHeartbeat{})
		if now-a.awaitsHeartbeatS < commandRetryS {
			return nil
		}
	}
	a.commandedS, a.awaitsHeartbeatS = now, 0
	return []message.Message{m}
}
