package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"prefdt/firmware/clock"
	"prefdt/telemetry"
)

// event is one checked message, on its way to the loop.
type event struct {
	received time.Duration // on the leader's clock
	user     string
	report   *telemetry.Report
	result   *telemetry.Result
	command  *command
	online   bool              // our own online topic said false
	came     bool              // a connection was made
	beacon   *telemetry.Slot   // on our topic, perhaps our own
	status   *telemetry.Status // likewise
	yield    error             // another leader was there first
}

// broker is the leader's place on MQTT.
type broker struct {
	topics  telemetry.Topics
	client  *telemetry.Client
	up      atomic.Bool // client.Initialize returned
	inbox   chan event
	rejects telemetry.Rejects
	clock   clock.Clock
	stop    context.CancelFunc
	ctx     context.Context
}

// errIncumbent ends a newcomer with an exit status of its own.
var errIncumbent = errors.New("another leader is flying this fleet")

// inboxLength holds what a slot of 4,096 users brings while the loop decides.
const inboxLength = 3 * telemetryUsersMax

// rivalSlots is how long a leader that was restarted in flight listens for
// another before it streams: a beacon comes once a slot. It need not where the
// broker has the word that no leader is online.
const rivalSlots = 1.25

// connect listens for another leader, then takes its place on the broker. A
// leader that was restarted in flight does not wait for a broker, aircraft come
// first; but none is streamed to before whoever flies the fleet in its place
// would have been heard.
func (l *Leader) connect(ctx context.Context) error {
	topics, err := telemetry.NewTopics(l.Config.Fleet)
	if err != nil {
		return err
	}
	b := &broker{topics: topics, inbox: make(chan event, inboxLength), clock: l.Clock}
	b.rejects.Log = l.Log
	b.ctx, b.stop = context.WithCancel(context.Background())
	l.broker = b
	keys, err := l.commandKeys()
	if err != nil {
		return err
	}
	b.client = &telemetry.Client{
		Broker: l.Config.Broker, Name: "leader", Retry: l.retry(), Log: l.Log,
		Will: &telemetry.Publication{Topic: topics.Online(), QoS: 1, Retained: true, Payload: telemetry.EncodeOnline(false)},
		Subscriptions: []telemetry.Subscription{
			{Filter: topics.AllCommands(), QoS: 1, Queue: "commands"},
			{Filter: topics.AllReports(), Queue: "reports"}, {Filter: topics.AllResults(), QoS: 1, Queue: "reports"}, {Filter: topics.Online(), QoS: 1},
			{Filter: topics.Slot()}, {Filter: topics.Status()},
		},
		Handle: func(m telemetry.Message) { b.handle(m, keys) },
		OnConnect: func() {
			b.client.Publish(telemetry.Publication{Topic: topics.Online(), QoS: 1, Retained: true, Payload: telemetry.EncodeOnline(true)})
			b.put(event{came: true})
		},
	}
	inFlight := l.state != telemetry.StateIdle
	start := func(ctx context.Context) error {
		if err := l.listen(ctx, topics, inFlight); err != nil {
			return err
		}
		if err := b.client.Initialize(ctx); err != nil {
			return err
		}
		b.up.Store(true)
		return nil
	}
	if !inFlight {
		return start(ctx)
	}
	stream := time.AfterFunc(l.Config.Wall(rivalSlots), l.fleet.Stream)
	go func() {
		switch err := start(b.ctx); {
		case errors.Is(err, errIncumbent):
			stream.Stop()
			b.put(event{yield: err})
		case err != nil && b.ctx.Err() == nil:
			l.Log.Error("flying without a broker", "reason", err)
		}
	}()
	return nil
}

// retry is how long the leader waits before it tries a broker again: at first a
// quarter of a slot, at last two, so that it is back soon after the broker is.
func (l *Leader) retry() time.Duration {
	return min(max(l.slotWall()/4, 10*time.Millisecond), 500*time.Millisecond)
}

// listen looks for fresh beacons during three slots, and for a fresh status: an
// incumbent that is idle sends no beacons. What the broker kept is of the past.
func (l *Leader) listen(ctx context.Context, topics telemetry.Topics, inFlight bool) error {
	heard := make(chan int, 1)
	c := &telemetry.Client{
		Broker: l.Config.Broker, Name: "leader-new", Retry: l.retry(), Log: l.Log,
		Subscriptions: []telemetry.Subscription{{Filter: topics.Slot()}, {Filter: topics.Status()}, {Filter: topics.Online(), QoS: 1}},
		Handle: func(m telemetry.Message) {
			kind, _, _ := topics.Parse(m.Topic)
			if kind == telemetry.KindOnline {
				if online, err := telemetry.DecodeOnline(m.Payload); err == nil && !online && inFlight {
					l.fleet.Stream()
				}
				return
			}
			if m.Retained {
				return
			}
			n, err := 0, error(nil)
			if kind == telemetry.KindSlot {
				var s telemetry.Slot
				s, err = telemetry.DecodeSlot(m.Payload)
				n = s.Slot
			} else {
				var s telemetry.Status
				s, err = telemetry.DecodeStatus(m.Payload)
				n = s.Slot
			}
			if err == nil {
				select {
				case heard <- n:
				default:
				}
			}
		},
	}
	if err := c.Initialize(ctx); err != nil {
		return err
	}
	defer c.Close()
	select {
	case n := <-heard:
		return fmt.Errorf("%w: fleet %s is at slot %d", errIncumbent, l.Config.Fleet, n)
	case <-l.Clock.After(3 * l.slotWall()):
	case <-ctx.Done():
	}
	return nil
}

// handle checks a message where it arrives, so that nothing unchecked reaches
// the loop.
func (b *broker) handle(m telemetry.Message, keys commandKeys) {
	kind, id, ok := b.topics.Parse(m.Topic)
	if !ok {
		b.rejects.Add(m.Topic, &telemetry.Invalid{Kind: "topic", Text: "not a topic of this fleet, or an unusable id in it"})
		return
	}
	e := event{received: b.clock.Now() - time.Since(m.Received), user: id}
	var err error
	switch kind {
	case telemetry.KindReport:
		var r telemetry.Report
		r, err = telemetry.DecodeReport(m.Payload)
		e.report = &r
	case telemetry.KindResult:
		var r telemetry.Result
		r, err = telemetry.DecodeResult(m.Payload)
		e.result = &r
	case telemetry.KindBudget, telemetry.KindPreference, telemetry.KindMission:
		if m.Retained {
			err = &telemetry.Invalid{Kind: "command: retained", Text: "a retained command is from the past"}
			break
		}
		e.command, err = keys.open(kind, m)
	case telemetry.KindOnline:
		var online bool
		if online, err = telemetry.DecodeOnline(m.Payload); online {
			return
		}
		e.online = true
	case telemetry.KindSlot:
		if m.Retained {
			return
		}
		var s telemetry.Slot
		s, err = telemetry.DecodeSlot(m.Payload)
		e.beacon = &s
	case telemetry.KindStatus:
		if m.Retained {
			return
		}
		var s telemetry.Status
		s, err = telemetry.DecodeStatus(m.Payload)
		e.status = &s
	}
	if err != nil {
		b.rejects.Add(m.Topic, err)
		if e.command == nil { // without an id it cannot be answered
			return
		}
	}
	b.put(e)
}

// put hands an event to the loop; while the loop is busy, the broker's queue fills.
func (b *broker) put(e event) {
	select {
	case b.inbox <- e:
	case <-b.ctx.Done():
	}
}

func (b *broker) connected() bool { return b.up.Load() && b.client.Connected() }

func (b *broker) close() {
	b.stop()
	if b.up.Load() {
		b.client.Close()
	}
}

// publish sends a message of ours.
func publish[T telemetry.Slot | telemetry.Decision | telemetry.Ack | telemetry.Status](b *broker, topic string, qos byte, retained bool, v T) {
	payload, err := telemetry.Encode(v)
	if err != nil {
		b.rejects.Add(topic, err)
		return
	}
	b.send(telemetry.Publication{Topic: topic, QoS: qos, Retained: retained, Payload: payload})
}

func (b *broker) send(p telemetry.Publication) {
	if b.up.Load() {
		b.client.Publish(p) // what is dropped is counted there; nothing here waits
	}
}

// take lets one event, in time for the open window or not, change the mission.
func (l *Leader) take(e event, inTime bool) {
	switch {
	case e.report != nil:
		l.users.take(e.user, *e.report, inTime && !l.decided)
	case e.result != nil:
		l.correct(e.user, e.result)
	case e.command != nil:
		l.obey(e.command)
	case e.online, e.came:
		l.reassert(e.came)
	case e.beacon != nil:
		l.foreignBeacon(e.beacon)
	case e.status != nil:
		l.foreignStatus(e.status)
	case e.yield != nil:
		l.yield = e.yield
	}
}

// foreignBeacon answers a beacon that is not ours with our place on the broker.
func (l *Leader) foreignBeacon(s *telemetry.Slot) {
	if l.state == telemetry.StateFlying || l.state == telemetry.StateHolding {
		if s.Slot <= l.open && s.SlotMS == l.Config.SlotMS {
			return // our own, as it comes back
		}
	}
	l.broker.rejects.Add(l.broker.topics.Slot(), &telemetry.Invalid{Kind: "slot: foreign beacon", Text: fmt.Sprintf("another leader is at slot %d", s.Slot)})
	l.reassert(false)
}

// foreignStatus lets the younger of two idle leaders yield: the one that has
// said less. Ours comes back with a number no higher than the last we sent.
func (l *Leader) foreignStatus(s *telemetry.Status) {
	if s.Seq <= l.seq {
		return
	}
	l.broker.rejects.Add(l.broker.topics.Status(), &telemetry.Invalid{Kind: "status: foreign", Text: fmt.Sprintf("another leader says %s, slot %d", s.State, s.Slot)})
	if l.state == telemetry.StateIdle {
		l.yield = fmt.Errorf("%w: fleet %s is %s", errIncumbent, l.Config.Fleet, s.State)
	}
}

// reassert says that we are there: on every connect, and when a newcomer's
// will said otherwise.
func (l *Leader) reassert(connected bool) {
	l.broker.send(telemetry.Publication{Topic: l.broker.topics.Online(), QoS: 1, Retained: true, Payload: telemetry.EncodeOnline(true)})
	if connected {
		l.look()
		l.publishStatus()
	}
}
