package fleet

import (
	"math"

	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"
)

// Whose an aircraft is. An order makes it ours; what its pilot does ends the
// order at once, in every phase, and only the crew gives it back. A failsafe of
// the autopilot counts as its pilot: PX4 gives one up for whoever asks for
// another mode, so nobody does.

// modeReportDelayS is how long after it was asked for a mode may be reported, beyond the
// HEARTBEAT that reports it.
const modeReportDelayS = 3.0

// handleHeartbeat takes the autopilot's mode and arming in.
func (a *aircraft) handleHeartbeat(f *Fleet, now float64, m *common.MessageHeartbeat) {
	wasMode, wasArmed, wasS := a.mode, a.armed, a.heartbeatS
	a.heartbeatS, a.mode = now, Mode(m.CustomMode)
	a.armed = m.BaseMode&common.MAV_MODE_FLAG_SAFETY_ARMED != 0
	if a.phase == PhaseIdle || a.phase == PhasePilot {
		return
	}
	switch {
	case wasArmed && !a.armed:
		if a.phase != PhaseLanding || !a.onGround() { // or the landing that we asked for is over
			a.handToPilot(f, "disarmed while "+a.phase.String())
		}
	case a.mode != wasMode && !a.modeChangeExpected(f, wasMode, wasS, now):
		a.handToPilot(f, "left "+wasMode.String()+" for "+a.mode.String()+" while "+a.phase.String())
	}
}

// modeChangeExpected is whether a change of mode is what we asked for, or what the
// autopilot does by itself on our behalf: it ends its take-off in Hold at H, and
// holds where a stream ended before ours began.
func (a *aircraft) modeChangeExpected(f *Fleet, from Mode, fromS, now float64) bool {
	if askedS, ok := a.modeRequestedS[a.mode]; ok && askedS > fromS-modeReportDelayS {
		return true
	}
	if a.mode == ModeOffboard && a.setpointSentS > 0 && a.setpointSentS > fromS-modeReportDelayS {
		return true // PX4 goes back to it by itself once setpoints come again
	}
	return a.mode == ModeHold && (from == ModeTakeoff && math.Abs(a.upM-f.Limits.AltitudeM) < climbToleranceM || from == ModeOffboard && now < a.failsafeGraceUntilS)
}

// handToPilot leaves the aircraft to its pilot.
func (a *aircraft) handToPilot(f *Fleet, why string) {
	if a.phase == PhasePilot {
		return
	}
	a.phase, a.pilotReason = PhasePilot, why
	if now := f.nowS(); a.autopilotText != "" && now-a.autopilotTextS > textRelevantS {
		a.autopilotText = "" // of something else
	}
	f.Log.Warn("aircraft is with its pilot until resume", "aircraft", a.number, "reason", a.reason())
}

// handleReboot begins what is known of an autopilot anew.
func (a *aircraft) handleReboot(f *Fleet) {
	f.Log.Error("autopilot rebooted", "aircraft", a.number)
	a.params, a.clockRate, a.batteryIDs = Parameters{}, clockRate{}, nil
	a.requestRounds = 0
	if a.order != OrderNone {
		a.handToPilot(f, "rebooted")
		a.pilotReason = "rebooted" // which also disarmed it, or changed its mode
	}
}
