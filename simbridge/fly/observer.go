package fly

import (
	"context"
	"encoding/json"
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
	slot      int // of the last beacon, -1 before
	beacons   int
	offered   float64          // the last beacon's price, s/J
	status    telemetry.Status // the last
	fresh     bool             // there was one
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
		if beacon, err = telemetry.DecodeSlot(m.Payload); err == nil && !m.Retained && beacon.Slot > o.slot {
			o.slot, isNew = beacon.Slot, true
			o.beacons++
			o.offered, o.speed = beacon.Offer.PriceSPerJ, beacon.Speed
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

// ready tells whether a leader is online and has heard all its aircraft.
func (o *observer) ready() bool {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if !o.online || !o.fresh {
		return false
	}
	for _, a := range o.status.Aircraft {
		if a.AgeS == nil {
			return false
		}
	}
	return len(o.status.Aircraft) > 0
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
