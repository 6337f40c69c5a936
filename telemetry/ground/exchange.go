package main

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"time"

	"prefdt/telemetry"
)

// resendInterval is how often an unanswered command is published again, as it was.
// The leader applies an id once and acknowledges it each time.
const resendInterval = 2 * time.Second

// exchange is one command on its way to an answer. It has no clock and no connection:
// its inputs are messages, its outputs payloads to publish and an acknowledgement.
type exchange struct {
	topic, id string
	body      []byte
	signer    *signer // nil: the body is sent as it is
	topics    telemetry.Topics

	payload     []byte          // sent last; nil: nothing yet
	sentDigests map[string]bool // digests of every payload
	signedAgain bool            // after a stale challenge or counter

	status        *telemetry.Status // the last, for its challenge
	online        *bool
	unreadable    error // an answer that could not be read
	otherAnswered bool  // an answer to another station's payload was received
}

// start returns what to publish before the first message.
func (x *exchange) start() []byte {
	x.sentDigests = map[string]bool{}
	if x.signer == nil {
		x.notePayload(x.body)
	}
	return x.payload
}

func (x *exchange) notePayload(payload []byte) {
	x.payload = payload
	x.sentDigests[telemetry.Digest(payload)] = true
}

func (x *exchange) signPayload(challenge string, lastCounter uint64) (payload []byte, err error) {
	if payload, err = x.signer.sign(x.topic, challenge, lastCounter, x.body); err == nil {
		x.notePayload(payload)
	}
	return payload, err
}

// handleMessage handles a received message. It returns a payload to publish now, or the
// answer that ends the exchange.
func (x *exchange) handleMessage(m telemetry.Message) (publish []byte, answer *telemetry.Ack, err error) {
	switch m.Topic {
	case x.topics.Online():
		if online, e := telemetry.DecodeOnline(m.Payload); e != nil {
			x.unreadable = e
		} else {
			x.online = &online
		}
	case x.topics.Status():
		if s, e := telemetry.DecodeStatus(m.Payload); e != nil {
			x.unreadable = e
		} else if x.status = &s; x.payload == nil {
			publish, err = x.signPayload(s.Challenge, 0)
		}
	case x.topics.Ack(x.id):
		ack, e := telemetry.DecodeAck(m.Payload)
		switch {
		case e != nil:
			x.unreadable = e
		case ack.ID != x.id:
			x.unreadable = fmt.Errorf("ack.id: %q, on the topic of %s", ack.ID, x.id)
		case !x.sentDigests[ack.Of]:
			x.otherAnswered = true
		case ack.Challenge == "" || x.signer == nil:
			answer = &ack
		case ack.Of != telemetry.Digest(x.payload): // answers the payload before the second signature
		case x.signedAgain:
			answer = &ack
		default:
			x.signedAgain = true
			publish, err = x.signPayload(ack.Challenge, *ack.LastCounter)
		}
	}
	return publish, answer, err
}

// noAnswerReason is why there is no answer, as far as it is known.
func (x *exchange) noAnswerReason(fleet string) string {
	why := "the leader is online, but may not accept commands signed like this one"
	switch {
	case x.unreadable != nil:
		why = "the answer cannot be read: " + telemetry.Printable(x.unreadable.Error())
	case x.online == nil:
		why = "no leader of fleet " + fleet + " was ever at this broker"
	case !*x.online:
		why = "the leader of fleet " + fleet + " is offline"
	case x.payload == nil:
		why = "the leader is online, but no status was received, and without its challenge nothing can be signed"
	case x.otherAnswered:
		why = "the leader answered another payload with this id, perhaps another station's"
	case x.signedAgain:
		why = "the leader requested another signature, and did not answer it"
	}
	if x.payload == nil {
		return why + "; nothing was sent"
	}
	name := ""
	if x.signer != nil {
		name = x.signer.name
	}
	if s := x.status; s != nil && s.LastCommand != nil && s.LastCommand.ID == x.id && s.LastCommand.Key == name {
		return fmt.Sprintf("%s; the status names command %s as applied from slot %d", why, x.id, s.LastCommand.Slot)
	}
	return fmt.Sprintf("%s; command %s may still be applied", why, x.id)
}

// runExchange sends a command until it is answered or the time is up. It subscribes to
// the answer before it publishes.
func (t *tool) runExchange(x *exchange) (telemetry.Ack, error) {
	ctx, cancel := context.WithTimeout(t.ctx, t.timeout())
	defer cancel()
	messages := make(chan telemetry.Message, 16)
	client := &telemetry.Client{Broker: t.config.Broker, Name: "ground", Log: t.log()}
	client.Subscriptions = []telemetry.Subscription{{Filter: t.topics.Ack(x.id), QoS: 1}, {Filter: t.topics.Online(), QoS: 1}, {Filter: t.topics.Status()}}
	client.Handle = func(m telemetry.Message) {
		select {
		case messages <- m:
		case <-ctx.Done():
		}
	}
	if err := client.Initialize(ctx); err != nil {
		return telemetry.Ack{}, err
	}
	defer client.Close()
	defer cancel() // before Close, which waits for Handle
	publish := func(payload []byte) {
		if payload != nil { // dropped without a connection: sent again below
			client.Publish(telemetry.Publication{Topic: x.topic, QoS: 1, Payload: payload})
		}
	}
	resend := time.NewTicker(resendInterval)
	defer resend.Stop()
	publish(x.start())
	for {
		select {
		case m := <-messages:
			payload, answer, err := x.handleMessage(m)
			if err != nil {
				return telemetry.Ack{}, err
			}
			if answer != nil {
				return *answer, nil
			}
			publish(payload)
		case <-resend.C:
			publish(x.payload)
		case <-ctx.Done():
			if t.ctx.Err() != nil {
				return telemetry.Ack{}, fmt.Errorf("interrupted before the leader answered: %s", x.noAnswerReason(t.config.Fleet))
			}
			return telemetry.Ack{}, fmt.Errorf("no acknowledgement within %v: %s", t.timeout(), x.noAnswerReason(t.config.Fleet))
		}
	}
}

// signer signs with a key file.
type signer struct {
	name, path string
	private    ed25519.PrivateKey
}

// loadSigner reads the key file of the configuration; nil without one.
func (t *tool) loadSigner() (*signer, error) {
	path := t.config.Key
	if path == "" {
		return nil, nil
	}
	private, err := telemetry.ReadKey(path)
	if err != nil {
		return nil, err
	}
	return &signer{keyName(path), path, private}, nil
}

// sign wraps a body for a topic, with a counter above every earlier one and above
// lastCounter, the last that the leader reported as accepted, 0 if unknown.
func (s *signer) sign(topic, challenge string, lastCounter uint64, body []byte) ([]byte, error) {
	counter, err := telemetry.NextCounter(s.path, time.Now(), lastCounter)
	if err != nil {
		return nil, err
	}
	return telemetry.Sign(s.name, s.private, counter, challenge, topic, body)
}
