package users

import (
	"maps"

	"prefdt/telemetry"
)

// user is one user's last report.
type user struct {
	name   string
	id     int // stable within a mission
	slot   int // of the report
	report telemetry.Report
}

// OpenSlot begins a slot's report window.
func (u *Users) OpenSlot(n int) { u.slot, u.current = n, u.current[:0] }

// Allowed is whether a user may report at all.
func (u *Users) Allowed(name string) bool { return u.allowed == nil || u.allowed[name] }

// Reported is how many reports counted in the open slot.
func (u *Users) Reported() int { return len(u.current) }

// AddReport enters a report and reports whether it counts for the open slot; inTime
// is whether the report window is still open.
func (u *Users) AddReport(name string, r telemetry.Report, inTime bool) bool {
	if !u.Allowed(name) {
		return false
	}
	x := u.byName[name]
	current := inTime && r.Slot == u.slot
	switch {
	case r.Slot > u.slot, x != nil && r.Slot <= x.slot:
		return false // of a slot not opened yet, or a second report
	case current && len(u.current) >= u.Max:
		return false // the slot is full
	}
	if x == nil {
		if x = u.admit(name); x == nil {
			return false
		}
	}
	x.slot, x.report = r.Slot, r
	if !current && r.Task != nil && len(u.late) < MaxPerSlot {
		u.late = append(u.late, *x)
	}
	if current {
		u.current = append(u.current, x)
	}
	return current
}

// admit adds a user. Where there are too many, users without a recent report are
// removed first; nil if that frees no space.
func (u *Users) admit(name string) *user {
	if len(u.byName) >= 2*MaxPerSlot && u.evictedSlot < u.slot { // once a slot: no report grows old within it
		u.evictedSlot = u.slot
		maps.DeleteFunc(u.byName, func(_ string, x *user) bool { return x.slot < u.slot-2 })
	}
	if len(u.byName) >= 2*MaxPerSlot {
		return nil
	}
	x := &user{name: name, id: u.nextID, slot: -1}
	u.nextID++
	u.byName[name] = x
	return x
}
