package fleet

import (
	"math"

	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"
)

// Whose an aircraft is. An order makes it ours; what its pilot does ends the
// order at once, in every phase, and only the crew gives it back. A failsafe of
// the autopilot counts as its pilot: PX4 gives one up for whoever asks for
// another mode, so nobody does.

// lateS is how long after it was asked for a mode may be reported, beyond the
// HEARTBEAT that reports it.
const lateS = 3.0

// heartbeat takes the autopilot's mode and arming in.
func (a *aircraft) heartbeat(f *Fleet, now float64, m *common.MessageHeartbeat) {
	wasMode, wasArmed, wasS := a.mode, a.armed, a.beatS
	a.beatS, a.mode = now, Mode(m.CustomMode)
	a.armed = m.BaseMode&common.MAV_MODE_FLAG_SAFETY_ARMED != 0
	if a.phase == PhaseIdle || a.phase == PhaseTaken {
		return
	}
	switch {
	case wasArmed && !a.armed:
		if a.phase != PhaseLanding || !a.onGround() { // or the landing that we asked for is over
			a.take(f, "disarmed while "+a.phase.String())
		}
	case a.mode != wasMode && !a.oursToChange(f, wasMode, wasS, now):
		a.take(f, "left "+wasMode.String()+" for "+a.mode.String()+" while "+a.phase.String())
	}
}

// oursToChange is whether a change of mode is what we asked for, or what the
// autopilot does by itself on our behalf: it ends its take-off in Hold at H, and
// holds where a stream ended before ours began.
func (a *aircraft) oursToChange(f *Fleet, from Mode, fromS, now float64) bool {
	if askedS, ok := a.askedFor[a.mode]; ok && askedS > fromS-lateS {
		return true
	}
	if a.mode == ModeOffboard && a.streamedS > 0 && a.streamedS > fromS-lateS {
		return true // PX4 goes back to it by itself once setpoints come again
	}
	return a.mode == ModeHold && (from == ModeTakeoff && math.Abs(a.upM-f.Limits.AltitudeM) < levelM || from == ModeOffboard && now < a.graceS)
}

// take leaves the aircraft to its pilot.
func (a *aircraft) take(f *Fleet, why string) {
	if a.phase == PhaseTaken {
		return
	}
	a.phase, a.why = PhaseTaken, why
	if now := f.nowS(); a.said != "" && now-a.saidS > wordsS {
		a.said = "" // of something else
	}
	f.Log.Warn("aircraft is with its pilot until resume", "aircraft", a.number, "reason", a.reason())
}

// rebooted begins what is known of an autopilot anew.
func (a *aircraft) rebooted(f *Fleet) {
	f.Log.Error("autopilot rebooted", "aircraft", a.number)
	a.params, a.rate, a.batteries = Parameters{}, rate{}, nil
	a.requests = 0
	if a.order != OrderNone {
		a.take(f, "rebooted")
		a.why = "rebooted" // which also disarmed it, or changed its mode
	}
}
