package telemetry

import "sync"

// Bounds of a queue: the reports of two slots of 4,096 users, the most that a slot may
// have.
const (
	queueLength = 8192
	queueBytes  = 16 << 20 // of payloads
)

// queue is where received messages wait for Handle.
type queue struct {
	newest bool // of each topic one alone waits: the newest, in the place of the first

	mutex    sync.Mutex
	waiting  []*Message
	byTopic  map[string]*Message // of waiting, with newest
	bytes    int                 // of payloads
	handling bool
	dropped  uint64
	replaced uint64
	ready    chan struct{} // receives after a message came
}

func newQueue(newest bool) *queue {
	return &queue{newest: newest, byTopic: map[string]*Message{}, ready: make(chan struct{}, 1)}
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
	if q.newest {
		q.byTopic[m.Topic] = &m
	}
	q.waiting = append(q.waiting, &m)
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

// take returns the first message, nil if none waits. The one before was handled.
func (q *queue) take() *Message {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	if q.handling = len(q.waiting) > 0; !q.handling {
		return nil
	}
	m := q.waiting[0]
	q.waiting[0], q.waiting = nil, q.waiting[1:]
	q.bytes -= len(m.Payload)
	delete(q.byTopic, m.Topic)
	return m
}

// unhandled is whether messages wait, or one is being handled.
func (q *queue) unhandled() bool {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	return len(q.waiting) > 0 || q.handling
}

func (q *queue) counts() (dropped, replaced uint64) {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	return q.dropped, q.replaced
}
