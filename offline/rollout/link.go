package rollout

import (
	"fmt"

	"prefdt/inference/dispatch"
	"prefdt/inference/slot"
	"prefdt/simbridge/world"
)

// Link is what lies between the users and the policy. Its zero value is perfect.
type Link struct {
	Loss float64 // fraction of the reports that is lost
	// Late displaces the snapshot: slot t is decided from slot t-Late.
	Late int
	// Unheard tells what users without a decision do, or what stands in for them.
	Unheard Fallback
}

// Fallback is what happens to a user whose report is lost.
type Fallback string

const (
	Local      Fallback = ""           // it computes locally
	LastReport Fallback = "lastReport" // the leader decides from its last report
	Offer      Fallback = "offer"      // it takes the standing offer of the last beacon
)

func (l Link) check() error {
	if !(l.Loss >= 0 && l.Loss <= 1) || l.Late < 0 {
		return fmt.Errorf("link loses %v of its reports and is %d slots late, want a fraction and no less than 0", l.Loss, l.Late)
	}
	return nil
}

// link is a Link in use.
type link struct {
	Link
	full  slot.Snapshot
	heard slot.Snapshot
	past  []slot.Snapshot   // the last Late snapshots, oldest first
	last  map[int]slot.User // last report of each user
	offer dispatch.Offer    // of this slot's beacon
	load  []float64         // filtered users served, by aircraft number
}

func (l *link) reset() {
	l.past = l.past[:0]
	l.last = map[int]slot.User{}
	l.load = l.load[:0]
	l.offer = dispatch.Offer{}
}

// snapshot returns what the policy sees of the present slot.
func (l *link) snapshot(w *world.World) *slot.Snapshot {
	w.Snapshot(&l.full)
	if l.Loss == 0 && l.Late == 0 {
		return &l.full
	}
	l.heard.Slot, l.heard.Slots = l.full.Slot, l.full.Slots
	l.heard.Aircraft = append(l.heard.Aircraft[:0], l.full.Aircraft...)
	l.heard.Users = l.heard.Users[:0]
	for _, u := range l.full.Users {
		if !w.Config.ReportLost(w.Seed, w.Slot, u.ID, l.Loss) {
			l.last[u.ID] = clone(u)
		} else if old, known := l.last[u.ID]; known && l.Unheard == LastReport {
			u = old
		} else {
			continue
		}
		l.heard.Users = append(l.heard.Users, u)
	}
	if l.Late == 0 {
		return &l.heard
	}
	// Users as they were then, aircraft as measured now.
	then := l.heard
	then.Users = nil
	for _, u := range l.heard.Users {
		then.Users = append(then.Users, clone(u))
	}
	l.past = append(l.past, then)
	l.heard.Users = l.heard.Users[:0]
	if len(l.past) > l.Late {
		l.heard.Users = append(l.heard.Users, l.past[0].Users...)
		l.past = l.past[1:]
	}
	return &l.heard
}

func clone(u slot.User) slot.User {
	u.Gain = append([]float64(nil), u.Gain...)
	return u
}

// loadMemory is the weight of the past in the users an aircraft expects.
const loadMemory = 0.8

// unheard lets the users of the slot for whom there is no decision take the
// offer of the slot's beacon, and prepares the next.
func (l *link) unheard(w *world.World, seen *slot.Snapshot, d *slot.Decision, a *world.Action) {
	if l.Unheard != Offer {
		return
	}
	decided := map[int]bool{}
	for _, u := range seen.Users {
		decided[u.ID] = true
	}
	taken := make([]float64, len(w.Aircraft))
	for i := range w.Arrivals {
		if u := l.full.Users[i]; !decided[u.ID] && len(l.offer.Aircraft) == len(l.full.Aircraft) {
			if choice := l.offer.Choose(&w.Config.Physics, &u); choice.Server > 0 {
				a.Server[i], a.Offload[i] = l.full.Aircraft[choice.Server-1].Number, choice.Offload
			}
		}
		if a.Server[i] > 0 {
			taken[a.Server[i]-1]++
		}
	}
	if len(l.load) != len(taken) {
		l.load = taken
	}
	l.offer = dispatch.Offer{PriceSPerJ: d.PriceSPerJ}
	for m, n := range taken {
		l.load[m] = loadMemory*l.load[m] + (1-loadMemory)*n
	}
	for m := range w.Aircraft {
		if craft := &w.Aircraft[m]; !craft.Lost {
			l.offer.Aircraft = append(l.offer.Aircraft, dispatch.OfferAircraft{
				Number: m + 1, Position: craft.Position.Add(a.Move[m]), CPUHz: w.Config.Physics.EdgeCPUHz, ExpectedUsers: l.load[m],
			})
		}
	}
}
