package users

import (
	"slices"

	"prefdt/telemetry"
)

// roster is the users: who reported in the open slot, and the last report of each.
type roster struct {
	max   int
	allow map[string]bool // nil: any user

	slot    int
	current []*user // in the open slot
	late    []user  // with a task whose report was too late for its slot, since the last window closed
	byID    map[string]*user
	known   []*user // every user in byID, in order of admission
	nextID  int
}

// user is one user's last report.
type user struct {
	name   string
	id     int // stable within a mission
	slot   int // of the report
	report telemetry.Report
}

func newRoster(most int, allow []string) roster {
	r := roster{max: most, byID: map[string]*user{}, slot: -1}
	if len(allow) > 0 {
		r.allow = map[string]bool{}
		for _, id := range allow {
			r.allow[id] = true
		}
	}
	return r
}

func (r *roster) openSlot(n int) { r.slot, r.current = n, r.current[:0] }

// addReport stores a report and reports whether it counts for the open slot.
func (r *roster) addReport(name string, x telemetry.Report, inTime bool) bool {
	if r.allow != nil && !r.allow[name] {
		return false
	}
	u := r.byID[name]
	current := inTime && x.Slot == r.slot
	switch {
	case x.Slot > r.slot, u != nil && x.Slot <= u.slot:
		return false // of a slot not opened yet, or a second report
	case current && len(r.current) >= r.max:
		return false // the slot is full
	}
	if u == nil {
		u = r.admit(name)
		if u == nil {
			return false
		}
	}
	u.slot, u.report = x.Slot, x
	if !current && x.Task != nil && len(r.late) < MaxPerSlot {
		r.late = append(r.late, *u)
	}
	if current {
		r.current = append(r.current, u)
	}
	return current
}

// admit adds a user. Where there are too many, users without a recent report are
// removed first; nil if that frees no space.
func (r *roster) admit(name string) *user {
	if len(r.byID) >= 2*MaxPerSlot {
		r.known = slices.DeleteFunc(r.known, func(u *user) bool {
			old := u.slot < r.slot-2
			if old {
				delete(r.byID, u.name)
			}
			return old
		})
		if len(r.byID) >= 2*MaxPerSlot {
			return nil
		}
	}
	u := &user{name: name, id: r.nextID, slot: -1}
	r.nextID++
	r.byID[name] = u
	r.known = append(r.known, u)
	return u
}
