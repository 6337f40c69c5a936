package fly

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"prefdt/simbridge/battery"
	"prefdt/simbridge/report"
	"prefdt/telemetry"
)

// observer subscribes to all of the fleet's topics and records them; it publishes
// nothing.
type observer struct {
	telemetry.Observer
	client     *telemetry.Client
	onBeacon   func(telemetry.Slot, time.Time) // called for each new slot, with when it was received
	onDecision func(slot int, at time.Time)    // called for each decision

	rejects telemetry.RejectCounter
	settled telemetry.Status // of the last settlement
	state   string           // of the last status
	observed
	records
}

// observed is what the messages so far add up to.
type observed struct {
	slotsOpened     int
	repeatedBeacons int // beacons of a slot that had been opened, or of one before it
	decisions       int
	controlBytes    int64
}

// records are the messages that the report of the flight needs.
type records struct {
	statusBySlot map[int]telemetry.Status // the one of its settlement
	transit      transitSlots
	budgets      map[string]telemetry.Budget // by command id
	acks         map[string]telemetry.Ack
	ackOrder     []string
	states       []report.Event // what the mission's state became in the slots
}

// recorded is what was received so far.
func (o *observer) recorded() (observed, records) {
	o.Lock()
	defer o.Unlock()
	return o.observed, records{maps.Clone(o.statusBySlot), maps.Clone(o.transit), maps.Clone(o.budgets), maps.Clone(o.acks),
		slices.Clone(o.ackOrder), slices.Clone(o.states)}
}

// inTransit is whether an aircraft, from 0, was on its way home in a slot, or had come home.
func (o *observer) inTransit(slot, m int) bool {
	o.Lock()
	defer o.Unlock()
	return o.transit[aircraftSlot{slot, m}]
}

// transitSlots are the slots that an aircraft had left before the mission's end: what it draws in them
// is outside the slots (docs/wire.md, "Budgets"), as that of climb and return is.
type transitSlots map[aircraftSlot]bool

// aircraftSlot is one aircraft, from 0, in one slot.
type aircraftSlot struct{ slot, m int }

// add enters the slots from one settlement to the next. With a budget of slots an aircraft's joules stand
// still from the settlement on by which it had left, until it serves again: a new climb is outside the slots,
// too. In others they go on, and it had left by the one before.
func (t transitSlots) add(before, s *telemetry.Status) {
	for m := range s.Aircraft {
		a, left := &s.Aircraft[m], false
		if m < len(before.Aircraft) {
			b := &before.Aircraft[m]
			left = hasLeft(a) && hasLeft(b)
			if s.Scope != telemetry.ScopeLanded {
				left = (hasLeft(a) || t[aircraftSlot{before.Slot, m}]) && a.SpentJ == b.SpentJ
			}
		}
		for slot := before.Slot + 1; left && slot <= s.Slot; slot++ {
			t[aircraftSlot{slot, m}] = true
		}
	}
}

// move enters what aircraft m drew in those slots as drawn in slot T, which is after them.
func (t transitSlots) move(spent map[int]battery.Spent, m, slots int) {
	for slot := range slots {
		if j := spent[slot]; t[aircraftSlot{slot, m}] {
			after := spent[slots]
			spent[slots] = battery.Spent{FlightJ: after.FlightJ + j.FlightJ, EdgeJ: after.EdgeJ + j.EdgeJ}
			delete(spent, slot)
		}
	}
}

func hasLeft(a *telemetry.StatusAircraft) bool {
	return a.Duty == telemetry.DutyLeaving || a.Duty == telemetry.DutyHome
}

func newObserver(ctx context.Context, c *Config, broker telemetry.Broker, beacon func(telemetry.Slot, time.Time),
	decide func(int, time.Time), log *slog.Logger) (*observer, error) {
	topics, err := telemetry.NewTopics(c.Fleet)
	if err != nil {
		return nil, err
	}
	o := &observer{
		Observer: telemetry.Observer{Topics: topics, Decode: decode},
		onBeacon: beacon, onDecision: decide, rejects: telemetry.RejectCounter{Log: log},
		records: records{statusBySlot: map[int]telemetry.Status{}, transit: transitSlots{}, budgets: map[string]telemetry.Budget{},
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

// decode decodes the leader's messages and the crew's budgets, signed or not.
func decode(kind telemetry.Kind, m telemetry.Message) (any, error) {
	if kind != telemetry.KindBudget {
		return telemetry.DecodePublished(kind, m)
	}
	var signed telemetry.Envelope
	if json.Unmarshal(m.Payload, &signed) == nil && signed.Body != "" {
		m.Payload = []byte(signed.Body)
	}
	return telemetry.DecodeBudget(m.Payload)
}

// handle records a message, and calls onBeacon if it opened a slot.
func (o *observer) handle(m telemetry.Message) {
	var opened *telemetry.Slot
	o.Observe(m, func(id string, v any, err error) {
		if o.slotsOpened > 0 && (o.Status == nil || !isEnding(o.Status.State)) { // in the slots
			o.controlBytes += int64(len(m.Topic) + len(m.Payload))
		}
		switch v := v.(type) {
		case telemetry.Slot:
			switch {
			case m.Retained:
			case v.Slot > o.LastSlot():
				o.slotsOpened++
				opened = &v
			default:
				o.repeatedBeacons++
			}
		case telemetry.Decision:
			o.decisions++
			o.onDecision(v.Slot, m.Received)
		case telemetry.Status:
			if !m.Retained {
				o.noteState(&v)
			}
			if _, known := o.statusBySlot[v.Slot]; v.Slot >= 0 && !known && !m.Retained {
				o.statusBySlot[v.Slot] = v
				o.transit.add(&o.settled, &v)
				o.settled = v
			}
		case telemetry.Budget:
			if _, known := o.budgets[v.ID]; !known {
				o.budgets[v.ID] = v
			}
		case telemetry.Ack:
			if _, known := o.acks[id]; !known {
				o.ackOrder = append(o.ackOrder, id)
			}
			o.acks[id] = v
		}
		if err != nil {
			o.rejects.Add(m.Topic, err)
		}
	})
	if opened != nil {
		o.onBeacon(*opened, m.Received)
	}
}

// noteState enters what the mission's state became, from the slot on that was settled first so.
func (o *observer) noteState(s *telemetry.Status) {
	before, state := o.state, s.State
	o.state = state
	words := map[string]string{telemetry.StateHolding: "holding", telemetry.StateReturning: "returning", telemetry.StateStopped: "stopped"}
	text := words[state]
	if state == telemetry.StateFlying && before == telemetry.StateHolding {
		text = "flying on"
	}
	if state != before && text != "" {
		o.states = append(o.states, report.Event{Slot: s.Slot, Text: text})
	}
}

// checkReady returns why a leader cannot be sent a start, nil if it can.
func (o *observer) checkReady() error {
	latest := o.Latest()
	s := latest.Status
	switch {
	case latest.Online == nil || !*latest.Online:
		return errors.New("no leader is online")
	case latest.LiveStatuses == 0:
		return errors.New("the leader publishes no status")
	case s.State != telemetry.StateIdle:
		return fmt.Errorf("the leader is %s, want idle: give it a new mission id", s.State)
	case len(s.Aircraft) == 0:
		return errors.New("the leader has no aircraft")
	}
	for _, a := range s.Aircraft {
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

// status is the last status, the zero Status before the first.
func (o *observer) status() telemetry.Status { return o.Latest().LastStatus() }

// beacon is the last one, the zero Slot before the first.
func (o *observer) beacon() telemetry.Slot { return *cmp.Or(o.Latest().Beacon, &telemetry.Slot{}) }

func (o *observer) lastSlot() int { return o.Latest().LastSlot() }

// ack returns the acknowledgement of a command, nil before it is received.
func (o *observer) ack(id string) *telemetry.Ack {
	o.Lock()
	defer o.Unlock()
	if a, ok := o.acks[id]; ok {
		return &a
	}
	return nil
}
