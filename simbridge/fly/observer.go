package fly

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"prefdt/telemetry"
)

// observer listens to everything on the fleet's topics, as a ground station
// that only records would.
type observer struct {
	client *telemetry.Client
	topics telemetry.Topics
	beacon func(telemetry.Slot, time.Time) // called for each new slot, with when it was received
	decide func(slot int, at time.Time)    // called for each decision

	rejects telemetry.Rejects
	mutex   sync.Mutex
	changed chan struct{} // closed and replaced when anything was heard
	heard
}

// heard is what the observer knows.
type heard struct {
	online    bool
	slot      int              // of the last beacon, -1 before
	beacons   int              // slots opened
	repeated  int              // beacons of a slot that had been opened, or of one before it
	offered   float64          // the last beacon's price, s/J
	status    telemetry.Status // the last
	fresh     bool             // there was one
	live      bool             // and one that was not retained
	bySlot    map[int]telemetry.Status
	speed     float64 // the last beacon's, 0 before
	decisions int
	bytes     int64
	requests  map[string]telemetry.Budget // by command id
	acks      map[string]telemetry.Ack
	ackOrder  []string
}

// all returns a copy of everything.
func (o *observer) all() heard {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	h := o.heard
	h.bySlot, h.requests, h.acks, h.ackOrder = maps.Clone(h.bySlot), maps.Clone(h.requests), maps.Clone(h.acks), slices.Clone(h.ackOrder)
	return h
}

func newObserver(ctx context.Context, c *Config, broker telemetry.Broker, beacon func(telemetry.Slot, time.Time), decide func(int, time.Time), log *slog.Logger) (*observer, error) {
	topics, err := telemetry.NewTopics(c.Fleet)
	if err != nil {
		return nil, err
	}
	o := &observer{
		topics: topics, beacon: beacon, decide: decide, changed: make(chan struct{}), rejects: telemetry.Rejects{Log: log},
		heard: heard{
			slot: -1, bySlot: map[int]telemetry.Status{},
			requests: map[string]telemetry.Budget{}, acks: map[string]telemetry.Ack{},
		},
	}
	o.client = &telemetry.Client{Broker: broker, Name: "observer", Log: log, Handle: o.handle}
	for _, filter := range []string{
		topics.Slot(), topics.AllReports(), topics.AllDecisions(), topics.AllResults(),
		topics.AllCommands(), topics.AllAcks(), topics.Status(), topics.Online(),
	} {
		o.client.Subscriptions = append(o.client.Subscriptions, telemetry.Subscription{Filter: filter, QoS: 1})
	}
	return o, o.client.Initialize(ctx)
}

func (o *observer) handle(m telemetry.Message) {
	if beacon, isNew := o.note(m); isNew {
		o.beacon(beacon, m.Received)
	}
}

// note takes a message in, and returns the beacon if it opened a slot.
func (o *observer) note(m telemetry.Message) (beacon telemetry.Slot, isNew bool) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	defer func() {
		close(o.changed)
		o.changed = make(chan struct{})
	}()
	if o.beacons > 0 && o.status.State != telemetry.StateDone { // in the slots
		o.bytes += int64(len(m.Topic) + len(m.Payload))
	}
	kind, id, _ := o.topics.Parse(m.Topic)
	var err error
	switch kind {
	case telemetry.KindSlot:
		beacon, err = telemetry.DecodeSlot(m.Payload)
		switch {
		case err != nil || m.Retained:
		case beacon.Slot > o.slot:
			o.slot, isNew = beacon.Slot, true
			o.beacons++
			o.offered, o.speed = beacon.Offer.PriceSPerJ, beacon.Speed
		default:
			o.repeated++
		}
	case telemetry.KindDecision:
		o.decisions++
		if d, err := telemetry.DecodeDecision(m.Payload); err == nil {
			o.decide(d.Slot, m.Received)
		}
	case telemetry.KindOnline:
		o.online, err = telemetry.DecodeOnline(m.Payload)
	case telemetry.KindStatus:
		var s telemetry.Status
		if s, err = telemetry.DecodeStatus(m.Payload); err == nil {
			o.status, o.fresh = s, true
			o.live = o.live || !m.Retained
			if s.Slot >= 0 {
				o.bySlot[s.Slot] = s
			}
		}
	case telemetry.KindBudget:
		var b telemetry.Budget
		if b, err = telemetry.DecodeBudget(m.Payload); err != nil {
			var signed telemetry.Envelope
			if json.Unmarshal(m.Payload, &signed) == nil && signed.Body != "" {
				b, err = telemetry.DecodeBudget([]byte(signed.Body))
			}
		}
		if _, known := o.requests[b.ID]; err == nil && !known {
			o.requests[b.ID] = b
		}
	case telemetry.KindAck:
		var a telemetry.Ack
		if a, err = telemetry.DecodeAck(m.Payload); err == nil {
			if _, known := o.acks[id]; !known {
				o.ackOrder = append(o.ackOrder, id)
			}
			o.acks[id] = a
		}
	}
	if err != nil {
		o.rejects.Add(m.Topic, err)
	}
	return beacon, isNew
}

// now returns the last status, the last beacon's slot, and what closes when
// there is more.
func (o *observer) now() (s telemetry.Status, fresh bool, slot int, changed <-chan struct{}) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return o.status, o.fresh, o.slot, o.changed
}

// ready says what keeps a leader from being asked to start, nil for nothing. A
// status that the broker retained may be of a leader that is gone.
func (o *observer) ready() error {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	switch {
	case !o.online:
		return errors.New("no leader is online")
	case !o.live:
		return errors.New("the leader says no status")
	case o.status.State != telemetry.StateIdle:
		return fmt.Errorf("the leader is %s, want idle: give it a new mission id", o.status.State)
	case len(o.status.Aircraft) == 0:
		return errors.New("the leader has no aircraft")
	}
	for _, a := range o.status.Aircraft {
		if a.AgeS == nil {
			return fmt.Errorf("the leader has not heard aircraft %d", a.Number)
		}
	}
	return nil
}

// begun tells whether a slot was ever opened.
func (o *observer) begun() bool {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return o.beacons > 0
}

// ack is the acknowledgement of a command, nil before it came.
func (o *observer) ack(id string) *telemetry.Ack {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if a, ok := o.acks[id]; ok {
		return &a
	}
	return nil
}

// price is that of the last beacon, in seconds per joule.
func (o *observer) price() float64 {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return o.offered
}

// speedNow is that of the last beacon, 0 before there was one.
func (o *observer) speedNow() float64 {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return o.speed
}
