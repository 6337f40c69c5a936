package record

import (
	"bytes"
	"io"
	"math"
	"reflect"
	"strings"
	"testing"

	"prefdt/inference/goal"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
)

func newObjective(t *testing.T) goal.Objective {
	t.Helper()
	constants := goal.Constants{
		EtaDelayS: 600, EtaEnergyJ: 12e3, Slots: 100, AircraftCount: 2,
		Conditioner: goal.Conditioner{Omegas: []float64{0, 1}, DelayS: []float64{90, 700}, EnergyJ: []float64{39e3, 27e3}},
		SettingMap:  goal.SettingMap{Omegas: []float64{0, 1}},
	}
	c := physics.DefaultConstants()
	o := goal.New(&constants, &c, 100, 2)
	if err := o.SetBudget(1e5/3, goal.Ceiling); err != nil {
		t.Fatal(err)
	}
	return o
}

// A record is read back to the last bit, even if what it was written from is changed
// afterwards.
func TestRecordIsExact(t *testing.T) {
	o := newObjective(t)
	var out bytes.Buffer
	start := o.State()
	w := NewWriter(&out, Header{GraphSHA256: "12", Decoder: "dispatch", Physics: physics.DefaultConstants(), Objective: start})
	s := slot.Snapshot{Slot: 3, Slots: 100,
		Aircraft: []slot.Aircraft{{Number: 2, Position: physics.Position{EastM: 1.0 / 3}, RemainingJ: 1e5 / 7,
			Unreported: slot.UnreportedLoad{ExpectedUsers: 0.1}}},
		Users:          []slot.User{{ID: 7, Gain: []float64{math.Pi * 1e-12}, Task: physics.Task{Bits: 1e6 / 3}}},
		SyntheticUsers: []slot.User{{ID: -1}}}
	d := slot.Decision{Users: []slot.UserDecision{{Server: 1, Offload: 2.0 / 3}}, Move: []physics.Position{{NorthM: -1.0 / 3}},
		EdgeJ: []float64{0.1}, PriceSPerJ: 0.7, DelayS: 1.1}
	w.WriteDecision(&s, o, &d)
	number := 0.3
	settled := goal.Settlement{Slots: 2, EnergyJ: 1e3 / 3, MaxEdgeJ: math.MaxFloat64}
	events := []Event{{Settle: &settled}, {CorrectS: &number}, {Setting: &number}, {BudgetJ: &number, Mode: goal.Target}, {Restore: &start}}
	for _, e := range events {
		w.WriteEvent(e)
	}
	want := []slot.Snapshot{s, {Slot: 4}}
	wantDecision := d
	wantDecision.Users = []slot.UserDecision{d.Users[0]}
	want[0].Aircraft = []slot.Aircraft{s.Aircraft[0]}
	s.Aircraft[0].Position.EastM, d.Users[0].Server = 99, 99
	w.WriteDecision(&want[1], o, &slot.Decision{})
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := NewReader(&out)
	if err != nil {
		t.Fatal(err)
	}
	if r.Header.Objective != start || r.Header.Physics != physics.DefaultConstants() {
		t.Errorf("the header became %+v", r.Header)
	}
	got, err := r.Next()
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got.Snapshot, want[0]) || got.Objective != start || !got.Decision.Equal(&wantDecision) {
		t.Errorf("the slot became %+v", got)
	}
	if !reflect.DeepEqual(got.Events, events) {
		t.Errorf("the events became %+v", got.Events)
	}
	if got, err := r.Next(); err != nil || got.Snapshot.Slot != 4 || len(got.Events) != 0 {
		t.Errorf("the second slot became %+v, %v", got, err)
	}
	if _, err := r.Next(); err != io.EOF {
		t.Errorf("after the last slot: %v", err)
	}
}

func TestEventsChangeTheObjective(t *testing.T) {
	before, number, budgetJ := newObjective(t), 0.3, 4e4
	for name, c := range map[string]struct {
		event Event
		same  func(o *goal.Objective) error
	}{
		"settlement": {Event{Settle: &goal.Settlement{EnergyJ: 300, Flying: 2}}, func(o *goal.Objective) error {
			o.Settle(goal.Settlement{EnergyJ: 300, Flying: 2})
			return nil
		}},
		"correction": {Event{CorrectS: &number}, func(o *goal.Objective) error { o.CorrectDelay(0.3); return nil }},
		"preference": {Event{Setting: &number}, func(o *goal.Objective) error { return o.SetPreference(0.3) }},
		"budget":     {Event{BudgetJ: &budgetJ, Mode: goal.Target}, func(o *goal.Objective) error { return o.SetBudget(4e4, goal.Target) }},
		"restored":   {Event{Restore: &goal.State{Slot: 5}}, func(o *goal.Objective) error { o.Restore(goal.State{Slot: 5}); return nil }},
	} {
		a, b := before, before
		if err := c.event.Apply(&a); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := c.same(&b); err != nil {
			t.Fatal(err)
		}
		if a != b || a == before {
			t.Errorf("%s made %+v, want %+v", name, a.State(), b.State())
		}
	}
	o := newObjective(t)
	for _, e := range []Event{{}, {BudgetJ: &number}, {Setting: &budgetJ}} {
		if e.Apply(&o) == nil {
			t.Errorf("%+v was applied", e)
		}
	}
}

func TestWriterReportsWhatItCannotEncode(t *testing.T) {
	for name, misuse := range map[string]func(w *Writer){
		"encode event": func(w *Writer) {
			w.WriteDecision(&slot.Snapshot{}, newObjective(t), &slot.Decision{})
			w.WriteEvent(Event{Settle: &goal.Settlement{EnergyJ: math.NaN()}})
		},
		"encode decision": func(w *Writer) {
			w.WriteDecision(&slot.Snapshot{}, newObjective(t), &slot.Decision{DelayS: math.Inf(1)})
		},
	} {
		w := NewWriter(io.Discard, Header{})
		misuse(w)
		w.WriteDecision(&slot.Snapshot{}, newObjective(t), &slot.Decision{})
		if err := w.Close(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	var none *Writer
	none.WriteDecision(nil, goal.Objective{}, nil)
	none.WriteEvent(Event{})
	if err := none.Close(); err != nil {
		t.Error(err)
	}
}

// The first decision may be asked for another objective than the one that goes on: the header has that.
func TestBegin(t *testing.T) {
	var out bytes.Buffer
	w, kept := NewWriter(&out, Header{}), newObjective(t)
	asked := kept
	if err := asked.SetPreference(1); err != nil {
		t.Fatal(err)
	}
	w.Begin(kept)
	w.WriteDecision(&slot.Snapshot{}, asked, &slot.Decision{})
	w.Begin(asked) // of the next slot
	w.WriteDecision(&slot.Snapshot{Slot: 1}, asked, &slot.Decision{})
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := NewReader(&out)
	if err != nil {
		t.Fatal(err)
	}
	if first, err := r.Next(); r.Header.Objective != kept.State() || err != nil || first.Objective != asked.State() {
		t.Errorf("begins with %+v, the first is decided for %+v: %v", r.Header.Objective, first.Objective, err)
	}
}
