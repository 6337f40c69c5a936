package telemetry

import (
	"context"
	"sync"
	"time"
)

// Observed is what was received of a fleet's leader. What it points to does not change.
type Observed struct {
	Online       *bool   // nil: no leader was ever at this broker
	Status       *Status // the last, nil before the first
	LiveStatuses int     // statuses that were published after the subscription; a retained one may be of a leader that is offline
	Beacon       *Slot   // of the last slot that was opened, nil before the first
}

// LastSlot is the last slot that was opened, -1 before the first.
func (o Observed) LastSlot() int {
	if o.Beacon == nil {
		return -1
	}
	return o.Beacon.Slot
}

// LastStatus is the last status, the zero Status before the first.
func (o Observed) LastStatus() (s Status) {
	if o.Status != nil {
		s = *o.Status
	}
	return s
}

// Observer keeps the last of what a leader publishes, and lets others wait for it. Its lock guards
// what its owner keeps of the same messages, too.
type Observer struct {
	Topics Topics
	Decode func(Kind, Message) (any, error) // nil: [DecodePublished]; a nil value without an error is ignored

	sync.Mutex
	Observed
	changed chan struct{} // closed and replaced with each message
}

// DecodePublished returns what a leader published as a value of the kind's type, a bool for
// [KindOnline]; nil for kinds that others publish.
func DecodePublished(kind Kind, m Message) (any, error) {
	switch kind {
	case KindSlot:
		return DecodeSlot(m.Payload)
	case KindStatus:
		return DecodeStatus(m.Payload)
	case KindOnline:
		return DecodeOnline(m.Payload)
	case KindDecision:
		return DecodeDecision(m.Payload)
	case KindAck:
		return DecodeAck(m.Payload)
	}
	return nil, nil
}

// Observe decodes a message and keeps it. Before that it calls keep with the lock held, with the
// user or command in the topic, and either a value or why the message was rejected.
func (o *Observer) Observe(m Message, keep func(id string, v any, err error)) {
	o.Lock()
	defer o.Unlock()
	decode := o.Decode
	if decode == nil {
		decode = DecodePublished
	}
	kind, id, _ := o.Topics.Parse(m.Topic)
	v, err := decode(kind, m)
	if err != nil {
		v = nil
	}
	keep(id, v, err)
	switch v := v.(type) {
	case bool:
		o.Online = &v
	case Status:
		if o.Status = &v; !m.Retained {
			o.LiveStatuses++
		}
	case Slot:
		if !m.Retained && v.Slot > o.LastSlot() {
			o.Beacon = &v
		}
	}
	if o.changed != nil {
		close(o.changed)
		o.changed = nil
	}
}

// Latest is what was received so far.
func (o *Observer) Latest() Observed {
	o.Lock()
	defer o.Unlock()
	return o.Observed
}

// Wait waits until a condition holds. It is checked without the lock: at first, after messages,
// and every poll, since it may depend on more than them. Its error ends the wait, and so does ctx.
func (o *Observer) Wait(ctx context.Context, poll time.Duration, holds func() (bool, error)) error {
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		o.Lock()
		if o.changed == nil {
			o.changed = make(chan struct{})
		}
		changed := o.changed
		o.Unlock()
		if met, err := holds(); met || err != nil {
			return err
		}
		select {
		case <-changed:
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
