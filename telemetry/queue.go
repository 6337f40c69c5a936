package telemetry

import (
	"slices"
	"sync"
	"time"
)

// Bounds of a queue: the reports of two slots of 4,096 users, the most that a slot may
// have.
const (
	queueLength = 8192
	queueBytes  = 16 << 20 // of payloads
)

// queue is where received messages wait for Handle.
type queue struct {
	newestEvery time.Duration // see Client.NewestEvery

	mutex    sync.Mutex
	waiting  []*Message
	byTopic  map[string]*Message  // of waiting and early, with newestEvery
	handled  map[string]time.Time // topics, and until when no other message of them is; likewise
	bytes    int                  // of payloads
	handling bool
	dropped  uint64
	replaced uint64
	ready    chan struct{} // receives after a message came
}

func newQueue(newestEvery time.Duration) *queue {
	return &queue{newestEvery: newestEvery, byTopic: map[string]*Message{}, handled: map[string]time.Time{}, ready: make(chan struct{}, 1)}
}

// put never blocks: a message that does not fit is dropped and counted.
func (q *queue) put(m Message) {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	old := q.byTopic[m.Topic]
	size := len(m.Payload)
	if old != nil {
		size -= len(old.Payload)
	}
	if q.bytes+size > queueBytes || old == nil && len(q.waiting) >= queueLength {
		q.dropped++
		return
	}
	q.bytes += size
	if old != nil {
		q.replaced++
		m.Received = old.Received // a queue is in the order of arrival
		*old = m
		return
	}
	if q.newestEvery > 0 {
		q.byTopic[m.Topic] = &m
	}
	q.waiting = append(q.waiting, &m)
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

// take returns the first message that is due; nil, and when to ask again, if there is none. The
// one before was handled.
func (q *queue) take(now time.Time) (m *Message, again <-chan time.Time) {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	for range q.waiting {
		m = q.waiting[0]
		q.waiting[0], q.waiting = nil, q.waiting[1:]
		if now.Before(q.handled[m.Topic]) {
			q.waiting = append(q.waiting, m)
			continue
		}
		q.bytes -= len(m.Payload)
		delete(q.byTopic, m.Topic)
		if q.newestEvery > 0 {
			if len(q.handled) > 4*queueLength { // of those who may all send again at once
				clear(q.handled)
			}
			q.handled[m.Topic] = now.Add(q.newestEvery)
		}
		q.handling = true
		return m, nil
	}
	q.handling = false
	if len(q.waiting) > 0 {
		again = time.After(q.newestEvery)
	}
	return nil, again
}

// unhandled is whether messages wait that are due, or one is being handled.
func (q *queue) unhandled(now time.Time) bool {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	return q.handling || slices.ContainsFunc(q.waiting, func(m *Message) bool { return !now.Before(q.handled[m.Topic]) })
}

func (q *queue) counts() (dropped, replaced uint64) {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	return q.dropped, q.replaced
}
