package fleet

import (
	"fmt"
	"math"
	"strings"

	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"
)

// Control of an aircraft. An order puts it under the leader's control; a pilot's action
// ends that at once, in every phase, and only the crew resumes it. A failsafe of the
// autopilot counts as its pilot: PX4 abandons a failsafe when another mode is
// commanded, so none is.

// modeReportDelayS is how long after its command a mode may be reported, beyond the
// interval of HEARTBEATs.
const modeReportDelayS = 3.0

// controlled is whether the leader controls it.
func (a *aircraft) controlled() bool {
	return a.phase != PhaseIdle && a.phase != PhasePilot && a.phase != PhaseRejoining
}

// handleHeartbeat handles the autopilot's mode and arming state.
func (a *aircraft) handleHeartbeat(f *Fleet, now float64, m *common.MessageHeartbeat) {
	wasMode, wasArmed, wasFailsafe, wasS := a.mode, a.armed, a.failsafe, a.heartbeatS
	a.heartbeatS, a.mode = now, Mode(m.CustomMode)
	a.armed = m.BaseMode&common.MAV_MODE_FLAG_SAFETY_ARMED != 0
	a.failsafe = m.SystemStatus == common.MAV_STATE_CRITICAL
	if a.foreign = ""; m.Autopilot != common.MAV_AUTOPILOT_PX4 { // its modes have other numbers
		a.foreign = fmt.Sprintf("%s (%d)", strings.TrimPrefix(m.Autopilot.String(), "MAV_AUTOPILOT_"), m.Autopilot)
	}
	if !a.controlled() {
		return
	}
	switch inHold := a.mode == ModeHold && wasMode == ModeHold && !a.holdIsOurs; {
	case wasArmed && !a.armed:
		if a.phase != PhaseLanding || !a.onGround() { // otherwise the commanded landing is over
			a.handToPilot(f, "disarmed while "+a.phase.String())
		}
	case a.mode != wasMode && a.streamHasGap(wasMode): // setpoints end it
		f.Log.Warn("setpoints did not arrive for a while: its failsafe holds it", "aircraft", a.number)
		a.phase, a.engagedS = PhaseEngaging, now
	case a.mode != wasMode && !a.modeChangeExpected(f, wasMode, wasS, wasFailsafe):
		a.handToPilot(f, "left "+wasMode.String()+" for "+a.mode.String()+" while "+a.phase.String())
	case a.mode != wasMode: // a failsafe that was there before its take-off ended is not what ended it
		a.holdIsOurs = a.mode == ModeHold && wasMode == ModeTakeoff && wasFailsafe
	case inHold && wasFailsafe && !a.failsafe: // with a stream it would be OFFBOARD
		a.handToPilot(f, "the failsafe's "+ModeHold.String()+" became its pilot's while "+a.phase.String())
	case inHold && !wasFailsafe && a.failsafe:
		a.handToPilot(f, "a failsafe's "+ModeHold.String()+" began while "+a.phase.String())
	}
}

// streamHasGap is whether its autopilot's failsafe holds it for want of setpoints, of this
// leader process or of the one before. PX4 reports MAV_STATE_CRITICAL with the mode.
func (a *aircraft) streamHasGap(from Mode) bool {
	switch a.phase {
	case PhaseEngaging, PhaseFlying, PhaseLanding:
		return from == ModeOffboard && a.mode == ModeHold && a.failsafe
	}
	return false
}

// modeChangeExpected is whether a change of mode was commanded by the leader, or follows
// from its commands: the autopilot ends its take-off in Hold at H.
func (a *aircraft) modeChangeExpected(f *Fleet, from Mode, fromS float64, wasFailsafe bool) bool {
	if requestedS, ok := a.modeRequestedS[a.mode]; ok && requestedS > fromS-modeReportDelayS {
		return true
	}
	if a.mode == ModeOffboard && a.setpointSentS > 0 && a.setpointSentS > fromS-modeReportDelayS {
		return true // PX4 returns to it by itself once setpoints come again
	}
	return a.mode == ModeHold && from == ModeTakeoff && math.Abs(a.upM-f.Limits.AltitudeM) < climbToleranceM && (!a.failsafe || wasFailsafe)
}

func (a *aircraft) handToPilot(f *Fleet, why string) {
	if a.phase == PhasePilot {
		return
	}
	a.phase, a.homeward, a.pilotReason = PhasePilot, false, why
	if now := f.nowS(); a.autopilotText != "" && now-a.autopilotTextS > textRelevantS {
		a.autopilotText = "" // about something else
	}
	f.Log.Warn("aircraft is with its pilot until resume", "aircraft", a.number, "reason", a.reason())
}

// handleReboot resets what was received from an autopilot before its reboot.
func (a *aircraft) handleReboot(f *Fleet) {
	f.Log.Error("autopilot rebooted", "aircraft", a.number)
	a.params, a.clockRate, a.batteryIDs = Parameters{}, clockRate{}, nil
	a.requestRounds = 0
	if a.phase != PhaseIdle {
		a.handToPilot(f, "rebooted")
		a.pilotReason = "rebooted" // which also disarmed it, or changed its mode
	}
}
