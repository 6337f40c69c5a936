package users

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"testing"

	"prefdt/inference/dispatch"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
	"prefdt/telemetry"
)

// newUsers are users of one mission, with the usual prior.
func newUsers(usual float64) *Users {
	u := &Users{Max: MaxPerSlot, Physics: physics.DefaultConstants(),
		Prior: dispatch.UserPrior{ActiveUsers: usual, CPUHz: 1e9, TaskMean: physics.Task{Bits: 1e6, CyclesPerBit: 1000, DeadlineS: 0.9}}}
	u.Initialize()
	return u
}

// oneAircraft is one aircraft over the area.
func oneAircraft() []slot.Aircraft {
	return []slot.Aircraft{{Number: 1, Position: physics.Position{EastM: 500, NorthM: 500}, CPUHz: 4e10, RemainingJ: 1e5}}
}

// reportAndSnapshot has n users report a task in a slot, and as many idle ones.
func reportAndSnapshot(u *Users, n, tasks, idle int) []string {
	u.OpenSlot(n)
	for i := range tasks + idle {
		r := taskReport(n)
		if i >= tasks {
			r.Task = nil
		}
		u.AddReport(fmt.Sprintf("u%d", i), r, true)
	}
	return u.Snapshot(&slot.Snapshot{Slot: n, Slots: 100, Aircraft: oneAircraft()})
}

// TestMaxOfferUsers bounds how many users without a report may have accepted an offer:
// as many as ever reported a task at once, or as the checkpoint expects, however many
// ids send results.
func TestMaxOfferUsers(t *testing.T) {
	u := newUsers(5.6)
	if got := u.MaxOfferUsers(); got != 6 {
		t.Errorf("before any report: %d, want 6", got)
	}
	reportAndSnapshot(u, 0, 3, 40)
	if got := u.MaxOfferUsers(); got != 6 {
		t.Errorf("after three with a task and forty idle: %d, want 6", got)
	}
	reportAndSnapshot(u, 1, 12, 0)
	reportAndSnapshot(u, 2, 2, 0)
	if got := u.MaxOfferUsers(); got != 12 {
		t.Errorf("after twelve in one slot: %d, want 12", got)
	}
	u.ObserveSlot(312, 300) // results of unknown users
	if got := u.MaxOfferUsers(); got != 12 {
		t.Errorf("after 300 unknown users: %d, want 12", got)
	}
	u.Initialize()
	if got := u.MaxOfferUsers(); got != 6 {
		t.Errorf("in a new mission: %d, want 6", got)
	}
}

func TestSnapshotHasUsersWithTasksInOrder(t *testing.T) {
	u := newUsers(4)
	first := append([]string(nil), reportAndSnapshot(u, 0, 3, 2)...)
	if fmt.Sprint(first) != "[u0 u1 u2]" || u.Reported() != 5 {
		t.Errorf("%v, %d reported", first, u.Reported())
	}
	// Later reports come in any order; the snapshot's is that of first arrival.
	u.OpenSlot(1)
	for _, name := range []string{"u2", "u0", "u1"} {
		u.AddReport(name, taskReport(1), true)
	}
	s := &slot.Snapshot{Slot: 1, Slots: 100, Aircraft: oneAircraft()}
	if again := u.Snapshot(s); fmt.Sprint(again) != "[u0 u1 u2]" || s.Users[0].ID > s.Users[1].ID {
		t.Errorf("%v", again)
	}
	if g := s.Users[0].Gain; len(g) != 1 || g[0] != 1e-9 {
		t.Errorf("the gain is %v", g)
	}
}

// TestIdleUsers: users without a task are in the snapshot if they reported a gain.
func TestIdleUsers(t *testing.T) {
	u := newUsers(4)
	reportAndSnapshot(u, 0, 3, 2)
	u.OpenSlot(1)
	for i, name := range []string{"u4", "u1", "u3", "u2", "new"} {
		r := taskReport(1)
		r.QueueBits = float64(i)
		if name != "u1" {
			r.Task = nil
		}
		if name == "u2" {
			r.Gain = nil
		}
		if name == "u3" {
			r.Gain = map[int]float64{2: 1e-10}
		}
		u.AddReport(name, r, true)
	}
	late := taskReport(1)
	late.Task = nil
	u.AddReport("late", late, false)
	s := &slot.Snapshot{Slot: 1, Slots: 100, Aircraft: oneAircraft(), IdleUsers: make([]slot.User, 3)}
	names := u.Snapshot(s)
	if fmt.Sprint(names) != "[u1]" || len(s.Users) != 1 || s.Users[0].ID != 1 {
		t.Errorf("with a task: %v, %+v", names, s.Users)
	}
	at := physics.Position{EastM: 200, NorthM: 450}
	mean := u.Physics.Channel.MeanGain(at.Sub(s.Aircraft[0].Position).Norm(), u.Physics.AltitudeM)
	want := []slot.User{
		{ID: 3, Position: at, QueueBits: 2, CPUHz: 1e9, Gain: []float64{mean}, GainMissing: []bool{true}}, // it reported another aircraft's
		{ID: 4, Position: at, QueueBits: 0, CPUHz: 1e9, Gain: []float64{1e-9}},
		{ID: 5, Position: at, QueueBits: 4, CPUHz: 1e9, Gain: []float64{1e-9}},
	}
	if !reflect.DeepEqual(s.IdleUsers, want) {
		t.Errorf("idle: %+v, want %+v", s.IdleUsers, want)
	}
	u.OpenSlot(2)
	if u.Snapshot(s); len(s.IdleUsers) != 0 {
		t.Errorf("in the next slot: %+v", s.IdleUsers)
	}
}

// TestMissingGainIsTheMean: a gain that was not reported is the closed-form mean, marked as
// no sounding.
func TestMissingGainIsTheMean(t *testing.T) {
	u := newUsers(4)
	u.OpenSlot(0)
	r := taskReport(0)
	r.Gain = nil
	u.AddReport("u", r, true)
	s := &slot.Snapshot{Slots: 100, Aircraft: oneAircraft()}
	u.Snapshot(s)
	distance := physics.Position{EastM: 200, NorthM: 450}.Sub(s.Aircraft[0].Position).Norm()
	if got, want := s.Users[0].Gain[0], u.Physics.Channel.MeanGain(distance, u.Physics.AltitudeM); got != want {
		t.Errorf("%v, want %v", got, want)
	}
	if s.Users[0].ReportedGain(0) {
		t.Error("the mean is taken for a sounding")
	}
}

// TestOfferNamesAircraft: an offer names the given aircraft, at the price of the last
// decision, also over a restart.
func TestOfferNamesAircraft(t *testing.T) {
	u := newUsers(4)
	if o := u.Offer(0, nil); len(o.Aircraft) != 0 || o.PriceSPerJ != dispatch.InitialPriceSPerJ {
		t.Errorf("with no aircraft: %+v", o)
	}
	u.PriceSPerJ = 0.02
	o := u.Offer(1, oneAircraft())
	if len(o.Aircraft) != 1 || o.Aircraft[0].Number != 1 || o.PriceSPerJ != 0.02 || !(o.Aircraft[0].ExpectedUsers >= 0) {
		t.Errorf("%+v", o)
	}
	if _, err := telemetry.Encode(telemetry.Slot{SlotMS: 1000, Speed: 1, ReportByMS: 300, DecideByMS: 450, Offer: o}); err != nil {
		t.Error(err)
	}
	next := newUsers(4)
	next.Restore(u.State())
	if got := next.PriceSPerJ; got != 0.02 {
		t.Errorf("after a restart the price is %v", got)
	}
}

// Of more users than there is time for, as many as there is time for are kept, in their order
// and with their names, and in the slots each in its turn.
func TestLimit(t *testing.T) {
	u, kept := newUsers(5), map[string]int{}
	s := slot.Snapshot{Slots: 100, Aircraft: oneAircraft()}
	for n := range 14 {
		u.OpenSlot(n)
		for i := range 7 {
			u.AddReport(fmt.Sprintf("u%d", i), taskReport(n), true)
		}
		all := u.Snapshot(&s)
		ids := map[string]int{}
		for i := range all {
			ids[all[i]] = s.Users[i].ID
		}
		names := u.Limit(&s, 3)
		if len(names) != 3 || len(s.Users) != 3 {
			t.Fatalf("slot %d: %d names of %d users, want 3", n, len(names), len(s.Users))
		}
		for i, name := range names {
			if kept[name]++; s.Users[i].ID != ids[name] || i > 0 && s.Users[i].ID <= s.Users[i-1].ID {
				t.Errorf("slot %d: %q are users %+v", n, names, s.Users)
			}
		}
	}
	for name, slots := range kept {
		if slots != 6 {
			t.Errorf("%s was kept in %d slots of 14, want 6", name, slots)
		}
	}
}

// TestRestartKeepsTheOffer: where the reports of many users are lost, a leader that restarts expects
// about as many as before, and counts as many results of the offer: it had begun anew with the
// checkpoint's handful, of whom each has most of an aircraft, and a hundred came.
func TestRestartKeepsTheOffer(t *testing.T) {
	const users = 100
	for _, lost := range []int{users, users * 2 / 5} {
		u := newUsers(5)
		for n := range 40 {
			reported := users
			if n > 5 {
				reported -= lost
			}
			u.Offer(n, oneAircraft())
			reportAndSnapshot(u, n, reported, 0)
			u.ObserveSlot(users, users-reported)
		}
		raw, err := json.Marshal(u.State())
		if err != nil {
			t.Fatal(err)
		}
		var saved State
		if err := json.Unmarshal(raw, &saved); err != nil {
			t.Fatal(err)
		}
		again := newUsers(5)
		again.Restore(saved)
		for n := 40; n < 43; n++ {
			before, after := u.Offer(n, oneAircraft()).Aircraft, again.Offer(n, oneAircraft()).Aircraft
			if len(before) != 1 || len(after) != 1 || math.Abs(after[0].ExpectedUsers/before[0].ExpectedUsers-1) > 0.3 {
				t.Errorf("%d of %d reports lost, slot %d: %+v is offered, after a restart %+v", lost, users, n, before, after)
			}
		}
		if x, y := u.MaxOfferUsers(), again.MaxOfferUsers(); x != y {
			t.Errorf("%d of %d reports lost: results of %d by the offer count, after a restart of %d", lost, users, x, y)
		}
		if x, y := u.WithoutDecision(), again.WithoutDecision(); x != y || !(y > 0.8*float64(lost)) {
			t.Errorf("%d of %d reports lost: %.0f without a decision are expected, after a restart %.0f", lost, users, x, y)
		}
	}
}

// What an aircraft measured of a function counts, not what its user reports, who computes as much in a second as it says.
func TestCostIsTheAircrafts(t *testing.T) {
	u := newUsers(2)
	u.CyclesPerBit = func(function, digest string) float64 {
		if function == "blobs" && digest == "" {
			return 130
		}
		return 0
	}
	s := &slot.Snapshot{Slot: 0, Slots: 100, Aircraft: oneAircraft()}
	u.OpenSlot(0)
	for _, function := range []string{"blobs", "other"} {
		r := taskReport(0)
		r.CPUHz, r.Task.CyclesPerBit, r.Task.Function = 1e9, 65, function
		u.AddReport(function, r, true)
	}
	u.Snapshot(s)
	if a, b := s.Users[0], s.Users[1]; a.Task.CyclesPerBit != 130 || a.CPUHz != 2e9 || b.Task.CyclesPerBit != 65 || b.CPUHz != 1e9 {
		t.Errorf("%+v, %+v", a, b)
	}
}
