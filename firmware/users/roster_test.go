package users

import (
	"fmt"
	"testing"

	"prefdt/telemetry"
)

func taskReport(n int) telemetry.Report {
	return telemetry.Report{
		Slot: n, PositionM: [2]float64{200, 450}, CPUHz: 1e9, Gain: map[int]float64{1: 1e-9},
		Task: &telemetry.Task{Bits: 1e6, CyclesPerBit: 1000, DeadlineS: 0.9},
	}
}

func newReports(most int, allow ...string) *Users {
	u := &Users{Max: most, Allow: allow}
	u.Initialize()
	return u
}

func TestFirstValidReportInTimeCounts(t *testing.T) {
	r := newReports(3)
	r.OpenSlot(7)
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
		if got := r.AddReport(c.name, taskReport(c.slot), c.inTime); got != c.current {
			t.Errorf("%s: counts %v, want %v", c.what, got, c.current)
		}
	}
	if len(r.current) != 3 {
		t.Errorf("%d count", len(r.current))
	}
	if u := r.byName["c"]; u == nil || u.slot != 7 {
		t.Error("a late report is not kept as the last known one")
	}
	if r.byName["d"] != nil {
		t.Error("a report of the future was kept")
	}
	a := r.byName["a"].id
	r.OpenSlot(8)
	if !r.AddReport("a", taskReport(8), true) || r.current[0].id != a {
		t.Error("a user's id changed within the mission")
	}
}

func TestAllowList(t *testing.T) {
	r := newReports(10, "a")
	r.OpenSlot(0)
	if r.AddReport("b", taskReport(0), true) || !r.AddReport("a", taskReport(0), true) {
		t.Error("the allow list is not kept")
	}
}

func TestNumberOfUsersIsBounded(t *testing.T) {
	r := newReports(MaxPerSlot)
	for n := range 12 {
		r.OpenSlot(n)
		for i := range 3 * MaxPerSlot {
			r.AddReport(fmt.Sprintf("s%d-%d", n, i), taskReport(n), true)
		}
		if len(r.current) > MaxPerSlot || len(r.byName) > 2*MaxPerSlot {
			t.Fatalf("slot %d: %d count, %d known", n, len(r.current), len(r.byName))
		}
	}
}
