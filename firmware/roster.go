package main

import (
	"slices"

	"prefdt/telemetry"
)

// roster is the users: who reported in the open slot, and what was last heard
// of each.
type roster struct {
	max   int
	allow map[string]bool // nil: anyone

	slot   int
	heard  []*user // in the open slot
	late   []user  // as they reported a task too late for its slot, since the last window closed
	byID   map[string]*user
	queue  []*user // all known, the longest unheard first, as far as order was kept
	nextID int
	full   int // reports refused because the slot was full
}

// user is one user's last report.
type user struct {
	name   string
	id     int // stable within a mission
	slot   int // of the report
	report telemetry.Report
}

func (r *roster) init(c Users) {
	r.max, r.byID, r.slot = c.Max, map[string]*user{}, -1
	if len(c.Allow) > 0 {
		r.allow = map[string]bool{}
		for _, id := range c.Allow {
			r.allow[id] = true
		}
	}
}

func (r *roster) openSlot(n int) { r.slot, r.heard = n, r.heard[:0] }

// take notes a report and tells whether it counts for the open slot.
func (r *roster) take(name string, report telemetry.Report, inTime bool) bool {
	if r.allow != nil && !r.allow[name] {
		return false
	}
	u := r.byID[name]
	current := inTime && report.Slot == r.slot
	switch {
	case report.Slot > r.slot, u != nil && report.Slot <= u.slot:
		return false // of the future, or a second one
	case current && len(r.heard) >= r.max:
		r.full++
		return false
	}
	if u == nil {
		u = r.admit(name)
		if u == nil {
			return false
		}
	}
	u.slot, u.report = report.Slot, report
	if !current && report.Task != nil && len(r.late) < telemetryUsersMax {
		r.late = append(r.late, *u)
	}
	if current {
		r.heard = append(r.heard, u)
	}
	return current
}

// admit makes room for a new user by forgetting one not heard in this slot.
func (r *roster) admit(name string) *user {
	if len(r.byID) >= 2*telemetryUsersMax {
		r.queue = slices.DeleteFunc(r.queue, func(u *user) bool {
			old := u.slot < r.slot-2
			if old {
				delete(r.byID, u.name)
			}
			return old
		})
		if len(r.byID) >= 2*telemetryUsersMax {
			return nil
		}
	}
	u := &user{name: name, id: r.nextID, slot: -1}
	r.nextID++
	r.byID[name] = u
	r.queue = append(r.queue, u)
	return u
}

// telemetryUsersMax is CONTRACT's most users a slot.
const telemetryUsersMax = 4096
