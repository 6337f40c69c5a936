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
	if d.isExpired() {
		d.expired = make(chan struct{})
	}
	if t.IsZero() {
		return
	}
	wait := time.Until(t)
	if wait <= 0 {
		close(d.expired)
		return
	}
	var timer *time.Timer
	timer = time.AfterFunc(wait, func() {
		d.mutex.Lock()
		defer d.mutex.Unlock()
		if d.timer == timer { // it was not set again at this moment
			d.timer = nil
			close(d.expired)
		}
	})
	d.timer = timer
}

// isExpired is called with the mutex held.
func (d *deadline) isExpired() bool {
	select {
	case <-d.expired:
		return true
	default:
		return false
	}
}

func (d *deadline) hasExpired() bool {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	return d.isExpired()
}
