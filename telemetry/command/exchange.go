package command

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"prefdt/telemetry"
)

// resendInterval is how often an unanswered command is published again, as it was.
// The leader applies an id once and acknowledges it each time.
const resendInterval = 2 * time.Second

// ErrNoAnswer is a command that the leader did not answer in time. It may still be
// applied, as the error's text says.
var ErrNoAnswer = errors.New("no acknowledgement")

// ErrNotSent is a command that never left: no broker took it.
var ErrNotSent = errors.New("not sent: the broker is unreachable")

// Exchange is one command on its way to an answer. Set the exported fields, then
// Initialize, then Send; or publish what Start and HandleMessage return over a
// connection of one's own.
type Exchange struct {
	Request    Request
	Topics     telemetry.Topics
	Signer     *Signer // nil: the command is sent unsigned
	Leader     *Leader // whose answers count; nil: anyone's
	BelowFloor bool    // send a budget below the floor too, see [Request.Check]
	// EveryPack bounds the pack of every aircraft of the leader's status so, in a budget; nil: none.
	EveryPack *telemetry.Pack

	id          string
	topic       string
	body        []byte
	payload     []byte          // sent last; nil: nothing yet
	sentDigests map[string]bool // digests of every payload
	signedAgain bool            // after a stale challenge or counter

	seen          telemetry.Observer
	unreadable    error // an answer that could not be read
	otherAnswered bool  // an answer to another station's payload was received
}

// Initialize returns which field of the request is out of range.
func (x *Exchange) Initialize() (err error) {
	x.id, x.topic, x.sentDigests = x.Request.ID(), x.Request.Topic(x.Topics), map[string]bool{}
	if x.EveryPack == nil {
		x.body, err = x.Request.Encode()
	}
	return err
}

// Filters are what to subscribe to before Start.
func (x *Exchange) Filters() []telemetry.Subscription {
	return []telemetry.Subscription{{Filter: x.Topics.Ack(x.id), QoS: 1}, {Filter: x.Topics.Online(), QoS: 1}, {Filter: x.Topics.Status()}}
}

// Status is the last status that was received, nil before the first.
func (x *Exchange) Status() *telemetry.Status { return x.seen.Status }

// needsStatus is whether the command can only be sent after a status: for its
// challenge, or its floor.
func (x *Exchange) needsStatus() bool {
	return x.Signer != nil || x.EveryPack != nil || x.Request.Budget != nil && !x.BelowFloor
}

// Start returns what to publish before the first message; nil: nothing yet.
func (x *Exchange) Start() []byte {
	if !x.needsStatus() {
		x.notePayload(x.body)
	}
	return x.payload
}

func (x *Exchange) notePayload(payload []byte) {
	x.payload = payload
	x.sentDigests[telemetry.Digest(payload)] = true
}

// preparePayload returns what to publish, signed where there is a key.
func (x *Exchange) preparePayload(challenge string) (payload []byte, err error) {
	payload = x.body
	if x.Signer != nil {
		payload, err = x.Signer.Sign(x.topic, challenge, x.body)
	}
	if err == nil {
		x.notePayload(payload)
	}
	return payload, err
}

// handleStatus lets the command be sent by the first status, unless that is to be asked for twice.
func (x *Exchange) handleStatus(s *telemetry.Status) (publish []byte, err error) {
	if x.payload != nil {
		return nil, nil
	}
	if x.EveryPack != nil {
		for _, a := range s.Aircraft {
			p := *x.EveryPack
			p.Aircraft = a.Number
			x.Request.Budget.Packs = append(x.Request.Budget.Packs, p)
		}
		if x.body, err = x.Request.Encode(); err != nil {
			return nil, err
		}
	}
	if !x.BelowFloor {
		if err := x.Request.Check(s); err != nil {
			return nil, err
		}
	}
	return x.preparePayload(s.Challenge)
}

// HandleMessage handles a received message. It returns a payload to publish now, or the
// answer that ends the exchange. An error ends it too: nothing may be published any more.
func (x *Exchange) HandleMessage(m telemetry.Message) (publish []byte, answer *telemetry.Ack, err error) {
	if m.Topic != x.Topics.Online() && m.Topic != x.Topics.Status() && m.Topic != x.Topics.Ack(x.id) {
		return nil, nil, nil
	}
	x.seen.Topics, x.seen.Decode = x.Topics, x.Leader.Decode
	x.seen.Observe(m, func(_ string, v any, e error) {
		if e != nil {
			x.unreadable = e
		}
		switch v := v.(type) {
		case telemetry.Status:
			publish, err = x.handleStatus(&v)
		case telemetry.Ack:
			publish, answer, err = x.handleAck(v)
		}
	})
	return publish, answer, err
}

func (x *Exchange) handleAck(ack telemetry.Ack) (publish []byte, answer *telemetry.Ack, err error) {
	switch {
	case ack.ID != x.id:
		x.unreadable = fmt.Errorf("ack.id: %q, on the topic of %s", ack.ID, x.id)
	case !x.sentDigests[ack.Of]:
		x.otherAnswered = true
	case ack.Challenge == "" || x.Signer == nil:
		answer = &ack
	case ack.Of != telemetry.Digest(x.payload): // answers the payload before the second signature
	case x.signedAgain:
		answer = &ack
	default:
		x.signedAgain = true
		publish, err = x.preparePayload(ack.Challenge)
	}
	return publish, answer, err
}

// NoAnswerReason is why there is no answer, as far as it is known.
func (x *Exchange) NoAnswerReason() string {
	why := "the leader is online; the broker may not let this station's commands through"
	switch {
	case x.unreadable != nil:
		why = "the answer cannot be read: " + telemetry.Printable(x.unreadable.Error())
	case x.seen.Online == nil:
		why = "no leader of fleet " + x.Topics.Fleet() + " was ever at this broker"
	case !*x.seen.Online:
		why = "the leader of fleet " + x.Topics.Fleet() + " is offline"
	case x.payload == nil:
		why = "the leader is online, but its status has not arrived; nothing can be sent without the challenge and the floor in it"
	case x.otherAnswered:
		why = "the leader answered another command with this id, perhaps of another station"
	case x.signedAgain:
		why = "the leader asked for a new signature, and then did not answer"
	}
	if x.payload == nil {
		return why + "; nothing was sent"
	}
	name := ""
	if x.Signer != nil {
		name = x.Signer.Name
	}
	if s := x.seen.Status; s != nil && s.LastCommand != nil && s.LastCommand.ID == x.id && s.LastCommand.Key == name {
		return fmt.Sprintf("%s; the status names command %s as applied from slot %d", why, x.id, s.LastCommand.Slot)
	}
	return fmt.Sprintf("%s; command %s may still be applied", why, x.id)
}

// Desk sends commands over one connection that lasts: none of them waits for a connection, or
// for the messages of users. It serves any number of fleets, and of commands at a time.
type Desk struct {
	Client *telemetry.Client // its Handle passes every message on to HandleMessage

	mutex sync.Mutex
	last  map[string]telemetry.Message // status and online of each fleet, by topic
	open  map[*Exchange]chan telemetry.Message
}

// NewDesk returns one whose Client is to be initialized. The subscriptions are to status,
// online and acknowledgements.
func NewDesk(broker telemetry.Broker, subscriptions []telemetry.Subscription, log *slog.Logger) *Desk {
	d := &Desk{last: map[string]telemetry.Message{}, open: map[*Exchange]chan telemetry.Message{}}
	d.Client = &telemetry.Client{Broker: broker, Name: "ground", Log: log, Subscriptions: subscriptions, Handle: d.HandleMessage}
	return d
}

// HandleMessage passes a message on to the commands that wait for their answers.
func (d *Desk) HandleMessage(m telemetry.Message) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if !strings.Contains(m.Topic, "/ack/") {
		d.last[m.Topic] = m
	}
	for _, messages := range d.open {
		select {
		case messages <- m:
		default: // of a command that is sent again, and answered again
		}
	}
}

// begin has an exchange receive what was received last, and all from now on.
func (d *Desk) begin(x *Exchange) <-chan telemetry.Message {
	messages := make(chan telemetry.Message, 256)
	d.mutex.Lock()
	defer d.mutex.Unlock()
	for _, topic := range []string{x.Topics.Online(), x.Topics.Status()} {
		if m, known := d.last[topic]; known {
			messages <- m
		}
	}
	d.open[x] = messages
	return messages
}

func (d *Desk) end(x *Exchange) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	delete(d.open, x)
}

// Send connects to the broker for one command, and sends it as a [Desk] does.
func (x *Exchange) Send(ctx context.Context, broker telemetry.Broker, log *slog.Logger) (telemetry.Ack, error) {
	d := NewDesk(broker, x.Filters(), log)
	if err := d.Client.Initialize(ctx); err != nil {
		return telemetry.Ack{}, err
	}
	defer d.Client.Close()
	return d.Send(ctx, x)
}

// Send publishes a command, again as it was every 2 s, and waits for the answer until ctx ends.
func (d *Desk) Send(ctx context.Context, x *Exchange) (telemetry.Ack, error) {
	messages := d.begin(x)
	defer d.end(x)
	sent := false
	publish := func(payload []byte) {
		if payload == nil {
			return
		}
		err := d.Client.Publish(telemetry.Publication{Topic: x.topic, QoS: 1, Payload: payload})
		sent = sent || !errors.Is(err, telemetry.ErrNotConnected) // without a connection dropped, and sent again below
	}
	resend := time.NewTicker(resendInterval)
	defer resend.Stop()
	publish(x.Start())
	for {
		select {
		case m := <-messages:
			payload, answer, err := x.HandleMessage(m)
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
			if !sent && !d.Client.Connected() {
				return telemetry.Ack{}, ErrNotSent
			}
			err := ErrNoAnswer
			if errors.Is(ctx.Err(), context.Canceled) {
				err = fmt.Errorf("interrupted, %w", err)
			}
			return telemetry.Ack{}, fmt.Errorf("%w: %s", err, x.NoAnswerReason())
		}
	}
}
