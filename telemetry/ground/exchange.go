package main

import (
	"context"
	"fmt"
	"time"

	"prefdt/telemetry"
)

// resendInterval is how often an unanswered command is published again, as it was.
// The leader applies an id once and acknowledges it each time.
const resendInterval = 2 * time.Second

// exchange is one command and what came back. It has no clock and no connection:
// messages go in, payloads to publish and at last an acknowledgement come out.
type exchange struct {
	topic, id string
	body      []byte
	signer    *signer // nil: the body is sent as it is
	topics    telemetry.Topics

	payload     []byte          // as sent last; nil: nothing yet
	sentDigests map[string]bool // digests of every payload
	signedAgain bool            // signed once more

	status        *telemetry.Status // the last, for its challenge
	online        *bool
	unreadable    error // an answer that could not be read
	otherAnswered bool  // an answer to a payload that is not ours came
}

// start returns what to publish before anything came.
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

func (x *exchange) signPayload(challenge string, lastCounter uint64) error {
	payload, err := x.signer.sign(x.topic, challenge, lastCounter, x.body)
	if err == nil {
		x.notePayload(payload)
	}
	return err
}

// handleMessage takes a message in. It returns a payload to publish now, or the answer
// that ends the exchange.
func (x *exchange) handleMessage(m telemetry.Message) (publish []byte, answer *telemetry.Ack, err error) {
	switch m.Topic {
	case x.topics.Online():
		online, err := telemetry.DecodeOnline(m.Payload)
		if err != nil {
			x.unreadable = err
			return nil, nil, nil
		}
		x.online = &online
	case x.topics.Status():
		s, err := telemetry.DecodeStatus(m.Payload)
		if err != nil {
			x.unreadable = err
			return nil, nil, nil
		}
		if x.status = &s; x.payload == nil {
			if err := x.signPayload(s.Challenge, 0); err != nil {
				return nil, nil, err
			}
			return x.payload, nil, nil
		}
	case x.topics.Ack(x.id):
		ack, err := telemetry.DecodeAck(m.Payload)
		switch {
		case err != nil:
			x.unreadable = err
		case ack.ID != x.id:
			x.unreadable = fmt.Errorf("ack.id: %q, on the topic of %s", ack.ID, x.id)
		case !x.sentDigests[ack.Of]:
			x.otherAnswered = true
		case ack.Challenge == "" || x.signer == nil:
			return nil, &ack, nil
		case ack.Of != telemetry.Digest(x.payload): // of the one that was signed again already
		case x.signedAgain:
			return nil, &ack, nil
		default:
			x.signedAgain = true
			if err := x.signPayload(ack.Challenge, *ack.LastCounter); err != nil {
				return nil, nil, err
			}
			return x.payload, nil, nil
		}
	}
	return nil, nil, nil
}

// noAnswerReason says why there is no answer, as far as it is known.
func (x *exchange) noAnswerReason(fleet string) string {
	why := "the leader says it is online, but may not accept commands signed like this one"
	switch {
	case x.unreadable != nil:
		why = "what came as an answer cannot be read: " + printable(x.unreadable.Error())
	case x.online == nil:
		why = "no leader of fleet " + fleet + " was ever at this broker"
	case !*x.online:
		why = "the leader of fleet " + fleet + " is offline"
	case x.payload == nil:
		why = "the leader says it is online, but no status of it came, and without its challenge nothing can be signed"
	case x.otherAnswered:
		why = "the leader answered another payload with this id, perhaps another station's"
	case x.signedAgain:
		why = "the leader asked for another signature, and did not answer that one"
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

// runExchange carries an exchange out until it is answered or time is up. The
// subscription to the answer stands before the first publication.
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
		if payload != nil { // dropped while the broker is away: sent again below
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
