package serve

import (
	"sync"
	"time"
)

// addresses counts connections by where they come from.
type addresses struct {
	most      int     // at once
	perSecond float64 // new ones; twice as many may come together

	mutex sync.Mutex
	of    map[string]*address
}

type address struct {
	open    int
	tokens  float64
	counted time.Time
}

// maxAddresses bounds the memory that an attacker with many addresses can take.
const maxAddresses = 4096

// enter counts a new connection, if its address may have another one.
func (a *addresses) enter(host string, now time.Time) bool {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	x := a.of[host]
	if x == nil {
		if len(a.of) >= maxAddresses {
			a.forget(now)
		}
		if len(a.of) >= maxAddresses {
			return false
		}
		x = &address{tokens: 2 * a.perSecond, counted: now}
		a.of[host] = x
	}
	x.tokens = min(x.tokens+a.perSecond*now.Sub(x.counted).Seconds(), 2*a.perSecond)
	x.counted = now
	if x.open >= a.most || x.tokens < 1 {
		return false
	}
	x.tokens--
	x.open++
	return true
}

func (a *addresses) leave(host string) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.of[host].open--
}

// forget removes those that would be as if new.
func (a *addresses) forget(now time.Time) {
	for host, x := range a.of {
		if x.open == 0 && x.tokens+a.perSecond*now.Sub(x.counted).Seconds() >= 2*a.perSecond {
			delete(a.of, host)
		}
	}
}
