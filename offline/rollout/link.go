package rollout

import (
	"fmt"
	"math/rand/v2"

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
	LastReport Fallback = "lastReport" // the leader decides from its last report, as if it knew of the task
	// Speculative has the leader decide for every known user that it did not
	// hear, and those who have a task obey.
	Speculative Fallback = "speculative"
	// Offer has it take the standing offer of the slot's beacon, as the leader's
	// users do. A report that comes late is one that was lost, and known after.
	Offer Fallback = "offer"
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
	full     slot.Snapshot
	heard    slot.Snapshot
	past     [][]slot.User     // the last Late slots' reports, oldest first
	last     map[int]slot.User // last report of each user
	forecast dispatch.Forecast
	offer    dispatch.Offer // of this slot's beacon
	price    float64        // of the decision before
	takers   int            // of the offer
}

func (l *link) reset() {
	l.past = l.past[:0]
	l.last = map[int]slot.User{}
	l.price = dispatch.OpeningPriceSPerJ
	l.forecast.Reset()
}

func (l *link) perfect() bool { return l.Loss == 0 && l.Late == 0 }

func (l *link) offers() bool { return l.Unheard == Offer && !l.perfect() }

// snapshot returns what the policy sees of the present slot.
func (l *link) snapshot(w *world.World) *slot.Snapshot {
	w.Snapshot(&l.full)
	if l.perfect() {
		return &l.full
	}
	l.heard.Slot, l.heard.Slots = l.full.Slot, l.full.Slots
	l.heard.Aircraft = append(l.heard.Aircraft[:0], l.full.Aircraft...)
	if l.Unheard == Offer {
		l.offer = l.forecast.Offer(&w.Config.Physics, l.full.Aircraft, l.price, rand.New(rand.NewPCG(w.Seed, uint64(w.Slot))))
	}
	reports := l.reports(w)
	if l.Late > 0 { // users as they were then, aircraft as measured now
		l.past = append(l.past, reports)
		reports = nil
		if len(l.past) > l.Late {
			reports, l.past = l.past[0], l.past[1:]
		}
	}
	l.heard.Users = append(l.heard.Users[:0], reports...)
	if l.Unheard == Offer {
		l.forecast.Hear(reports)
		l.forecast.Expect(&l.heard)
		if l.Late > 0 {
			l.heard.Users = l.heard.Users[:0] // their tasks are gone
		}
	}
	return &l.heard
}

// reports returns those of the slot that arrive, and what stands in for others.
func (l *link) reports(w *world.World) (users []slot.User) {
	next := 0
	for id := range w.Users {
		lost := w.Config.ReportLost(w.Seed, w.Slot, id, l.Loss)
		old, known := l.last[id]
		if next == len(l.full.Users) || l.full.Users[next].ID != id { // no task
			if known && lost && l.Unheard == Speculative {
				users = append(users, old)
			}
			continue
		}
		u := l.full.Users[next]
		next++
		switch {
		case !lost:
			u.Gain = append([]float64(nil), u.Gain...)
			l.last[id] = u
			users = append(users, u)
		case known && (l.Unheard == LastReport || l.Unheard == Speculative):
			users = append(users, old)
		}
	}
	return users
}

// unheard lets the users of the slot for whom there is no decision take the
// offer of its beacon, and tells the forecast what results tell.
func (l *link) unheard(w *world.World, seen *slot.Snapshot, d *slot.Decision, a *world.Action) {
	if !l.offers() {
		return
	}
	decided := map[int]bool{}
	for _, u := range seen.Users {
		decided[u.ID] = true
	}
	unheard := 0
	l.takers = 0
	for i := range w.Arrivals {
		if u := &l.full.Users[i]; !decided[u.ID] {
			unheard++
			if choice := l.offer.Choose(&w.Config.Physics, u); choice.Server > 0 {
				l.takers++
				a.Server[i], a.Offload[i] = l.offer.Aircraft[choice.Server-1].Number, choice.Offload
			}
		}
	}
	l.forecast.Settle(len(w.Arrivals), unheard)
	l.price = d.PriceSPerJ
}
