package fleet

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"
	"github.com/bluenviron/gomavlib/v3/pkg/message"

	"prefdt/telemetry"
)

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
