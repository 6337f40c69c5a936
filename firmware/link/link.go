// Package link is the leader's session on MQTT.
//
// Inputs: messages from the broker, decoded and verified here and queued on two
// channels, so that no burst of reports delays the crew's commands: UserMessages with
// reports and results, ControlMessages with everything else. Users have a connection of their
// own, on which the newest message of each topic alone waits, so that neither does the broker
// queue commands behind reports, nor one user's reports before the others'. Outputs: beacons,
// decisions, acknowledgements and statuses, which are never waited for, and the search
// for another leader of the fleet before a session is claimed. Called by the leader's
// loop, which reads both channels.
package link

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"prefdt/firmware/clock"
	"prefdt/firmware/crew"
	"prefdt/telemetry"
)

// MQTT is the connection of one leader. Set the exported fields, then Start.
type MQTT struct {
	Broker       telemetry.Broker
	Fleet        string
	SlotDuration time.Duration // wall time of one
	Keys         crew.Keys
	LeaderKey    ed25519.PrivateKey // the leaders' own key, nil: none
	Workers      bool               // aircraft have workers, whose heartbeats are received
	Clock        clock.Clock
	Log          *slog.Logger

	Topics          telemetry.Topics // set by Start
	Rejects         telemetry.RejectCounter
	UserMessages    chan UserMessage    // from users
	ControlMessages chan ControlMessage // everything else

	instanceID        string        // random, of this leader
	onlinePublishedAt time.Duration // when RepublishOnline last did
	proofCounter      atomic.Uint64
	helloAnswers      int // proofs since helloAnswersSince, on the rivals' connection alone
	helloAnswersSince time.Duration
	lastStatus        atomic.Pointer[telemetry.Proof] // what the last status stated
	client            *telemetry.Client               // to the crew; publishes
	users, rivals     *telemetry.Client               // receive alone
	initialized       atomic.Bool                     // their Initialize returned
	ctx               context.Context
	stop              context.CancelFunc
}

// UserMessage is a user's report or result.
type UserMessage struct {
	Received time.Duration // on the leader's clock
	User     string
	Report   *telemetry.Report // one of the two is set
	Result   *telemetry.Result
}

// ControlMessage is anything else that arrived; one of its fields is set.
type ControlMessage struct {
	Command         *crew.Command
	Heartbeat       *crew.Heartbeat
	Worker          *Worker
	BrokerConnected bool              // a connection was made
	DeclaredOffline bool              // `online` was set to false by another client
	Beacon          *telemetry.Slot   // on the fleet's topic, perhaps this leader's own
	Status          *telemetry.Status // likewise
	RivalProof      *telemetry.Proof  // another leader's answer to this leader's hello
	YieldReason     error             // another leader already leads this fleet
}

// Worker is a heartbeat of an aircraft's worker.
type Worker struct {
	Aircraft int
	Received time.Duration // on the leader's clock
	telemetry.Worker
}

const (
	userMessagesCapacity    = 3 * 4096 // what a slot of 4,096 users brings while the loop decides
	controlMessagesCapacity = 1024
)

// Start listens for another leader, then claims the leader's session on the broker. A
// leader that is restarted in flight does not wait for a broker, aircraft come first;
// clear is called once no rival, or no broker, was found for rivalSlots.
func (l *MQTT) Start(ctx context.Context, inFlight bool, clear func()) error {
	if err := l.initialize(); err != nil {
		return err
	}
	l.UserMessages, l.ControlMessages = make(chan UserMessage, userMessagesCapacity), make(chan ControlMessage, controlMessagesCapacity)
	l.proofCounter.Store(uint64(time.Now().UnixNano())) // above what this key signed before
	l.ctx, l.stop = context.WithCancel(context.Background())
	t := l.Topics
	newClient := func(name string, maxPayload int, subscriptions ...telemetry.Subscription) *telemetry.Client {
		return &telemetry.Client{
			Broker: l.Broker, Name: name, Retry: l.retryDelay(), Log: l.Log, Handle: l.handle, Subscriptions: subscriptions,
			MaxPayload: maxPayload,
		}
	}
	l.users = newClient("leader-users", telemetry.MaxPayload, telemetry.Subscription{Filter: t.AllReports()},
		telemetry.Subscription{Filter: t.AllResults(), QoS: 1})
	l.users.FloodWindow = l.SlotDuration / 4 // a user has one report a slot, and one result
	// A hello is answered without delay, also while commands wait to be verified.
	l.rivals = newClient("leader-rivals", telemetry.MaxStatus, telemetry.Subscription{Filter: t.Slot()},
		telemetry.Subscription{Filter: t.Status()},
		telemetry.Subscription{Filter: t.Hello(), QoS: 1}, telemetry.Subscription{Filter: t.Proof(), QoS: 1})
	l.client = newClient("leader", telemetry.MaxPayload, telemetry.Subscription{Filter: t.AllCommands(), QoS: 1},
		telemetry.Subscription{Filter: t.AllHeartbeats()},
		telemetry.Subscription{Filter: t.Online(), QoS: 1})
	l.client.Will = &telemetry.Publication{Topic: t.Online(), QoS: 1, Retained: true, Payload: telemetry.EncodeOnline(false)}
	l.client.OnConnect = func() {
		l.publishOnline()
		l.enqueueControl(ControlMessage{BrokerConnected: true})
	}
	if l.Workers {
		l.client.Subscriptions = append(l.client.Subscriptions, telemetry.Subscription{Filter: t.AllWorkers()})
	}
	if inFlight {
		l.startInFlight(clear)
		return nil
	}
	if err := l.listenAsNewcomer(ctx); err != nil {
		return err
	}
	if err := l.connect(ctx); err != nil {
		return err
	}
	clear()
	return nil
}

// initialize sets what a search for another leader needs.
func (l *MQTT) initialize() (err error) {
	l.Rejects.Log, l.instanceID = l.Log, telemetry.NewChallenge()
	l.Topics, err = telemetry.NewTopics(l.Fleet)
	return err
}

func (l *MQTT) connect(ctx context.Context) error {
	for _, c := range l.clients() {
		if err := c.Initialize(ctx); err != nil {
			l.closeClients()
			return err
		}
	}
	l.initialized.Store(true)
	if l.ctx.Err() != nil { // Close may have come just before
		l.closeClients()
	}
	return nil
}

// clients are the leader's, the one last that makes it known.
func (l *MQTT) clients() []*telemetry.Client { return []*telemetry.Client{l.users, l.rivals, l.client} }

func (l *MQTT) closeClients() {
	for _, c := range slices.Backward(l.clients()) {
		c.Close()
	}
}

// startInFlight claims the session in the background, while the leader already flies.
func (l *MQTT) startInFlight(clear func()) {
	subscribed := make(chan struct{})
	noBroker := l.Clock.After(l.slotTime(rivalSlots))
	go func() {
		select {
		case <-noBroker:
			select {
			case <-subscribed:
			default:
				clear() // no rival can be received, and aircraft must be commanded
			}
		case <-subscribed:
		case <-l.ctx.Done():
		}
	}()
	go func() {
		err := l.listenForRival(l.ctx, l.slotTime(rivalSlots), func() { close(subscribed) })
		if err == nil {
			clear()
			err = l.connect(l.ctx)
		}
		switch {
		case errors.Is(err, ErrIncumbent):
			l.enqueueControl(ControlMessage{YieldReason: err})
		case err != nil && l.ctx.Err() == nil:
			l.Log.Error("flying without a broker", "reason", err)
		}
	}()
}

// retryDelay is the wait before a broker is tried again: at first a quarter of a slot,
// doubling to two, so that the leader is back soon after the broker is.
func (l *MQTT) retryDelay() time.Duration {
	return min(max(l.SlotDuration/4, 10*time.Millisecond), 500*time.Millisecond)
}

func (l *MQTT) slotTime(n float64) time.Duration { return time.Duration(n * float64(l.SlotDuration)) }

// Connected is whether the session is connected to the broker.
func (l *MQTT) Connected() bool { return l.initialized.Load() && l.client.Connected() }

// Waiting is whether messages from users have arrived that are not in UserMessages yet.
func (l *MQTT) Waiting() bool { return l.initialized.Load() && l.users.Waiting() }

// Close releases the leader's session, whether Start succeeded or not.
func (l *MQTT) Close() {
	if l.stop == nil {
		return
	}
	l.stop()
	if l.initialized.Load() {
		l.closeClients()
	}
}

// Dropped counts the messages dropped for a full queue or a newer one, by connection.
func (l *MQTT) Dropped() map[string]uint64 {
	if !l.initialized.Load() {
		return nil
	}
	users, rivals, crew := l.users.Dropped(), l.rivals.Dropped(), l.client.Dropped()
	return map[string]uint64{
		"messages": crew.Messages, "publications": crew.Publications, "rivals": rivals.Messages, "reports": users.Messages,
		"replaced": users.Replaced,
	}
}

// RepublishOnline publishes `online` again after another client set it to false, at
// most once a second.
func (l *MQTT) RepublishOnline() {
	if now := l.Clock.Now(); l.onlinePublishedAt == 0 || now-l.onlinePublishedAt >= time.Second {
		l.onlinePublishedAt = now
		l.publishOnline()
	}
}

func (l *MQTT) publishOnline() {
	l.client.Publish(telemetry.Publication{Topic: l.Topics.Online(), QoS: 1, Retained: true, Payload: telemetry.EncodeOnline(true)})
}

// send never waits: the client counts what it drops.
func (l *MQTT) send(p telemetry.Publication) {
	if l.initialized.Load() {
		l.client.Publish(p)
	}
}

// encodeAndPublish sends a message, signed if there is a key, or counts why it would be invalid.
func encodeAndPublish[T telemetry.Slot | telemetry.Decision | telemetry.Ack | telemetry.Status](l *MQTT, topic string, qos byte,
	retained bool, v T, key ed25519.PrivateKey) {
	payload, err := telemetry.Encode(v)
	if err != nil {
		l.Rejects.Add(topic, err)
		return
	}
	if key != nil {
		payload = telemetry.SignAnswer(key, topic, payload)
	}
	l.send(telemetry.Publication{Topic: topic, QoS: qos, Retained: retained, Payload: payload})
}

// PublishBeacon opens a slot.
func (l *MQTT) PublishBeacon(s telemetry.Slot) {
	encodeAndPublish(l, l.Topics.Slot(), 0, false, s, nil)
}

// PublishDecision sends a user its decision.
func (l *MQTT) PublishDecision(user string, d telemetry.Decision) {
	encodeAndPublish(l, l.Topics.Decision(user), 1, false, d, nil)
}

// PublishLastDecision does so too. The channel receives when the broker has the decision, and
// with it all that was published before; nothing if it never has.
func (l *MQTT) PublishLastDecision(user string, d telemetry.Decision) <-chan time.Duration {
	payload, err := telemetry.Encode(d)
	if err != nil || !l.Connected() {
		l.PublishDecision(user, d) // counts why it is not sent
		return nil
	}
	delivered := make(chan time.Duration, 1)
	go func() {
		if l.client.PublishWait(l.ctx, telemetry.Publication{Topic: l.Topics.Decision(user), QoS: 1, Payload: payload}) == nil {
			delivered <- l.Clock.Now()
		}
	}()
	return delivered
}

// PublishAck acknowledges a command.
func (l *MQTT) PublishAck(a telemetry.Ack) {
	encodeAndPublish(l, l.Topics.Ack(a.ID), 1, false, a, l.LeaderKey)
}

// PublishStatus publishes the mission's state, retained.
func (l *MQTT) PublishStatus(s telemetry.Status) {
	l.lastStatus.Store(&telemetry.Proof{Challenge: s.Challenge, Seq: s.Seq, Slot: s.Slot})
	encodeAndPublish(l, l.Topics.Status(), 0, true, s, l.LeaderKey)
}

// CountReject counts a message that was decoded and not accepted.
func (l *MQTT) CountReject(topic, kind, format string, args ...any) {
	l.Rejects.Add(topic, &telemetry.InvalidError{Kind: kind, Text: fmt.Sprintf(format, args...)})
}

// handle decodes and checks a message on the client's goroutine, so that nothing
// unchecked reaches the loop.
func (l *MQTT) handle(m telemetry.Message) {
	kind, id, ok := l.Topics.Parse(m.Topic)
	if !ok {
		l.CountReject(m.Topic, "topic", "not a topic of this fleet, or an unusable id in it")
		return
	}
	if m.Retained && (kind == telemetry.KindSlot || kind == telemetry.KindStatus || kind == telemetry.KindHello ||
		kind == telemetry.KindProof) {
		return // retained, so from the past
	}
	if m.Retained && (kind == telemetry.KindReport || kind == telemetry.KindResult) {
		l.CountReject(m.Topic, string(kind)+": retained", "%s: retained, so from the past", kind)
		return
	}
	r := UserMessage{Received: l.Clock.Now() - time.Since(m.Received), User: id}
	var c ControlMessage
	var err error
	switch kind {
	case telemetry.KindReport:
		r.Report, err = pointer(telemetry.DecodeReport(m.Payload))
	case telemetry.KindResult:
		r.Result, err = pointer(telemetry.DecodeResult(m.Payload))
	case telemetry.KindBudget, telemetry.KindPreference, telemetry.KindMission:
		c.Command, err = l.Keys.DecodeCommand(kind, m)
	case telemetry.KindHeartbeat:
		c.Heartbeat, err = l.Keys.DecodeHeartbeat(id, m)
	case telemetry.KindWorker:
		w := Worker{Received: r.Received}
		w.Aircraft, _ = strconv.Atoi(id) // the topic's form was checked
		if w.Worker, err = telemetry.DecodeWorker(m.Payload); err == nil && !m.Retained {
			c.Worker = &w
		}
	case telemetry.KindOnline:
		var online bool
		online, err = telemetry.DecodeOnline(m.Payload)
		c.DeclaredOffline = err == nil && !online
	case telemetry.KindSlot:
		c.Beacon, err = pointer(telemetry.DecodeSlot(m.Payload))
	case telemetry.KindStatus:
		c.Status, err = pointer(telemetry.DecodeStatus(m.Payload))
	case telemetry.KindHello:
		var h telemetry.Hello
		if h, err = telemetry.DecodeHello(m.Payload); err == nil && h.Instance != l.instanceID {
			l.answerHello(&h)
		}
	case telemetry.KindProof:
		c.RivalProof, err = l.verifyProof(m)
	}
	if err != nil {
		l.Rejects.Add(m.Topic, err)
	}
	switch {
	case err == nil && (r.Report != nil || r.Result != nil):
		select {
		case l.UserMessages <- r:
		case <-l.ctx.Done():
		}
	case c.Command != nil || err == nil && c != (ControlMessage{}): // a command with an error is answered
		l.enqueueControl(c)
	}
}

func pointer[T any](v T, err error) (*T, error) {
	if err != nil {
		return nil, err
	}
	return &v, nil
}

func (l *MQTT) enqueueControl(c ControlMessage) {
	select {
	case l.ControlMessages <- c:
	case <-l.ctx.Done():
	}
}
