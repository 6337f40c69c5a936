package fleet

import (
	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"

	"prefdt/telemetry"
)

// Control of an aircraft. An order puts it under the leader's control; a pilot's action
// ends that at once, in every phase, and only the crew resumes it. A failsafe of the
// autopilot counts as its pilot: it is abandoned when another mode is commanded, so none is.

// modeReportDelayS is how long after its command a mode may be reported, beyond the
// interval of HEARTBEATs.
const modeReportDelayS = 3.0

// controlled is whether the leader controls it.
func (a *aircraft) controlled() bool {
	return a.phase != PhaseIdle && a.phase != PhasePilot && a.phase != PhaseRejoining
}

// handleHeartbeat handles the autopilot's mode and arming state.
func (a *aircraft) handleHeartbeat(f *Fleet, now float64, m *common.MessageHeartbeat) {
	kind, foreign := autopilotOf(m)
	if a.foreign = foreign; foreign == "" && kind != a.params.autopilot { // the first
		a.params.autopilot, a.params.leader = kind, f.leaderFacts()
	}
	wasMode, wasRole, wasArmed, wasFailsafe, wasS := a.mode, a.role(), a.armed, a.failsafe, a.heartbeatS
	a.heartbeatS, a.mode = now, Mode(m.CustomMode)
	a.armed = m.BaseMode&common.MAV_MODE_FLAG_SAFETY_ARMED != 0
	a.failsafe = m.SystemStatus == common.MAV_STATE_CRITICAL
	if a.mode != wasMode {
		a.modeSinceS = now
		if a.params.kind().traits().preArmByMode {
			a.preArm = PreArmUnknown
		}
	}
	expected := a.mode == wasMode || a.modeChangeExpected(f, wasMode, wasS, wasFailsafe)
	if !expected {
		a.modeUnexplainedS = now
	}
	if !a.controlled() {
		return
	}
	switch inHold := a.role() == RoleHold && wasMode == a.mode && !a.holdIsOurs; {
	case wasArmed && !a.armed:
		if a.phase != PhaseLanding || !a.onGround() { // otherwise the commanded landing is over
			a.handToPilot(f, "disarmed while "+a.phase.String())
		}
	case !wasArmed && a.armed && a.phase == PhaseClimbing && a.launchOrdered && !a.armingRequested:
		a.handToPilot(f, "armed by another than the leader")
	case a.mode != wasMode && a.streamHasGap(wasMode): // setpoints end it
		f.Log.Warn("setpoints did not arrive for a while: its failsafe holds it", "aircraft", a.number)
		a.phase, a.engagedS = PhaseEngaging, now
	case !expected:
		a.handToPilot(f, telemetry.ReasonLeft+a.params.kind().modeName(wasMode)+" for "+a.modeName()+" while "+a.phase.String())
	case a.mode != wasMode: // a failsafe that was there before its take-off ended is not what ended it
		a.holdIsOurs = a.role() == RoleHold && wasRole == RoleTakeoff && wasFailsafe
	case inHold && wasFailsafe && !a.failsafe: // with a stream it would have ended
		a.handToPilot(f, "the failsafe's "+a.modeName()+" became its pilot's while "+a.phase.String())
	case inHold && !wasFailsafe && a.failsafe:
		a.handToPilot(f, "a failsafe's "+a.modeName()+" began while "+a.phase.String())
	}
}

// streamHasGap is whether its autopilot's failsafe holds it for want of setpoints, of this
// leader process or of the one before.
func (a *aircraft) streamHasGap(from Mode) bool {
	switch a.phase {
	case PhaseEngaging, PhaseFlying, PhaseLanding:
		return a.params.kind().heldForSetpoints(a, from)
	}
	return false
}

// modeChangeExpected is whether a change of mode was commanded by the leader, or follows
// from its commands.
func (a *aircraft) modeChangeExpected(f *Fleet, from Mode, fromS float64, wasFailsafe bool) bool {
	if requestedS, ok := a.modeRequestedS[a.mode]; ok && requestedS > fromS-modeReportDelayS {
		return true
	}
	return a.params.kind().modeFollows(f, a, from, fromS, wasFailsafe)
}

// reasonStopped is why an aircraft that a command stopped is with its pilot.
const reasonStopped = "stopped"

func (a *aircraft) handToPilot(f *Fleet, why string) {
	a.leave(f, why, "aircraft is with its pilot until resume")
}

// stayDown ends the order of an aircraft that did not take off. No pilot has taken it; but nobody else commands it until
// it is launched again, so its phase is that of one with its pilot.
func (a *aircraft) stayDown(f *Fleet, why string) {
	a.leave(f, why, "aircraft stays on the ground until launch")
}

// leave ends the leader's control.
func (a *aircraft) leave(f *Fleet, why, message string) {
	if a.phase == PhasePilot {
		return
	}
	now := f.nowS()
	a.phase, a.homeward, a.sentHome, a.pilotReason = PhasePilot, false, "", why
	if a.autopilotText != "" && now-a.autopilotTextS > textRelevantS {
		a.autopilotText = "" // about something else
	}
	f.Log.Warn(message, "aircraft", a.number, "reason", a.reason())
}

// handleReboot resets what was received from an autopilot before its reboot. An order of the crew since then goes on: its positions show
// the reboot later than its HEARTBEATs did.
func (a *aircraft) handleReboot(f *Fleet, bootedS float64) {
	f.Log.Error("autopilot rebooted", "aircraft", a.number)
	a.params, a.clockRate, a.batteryIDs = Parameters{autopilot: a.params.autopilot, leader: a.params.leader}, clockRate{}, nil
	a.requestRounds = 0
	if a.phase != PhaseIdle && a.engagedS <= bootedS {
		a.handToPilot(f, "rebooted")
		a.pilotReason = "rebooted" // which also disarmed it, or changed its mode
	}
}
