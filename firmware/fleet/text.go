package fleet

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"
	"github.com/bluenviron/gomavlib/v3/pkg/message"

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
		case a.checksSinceS > 0 && a.armingRequestedS == 0 && !a.armed && a.preArm == PreArmFails:
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

// announcementQueueSize is how many announcements wait for a tick; further ones are
// dropped, and are in the log.
const announcementQueueSize = 32

// textRepeatS is how long a text is not sent again, in seconds of the clock: as long
// as it is repeated it is about one event.
const textRepeatS = 10

// AnnounceText sends a text to every ground station on the links, once for an event.
func (f *Fleet) AnnounceText(severity common.MAV_SEVERITY, text string) {
	text = printableASCII(text, maxTextChars)
	f.textMutex.Lock()
	defer f.textMutex.Unlock()
	now := f.Clock.Now().Seconds()
	lastS, before := f.textSentS[text]
	for t, s := range f.textSentS {
		if now-s > textRepeatS {
			delete(f.textSentS, t)
		}
	}
	f.textSentS[text] = now
	if before && now-lastS <= textRepeatS {
		return
	}
	if f.textID++; f.textID == 0 {
		f.textID = 1 // 0 is that of a text of one chunk
	}
	f.queueAnnouncement(statusTextMessages(severity, text, f.textID)...)
}

// AnnounceValue sends them a named value. Names have ten characters at most.
func (f *Fleet) AnnounceValue(name string, x float64) {
	f.queueAnnouncement(&common.MessageNamedValueFloat{
		TimeBootMs: uint32(f.Clock.Now().Milliseconds()), Name: printableASCII(name, 10), Value: float32(x),
	})
}

func (f *Fleet) queueAnnouncement(m ...message.Message) {
	select {
	case f.announcementQueue <- m:
	default:
	}
}

// sendAnnouncements sends the queued announcements. Ground stations receive them on the
// links they share with the autopilots, or through them.
func (f *Fleet) sendAnnouncements() {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	for {
		select {
		case messages := <-f.announcementQueue:
			for _, m := range messages {
				f.broadcast(m)
			}
		default:
			return
		}
	}
}

// broadcast sends a message without a target on every channel of every link.
func (f *Fleet) broadcast(m message.Message) {
	for _, l := range f.links {
		for c := range l.channels {
			f.send(l, c, nil, m)
		}
	}
}

func printableASCII(text string, most int) string {
	text = telemetry.Printable(text)
	return text[:min(len(text), most)]
}

// StatusTextHandler is a log handler that also announces, as STATUSTEXT, what a pilot
// should know: warnings, errors, and the mission's own steps.
type StatusTextHandler struct {
	slog.Handler
	Announce func(severity common.MAV_SEVERITY, text string)
}

func (a StatusTextHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo || a.Handler.Enabled(ctx, level)
}

func (a StatusTextHandler) Handle(ctx context.Context, r slog.Record) error {
	switch {
	case r.Level >= slog.LevelError:
		a.Announce(common.MAV_SEVERITY_ERROR, briefText(r))
	case r.Level >= slog.LevelWarn:
		a.Announce(common.MAV_SEVERITY_WARNING, briefText(r))
	case r.Message == "mission" || r.Message == "flying under command" || r.Message == "landed":
		a.Announce(common.MAV_SEVERITY_NOTICE, briefText(r))
	}
	if a.Handler.Enabled(ctx, r.Level) {
		return a.Handler.Handle(ctx, r)
	}
	return nil
}

// briefText is a record's message and the attributes that matter to a pilot.
func briefText(r slog.Record) string {
	text := r.Message
	r.Attrs(func(at slog.Attr) bool {
		switch at.Key {
		case "aircraft":
			text = fmt.Sprintf("%v: %s", at.Value, text)
		case "to", "alarm", "mode":
			text += fmt.Sprintf(" %v", at.Value)
		case "reason":
			text += fmt.Sprintf(": %v", at.Value)
		}
		return true
	})
	return text
}
