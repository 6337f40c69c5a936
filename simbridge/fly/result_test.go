package fly

import (
	"testing"

	"prefdt/simbridge/report"
	"prefdt/simbridge/users"
)

// Of the deadlines that were missed, those that computing locally would have met are told apart.
func TestMissedByOffloading(t *testing.T) {
	r := report.Flight{Rows: make([]report.Row, 2)}
	for i, o := range []users.Outcome{
		{DeadlineMissed: true, LocalInTime: true},
		{DeadlineMissed: true},
		{LocalInTime: true},
		{},
		{Slot: 1, DeadlineMissed: true, LocalInTime: true},
	} {
		addOutcome(&r.Rows[o.Slot], &o)
		if want := []int{1, 2, 2, 2, 1}[i]; r.Rows[o.Slot].DeadlinesMissed != want {
			t.Errorf("%d deadlines missed, want %d", r.Rows[o.Slot].DeadlinesMissed, want)
		}
	}
	var s report.Summary
	sumRows(&s, &r)
	if s.Tasks.DeadlinesMissed != 3 || s.Tasks.MissedByOffloading != 2 {
		t.Errorf("%+v, want 3 deadlines missed, 2 of them by offloading", s.Tasks)
	}
}
