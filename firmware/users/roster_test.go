package users

import (
	"fmt"
	"testing"
)

func TestFirstValidReportInTimeCounts(t *testing.T) {
	var r roster
	r.init(Users{Max: 3})
	r.openSlot(7)
	for _, c := range []struct {
		what    string
		name    string
		slot    int
		inTime  bool
		current bool
	}{
		{"the first", "a", 7, true, true},
		{"a second one", "a", 7, true, false},
		{"of the slot before", "b", 6, true, false},
		{"then the current one", "b", 7, true, true},
		{"late", "c", 7, false, false},
		{"of the future", "d", 8, true, false},
		{"the third user", "e", 7, true, true},
		{"one too many", "f", 7, true, false},
	} {
		if got := r.take(c.name, report(c.slot, 0), c.inTime); got != c.current {
			t.Errorf("%s: counts %v, want %v", c.what, got, c.current)
		}
	}
	if len(r.heard) != 3 || r.full != 1 {
		t.Errorf("heard %d, refused %d", len(r.heard), r.full)
	}
	if u := r.byID["c"]; u == nil || u.slot != 7 {
		t.Error("a late report is not kept as the last known one")
	}
	if r.byID["d"] != nil {
		t.Error("a report of the future was kept")
	}
	a := r.byID["a"].id
	r.openSlot(8)
	if !r.take("a", report(8, 0), true) || r.heard[0].id != a {
		t.Error("a user's id changed within the mission")
	}
}

func TestAllowList(t *testing.T) {
	var r roster
	r.init(Users{Max: 10, Allow: []string{"a"}})
	r.openSlot(0)
	if r.take("b", report(0, 0), true) || !r.take("a", report(0, 0), true) {
		t.Error("the allow list is not kept")
	}
}

func TestAStormOfNamesIsBounded(t *testing.T) {
	var r roster
	r.init(Users{Max: telemetryUsersMax})
	for n := range 12 {
		r.openSlot(n)
		for i := range 3 * telemetryUsersMax {
			r.take(fmt.Sprintf("s%d-%d", n, i), report(n, 0), true)
		}
		if len(r.heard) > telemetryUsersMax || len(r.byID) > 2*telemetryUsersMax {
			t.Fatalf("slot %d: %d heard, %d known", n, len(r.heard), len(r.byID))
		}
	}
}
