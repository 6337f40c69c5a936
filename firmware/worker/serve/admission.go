package serve

import (
	"math"
	"sync"

	"prefdt/telemetry"
	"prefdt/telemetry/task"
)

// admission decides which requests are computed. It knows slot and mission from the
// leader's beacon and status, and trusts no clock.
type admission struct {
	fleet      string
	aircraft   int
	key        *task.Key // nil: no grants
	offerBytes int       // of a task by the standing offer, at most

	mutex   sync.Mutex
	mission [8]byte // zero: not known yet
	slot    int     // of the last beacon; -1: none in this mission
	after   int     // only slots after this one: earlier ones may have been used before a restart
	offers  map[int]telemetry.OfferAircraft
	used    map[use]struct{}
}

// use is one user's task in a slot: each is computed once.
type use struct {
	slot int
	user [8]byte
}

func newAdmission(fleet string, aircraft int, key *task.Key, offerBytes int) *admission {
	return &admission{fleet: fleet, aircraft: aircraft, key: key, offerBytes: offerBytes, slot: -1,
		offers: map[int]telemetry.OfferAircraft{}, used: map[use]struct{}{}}
}

// setMission begins a mission. Of one that was in its slots before this worker began, the
// slot of the first beacon may have been used.
func (a *admission) setMission(mission string, inSlots bool) {
	h := task.MissionHash(a.fleet, mission)
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if h == a.mission {
		return
	}
	known := a.mission != [8]byte{} || !inSlots
	a.mission, a.slot, a.after = h, -1, -1
	if !known {
		a.after = unknownSlot
	}
	clear(a.offers)
	clear(a.used)
}

// unknownSlot stands for the slot of the first beacon until it comes.
const unknownSlot = math.MaxInt

// openSlot takes a beacon. One with a lower number is another leader's, or late.
func (a *admission) openSlot(s telemetry.Slot) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if s.Slot <= a.slot {
		return
	}
	if a.slot < 0 && a.after == unknownSlot {
		a.after = s.Slot
	}
	a.slot = s.Slot
	for _, x := range s.Offer.Aircraft {
		if x.Number == a.aircraft {
			a.offers[s.Slot] = x
		}
	}
	for slot := range a.offers {
		if slot < a.slot-task.GrantSlots {
			delete(a.offers, slot)
		}
	}
	for u := range a.used {
		if u.slot < a.slot-task.GrantSlots {
			delete(a.used, u)
		}
	}
}

// admit returns the share of the CPU with which a request is computed, and that it is used
// from now on; or why it is not. user is the certificate's, empty without one: whom a grant names
// is nobody else.
func (a *admission) admit(r *task.Request, function [12]byte, user string) (share float64, status task.Status) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	by := use{r.Slot, task.UserHash(user)}
	if r.Grant != nil {
		if a.key == nil {
			return 0, task.Forged
		}
		g, err := task.Open(r.Grant, a.key)
		switch {
		case err != nil:
			return 0, task.Forged
		case g.Mission != a.mission, int(g.Aircraft) != a.aircraft, g.User != by.user:
			return 0, task.Foreign
		case g.Function != function:
			return 0, task.Function
		case int(g.Slot) != r.Slot, !a.current(r.Slot, 1):
			return 0, task.Expired
		case r.Bytes > int(g.Bytes):
			return 0, task.Oversize
		}
		share = float64(g.Share) / 65535
	} else {
		offer, ok := a.offers[r.Slot]
		switch {
		case user == "" || !ok:
			return 0, task.NoOffer
		case r.Digest != [12]byte{} && r.Digest != function:
			return 0, task.Function
		case !a.current(r.Slot, 0):
			return 0, task.Expired
		case r.Bytes > a.offerBytes:
			return 0, task.Oversize
		}
		share = 1 / (offer.ExpectedUsers + 1)
	}
	if _, ok := a.used[by]; ok {
		return 0, task.Replayed
	}
	a.used[by] = struct{}{}
	return share, task.OK
}

// current is whether tasks of a slot are computed. A user may have had a beacon earlier than
// this worker, by so many slots.
func (a *admission) current(slot, ahead int) bool {
	return a.slot >= 0 && slot > a.after && slot >= a.slot-task.GrantSlots && slot <= a.slot+ahead
}
