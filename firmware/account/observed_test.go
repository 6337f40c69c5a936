package account

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"prefdt/firmware/energy"
	"prefdt/firmware/fleet"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
	"prefdt/telemetry"
)

// decideForThree enters a decision of slot n for three users: a offloads three quarters and
// b all of its task to aircraft 2, c computes locally.
func (f *testFlight) decideForThree(n int) {
	s := slot.Snapshot{Slot: n, Slots: 100, Aircraft: []slot.Aircraft{{Number: 1, CPUHz: 4e10},
		{Number: 2, Position: physics.Position{EastM: 600, NorthM: 500 + float64(n)}, CPUHz: 4e10}}}
	d := slot.Decision{PriceSPerJ: 0.01, Users: []slot.UserDecision{
		{Server: 2, Offload: 0.75, CPUHz: 2e10, CompletionS: 0.3}, {Server: 2, Offload: 1, CPUHz: 2e10, CompletionS: 0.3},
		{CompletionS: 0.8},
	}}
	for i := range d.Users {
		s.Users = append(s.Users, slot.User{
			ID: 7 - i, CPUHz: 1e9, Position: physics.Position{EastM: 100 * float64(i), NorthM: 400}, Gain: []float64{1e-9, 1e-9},
			Task: physics.Task{Bits: 1e6, CyclesPerBit: 1000, DeadlineS: 0.9},
		})
	}
	f.AddDecision(SlotDecision{Slot: n, Users: []string{"a", "b", "c"}, Snapshot: &s, Decision: &d, Reported: 3, MaxOfferUsers: 4,
		OfferedAircraft: true})
}

// TestTimesOfResults: what a result shows of its user's CPU and of the radio is by the
// task, the share and the places of that slot's decision.
func TestTimesOfResults(t *testing.T) {
	at := physics.Position{EastM: 600, NorthM: 500}
	for _, c := range []struct {
		name   string
		user   string
		result telemetry.Result
		want   []slot.Result
	}{
		{"as decided", "a", telemetry.Result{CompletionS: 0.3, By: telemetry.ByDecision, LocalS: new(0.25), UploadS: new(0.2)},
			[]slot.Result{
				{User: 7, Aircraft: 2, CompletionS: 0.3, LocalS: 0.25, LocalCycles: 2.5e8,
					Upload: slot.Upload{Bits: 7.5e5, S: 0.2, BandwidthShare: 0.5, User: physics.Position{NorthM: 400}, Aircraft: at}}}},
		{"without times", "a", telemetry.Result{CompletionS: 0.3, By: telemetry.ByDecision},
			[]slot.Result{{User: 7, Aircraft: 2, CompletionS: 0.3}}},
		{"one time alone", "a", telemetry.Result{CompletionS: 0.3, By: telemetry.ByDecision, LocalS: new(0.25)},
			[]slot.Result{{User: 7, Aircraft: 2, CompletionS: 0.3, LocalS: 0.25, LocalCycles: 2.5e8}}},
		{"with no part of its own", "b", telemetry.Result{CompletionS: 0.3, By: telemetry.ByDecision, LocalS: new(0.0), UploadS: new(0.25)},
			[]slot.Result{
				{User: 6, Aircraft: 2, CompletionS: 0.3, Upload: slot.Upload{Bits: 1e6, S: 0.25, BandwidthShare: 0.5,
					User: physics.Position{EastM: 100, NorthM: 400}, Aircraft: at}}}},
		{"with nothing uploaded", "c", telemetry.Result{CompletionS: 2, By: telemetry.ByDecision, LocalS: new(2.0), UploadS: new(0.1)},
			[]slot.Result{{User: 5, CompletionS: 2, LocalS: 2, LocalCycles: 1e9}}},
		{"computed locally against the decision", "a", telemetry.Result{CompletionS: 1.5, By: telemetry.ByLocal, LocalS: new(1.5)},
			[]slot.Result{{User: 7, CompletionS: 1.5, LocalS: 1.5, LocalCycles: 1e9}}},
		{"by the offer, on no one knows which aircraft", "a", telemetry.Result{CompletionS: 0.4, By: telemetry.ByOffer, LocalS: new(0.1),
			UploadS: new(0.1)}, nil},
		{"of a user without a report", "x", telemetry.Result{CompletionS: 0.4, By: telemetry.ByLocal, LocalS: new(0.4)}, nil},
	} {
		f := newTestFlight(100)
		f.Physics.Contention = true
		f.decideForThree(0)
		if err := f.ApplyResult(c.user, &c.result, true); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if got := f.TakeResults(nil); !slices.Equal(got, c.want) {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
	f := newTestFlight(100)
	f.decideForThree(0)
	f.ApplyResult("a", &telemetry.Result{CompletionS: 0.3, By: telemetry.ByDecision, UploadS: new(0.2)}, true)
	if got := f.TakeResults(nil); len(got) != 1 || got[0].Upload.BandwidthShare != 1 {
		t.Errorf("without contention: %+v", got)
	}
}

// TestTakeResults: each result is taken once, in the order of slots and users, by the
// first snapshot after it arrived; a repeated one and one that expired not at all. The
// next leader process has none.
func TestTakeResults(t *testing.T) {
	f := newTestFlight(100)
	send := func(user string, n int) {
		f.ApplyResult(user, &telemetry.Result{Slot: n, CompletionS: 0.3, By: telemetry.ByDecision}, true)
	}
	check := func(when string, want ...int) {
		t.Helper()
		var got []int // slot and user
		for _, r := range f.TakeResults(nil) {
			got = append(got, 10*r.Slot+r.User)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", when, got, want)
		}
	}
	f.decideForThree(0)
	send("a", 0)
	send("c", 0)
	send("a", 0)
	check("in slot 1", 5, 7)
	f.decideForThree(1)
	send("c", 1)
	send("b", 0)
	check("in slot 2", 6, 15)
	f.ExpireResults(2)
	send("a", 1)
	f.ExpireResults(3)
	send("b", 1)
	check("in slot 3", 17)
	f.decideForThree(3)
	send("a", 3)
	f = f.restarted(t)
	send("b", 3)
	check("after a restart")
}

// TestTimesThatAreRefused has each time that cannot be. Its result changes neither the
// account nor what the next snapshot has, and no other user's.
func TestTimesThatAreRefused(t *testing.T) {
	for _, c := range []struct {
		name   string
		user   string
		result telemetry.Result
		kind   string
	}{
		{"no time for a part", "a", telemetry.Result{LocalS: new(0.0)}, "result: local_s too short"},
		{"less than none", "a", telemetry.Result{LocalS: new(-0.1)}, "result: local_s too short"},
		{"not a number", "a", telemetry.Result{LocalS: new(math.NaN())}, "result: local_s too short"},
		{"without end", "a", telemetry.Result{LocalS: new(math.Inf(1))}, "result: local_s too long"},
		{"a CPU twenty times as fast as reported", "a", telemetry.Result{LocalS: new(0.01)}, "result: local_s too short"},
		{"longer than its results count", "a", telemetry.Result{LocalS: new(3.1)}, "result: local_s too long"},
		{"a local task in no time", "c", telemetry.Result{By: telemetry.ByLocal, LocalS: new(1e-9)}, "result: local_s too short"},
		{"an upload in no time", "a", telemetry.Result{UploadS: new(0.0)}, "result: upload_s too short"},
		{"an upload in less", "a", telemetry.Result{UploadS: new(-1.0)}, "result: upload_s too short"},
		{"an upload that is not a number", "a", telemetry.Result{UploadS: new(math.NaN())}, "result: upload_s too short"},
		{"faster than with a gain of 1", "a", telemetry.Result{UploadS: new(0.01)}, "result: upload_s too short"},
		{"an upload over many slots", "a", telemetry.Result{LocalS: new(0.2), UploadS: new(40.0)}, "result: upload_s too long"},
	} {
		f := newTestFlight(100)
		f.decideForThree(0)
		c.result.CompletionS = 50
		if c.result.By == "" {
			c.result.By = telemetry.ByDecision
		}
		err := f.ApplyResult(c.user, &c.result, true)
		if invalid, _ := err.(*telemetry.InvalidError); invalid == nil || invalid.Kind != c.kind {
			t.Errorf("%s: %v, want %s", c.name, err, c.kind)
		}
		if err := f.ApplyResult("b", &telemetry.Result{CompletionS: 0.3, By: telemetry.ByDecision, UploadS: new(0.2)}, true); err != nil {
			t.Errorf("%s: then another user's: %v", c.name, err)
		}
		if got := f.TakeResults(nil); len(got) != 1 || got[0].User != 6 || got[0].Upload.S != 0.2 {
			t.Errorf("%s: the snapshot has %+v", c.name, got)
		}
		if f.fly(1); math.Abs(f.Objective().DelayS()-(0.3+0.3+0.8)) > 1e-9 {
			t.Errorf("%s: the delay is %v s", c.name, f.Objective().DelayS())
		}
		if err := f.ApplyResult(c.user, &telemetry.Result{CompletionS: 0.5, By: c.result.By}, true); err != nil ||
			len(f.TakeResults(nil)) != 1 {
			t.Errorf("%s: without the time it is refused too: %v", c.name, err)
		}
	}
}

// TestObservedResultsAreBounded: users without a report, and repeats, add nothing.
func TestObservedResultsAreBounded(t *testing.T) {
	f := newTestFlight(100)
	for n := range 3 {
		f.decideForThree(n)
	}
	for i := range 1000 {
		for n := range 3 {
			for _, user := range []string{"a", "b", "c", fmt.Sprintf("x%d", i)} {
				f.ApplyResult(user, &telemetry.Result{Slot: n, CompletionS: 1, By: telemetry.ByLocal, LocalS: new(1.0)}, true)
			}
		}
	}
	if got := f.TakeResults(nil); len(got) != 9 {
		t.Errorf("%d results are kept, want 9", len(got))
	}
}

// TestFlown: the flight of a slot is its displacement and what the battery lost, less the
// edge energy of the users that were served, by the time between the settlements; it is
// zero where anything of that was not measured.
func TestFlown(t *testing.T) {
	edgeJ := func(f *testFlight, n int) float64 { return f.results[n].aircraftEdgeJ[1] }
	for _, c := range []struct {
		name   string
		change func(f *testFlight, v *fleet.View) // of aircraft 2, before slot 1 is settled
		missed int                                // slots before it
		known  bool
	}{
		{"a slot", func(*testFlight, *fleet.View) {}, 0, true},
		{"a settlement that is late", func(f *testFlight, v *fleet.View) {
			v.AtS, v.TotalJ = v.AtS+0.2, v.TotalJ+0.2*slotJ
			v.Position = v.Position.Add(physics.Position{EastM: 0.2 * 6, NorthM: -0.2 * 8})
		}, 0, true},
		{"a user that computed elsewhere", func(f *testFlight, v *fleet.View) {
			v.TotalJ -= edgeJ(f, 1)
			for _, user := range []string{"a", "b"} {
				f.ApplyResult(user, &telemetry.Result{Slot: 1, CompletionS: 1, By: telemetry.ByLocal}, true)
			}
		}, 0, true},
		{"a user that took the offer", func(f *testFlight, _ *fleet.View) {
			f.ApplyResult("x", &telemetry.Result{Slot: 1, CompletionS: 0.3, By: telemetry.ByOffer}, true)
		}, 0, false},
		{"an unknown user that took the offer", func(f *testFlight, _ *fleet.View) {
			f.ApplyResult("x", &telemetry.Result{Slot: 1, CompletionS: 0.3, By: telemetry.ByOffer}, false)
		}, 0, false},
		{"an unknown user that says so, and computes by itself", func(f *testFlight, _ *fleet.View) {
			f.ApplyResult("x", &telemetry.Result{Slot: 1, CompletionS: 0.3, By: telemetry.ByLocal}, false)
		}, 0, true},
		{"nothing received in the last second", func(_ *testFlight, v *fleet.View) { v.Measured = false }, 0, false},
		{"nothing received at the settlement before", func(f *testFlight, _ *fleet.View) { f.aircraft[1].marks[1].measured = false }, 0,
			false},
		{"readings by another boot's clock", func(f *testFlight, _ *fleet.View) { f.aircraft[1].marks[1].readS = 5000 }, 0, false},
		{"with its pilot", func(_ *testFlight, v *fleet.View) { v.Flying = false }, 0, false},
		{"a position that jumped", func(_ *testFlight, v *fleet.View) { v.Position.EastM += 90 }, 0, false},
		{"a meter that corrected itself", func(_ *testFlight, v *fleet.View) { v.TotalJ -= 400 }, 0, false},
		{"a settlement that is very late", func(_ *testFlight, v *fleet.View) { v.AtS += 0.6 }, 0, false},
		{"a slot missed", func(*testFlight, *fleet.View) {}, 1, false},
	} {
		f := newTestFlight(100)
		f.SettleTransit(f.views)
		f.decideForThree(0)
		f.fly(1)
		if f.Flown(2, 0) == (slot.Flown{}) || f.Flown(2, 1) != (slot.Flown{}) {
			t.Fatalf("%s: the slot before: %+v, %+v", c.name, f.Flown(2, 0), f.Flown(2, 1))
		}
		n := 1 + c.missed
		f.decideForThree(n)
		if c.missed == 0 {
			f.decideForThree(1)
		}
		v := &f.views[1]
		v.Position, v.TotalJ = v.Position.Add(physics.Position{EastM: 6, NorthM: -8}), v.TotalJ+edgeJ(f, n)
		c.change(f, v)
		f.fly(n)
		got, want := f.Flown(2, n), slot.Flown{EastMPS: 6, NorthMPS: -8, FlightJ: slotJ}
		if !c.known {
			want = slot.Flown{}
		}
		if math.Abs(got.EastMPS-want.EastMPS) > 1e-9 || math.Abs(got.NorthMPS-want.NorthMPS) > 1e-9 ||
			math.Abs(got.FlightJ-want.FlightJ) > 1e-9 {
			t.Errorf("%s: %+v, want %+v", c.name, got, want)
		}
		if c.missed == 0 && f.results[1].offerUsers == 0 && !f.results[1].uncounted && f.Flown(1, n) != (slot.Flown{FlightJ: slotJ}) {
			t.Errorf("%s: the other flew %+v", c.name, f.Flown(1, n))
		}
	}
}

// TestFlownBesideComputing: a battery that is read a quarter of a second before the settlements shows a
// part of a slot's computing in the slot after. Where only every second slot computes, that was flight.
func TestFlownBesideComputing(t *testing.T) {
	const earlyS = 0.25
	const shownLater = (earlyS - doneS) / (computeS - doneS) // of a slot's computing
	f := newTestFlight(100)
	f.SettleTransit(f.views)
	for n := range 8 {
		if n%2 == 0 {
			f.decideForThree(n)
		} else {
			f.AddDecision(SlotDecision{Slot: n, Snapshot: &slot.Snapshot{Aircraft: []slot.Aircraft{{Number: 1}, {Number: 2}}},
				Decision: &slot.Decision{}})
		}
		edgeJ := f.results[n].aircraftEdgeJ
		for i := range f.views {
			v := &f.views[i]
			v.TotalJ, v.ModelJ, v.AtS = v.TotalJ+slotJ+edgeJ[i], v.ModelJ+modelJ, v.AtS+1
			v.Mark = energy.Mark{ReadJ: v.TotalJ - earlyS*slotJ - shownLater*edgeJ[i], ReadModelJ: v.ModelJ, ReadS: v.AtS - earlyS,
				ReceivedS: v.AtS - earlyS}
		}
		f.Settle(n, f.views, noTakers)
		if n%2 == 0 && edgeJ[1] < 10 {
			t.Fatalf("computing took %.0f J", edgeJ[1])
		}
		if n == 0 {
			continue
		}
		unknownJ := 0.4 * max(edgeJ[1], f.results[n-1].aircraftEdgeJ[1])
		if got := f.Flown(2, n); math.Abs(got.FlightJ-slotJ) > 1e-6 || got.ErrorJ < unknownJ {
			t.Errorf("slot %d: %+v, want %.1f; computing took %.1f", n, got, float64(slotJ), edgeJ[1])
		}
	}
}

// TestFlownByLateResults: the edge energy is as known when the flight is asked for.
func TestFlownByLateResults(t *testing.T) {
	f := newTestFlight(100)
	f.SettleTransit(f.views)
	f.decideForThree(0)
	f.fly(1)
	before, edgeJ := f.Flown(2, 0).FlightJ, f.results[0].aircraftEdgeJ[1]
	for _, user := range []string{"a", "b"} {
		f.ApplyResult(user, &telemetry.Result{CompletionS: 1, By: telemetry.ByLocal}, true)
	}
	if got := f.Flown(2, 0).FlightJ; math.Abs(got-before-edgeJ) > 1e-9 || edgeJ == 0 {
		t.Errorf("%v J, before the results %v, computing took %v", got, before, edgeJ)
	}
}

// TestFlownAfterARestart: the first joules after it are of the downtime too.
func TestFlownAfterARestart(t *testing.T) {
	f := newTestFlight(100)
	f.SettleTransit(f.views)
	fly := func() slot.Flown {
		f.decideForThree(f.slot)
		for i := range f.views {
			f.views[i].TotalJ += f.results[f.slot].aircraftEdgeJ[i]
		}
		f.fly(1)
		return f.Flown(2, f.slot-1)
	}
	if got := fly(); math.Abs(got.FlightJ-slotJ) > 1e-9 {
		t.Errorf("before it: %+v", got)
	}
	f = f.restarted(t)
	for range restartSettlements {
		if got := fly(); got != (slot.Flown{}) {
			t.Errorf("after it: %+v", got)
		}
	}
	if got := fly(); math.Abs(got.FlightJ-slotJ) > 1e-9 {
		t.Errorf("then: %+v", got)
	}
}
