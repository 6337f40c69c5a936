package rollout

import (
	"fmt"
	"math/rand/v2"

	"prefdt/inference/dispatch"
	"prefdt/inference/slot"
	"prefdt/simbridge/world"
)

// ReportLink is the channel by which users' reports reach the policy. Its zero
// value is perfect.
type ReportLink struct {
	LossRate float64 // fraction of the reports that is lost
	// LateSlots delays the reports: slot t is decided from those of slot t-LateSlots. Below
	// zero it is decided from those of a slot to come, at the gains of the aircraft where they
	// are: the paper's control for what is lost by staleness alone.
	LateSlots int
	// Fallback is what users without a decision do, or what stands in for their
	// reports.
	Fallback Fallback
	// Prior is of the users, for offers made before any reported. A checkpoint's own is
	// used where it is zero; without any, the first offers expect nobody.
	Prior dispatch.UserPrior
	// Received, if set, has which reports arrive in place of draws at LossRate.
	Received func(slot, user int) bool
	// Followed, if set, has which users' decisions came in time; the others, and those
	// whose reports do not arrive, accept the offer.
	Followed func(slot, user int) bool
	// Missed, if set, has the slots in which the leader was not there: no user gets a
	// beacon, so that all compute locally, and the aircraft stay where they are.
	Missed func(slot int) bool
	// Measured, if set, has for which aircraft it is known before a slot how it flew.
	Measured func(slot, number int) bool
}

// Fallback is what happens to a user whose report is lost.
type Fallback string

const (
	FallbackLocal      Fallback = ""           // it computes locally
	FallbackLastReport Fallback = "lastReport" // the leader decides from its last report, as if it knew of the task
	// FallbackSpeculative has the leader decide for every known user that did not
	// report; those that have a task follow the decision.
	FallbackSpeculative Fallback = "speculative"
	// FallbackOffer has it accept the standing offer of the slot's beacon, as the
	// leader's users do. A delayed report is a lost one whose contents are known
	// later.
	FallbackOffer Fallback = "offer"
)

func (l ReportLink) check() error {
	if !(l.LossRate >= 0 && l.LossRate <= 1) {
		return fmt.Errorf("link loses %v of its reports, want a fraction", l.LossRate)
	}
	if l.LateSlots < 0 && (l.LossRate > 0 || l.Fallback != FallbackLocal) {
		return fmt.Errorf("reports come %d slots early: nothing else can be wrong with that link", -l.LateSlots)
	}
	return nil
}

// linkState is a ReportLink in use.
type linkState struct {
	ReportLink
	complete       slot.Snapshot
	received       slot.Snapshot
	delayedReports [][]slot.User     // of the last LateSlots slots, oldest first
	lastReports    map[int]slot.User // last report of each user
	forecast       dispatch.Forecast
	offer          dispatch.Offer // of this slot's beacon
	lastPriceSPerJ float64        // of the decision before
	acceptedOffers int            // by how many users
	lastMissed     int            // slot, -1: none
}

// lost is whether a user's report of a slot does not arrive.
func (l *linkState) lost(w *world.World, slot, user int) bool {
	if l.Received != nil {
		return !l.Received(slot, user)
	}
	return w.Config.ReportLost(w.Seed, slot, user, l.LossRate)
}

func (l *linkState) reset() {
	l.delayedReports = l.delayedReports[:0]
	l.lastReports = map[int]slot.User{}
	l.lastPriceSPerJ = dispatch.InitialPriceSPerJ
	l.lastMissed = -1
	l.forecast.Reset()
}

func (l *linkState) isPerfect() bool {
	return l.LossRate == 0 && l.LateSlots == 0 && l.Received == nil && l.Followed == nil && l.Missed == nil && l.Measured == nil
}

func (l *linkState) usesOffers() bool { return l.Fallback == FallbackOffer && !l.isPerfect() }

// snapshot returns what the policy receives of the present slot.
func (l *linkState) snapshot(w *world.World) *slot.Snapshot {
	w.Snapshot(&l.complete)
	if l.isPerfect() {
		return &l.complete
	}
	l.received.Slot, l.received.Slots = l.complete.Slot, l.complete.Slots
	l.received.Aircraft = append(l.received.Aircraft[:0], l.complete.Aircraft...)
	for m := range l.received.Aircraft {
		if a := &l.received.Aircraft[m]; l.Measured != nil && !l.Measured(w.Slot, a.Number) {
			a.Flown = slot.Flown{}
		}
	}
	if l.Fallback == FallbackOffer {
		l.offer = l.forecast.Offer(&w.Config.Physics, l.complete.Aircraft, l.lastPriceSPerJ, rand.New(rand.NewPCG(w.Seed, uint64(w.Slot))))
	}
	reports := l.reports(w)
	if l.LateSlots > 0 { // users as reported then, aircraft as measured now
		l.delayedReports = append(l.delayedReports, reports)
		reports = l.delayedReports[0] // until there are as old ones, those of the first slot
		if len(l.delayedReports) > l.LateSlots {
			l.delayedReports = l.delayedReports[1:]
		}
	}
	if l.LateSlots < 0 {
		reports = w.UsersAhead(-l.LateSlots, reports[:0])
	}
	l.received.Users = append(l.received.Users[:0], reports...)
	l.receiveOthers(w)
	if l.Fallback == FallbackOffer {
		l.forecast.Observe(reports)
		l.forecast.AnnotateSnapshot(&l.received)
		if l.LateSlots > 0 {
			l.received.Users = l.received.Users[:0] // their tasks are gone
		}
	}
	return &l.received
}

// reports returns those of the slot that arrive, and what stands in for others.
func (l *linkState) reports(w *world.World) (users []slot.User) {
	next := 0
	for id := range w.Users {
		lost := l.lost(w, w.Slot, id)
		old, known := l.lastReports[id]
		if next == len(l.complete.Users) || l.complete.Users[next].ID != id { // no task
			if known && lost && l.Fallback == FallbackSpeculative {
				users = append(users, old)
			}
			continue
		}
		u := l.complete.Users[next]
		next++
		switch {
		case !lost:
			u.Gain = append([]float64(nil), u.Gain...)
			l.lastReports[id] = u
			users = append(users, u)
		case known && (l.Fallback == FallbackLastReport || l.Fallback == FallbackSpeculative):
			users = append(users, old)
		}
	}
	return users
}

// followed is whether a user's decision of a slot, if it was decided on, comes in time.
func (l *linkState) followed(slot, user int) bool { return l.Followed == nil || l.Followed(slot, user) }

// receiveOthers takes over the reports of users without a task, and the results of
// tasks that had been reported: without the report nobody knows what took that time.
// A late report of an idle user is of no use to anyone.
func (l *linkState) receiveOthers(w *world.World) {
	l.received.IdleUsers, l.received.Results = l.received.IdleUsers[:0], l.received.Results[:0]
	for _, u := range l.complete.IdleUsers {
		if l.LateSlots == 0 && !l.lost(w, w.Slot, u.ID) {
			l.received.IdleUsers = append(l.received.IdleUsers, u)
		}
	}
	for _, r := range l.complete.Results {
		if r.Slot > l.lastMissed && !l.lost(w, r.Slot, r.User) && (l.followed(r.Slot, r.User) || r.Aircraft == 0) {
			l.received.Results = append(l.received.Results, r)
		}
	}
}

// applyOffers lets the slot's users without a decision accept the offer of its
// beacon, and updates the forecast by what their results would show.
func (l *linkState) applyOffers(w *world.World, seen *slot.Snapshot, d *slot.Decision, a *world.Action) {
	if !l.usesOffers() {
		return
	}
	decided := map[int]bool{}
	for _, u := range seen.Users {
		decided[u.ID] = true
	}
	unreported := 0
	l.acceptedOffers = 0
	for i := range w.Arrivals {
		if u := &l.complete.Users[i]; !decided[u.ID] || !l.followed(w.Slot, u.ID) {
			if !decided[u.ID] {
				unreported++
			}
			a.Server[i], a.Offload[i] = 0, 0
			if choice := l.offer.Choose(&w.Config.Physics, u); choice.Server > 0 {
				l.acceptedOffers++
				a.Server[i], a.Offload[i] = l.offer.Aircraft[choice.Server-1].Number, choice.Offload
			}
		}
	}
	l.forecast.Settle(len(w.Arrivals), unreported)
	l.lastPriceSPerJ = d.PriceSPerJ
}
