package telemetry

import (
	"slices"
	"strings"
	"sync/atomic"
)

// Bounds of a queue: the reports of two slots of 4,096 users, the most that a slot may
// have.
const (
	queueLength = 8192
	queueBytes  = 16 << 20 // of payloads
)

// queue is where the messages of some subscriptions wait for the callbacks.
type queue struct {
	name      string
	filters   []string
	inbox     chan Message
	events    chan func()  // OnConnect and OnDisconnect; nil but for the queue without a name
	bytes     atomic.Int64 // of payloads in inbox
	unhandled atomic.Int64 // messages in inbox or with the callback
	dropped   atomic.Uint64
}

// newQueues returns the queues that subscriptions name, the one without a name
// first.
func newQueues(subscriptions []Subscription) []*queue {
	// 64 events: connections and losses during one callback
	queues := []*queue{{inbox: make(chan Message, queueLength), events: make(chan func(), 64)}}
	for _, sub := range subscriptions {
		i := slices.IndexFunc(queues, func(q *queue) bool { return q.name == sub.Queue })
		if i < 0 {
			i = len(queues)
			queues = append(queues, &queue{name: sub.Queue, inbox: make(chan Message, queueLength)})
		}
		queues[i].filters = append(queues[i].filters, sub.Filter)
	}
	return queues
}

// queueOf returns the queue of a topic's messages, the first one by default.
func queueOf(queues []*queue, topic string) *queue {
	for _, q := range queues[1:] {
		if slices.ContainsFunc(q.filters, func(filter string) bool { return matches(filter, topic) }) {
			return q
		}
	}
	return queues[0]
}

// put never blocks: a message that does not fit is dropped and counted.
func (q *queue) put(m Message) {
	size := int64(len(m.Payload))
	q.unhandled.Add(1)
	if q.bytes.Add(size) <= queueBytes {
		select {
		case q.inbox <- m:
			return
		default:
		}
	}
	q.unhandled.Add(-1)
	q.bytes.Add(-size)
	q.dropped.Add(1)
}

// matches reports whether a subscription's filter covers a topic (MQTT 3.1.1
// section 4.7; the fleet has no topics that begin with $).
func matches(filter, topic string) bool {
	for {
		level, filterRest, filterMore := strings.Cut(filter, "/")
		name, topicRest, topicMore := strings.Cut(topic, "/")
		switch {
		case level == "#":
			return true
		case level != "+" && level != name:
			return false
		case !topicMore:
			return !filterMore || filterRest == "#"
		case !filterMore:
			return false
		}
		filter, topic = filterRest, topicRest
	}
}
