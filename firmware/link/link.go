// Package link is the leader's place on MQTT: what arrives is checked here,
// where it arrives, and handed over on two channels, so that no storm of reports
// stands before the crew's commands; what the leader says goes out from here,
// and nothing ever waits for it.
//
// It stands at the edges of a slot: beacon, decisions and status go out, reports
// and results come in, commands and heartbeats of the crew at any time.
package link

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"prefdt/firmware/clock"
	"prefdt/firmware/crew"
	"prefdt/telemetry"
)

// Link is the connection of one leader. Set the exported fields, then Start.
type Link struct {
	Broker   telemetry.Broker
	Fleet    string
	Slot     time.Duration // wall time of one
	Keys     crew.Keys
	Identity ed25519.PrivateKey // the leaders' own key, nil: none
	Clock    clock.Clock
	Log      *slog.Logger

	Topics   telemetry.Topics // set by Start
	Rejects  telemetry.Rejects
	Reports  chan Report  // from users
	Controls chan Control // everything else

	instance   string        // random, of this leader
	assertedAt time.Duration // when Reassert last did
	counter    atomic.Uint64
	standing   atomic.Pointer[standing] // as of the last status
	client     *telemetry.Client
	up         atomic.Bool // client.Initialize returned
	ctx        context.Context
	stop       context.CancelFunc
}

// Report is a user's report or result.
type Report struct {
	Received time.Duration // on the leader's clock
	User     string
	Report   *telemetry.Report // one of the two
	Result   *telemetry.Result
}

// Control is anything else that arrived; one of its fields is set.
type Control struct {
	Command   *crew.Command
	Heartbeat *crew.Heartbeat
	Connected bool              // a connection was made
	Offline   bool              // our own online topic said false
	Beacon    *telemetry.Slot   // on our topic, perhaps our own
	Status    *telemetry.Status // likewise
	Rival     *telemetry.Proof  // another leader proved that it is there
	Yield     error             // another leader was there first
}

const (
	reportsLength  = 3 * 4096 // what a slot of 4,096 users brings while the loop decides
	controlsLength = 1024
	reportsQueue   = "reports" // of their own: the crew never waits behind them
	rivalsQueue    = "rivals"  // of other leaders, who wait for an answer behind nothing
)

// Start listens for another leader, then takes our place on the broker. A leader
// that is restarted in flight does not wait for a broker, aircraft come first;
// clear is called once no rival was there for rivalSlots, or no broker.
func (l *Link) Start(ctx context.Context, inFlight bool, clear func()) (err error) {
	if l.Topics, err = telemetry.NewTopics(l.Fleet); err != nil {
		return err
	}
	l.Rejects.Log = l.Log
	l.Reports, l.Controls = make(chan Report, reportsLength), make(chan Control, controlsLength)
	l.instance = telemetry.NewChallenge()
	l.counter.Store(uint64(time.Now().UnixNano())) // above what this key signed before
	l.ctx, l.stop = context.WithCancel(context.Background())
	t := l.Topics
	l.client = &telemetry.Client{
		Broker: l.Broker, Name: "leader", Retry: l.retry(), Log: l.Log,
		Will: &telemetry.Publication{Topic: t.Online(), QoS: 1, Retained: true, Payload: telemetry.EncodeOnline(false)},
		Subscriptions: []telemetry.Subscription{
			{Filter: t.AllCommands(), QoS: 1}, {Filter: t.AllHeartbeats()}, {Filter: t.Online(), QoS: 1},
			{Filter: t.Slot(), Queue: rivalsQueue}, {Filter: t.Status(), Queue: rivalsQueue}, {Filter: t.Hello(), QoS: 1, Queue: rivalsQueue}, {Filter: t.Proof(), QoS: 1, Queue: rivalsQueue},
			{Filter: t.AllReports(), Queue: reportsQueue}, {Filter: t.AllResults(), QoS: 1, Queue: reportsQueue},
		},
		Handle: l.handle,
		OnConnect: func() {
			l.assert()
			l.control(Control{Connected: true})
		},
	}
	if inFlight {
		l.rejoin(clear)
		return nil
	}
	if err := l.listen(ctx, max(l.slots(newcomerSlots), newcomerLeast), func() {}); err != nil {
		return err
	}
	if err := l.connect(ctx); err != nil {
		return err
	}
	clear()
	return nil
}

func (l *Link) connect(ctx context.Context) error {
	if err := l.client.Initialize(ctx); err != nil {
		return err
	}
	l.up.Store(true)
	return nil
}

// rejoin takes our place on the broker while the leader already flies.
func (l *Link) rejoin(clear func()) {
	subscribed := make(chan struct{})
	noBroker := l.Clock.After(l.slots(rivalSlots))
	go func() {
		select {
		case <-noBroker:
			select {
			case <-subscribed:
			default:
				clear() // nobody can be received, and aircraft must be led
			}
		case <-subscribed:
		case <-l.ctx.Done():
		}
	}()
	go func() {
		err := l.listen(l.ctx, l.slots(rivalSlots), func() { close(subscribed) })
		if err == nil {
			clear()
			err = l.connect(l.ctx)
		}
		switch {
		case errors.Is(err, ErrIncumbent):
			l.control(Control{Yield: err})
		case err != nil && l.ctx.Err() == nil:
			l.Log.Error("flying without a broker", "reason", err)
		}
	}()
}

// retry is how long to wait before a broker is tried again: at first a quarter
// of a slot, at last two, so that the leader is back soon after the broker is.
func (l *Link) retry() time.Duration {
	return min(max(l.Slot/4, 10*time.Millisecond), 500*time.Millisecond)
}

func (l *Link) slots(n float64) time.Duration { return time.Duration(n * float64(l.Slot)) }

// Connected is whether the broker is there.
func (l *Link) Connected() bool { return l.up.Load() && l.client.Connected() }

// Close gives our place on the broker up.
func (l *Link) Close() {
	l.stop()
	if l.up.Load() {
		l.client.Close()
	}
}

// Dropped counts the messages that a full queue cost, by queue.
func (l *Link) Dropped() map[string]uint64 {
	if !l.up.Load() {
		return nil
	}
	return l.client.Dropped()
}

// Reassert answers whoever said otherwise, once a second at most.
func (l *Link) Reassert() {
	if now := l.Clock.Now(); l.assertedAt == 0 || now-l.assertedAt >= time.Second {
		l.assertedAt = now
		l.assert()
	}
}

// assert says that a leader is online.
func (l *Link) assert() {
	l.client.Publish(telemetry.Publication{Topic: l.Topics.Online(), QoS: 1, Retained: true, Payload: telemetry.EncodeOnline(true)})
}

// send never waits: what is dropped is counted by the client.
func (l *Link) send(p telemetry.Publication) {
	if l.up.Load() {
		l.client.Publish(p)
	}
}

// publish sends a message, or counts why nobody would accept it.
func publish[T telemetry.Slot | telemetry.Decision | telemetry.Ack | telemetry.Status](l *Link, topic string, qos byte, retained bool, v T) {
	payload, err := telemetry.Encode(v)
	if err != nil {
		l.Rejects.Add(topic, err)
		return
	}
	l.send(telemetry.Publication{Topic: topic, QoS: qos, Retained: retained, Payload: payload})
}

// Beacon opens a slot.
func (l *Link) Beacon(s telemetry.Slot) { publish(l, l.Topics.Slot(), 0, false, s) }

// Decision tells a user where to compute.
func (l *Link) Decision(user string, d telemetry.Decision) {
	publish(l, l.Topics.Decision(user), 1, false, d)
}

// Ack answers a command.
func (l *Link) Ack(a telemetry.Ack) { publish(l, l.Topics.Ack(a.ID), 1, false, a) }

// Status says how the mission stands.
func (l *Link) Status(s telemetry.Status) {
	l.standing.Store(&standing{s.Challenge, s.Seq, s.Slot})
	publish(l, l.Topics.Status(), 0, true, s)
}

// Reject counts a message that was read and not accepted.
func (l *Link) Reject(topic, kind, format string, args ...any) {
	l.Rejects.Add(topic, &telemetry.Invalid{Kind: kind, Text: fmt.Sprintf(format, args...)})
}

// handle checks a message where it arrives, so that nothing unchecked reaches
// the loop.
func (l *Link) handle(m telemetry.Message) {
	kind, id, ok := l.Topics.Parse(m.Topic)
	if !ok {
		l.Reject(m.Topic, "topic", "not a topic of this fleet, or an unusable id in it")
		return
	}
	if m.Retained && (kind == telemetry.KindSlot || kind == telemetry.KindStatus || kind == telemetry.KindHello || kind == telemetry.KindProof) {
		return // of the past
	}
	r := Report{Received: l.Clock.Now() - time.Since(m.Received), User: id}
	var c Control
	var err error
	switch kind {
	case telemetry.KindReport:
		r.Report, err = pointer(telemetry.DecodeReport(m.Payload))
	case telemetry.KindResult:
		r.Result, err = pointer(telemetry.DecodeResult(m.Payload))
	case telemetry.KindBudget, telemetry.KindPreference, telemetry.KindMission:
		c.Command, err = l.Keys.Command(kind, m)
	case telemetry.KindHeartbeat:
		c.Heartbeat, err = l.Keys.Heartbeat(id, m)
	case telemetry.KindOnline:
		var online bool
		online, err = telemetry.DecodeOnline(m.Payload)
		c.Offline = err == nil && !online
	case telemetry.KindSlot:
		c.Beacon, err = pointer(telemetry.DecodeSlot(m.Payload))
	case telemetry.KindStatus:
		c.Status, err = pointer(telemetry.DecodeStatus(m.Payload))
	case telemetry.KindHello:
		var h telemetry.Hello
		if h, err = telemetry.DecodeHello(m.Payload); err == nil && h.Instance != l.instance {
			l.prove(&h)
		}
	case telemetry.KindProof:
		c.Rival, err = l.proof(m)
	}
	if err != nil {
		l.Rejects.Add(m.Topic, err)
	}
	switch {
	case err == nil && (r.Report != nil || r.Result != nil):
		select {
		case l.Reports <- r:
		case <-l.ctx.Done():
		}
	case c.Command != nil || err == nil && c != (Control{}): // a command with an error is answered
		l.control(c)
	}
}

func pointer[T any](v T, err error) (*T, error) {
	if err != nil {
		return nil, err
	}
	return &v, nil
}

func (l *Link) control(c Control) {
	select {
	case l.Controls <- c:
	case <-l.ctx.Done():
	}
}
