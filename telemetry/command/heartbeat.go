package command

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"prefdt/telemetry"
)

// HeartbeatInterval is wall time, whatever the mission's speed.
const HeartbeatInterval = time.Second

// Heartbeats sends the leader the heartbeats of a station that somebody watches. A
// leader that received one holds the mission, and later returns, when they stop: a
// bridge or a replay must never send any, and neither does a station that does not see
// the fleet. Set the exported fields, then Run.
type Heartbeats struct {
	Client     *telemetry.Client
	Topic      string  // see [telemetry.Topics.Heartbeat]
	Signer     *Signer // nil: unsigned
	Leader     *Leader // whose challenge is signed; nil: anyone's
	StaleAfter time.Duration
	Log        *slog.Logger

	mutex sync.Mutex
	link  Link // by the statuses alone: without the broker nothing is sent, without the leader nothing received

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
	payload, err := h.nextPayload(time.Now(), leaving)
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

// nextPayload returns the next heartbeat; nil while there is nothing to see, or to sign.
func (h *Heartbeats) nextPayload(now time.Time, leaving bool) ([]byte, error) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if h.link.Status == nil || !leaving && h.link.Blind(now) {
		return nil, nil
	}
	h.seq++
	body, err := telemetry.Encode(telemetry.Heartbeat{Seq: h.seq, Leaving: leaving})
	if err != nil || h.Signer == nil {
		return body, err
	}
	return h.Signer.Sign(h.Topic, h.link.Status.Challenge, body)
}

// HandleStatus keeps a status, for its time and its challenge.
func (h *Heartbeats) HandleStatus(m telemetry.Message) {
	if s, err := h.Leader.Status(m); err == nil {
		h.mutex.Lock()
		defer h.mutex.Unlock()
		h.link.Broker, h.link.StaleAfter = true, h.StaleAfter
		h.link.Take(&s, m)
	}
}
