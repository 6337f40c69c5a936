package serve

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"prefdt/telemetry"
	"prefdt/telemetry/flightlog"
)

// replay is a flown mission as a page receives it.
type replay struct {
	Mission string  `json:"mission"`
	FromMS  int64   `json:"from"` // Unix time of the events' zero
	Events  []event `json:"events"`
	End     string  `json:"end"` // what followed the last event, in words
}

// composeReplay passes a mission through the state of a live console, and keeps the events
// that a page would have received. What the record does not have, users' places among it,
// is not shown.
func composeReplay(f *flightlog.Flight) (json.RawMessage, error) {
	times := f.Times()
	var s state
	var at cursor
	r := replay{Mission: f.Mission, End: endText(f)}
	var given []answer // before the next status
	for i, answers := range f.Answers() {
		x := &f.Slots[i]
		now := time.UnixMilli(times[i])
		if s.began.IsZero() {
			s.start(now, time.Hour)
			s.link.Broker = true
			r.FromMS = times[i]
		}
		s.delays[x.Slot] = slotDelay{x.DelayS, x.UsersHeard}
		for _, c := range answers {
			given = append(given, answer{AtMS: s.ms(now), ID: c.ID, By: c.Ack.Key, Accepted: c.Ack.Accepted, Text: c.Answer()})
		}
		if x.Status == nil {
			continue // a slot that was missed: the next status is of it too
		}
		payload, err := flightlog.EncodeStatus(*x.Status, int64(i))
		if err != nil {
			return nil, err
		}
		s.takeStatus(x.Status, telemetry.Message{Payload: payload, Received: now})
		e, _, _ := s.next(&at, now)
		e.State.Before = nil // nothing can be asked for
		e.Answers, given = given, nil
		r.Events = append(r.Events, e)
	}
	if len(r.Events) == 0 {
		return nil, errors.New("its slots have no status: a leader before 2026-11-23 wrote none")
	}
	first := r.Events[0].T // of an earlier slot that was missed
	for i := range r.Events {
		r.Events[i].T -= first
		for k := range r.Events[i].Answers {
			r.Events[i].Answers[k].AtMS -= first
		}
	}
	r.FromMS += first
	return json.Marshal(r)
}

// endText is where a record ends, and what became of the mission after it.
func endText(f *flightlog.Flight) string {
	last := &f.Slots[len(f.Slots)-1]
	for i := len(f.Slots) - 1; last.Status == nil && i > 0; i-- {
		last = &f.Slots[i-1]
	}
	text := fmt.Sprintf("The record ends with slot %d, %s.", last.Slot, last.State)
	switch {
	case f.State == last.State:
		text += " What followed, as ways home, is not in it."
	case f.State == telemetry.StateDone:
		text += " After it the aircraft returned and landed."
	default:
		text += fmt.Sprintf(" After it: %s.", f.State)
	}
	if f.Reason != "" {
		text += " Why: " + f.Reason + "."
	}
	return text
}

func (s *Server) showReplay(w http.ResponseWriter, r *http.Request, _ *session) {
	if s.Replay == nil {
		http.NotFound(w, r)
		return
	}
	writeLarge(w, "application/json", s.replay)
}
