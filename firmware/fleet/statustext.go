package fleet

import (
	"cmp"
	"math"
	"strings"

	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"
	"github.com/bluenviron/gomavlib/v3/pkg/message"

	"prefdt/firmware/energy"
	"prefdt/telemetry"
)

// Why an aircraft does not follow its order, by the autopilot's own messages:
// STATUSTEXT, COMMAND_ACK and the prearm bit of SYS_STATUS.

const (
	textRelevantS   = 5.0 // a text older than this is about something else
	statusTextChars = 50  // of one STATUSTEXT
	maxTextChars    = 250 // of an autopilot's text; the rest is not read, nor sent
)

// PreArm is the autopilot's own check on whether it would arm now, in the mode that it is in.
type PreArm uint8

const (
	PreArmUnknown   PreArm = iota // no SYS_STATUS came lately
	PreArmOtherMode               // it is in a mode in which it is not armed: after a landing, in that in which it flew
	PreArmFails
	PreArmGood
)

func (p PreArm) String() string {
	return [...]string{"not known", "checked once it is in the mode that it arms in", "not good", "good"}[p]
}

// preArmOf reads a SYS_STATUS. The health bit counts, whatever the bits of presence say:
// some autopilots set it alone.
func preArmOf(m *common.MessageSysStatus) PreArm {
	if m.OnboardControlSensorsHealth&common.MAV_SYS_STATUS_PREARM_CHECK != 0 {
		return PreArmGood
	}
	return PreArmFails
}

func (a *aircraft) preArmNow() PreArm {
	switch {
	case a.preArm == PreArmUnknown, !a.armed && a.armable():
		return a.preArm
	case a.preArm == PreArmFails && !a.armed && a.role() == RoleOther && a.params.kind().traits().preArmByMode:
		return PreArmFails // the mode that it is armed in requires all that its pilot's modes do
	}
	return PreArmOtherMode
}

// textAssembler assembles a text that arrives in chunks.
type textAssembler struct {
	id        uint16 // 0: no text is incomplete
	next      uint8
	text      string
	severity  common.MAV_SEVERITY
	receivedS float64
	single    string // the last text with id 0
}

// add handles a STATUSTEXT and returns the text that it completes.
func (w *textAssembler) add(now float64, m *common.MessageStatustext) (text string, complete bool) {
	if m.Id == 0 { // a text of one piece, yet some senders number the pieces of a longer one so
		if m.ChunkSeq == 0 {
			w.single = ""
		}
		if len(w.single) < maxTextChars {
			w.single += m.Text
		}
		return strings.TrimSpace(w.single), true
	}
	if w.id != m.Id || m.ChunkSeq == 0 {
		*w = textAssembler{id: m.Id, severity: m.Severity}
	}
	if m.ChunkSeq > w.next {
		w.text += " ... " // a chunk was lost
	}
	if m.ChunkSeq >= w.next && len(w.text) < maxTextChars {
		w.text += m.Text
	}
	w.next, w.receivedS = m.ChunkSeq+1, now
	if len(m.Text) < statusTextChars {
		return w.finish()
	}
	return "", false
}

// finish returns the text as far as it was received.
func (w *textAssembler) finish() (text string, complete bool) {
	text, complete = strings.TrimSpace(w.text), w.id != 0
	*w = textAssembler{}
	return text, complete
}

func (a *aircraft) handleStatusText(f *Fleet, now float64, m *common.MessageStatustext) {
	if a.textChunks.id != 0 && (m.Id != a.textChunks.id || m.ChunkSeq == 0) {
		a.finishStatusText(f, now)
	}
	if text, complete := a.textChunks.add(now, m); complete && m.Severity <= common.MAV_SEVERITY_WARNING {
		a.setAutopilotText(f, now, text)
	}
}

// finishStatusText handles a text whose last chunk did not arrive.
func (a *aircraft) finishStatusText(f *Fleet, now float64) {
	severity := a.textChunks.severity
	if text, complete := a.textChunks.finish(); complete && severity <= common.MAV_SEVERITY_WARNING {
		a.setAutopilotText(f, now, text)
	}
}

// handleCommandAck handles a refused command. A recent text is more exact, and is kept.
func (a *aircraft) handleCommandAck(f *Fleet, now float64, m *common.MessageCommandAck) {
	if m.TargetSystem != 0 && int(m.TargetSystem) != f.SystemID || a.autopilotText != "" && now-a.autopilotTextS < textRelevantS {
		return
	}
	what := map[common.MAV_CMD]string{
		common.MAV_CMD_COMPONENT_ARM_DISARM: "arming", common.MAV_CMD_NAV_TAKEOFF: "take-off", common.MAV_CMD_DO_SET_MODE: "mode change",
	}[m.Command]
	if what == "" || m.Result == common.MAV_RESULT_ACCEPTED || m.Result == common.MAV_RESULT_IN_PROGRESS {
		return
	}
	a.setAutopilotText(f, now, what+" refused: "+strings.ToLower(strings.TrimPrefix(m.Result.String(), "MAV_RESULT_")))
}

// setAutopilotText keeps the autopilot's text, and logs it once. No status and no answer
// could be sent with one that is longer, or is no text.
func (a *aircraft) setAutopilotText(f *Fleet, now float64, text string) {
	if text = telemetry.Printable(text[:min(len(text), maxTextChars)]); text == "" {
		return
	}
	if strings.HasSuffix(strings.ToLower(text), "failsafe cleared") { // the end of one is no alarm
		a.autopilotText = ""
		return
	}
	if a.autopilotText != text || now-a.autopilotTextS > textRelevantS {
		if a.textLoggedS == 0 || now-a.textLoggedS >= commandRetryS || a.phase != PhaseIdle {
			f.Log.Warn("autopilot reports", "aircraft", a.number, "reason", text)
			a.textLoggedS = now
		}
	}
	a.autopilotText, a.autopilotTextS = text, now
}

func (a *aircraft) reason() string {
	if a.phase == PhaseFlying {
		return a.failsafeAlarm
	}
	why := a.pilotReason
	if why == "" && a.phase == PhaseClimbing {
		switch {
		case a.takeoffWaits:
			why = "take-off waits: another aircraft flies near"
		case a.checksSinceS > 0 && !a.armingRequested && !a.armed && a.preArm == PreArmFails:
			why = "take-off waits: its pre-arm checks fail in " + a.modeName()
		case a.autopilotText == "" && a.preArmNow() == PreArmFails:
			why = "the autopilot's prearm check fails"
		}
	}
	switch {
	case why == "":
		return cmp.Or(a.autopilotText, a.failsafeAlarm)
	case a.autopilotText == "":
		return why
	}
	return why + ": " + a.autopilotText
}

// noBattery is whether a message is about no battery: nothing of one was measured.
func noBattery(r *energy.Reading) bool {
	return math.IsNaN(r.VoltageV) && math.IsNaN(r.Charge) && !(r.CurrentA > 0) && !(r.ConsumedHJ > 0)
}

// statusTextMessages encodes a text as STATUSTEXT: in chunks, if it is longer than one.
func statusTextMessages(severity common.MAV_SEVERITY, text string, id uint16) (out []message.Message) {
	text = text[:min(len(text), maxTextChars)]
	if len(text) < statusTextChars {
		return []message.Message{&common.MessageStatustext{Severity: severity, Text: text}}
	}
	for i := 0; ; i++ { // the last chunk is shorter than the others, perhaps empty: that marks the end
		n := min(len(text), statusTextChars)
		out = append(out, &common.MessageStatustext{Severity: severity, Text: text[:n], Id: id, ChunkSeq: uint8(i)})
		if text = text[n:]; n < statusTextChars {
			return out
		}
	}
}
