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

// observer subscribes to all of the fleet's topics and records them; it publishes
// nothing.
type observer struct {
	client     *telemetry.Client
	topics     telemetry.Topics
	onBeacon   func(telemetry.Slot, time.Time) // called for each new slot, with when it was received
	onDecision func(slot int, at time.Time)    // called for each decision

	rejects telemetry.RejectCounter
	mutex   sync.Mutex
	observed
	records
}

// observed is the mission as the messages so far show it.
type observed struct {
	changed         chan struct{} // closed and replaced when a message was received
	online          bool
	lastSlot        int // of the last beacon, -1 before
	slotsOpened     int
	repeatedBeacons int              // beacons of a slot that had been opened, or of one before it
	priceSPerJ      float64          // the last beacon's price, s/J
	status          telemetry.Status // the last
	hasLiveStatus   bool             // there was one that was not retained
	speed           float64          // the last beacon's, 0 before
	decisions       int
	controlBytes    int64
}

// records are the messages that the report of the flight needs.
type records struct {
	statusBySlot map[int]telemetry.Status
	budgets      map[string]telemetry.Budget // by command id
	acks         map[string]telemetry.Ack
	ackOrder     []string
}

func (o *observer) latest() observed {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return o.observed
}

func (o *observer) recorded() records {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return records{maps.Clone(o.statusBySlot), maps.Clone(o.budgets), maps.Clone(o.acks), slices.Clone(o.ackOrder)}
}

func newObserver(ctx context.Context, c *Config, broker telemetry.Broker, beacon func(telemetry.Slot, time.Time),
	decide func(int, time.Time), log *slog.Logger) (*observer, error) {
	topics, err := telemetry.NewTopics(c.Fleet)
	if err != nil {
		return nil, err
	}
	o := &observer{
		topics: topics, onBeacon: beacon, onDecision: decide, rejects: telemetry.RejectCounter{Log: log},
		observed: observed{changed: make(chan struct{}), lastSlot: -1},
		records: records{statusBySlot: map[int]telemetry.Status{}, budgets: map[string]telemetry.Budget{},
			acks: map[string]telemetry.Ack{}},
	}
	o.client = &telemetry.Client{Broker: broker.For("observer"), Name: "observer", Log: log, Handle: o.handle}
	for _, filter := range []string{
		topics.Slot(), topics.AllReports(), topics.AllDecisions(), topics.AllResults(),
		topics.AllCommands(), topics.AllAcks(), topics.Status(), topics.Online(),
	} {
		o.client.Subscriptions = append(o.client.Subscriptions, telemetry.Subscription{Filter: filter, QoS: 1})
	}
	return o, o.client.Initialize(ctx)
}

func (o *observer) handle(m telemetry.Message) {
	if beacon, isNew := o.record(m); isNew {
		o.onBeacon(beacon, m.Received)
	}
}

// record records a message, and returns the beacon if it opened a slot.
func (o *observer) record(m telemetry.Message) (beacon telemetry.Slot, isNew bool) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	defer func() {
		close(o.changed)
		o.changed = make(chan struct{})
	}()
	if o.slotsOpened > 0 && !isEnding(o.status.State) { // in the slots
		o.controlBytes += int64(len(m.Topic) + len(m.Payload))
	}
	kind, id, _ := o.topics.Parse(m.Topic)
	var err error
	switch kind {
	case telemetry.KindSlot:
		beacon, err = telemetry.DecodeSlot(m.Payload)
		switch {
		case err != nil || m.Retained:
		case beacon.Slot > o.lastSlot:
			o.lastSlot, isNew = beacon.Slot, true
			o.slotsOpened++
			o.priceSPerJ, o.speed = beacon.Offer.PriceSPerJ, beacon.Speed
		default:
			o.repeatedBeacons++
		}
	case telemetry.KindDecision:
		o.decisions++
		if d, err := telemetry.DecodeDecision(m.Payload); err == nil {
			o.onDecision(d.Slot, m.Received)
		}
	case telemetry.KindOnline:
		o.online, err = telemetry.DecodeOnline(m.Payload)
	case telemetry.KindStatus:
		var s telemetry.Status
		if s, err = telemetry.DecodeStatus(m.Payload); err == nil {
			o.status, o.hasLiveStatus = s, o.hasLiveStatus || !m.Retained
			if s.Slot >= 0 {
				o.statusBySlot[s.Slot] = s
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
		if _, known := o.budgets[b.ID]; err == nil && !known {
			o.budgets[b.ID] = b
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

// checkReady returns why a leader cannot be sent a start, nil if it can. A status
// that the broker retained may be of a leader that is offline.
func (o observed) checkReady() error {
	switch {
	case !o.online:
		return errors.New("no leader is online")
	case !o.hasLiveStatus:
		return errors.New("the leader publishes no status")
	case o.status.State != telemetry.StateIdle:
		return fmt.Errorf("the leader is %s, want idle: give it a new mission id", o.status.State)
	case len(o.status.Aircraft) == 0:
		return errors.New("the leader has no aircraft")
	}
	for _, a := range o.status.Aircraft {
		if a.AgeS == nil {
			return fmt.Errorf("the leader is not in contact with aircraft %d", a.Number)
		}
	}
	return nil
}

// isEnding reports whether no slot is opened any more in a state that a mission
// with slots has come to.
func isEnding(state string) bool {
	return state == telemetry.StateReturning || state == telemetry.StateDone || state == telemetry.StateStopped
}

// ack returns the acknowledgement of a command, nil before it is received.
func (o *observer) ack(id string) *telemetry.Ack {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if a, ok := o.acks[id]; ok {
		return &a
	}
	return nil
}
