package link

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"time"

	"prefdt/telemetry"
)

// ErrIncumbent ends a newcomer, with an exit status of its own.
var ErrIncumbent = errors.New("another leader is flying this fleet")

// How long a leader listens for another one before it takes a place on the
// broker or streams a setpoint, in slots (CONTRACT): a beacon comes once a slot.
const (
	newcomerSlots = 3.0
	rivalSlots    = 1.5 // restarted in flight, with its ledger
	// newcomerMinimum is how long a newcomer listens however short slots are: those
	// of a simulation that runs fast, where an answer takes as long as ever.
	newcomerMinimum = 400 * time.Millisecond
)

// leaderKeyName is the name of the leaders' key in what it signs.
const leaderKeyName = "leader"

// listenForRival looks for another leader. Without a key fresh beacons and statuses show
// it: an incumbent that is idle sends no beacons. With one, anybody's forgery
// could do so, and only a proof counts, which the other signs when asked.
func (l *MQTT) listenForRival(ctx context.Context, long time.Duration, subscribed func()) error {
	rival := make(chan int, 1)
	t := l.Topics
	c := &telemetry.Client{
		Broker: l.Broker, Name: "leader-new", Retry: l.retryDelay(), Log: l.Log,
		Handle: func(m telemetry.Message) {
			if n, ok := l.showsRival(m); ok {
				select {
				case rival <- n:
				default:
				}
			}
		},
	}
	if l.LeaderKey == nil {
		c.Subscriptions = []telemetry.Subscription{{Filter: t.Slot()}, {Filter: t.Status()}}
	} else {
		c.Subscriptions = []telemetry.Subscription{{Filter: t.Proof(), QoS: 1}}
	}
	if err := c.Initialize(ctx); err != nil {
		return err
	}
	defer c.Close()
	subscribed()
	until := l.Clock.After(long)
	for {
		if l.LeaderKey != nil {
			l.publishHello(c)
		}
		again := l.Clock.After(l.SlotDuration / 2) // a question or its answer may be lost
		select {
		case n := <-rival:
			return fmt.Errorf("%w: fleet %s is at slot %d", ErrIncumbent, l.Fleet, n)
		case <-until:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-again:
		}
	}
}

func (l *MQTT) showsRival(m telemetry.Message) (slot int, ok bool) {
	if m.Retained {
		return 0, false // what the broker kept is of the past
	}
	switch kind, _, _ := l.Topics.Parse(m.Topic); kind {
	case telemetry.KindSlot:
		s, err := telemetry.DecodeSlot(m.Payload)
		return s.Slot, err == nil
	case telemetry.KindStatus:
		s, err := telemetry.DecodeStatus(m.Payload)
		return s.Slot, err == nil
	case telemetry.KindProof:
		p, err := l.verifyProof(m)
		if err != nil {
			l.Rejects.Add(m.Topic, err)
		}
		if p == nil {
			return 0, false
		}
		return p.Slot, true
	}
	return 0, false
}

// publishHello asks whether another leader is there.
func (l *MQTT) publishHello(c *telemetry.Client) {
	payload, err := telemetry.Encode(telemetry.Hello{Instance: l.instanceID})
	if err != nil {
		l.Rejects.Add(l.Topics.Hello(), err)
		return
	}
	c.Publish(telemetry.Publication{Topic: l.Topics.Hello(), QoS: 1, Payload: payload})
}

// RequestProof asks whether another leader is there; its proof comes as a Control.
func (l *MQTT) RequestProof() {
	if l.LeaderKey != nil && l.initialized.Load() {
		l.publishHello(l.client)
	}
}

// provenStatus is what a proof says of us.
type provenStatus struct {
	challenge string
	seq       int64
	slot      int
}

// answerHello answers another leader's hello, at once and whatever the loop does: it
// waits for no longer than three slots.
func (l *MQTT) answerHello(h *telemetry.Hello) {
	now := l.lastStatus.Load()
	if l.LeaderKey == nil || now == nil {
		return
	}
	body, err := telemetry.Encode(telemetry.Proof{Instance: h.Instance, Challenge: now.challenge, Seq: now.seq, Slot: now.slot})
	if err == nil {
		body, err = telemetry.Sign(leaderKeyName, l.LeaderKey, l.proofCounter.Add(1), now.challenge, l.Topics.Proof(), body)
	}
	if err != nil {
		l.Rejects.Add(l.Topics.Proof(), err)
		return
	}
	l.send(telemetry.Publication{Topic: l.Topics.Proof(), QoS: 1, Payload: body})
}

// verifyProof returns another leader's proof that answers our own question, nil if it
// answers another's.
func (l *MQTT) verifyProof(m telemetry.Message) (*telemetry.Proof, error) {
	if l.LeaderKey == nil {
		return nil, nil
	}
	e, err := telemetry.Verify(m.Topic, m.Payload, map[string]ed25519.PublicKey{leaderKeyName: l.LeaderKey.Public().(ed25519.PublicKey)})
	if err != nil {
		return nil, err
	}
	p, err := telemetry.DecodeProof([]byte(e.Body))
	if err != nil || p.Instance != l.instanceID {
		return nil, err
	}
	return &p, nil
}
