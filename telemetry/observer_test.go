package telemetry

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// What is last counts, a repeated or retained beacon opens no slot, and what cannot be read changes nothing.
func TestObserver(t *testing.T) {
	topics, err := NewTopics("f1")
	if err != nil {
		t.Fatal(err)
	}
	o := Observer{Topics: topics}
	rejected := 0
	observe := func(topic string, payload []byte, retained bool) {
		o.Observe(Message{Topic: topic, Payload: payload, Retained: retained}, func(_ string, v any, err error) {
			if err != nil {
				rejected++
			}
			if (v != nil) == (err != nil) {
				t.Errorf("%s: %v and %v", topic, v, err)
			}
		})
	}
	beacon := func(slot int) []byte {
		payload, err := Encode(Slot{Slot: slot, SlotMS: 1000, Speed: 1, ReportByMS: 1, DecideByMS: 2,
			Offer: Offer{Aircraft: []OfferAircraft{}}})
		if err != nil {
			t.Fatal(err)
		}
		return payload
	}
	status := func(seq int64) []byte {
		payload, err := Encode(Status{Seq: seq, Slot: -1, State: StateIdle, EnergySource: SourceModel, Challenge: NewChallenge(),
			Aircraft: []StatusAircraft{}})
		if err != nil {
			t.Fatal(err)
		}
		return payload
	}
	observe(topics.Slot(), beacon(9), true)
	if o.LastSlot() != -1 {
		t.Errorf("slot %d by a retained beacon", o.LastSlot())
	}
	for _, slot := range []int{3, 5, 5, 4} {
		observe(topics.Slot(), beacon(slot), false)
	}
	observe(topics.Status(), status(1), true)
	if o.LiveStatuses != 0 || o.Status == nil {
		t.Errorf("a retained status: %+v", o.Latest())
	}
	observe(topics.Status(), status(2), false)
	observe(topics.Online(), EncodeOnline(true), true)
	for _, topic := range []string{topics.Slot(), topics.Status(), topics.Online(), topics.Ack("a"), topics.Decision("u")} {
		observe(topic, []byte("{"), false)
	}
	if got := o.Latest(); got.LastSlot() != 5 || got.Status.Seq != 2 || got.LiveStatuses != 1 || !*got.Online || rejected != 5 {
		t.Errorf("%+v, %d rejected", got, rejected)
	}
}

// A wait ends with a message, with what it polls, with its condition's error and with its context.
func TestObserverWait(t *testing.T) {
	topics, _ := NewTopics("f1")
	end := errors.New("end")
	for name, c := range map[string]struct {
		holds func(o *Observer, began time.Time) (bool, error)
		took  time.Duration
		err   error
	}{
		"message": {func(o *Observer, _ time.Time) (bool, error) { return o.Latest().Online != nil, nil }, time.Second, nil},
		"poll": {func(_ *Observer, began time.Time) (bool, error) { return time.Since(began) > 5*time.Second, nil }, 9 * time.Second,
			nil},
		"error":   {func(*Observer, time.Time) (bool, error) { return false, end }, 0, end},
		"context": {func(*Observer, time.Time) (bool, error) { return false, nil }, 20 * time.Second, context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o, began := &Observer{Topics: topics}, time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				time.AfterFunc(time.Second, func() {
					o.Observe(Message{Topic: topics.Online(), Payload: EncodeOnline(true)}, func(string, any, error) {})
				})
				err := o.Wait(ctx, 9*time.Second, func() (bool, error) { return c.holds(o, began) })
				if took := time.Since(began); !errors.Is(err, c.err) || took != c.took {
					t.Errorf("%v after %v", err, took)
				}
				time.Sleep(2 * time.Second)
			})
		})
	}
}
