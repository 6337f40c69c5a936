package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"prefdt/telemetry"
)

// heartbeatInterval is wall time, whatever the mission's speed.
const heartbeatInterval = time.Second

// heartbeatSender sends the leader the heartbeats of this station. A leader that
// received one holds the mission, and later returns, when they stop.
type heartbeatSender struct {
	client *telemetry.Client
	topic  string
	signer *signer // nil: unsigned
	log    *slog.Logger

	challenge atomic.Pointer[string] // of the last status; nil: none was received yet

	seq         int64
	lastProblem string // logged last
}

// run sends a heartbeat at once and one with each tick, and one that says that the
// station leaves when ctx ends.
func (h *heartbeatSender) run(ctx context.Context, ticks <-chan time.Time) {
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

func (h *heartbeatSender) send(ctx context.Context, leaving bool) {
	payload, err := h.nextPayload(leaving)
	if err != nil {
		if err.Error() != h.lastProblem {
			h.lastProblem = err.Error()
			h.log.Error("no heartbeat is sent", "reason", err)
		}
		return
	}
	h.lastProblem = ""
	if payload == nil {
		return
	}
	p := telemetry.Publication{Topic: h.topic, Payload: payload}
	if leaving {
		h.client.PublishWait(ctx, p) // without a connection the leader detects it by the silence
		return
	}
	h.client.Publish(p) // one dropped without a connection is replaced by the next
}

// nextPayload returns the next heartbeat; nil while nothing can be signed yet.
func (h *heartbeatSender) nextPayload(leaving bool) ([]byte, error) {
	challenge := h.challenge.Load()
	if h.signer != nil && challenge == nil {
		return nil, nil
	}
	h.seq++
	body, err := telemetry.Encode(telemetry.Heartbeat{Seq: h.seq, Leaving: leaving})
	if err != nil || h.signer == nil {
		return body, err
	}
	return h.signer.sign(h.topic, *challenge, 0, body)
}

// handleStatus keeps the challenge of a status.
func (h *heartbeatSender) handleStatus(m telemetry.Message) {
	if s, err := telemetry.DecodeStatus(m.Payload); err == nil {
		h.challenge.Store(&s.Challenge)
	}
}

// stationName is the name of this station: the given one, its key's, its broker user's,
// or a random one, since two stations with one name could not be told apart.
func (t *tool) stationName() (string, error) {
	key := ""
	if t.config.Key != "" {
		key = keyName(t.config.Key)
	}
	name := cmp.Or(t.config.Name, key, t.config.Broker.Username, "ground-"+strings.ToLower(rand.Text()[:8]))
	if !telemetry.ValidID(name) {
		return "", fmt.Errorf("name of the station: %q, want 1 to 64 of A-Z a-z 0-9 . _ -; -name sets it", name)
	}
	return name, nil
}
