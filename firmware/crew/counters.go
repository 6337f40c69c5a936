package crew

import (
	"maps"
	"time"
)

// maxStations is how many stations of one key have counters. Of more, the one that was
// silent for longest is forgotten.
const maxStations = 64

// counters are the last counters that were accepted. They are kept in memory alone, since a
// challenge ends with the process, and each for as long as a challenge under which it counted.
type counters map[sender]used

// sender is a station of a public key. The same key has one under each of its names.
type sender struct{ publicKey, station string }

func (s Signer) sender() sender { return sender{s.PublicKey, s.Station} }

type used struct {
	counter   uint64
	at, until time.Duration // of the last message; end of the last challenge
}

// last returns the last counter of a message's station under the valid challenges, 0: none.
func (c counters) last(s Signer, now time.Duration) uint64 {
	if u := c[s.sender()]; now < u.until {
		return u.counter
	}
	return 0
}

// note enters the counter of a message that was accepted under a challenge with that end.
func (c counters) note(s Signer, now, end time.Duration) {
	maps.DeleteFunc(c, func(_ sender, u used) bool { return now >= u.until })
	key := s.sender()
	if _, known := c[key]; !known {
		c.makePlace(s.PublicKey)
	}
	c[key] = used{s.Counter, now, max(c[key].until, end)}
}

func (c counters) makePlace(publicKey string) {
	n, silent := 0, sender{}
	for s, u := range c {
		if s.publicKey != publicKey {
			continue
		}
		if n++; n == 1 || u.at < c[silent].at {
			silent = s
		}
	}
	if n >= maxStations {
		delete(c, silent)
	}
}
