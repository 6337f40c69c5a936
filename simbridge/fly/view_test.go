package fly

import (
	"slices"
	"testing"

	"prefdt/simbridge/autopilot"
	"prefdt/simbridge/geo"
	"prefdt/simbridge/report"
)

// A completed flight names what a person has to know first; one that ended early has no budget
// to be judged by.
func TestProblems(t *testing.T) {
	for name, c := range map[string]struct {
		slots, missed, planned int
		budgetError            float64
		want                   []string
	}{
		"all well":            {98, 2, 100, 0.004, nil},
		"slots missed":        {94, 6, 100, 0, []string{"6 of 100 slots were missed: the leader was away, or this machine too busy for speed 10"}},
		"passed":              {100, 0, 100, 0.012, []string{"the budget of 42.00 kJ was passed by 1.2 %"}},
		"both":                {90, 10, 100, 0.012, []string{"10 of 100 slots were missed: the leader was away, or this machine too busy for speed 10", "the budget of 42.00 kJ was passed by 1.2 %"}},
		"passed, ended early": {40, 0, 100, 0.012, nil},
		"left over":           {100, 0, 100, -0.2, nil},
	} {
		s := &report.Summary{Slots: c.slots, MissedSlots: c.missed, PlannedSlots: c.planned, Speed: 10, Budget: report.Energy{RevisedJ: 42000, Error: c.budgetError}}
		if got := problems(s); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// In a slot that no beacon opened an aircraft is where it was last, not at the origin.
func TestBodiesOfMissedSlots(t *testing.T) {
	at := func(eastM float64) []autopilot.Body {
		return []autopilot.Body{{Position: geo.Local{EastM: eastM}}}
	}
	f := &flight{Config: Config{Aircraft: make([]AircraftConfig, 1)}, bodiesAtBeacon: map[int][]autopilot.Body{1: at(100), 3: at(300)}}
	for slot, bodies := range f.bodiesBySlot(5) {
		if got, want := bodies[0].Position.EastM, []float64{100, 100, 100, 300, 300}[slot]; got != want {
			t.Errorf("slot %d: at %v, want %v", slot, got, want)
		}
	}
	f.bodiesAtBeacon = nil
	if got := f.bodiesBySlot(2); len(got) != 2 || len(got[1]) != 1 {
		t.Errorf("without a beacon: %v", got)
	}
}
