package simnet

import (
	"sync"
	"time"
)

// deadline is a time after which an operation fails, which may be changed while it waits.
type deadline struct {
	mutex   sync.Mutex
	timer   *time.Timer
	expired chan struct{}
}

func newDeadline() *deadline { return &deadline{expired: make(chan struct{})} }

func (d *deadline) wait() <-chan struct{} {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	return d.expired
}

// set sets it; the zero time is none.
func (d *deadline) set(t time.Time) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	select {
	case <-d.expired:
		d.expired = make(chan struct{})
	default:
	}
	if t.IsZero() {
		return
	}
	expired := d.expired
	if wait := time.Until(t); wait > 0 {
		d.timer = time.AfterFunc(wait, func() { closeOnce(&d.mutex, expired) })
		return
	}
	close(expired)
}

func closeOnce(mutex *sync.Mutex, c chan struct{}) {
	mutex.Lock()
	defer mutex.Unlock()
	select {
	case <-c:
	default:
		close(c)
	}
}
