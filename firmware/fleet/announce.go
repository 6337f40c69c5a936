package fleet

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"
	"github.com/bluenviron/gomavlib/v3/pkg/message"
)

// announcements is how many wait at most for their tick; more are dropped, and
// are in the log.
const announcements = 32

// repeatS is how long a line is not said again, in seconds of the clock: as
// long as it is repeated it is of one event.
const repeatS = 10

// Say shows a line on every ground station that the links lead to, once for an
// event.
func (f *Fleet) Say(severity common.MAV_SEVERITY, text string) {
	text = ascii(text, mostChars)
	f.saying.Lock()
	defer f.saying.Unlock()
	now := f.Clock.Now().Seconds()
	lastS, before := f.saidS[text]
	for t, s := range f.saidS {
		if now-s > repeatS {
			delete(f.saidS, t)
		}
	}
	f.saidS[text] = now
	if before && now-lastS <= repeatS {
		return
	}
	if f.textID++; f.textID == 0 {
		f.textID = 1 // 0 is that of a text of one chunk
	}
	f.announce(texts(severity, text, f.textID)...)
}

// Show shows a named value there. Names have ten characters at most.
func (f *Fleet) Show(name string, x float64) {
	f.announce(&common.MessageNamedValueFloat{
		TimeBootMs: uint32(f.Clock.Now().Milliseconds()), Name: ascii(name, 10), Value: float32(x),
	})
}

func (f *Fleet) announce(m ...message.Message) {
	select {
	case f.toSay <- m:
	default:
	}
}

// speak sends what waits. Ground stations hear it on the links they share with
// the autopilots, or through them.
func (f *Fleet) speak() {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	for {
		select {
		case messages := <-f.toSay:
			for _, m := range messages {
				f.broadcast(m)
			}
		default:
			return
		}
	}
}

// broadcast sends to every channel of every link what is addressed to nobody.
func (f *Fleet) broadcast(m message.Message) {
	for _, l := range f.links {
		for c := range l.channels {
			f.send(l, c, nil, m)
		}
	}
}

func ascii(text string, most int) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, text)
	return text[:min(len(text), most)]
}

// Announcer is a log handler that also says, as STATUSTEXT, what a pilot should
// know: warnings, errors, and the mission's own steps.
type Announcer struct {
	slog.Handler
	Say func(severity common.MAV_SEVERITY, text string)
}

func (a Announcer) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo || a.Handler.Enabled(ctx, level)
}

func (a Announcer) Handle(ctx context.Context, r slog.Record) error {
	switch {
	case r.Level >= slog.LevelError:
		a.Say(common.MAV_SEVERITY_ERROR, brief(r))
	case r.Level >= slog.LevelWarn:
		a.Say(common.MAV_SEVERITY_WARNING, brief(r))
	case r.Message == "mission" || r.Message == "flying for us" || r.Message == "landed":
		a.Say(common.MAV_SEVERITY_NOTICE, brief(r))
	}
	if a.Handler.Enabled(ctx, r.Level) {
		return a.Handler.Handle(ctx, r)
	}
	return nil
}

// brief is a record in as few characters as will do.
func brief(r slog.Record) string {
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
