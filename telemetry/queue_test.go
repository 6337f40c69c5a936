package telemetry

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"prefdt/simbridge/simnet"
)

// One user sends a thousand reports while a hundred others send one each, and the reader is
// busy. Of the flood one waits, its newest, in the place of its first; the others are all
// handled, and none is dropped. Before, a flood filled the queue, and all others were dropped.
func TestOneUsersFloodDelaysNobody(t *testing.T) {
	eachBroker(t, func(t *testing.T, p *place) {
		address, _ := p.start(t, brokerSetup{})
		topics, err := NewTopics("f1")
		if err != nil {
			t.Fatal(err)
		}
		const flood, others = 1000, 100
		entered, release, handled := make(chan bool), make(chan bool), make(chan Message, flood+others)
		c := &Client{Broker: p.broker(address), Name: "leader", FloodWindow: time.Nanosecond,
			Subscriptions: []Subscription{{Filter: topics.AllReports(), QoS: 1}}}
		c.Handle = func(m Message) {
			if string(m.Payload) == "first" {
				entered <- true
				<-release
				return
			}
			handled <- m
		}
		connectClient(t, c)
		client := &Client{Broker: p.broker(address), Name: "users"}
		connectClient(t, client)
		report := func(user, text string) {
			t.Helper()
			publish(t, client, Publication{Topic: topics.Report(user), QoS: 1, Payload: []byte(text)})
		}
		report("busy", "first")
		nextEvent(t, "first report", entered) // it waits in Handle
		for i := range flood {
			report("flood", fmt.Sprint(i))
			if i%(flood/others) == 0 {
				report(fmt.Sprintf("u%d", i), fmt.Sprint(i))
			}
		}
		for deadline := time.Now().Add(time.Minute); c.Dropped().Replaced < flood-1; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%+v, want %d replaced", c.Dropped(), flood-1)
			}
		}
		report("last", "end")
		close(release)
		var list []Message
		for len(list) == 0 || list[len(list)-1].Topic != topics.Report("last") {
			list = append(list, nextEvent(t, "report", handled))
		}
		if len(list) != 1+others+1 || list[0].Topic != topics.Report("flood") || string(list[0].Payload) != fmt.Sprint(flood-1) {
			t.Errorf("%d were handled, the first %s on %s", len(list), list[0].Payload, list[0].Topic)
		}
		for i := range list[1:] {
			if list[i+1].Received.Before(list[i].Received) {
				t.Errorf("report %d was received before the one in front of it", i+1)
			}
		}
		if d := c.Dropped(); d != (Dropped{Replaced: flood - 1}) {
			t.Errorf("dropped %+v", d)
		}
	})
}

// A queue holds a bounded number of messages and bytes; what does not fit is counted, and what
// is taken makes place.
func TestQueueIsBounded(t *testing.T) {
	for _, newest := range []bool{false, true} {
		q := newQueue(newest)
		for i := range queueLength + 3 {
			q.put(Message{Topic: fmt.Sprint(i)})
		}
		q.take()
		q.put(Message{Topic: "place", Payload: make([]byte, queueBytes)})
		q.put(Message{Topic: "too much", Payload: make([]byte, 1)})
		if dropped, _ := q.counts(); dropped != 4 || len(q.waiting) != queueLength {
			t.Errorf("newest %v: dropped %d, %d wait", newest, dropped, len(q.waiting))
		}
		q.put(Message{Topic: "place", Payload: []byte("small")}) // in the place of the large one
		if _, replaced := q.counts(); newest && (replaced != 1 || q.bytes != len("small")) || !newest && replaced != 0 {
			t.Errorf("newest %v: replaced %d, %d bytes", newest, replaced, q.bytes)
		}
		for q.take() != nil {
		}
		if q.bytes != 0 || len(q.byTopic) != 0 || q.unhandled() {
			t.Errorf("newest %v: %d bytes and %d topics remain", newest, q.bytes, len(q.byTopic))
		}
	}
}

// A message waits until it was handled.
func TestWaiting(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		begun, end := make(chan bool), make(chan bool)
		c := &Client{inbox: newQueue(true), Handle: func(Message) {
			begun <- true
			<-end
		}}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go c.dispatch(ctx)
		if c.Waiting() {
			t.Error("one waits before any has come")
		}
		c.inbox.put(Message{Topic: "users/u1", Payload: []byte("{}")})
		<-begun
		if !c.Waiting() {
			t.Error("while one is handled, it does not wait")
		}
		end <- true
		synctest.Wait()
		if c.Waiting() {
			t.Error("it waits when it was handled")
		}
	})
}
