package link

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"time"

	"prefdt/telemetry"
)

// ErrIncumbent ends a newcomer; the program has an exit status of its own for it.
var ErrIncumbent = errors.New("another leader is flying this fleet")

// How long a leader listens for another one before it claims the session or streams a
// setpoint, in slots (docs/wire.md): a beacon is published once a slot.
const (
	newcomerSlots = 3.0
	rivalSlots    = 1.5 // restarted in flight, with its ledger
	// newcomerMinimum is how long a newcomer listens however short slots are: in a
	// simulation that runs fast, an answer takes as long as in real time.
	newcomerMinimum = 400 * time.Millisecond
)

// leaderKeyName is the name of the leaders' key in signed messages.
const leaderKeyName = "leader"

// FindIncumbent returns ErrIncumbent if a newcomer would end for another leader. It claims
// nothing, and is called instead of Start.
func (l *MQTT) FindIncumbent(ctx context.Context) error {
	if err := l.initialize(); err != nil {
		return err
	}
	return l.listenAsNewcomer(ctx)
}

func (l *MQTT) listenAsNewcomer(ctx context.Context) error {
	return l.listenForRival(ctx, max(l.slotTime(newcomerSlots), newcomerMinimum), func() {})
}

// listenForRival looks for another leader for a while; it returns ErrIncumbent if it
// finds one. Without a key fresh beacons and statuses show it (an idle incumbent sends
// no beacons). With a key those could be forged, and only a signed proof counts, which
// the other leader sends on hello.
func (l *MQTT) listenForRival(ctx context.Context, long time.Duration, subscribed func()) error {
	rival := make(chan int, 1)
	t := l.Topics
	c := &telemetry.Client{
		Broker: l.Broker, Name: "leader-new", Retry: l.retryDelay(), Log: l.Log,
		Subscriptions: []telemetry.Subscription{{Filter: t.Slot()}, {Filter: t.Status()}},
		Handle: func(m telemetry.Message) {
			if n, ok := l.showsRival(m); ok {
				select {
				case rival <- n:
				default:
				}
			}
		},
	}
	if l.LeaderKey != nil {
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
		again := l.Clock.After(l.SlotDuration / 2) // a hello or its proof may be lost
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
		return 0, false // retained, so from the past
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
		if p != nil {
			return p.Slot, true
		}
	}
	return 0, false
}

// publishHello asks another leader, if there is one, for a proof.
func (l *MQTT) publishHello(c *telemetry.Client) {
	payload, err := telemetry.Encode(telemetry.Hello{Instance: l.instanceID})
	if err != nil {
		l.Rejects.Add(l.Topics.Hello(), err)
		return
	}
	c.Publish(telemetry.Publication{Topic: l.Topics.Hello(), QoS: 1, Payload: payload})
}

// RequestProof asks another leader for a proof, which arrives as a ControlMessage.
func (l *MQTT) RequestProof() {
	if l.LeaderKey != nil && l.initialized.Load() {
		l.publishHello(l.client)
	}
}

// maxHelloAnswers is how many hellos are answered a second, in all: each answer costs a
// signature, and any client may send hellos. A newcomer sends two a slot.
const maxHelloAnswers = 10

// answerHello answers another leader's hello with a proof, at once and on the client's
// goroutine: a newcomer waits no longer than three slots.
func (l *MQTT) answerHello(h *telemetry.Hello) {
	stated := l.lastStatus.Load()
	if l.LeaderKey == nil || stated == nil {
		return
	}
	if now := l.Clock.Now(); now-l.helloAnswersSince >= time.Second {
		l.helloAnswers, l.helloAnswersSince = 0, now
	}
	if l.helloAnswers++; l.helloAnswers > maxHelloAnswers {
		l.CountReject(l.Topics.Hello(), "hello: too many", "more than %d a second are not answered", maxHelloAnswers)
		return
	}
	proof := *stated
	proof.Instance = h.Instance
	body, err := telemetry.Encode(proof)
	if err == nil {
		e := telemetry.Envelope{Key: leaderKeyName, Counter: l.proofCounter.Add(1), Challenge: proof.Challenge, Body: string(body)}
		body, err = e.Sign(l.LeaderKey, l.Topics.Proof())
	}
	if err != nil {
		l.Rejects.Add(l.Topics.Proof(), err)
		return
	}
	l.send(telemetry.Publication{Topic: l.Topics.Proof(), QoS: 1, Payload: body})
}

// verifyProof returns another leader's proof that answers this leader's hello, nil if
// it answers another one.
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
