package command

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"prefdt/telemetry"
)

// HeartbeatInterval is wall time, whatever the mission's speed.
const HeartbeatInterval = time.Second

// Heartbeats sends the leader the heartbeats of a station that somebody watches. A
// leader that received one holds the mission, and later returns, when they stop: a
// bridge or a replay must never send any. Set the exported fields, then Run.
type Heartbeats struct {
	Client *telemetry.Client
	Topic  string  // see [telemetry.Topics.Heartbeat]
	Signer *Signer // nil: unsigned
	Leader *Leader // whose challenge is signed; nil: anyone's
	Log    *slog.Logger

	challenge atomic.Pointer[string] // of the last status; nil: none was received yet

	seq         int64
	lastProblem string // logged last
}

// Run sends a heartbeat at once and one with each tick, and one that says that the
// station leaves when ctx ends.
func (h *Heartbeats) Run(ctx context.Context, ticks <-chan time.Time) {
	for {
		h.send(ctx, false)
		select {
		case <-ticks:
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			h.send(last, true)
			return
		}
	}
}

func (h *Heartbeats) send(ctx context.Context, leaving bool) {
	payload, err := h.nextPayload(leaving)
	if err != nil {
		if err.Error() != h.lastProblem {
			h.lastProblem = err.Error()
			h.Log.Error("no heartbeat is sent", "reason", err)
		}
		return
	}
	h.lastProblem = ""
	if payload == nil {
		return
	}
	p := telemetry.Publication{Topic: h.Topic, Payload: payload}
	if leaving {
		h.Client.PublishWait(ctx, p) // without a connection the leader detects it by the silence
		return
	}
	h.Client.Publish(p) // one dropped without a connection is replaced by the next
}

// nextPayload returns the next heartbeat; nil while nothing can be signed yet.
func (h *Heartbeats) nextPayload(leaving bool) ([]byte, error) {
	challenge := h.challenge.Load()
	if h.Signer != nil && challenge == nil {
		return nil, nil
	}
	h.seq++
	body, err := telemetry.Encode(telemetry.Heartbeat{Seq: h.seq, Leaving: leaving})
	if err != nil || h.Signer == nil {
		return body, err
	}
	return h.Signer.Sign(h.Topic, *challenge, body)
}

// HandleStatus keeps the challenge of a status.
func (h *Heartbeats) HandleStatus(m telemetry.Message) {
	if s, err := h.Leader.Status(m); err == nil {
		h.challenge.Store(&s.Challenge)
	}
}
