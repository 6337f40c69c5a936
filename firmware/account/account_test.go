package account

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"testing"

	"prefdt/firmware/energy"
	"prefdt/firmware/fleet"
	"prefdt/inference/goal"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
	"prefdt/telemetry"
)

var scales = goal.Constants{
	EtaDelayS: 633, EtaEnergyJ: 11.6e3, Slots: 100, AircraftCount: 2,
	Conditioner: goal.Conditioner{Omegas: []float64{0, 0.5, 1}, DelayS: []float64{90, 200, 700}, EnergyJ: []float64{39e3, 29e3, 27e3}},
	SettingMap:  goal.SettingMap{Omegas: []float64{0, 0.1, 0.4, 1}},
}

// testFlight is an account and the views of its aircraft, which fly at v*.
type testFlight struct {
	*Account
	views []fleet.View
	slot  int
}

const (
	slotJ  = 150.0 // what an aircraft's battery loses in a slot
	modelJ = 135.0 // its closed form
)

func newAccount() *Account {
	return &Account{Physics: physics.DefaultConstants(), Scales: &scales, ReserveJ: 15e3, SpeedMaxMPS: 30}
}

func newTestFlight(slots int) *testFlight {
	f := &testFlight{Account: newAccount()}
	for i := range 2 {
		f.views = append(f.views, fleet.View{
			Number: i + 1, Received: true, Located: true, Fresh: true, Placed: true, Flying: true, InAir: true, Phase: fleet.PhaseFlying,
			TransitMPS: f.Physics.Propulsion.BestSpeedMPS(30), CapacityJ: 150e3, FittedJ: 1000,
			Charge: math.NaN(), Source: energy.Consumed, Measured: true, UpM: 100, TotalJ: 1000, ModelJ: 900,
			Position: physics.Position{EastM: 300 * float64(i+1), NorthM: 500},
			Home:     &physics.Position{EastM: 300 * float64(i+1), NorthM: 500},
		})
	}
	for i := range f.views {
		read(&f.views[i])
	}
	f.Begin(slots, f.views)
	f.BeginSlots(f.views, len(f.views))
	return f
}

// fly advances all aircraft by some slots, and settles them together.
func (f *testFlight) fly(slots int) []Row { return f.flyPartlyModelled(slots, float64(slots)) }

// flySilent advances all aircraft by a slot without a battery reading.
func (f *testFlight) flySilent() {
	for i := range f.views {
		f.views[i].TotalJ += slotJ
		f.views[i].ModelJ += modelJ
		f.views[i].AtS++
	}
	f.slot++
	f.Settle(f.slot-1, f.views, noTakers)
}

// flyPartlyModelled settles slots together of which the closed form covers only a part.
func (f *testFlight) flyPartlyModelled(slots int, seen float64) []Row {
	for i := range f.views {
		f.views[i].TotalJ += slotJ * float64(slots)
		f.views[i].ModelJ += modelJ * seen
		f.views[i].AtS += float64(slots)
		read(&f.views[i])
	}
	f.slot += slots
	return f.Settle(f.slot-1, f.views, noTakers)
}

// read is a battery reading at this moment.
func read(v *fleet.View) {
	v.Mark = energy.Mark{ReadJ: v.TotalJ, ReadModelJ: v.ModelJ, ReadS: v.AtS, ReceivedS: v.AtS, Gaps: v.Gaps}
}

func noTakers(int) (foreseenJ, mostJ float64) { return 0, 0 }

// restarted is the flight as the next leader process continues it: its account comes
// from the ledger, and its closed forms are reset.
func (f *testFlight) restarted(t *testing.T) *testFlight {
	t.Helper()
	raw, err := json.Marshal(f.State())
	if err != nil {
		t.Fatal(err)
	}
	var s State
	if err := json.Unmarshal(raw, &s); err != nil {
		t.Fatal(err)
	}
	next := &testFlight{Account: newAccount(), views: append([]fleet.View(nil), f.views...), slot: f.slot}
	for i := range next.views {
		next.views[i].ModelJ = 0
	}
	next.Restore(s)
	return next
}

// TestMultiplierIgnoresDowntime checks that the joules of a leader's downtime are not
// divided by the closed form of the time since its restart: the multiplier stays as
// it was, also while a coarse counter still corrects them, and is measured again from
// the second slot after.
func TestMultiplierIgnoresDowntime(t *testing.T) {
	for _, missed := range []int{0, 1, 7, 30} {
		f := newTestFlight(100)
		for range 20 {
			f.fly(1)
		}
		before := f.Objective().PropulsionMultiplier()
		if want := slotJ / modelJ; math.Abs(before-want) > 0.03*want {
			t.Fatalf("before the restart the multiplier is %v, want about %v", before, want)
		}
		weight := f.Objective().State().MultiplierWeight
		f = f.restarted(t)
		rows := f.flyPartlyModelled(missed+1, 0.6)
		if got := f.Objective().PropulsionMultiplier(); got != before || f.Objective().State().MultiplierWeight != weight {
			t.Errorf("%d slots missed: the multiplier went from %v to %v", missed, before, got)
		}
		if len(rows) != missed+1 || !rows[0].Missed {
			t.Errorf("%d slots missed: %d rows", missed, len(rows))
		}
		if got, want := f.Objective().SpentJ(), 2*slotJ*float64(21+missed); math.Abs(got-want) > 1e-6 {
			t.Errorf("%d slots missed: %v J spent, want %v", missed, got, want)
		}
		f.fly(1)
		if got := f.Objective().State().MultiplierWeight; got != weight {
			t.Errorf("%d slots missed: the slot right after was learned from", missed)
		}
		f.fly(1)
		if got := f.Objective().State().MultiplierWeight; got != weight {
			t.Errorf("%d slots missed: the second slot after was learned from before it was over", missed)
		}
		f.fly(1)
		if got := f.Objective().State().MultiplierWeight; got != weight+1 {
			t.Errorf("%d slots missed: the second slot after was not learned from", missed)
		}
		if got := f.Objective().PropulsionMultiplier(); math.Abs(got-before) > 0.02*before {
			t.Errorf("%d slots missed: the multiplier went from %v to %v", missed, before, got)
		}
	}
}

// TestTransitAfterARestart: joules of downtime in the climb are transit, and the first
// slot is a measurement of its own.
func TestTransitAfterARestart(t *testing.T) {
	f := newTestFlight(100)
	f.views[0].TotalJ, f.views[1].TotalJ = 1400, 1400
	f.SettleTransit(f.views)
	f = f.restarted(t)
	for i := range f.views {
		f.views[i].TotalJ += 4000
		f.views[i].ModelJ += 135
	}
	f.SettleTransit(f.views)
	if got := f.TransitJ(); got != 8800 {
		t.Errorf("transit %v J, want 8800", got)
	}
	f.fly(1)
	if got := f.Objective().PropulsionMultiplier(); got < 0.9 || got > 1.2 || f.Objective().SpentJ() != 2*slotJ {
		t.Errorf("multiplier %v, %v J spent", got, f.Objective().SpentJ())
	}
}

// What is drawn between the end of the last slot and its settlement, as over an outage,
// is drawn outside the slots.
func TestSettledAfterTheEnd(t *testing.T) {
	f := newTestFlight(10)
	f.fly(9)
	before := f.Objective().SpentJ()
	for i := range f.views {
		f.views[i].TotalJ += 5 * slotJ // the last slot and four more
		f.views[i].ModelJ += 5 * slotJ
	}
	f.SettleAfterEnd(f.views, 4.0/5)
	rows := f.Settle(9, f.views, func(int) (float64, float64) { return 0, 0 })
	spent, transit := f.Objective().SpentJ()-before, f.TransitJ()
	if want := 2.0 * slotJ; len(rows) != 1 || math.Abs(spent-want) > 1e-6 || math.Abs(transit-4*want) > 1e-6 {
		t.Errorf("%v J are spent in the last slot and %v outside, want %v and %v", spent, transit, want, 4*want)
	}
}

// TestSlotsSettledTogether: missed slots are settled at once, and their joules do not
// measure the multiplier.
func TestSlotsSettledTogether(t *testing.T) {
	f := newTestFlight(100)
	for range 5 {
		f.fly(1)
	}
	before := f.Objective().State()
	rows := f.fly(6)
	after := f.Objective().State()
	if after.Multiplier != before.Multiplier || after.MultiplierWeight != before.MultiplierWeight {
		t.Errorf("the multiplier went from %v to %v", before.Multiplier, after.Multiplier)
	}
	sum := 0.0
	for i, r := range rows {
		if r.Slot != 5+i || !r.Missed {
			t.Errorf("row %d: %+v", i, r)
		}
		sum += r.EnergyJ
	}
	if want := 6 * 2 * slotJ; math.Abs(sum-want) > 1e-6 || math.Abs(after.SpentJ-before.SpentJ-want) > 1e-6 {
		t.Errorf("rows of %v J, %v J spent, want %v", sum, after.SpentJ-before.SpentJ, want)
	}
}

// TestMissedSlotsDelay: what a missed slot's tasks took is the mean of many slots, not the one
// before it; a restart keeps it, slots without any report are not in it, and old ones fade.
func TestMissedSlotsDelay(t *testing.T) {
	f := newTestFlight(300)
	decide := func(slots int, users ...int) {
		for i := range slots {
			f.addDecision(f.slot, users[i%len(users)], 0, false)
			f.fly(1)
		}
	}
	missed := func() float64 { return f.fly(1)[0].DelayS }
	const localS = 1 + 0.65 // one task of addDecision, its deadline missed
	decide(8, 8, 2)
	decide(30, 0)
	f = f.restarted(t)
	if got := missed(); math.Abs(got-5*localS) > 1e-9 {
		t.Errorf("after slots of eight and of two users a missed one took %v s, want %v", got, 5*localS)
	}
	decide(100, 20)
	if got := missed(); math.Abs(got-20*localS) > 0.1*20*localS {
		t.Errorf("after 100 slots of 20 users a missed one took %v s, want about %v", got, 20*localS)
	}
}

// TestGapInBatteryMessages: the joules of a gap are counted all at once, and do not
// measure the multiplier in that slot.
func TestGapInBatteryMessages(t *testing.T) {
	f := newTestFlight(100)
	for range 10 {
		f.fly(1)
	}
	f.views[0].Source, f.views[1].Source = energy.Model, energy.Model
	f.flySilent() // the slot before is learned from
	before := f.Objective().State()
	f.flySilent() // by the closed form alone: it measures nothing
	if after := f.Objective().State(); after.MultiplierWeight != before.MultiplierWeight {
		t.Error("the closed form was taken for a measurement of itself")
	}
	for i := range f.views { // the next reading ends an interval that was not measured
		f.views[i].Source = energy.Consumed
		f.views[i].Gaps++
	}
	f.views[0].TotalJ += 200 // more than the model estimated
	f.fly(1)
	if after := f.Objective().State(); after.MultiplierWeight != before.MultiplierWeight || after.Multiplier != before.Multiplier {
		t.Errorf("the multiplier went from %v to %v", before.Multiplier, after.Multiplier)
	}
	if f.fly(1); f.Objective().State().MultiplierWeight != before.MultiplierWeight {
		t.Error("the slot after was learned from before it was over")
	}
	f.fly(1)
	if after := f.Objective().State(); after.MultiplierWeight != before.MultiplierWeight+1 ||
		math.Abs(after.Multiplier-before.Multiplier) > 1e-9 {
		t.Errorf("the second slot after was not learned from: %v after %v", after.Multiplier, before.Multiplier)
	}
}

// TestLateReadings: a reading of one that came 0.3 s late and the next, which did not, are no flight
// that costs less and then more.
func TestLateReadings(t *testing.T) {
	f := newTestFlight(100)
	for range 20 {
		f.fly(1)
	}
	before := f.Objective().PropulsionMultiplier()
	for _, laterS := range []float64{0, 0.3, -0.3, 0.2, -0.2} {
		f.views[0].LateS = 0.3
		f.views[0].TotalJ -= laterS * slotJ
		f.fly(1)
		if got := f.Objective().PropulsionMultiplier(); math.Abs(got-before) > 0.06*before {
			t.Errorf("the multiplier went from %v to %v", before, got)
		}
	}
}

// TestPositionsLost: what was drawn while nobody knew where the aircraft was measures nothing.
func TestPositionsLost(t *testing.T) {
	f := newTestFlight(100)
	for range 20 {
		f.fly(1)
	}
	before := f.Objective().PropulsionMultiplier()
	for slot := range 8 {
		lost := slot < 5
		for i := range f.views {
			f.views[i].Placed = !lost
			if lost {
				f.views[i].ModelJ += 0.3 * modelJ // the model has it hover, which costs more
			}
		}
		f.fly(1)
		if got := f.Objective().PropulsionMultiplier(); math.Abs(got-before) > 1e-3*before {
			t.Fatalf("slot %d: the multiplier went from %v to %v", slot, before, got)
		}
	}
}

// TestMustReturn: one measurement by which the way home takes too much sends nobody home; two do, or one that no other follows.
func TestMustReturn(t *testing.T) {
	for _, c := range []struct {
		name string
		then []float64 // what the slots after take, in joules
		want []bool    // whether an aircraft must return, at that and after each
	}{
		{"one wrong", []float64{slotJ, slotJ}, []bool{false, false, false}},
		{"confirmed", []float64{1.9 * slotJ, 1.9 * slotJ}, []bool{false, false, true}}, // a slot is measured one later
	} {
		f := newTestFlight(100)
		for range 20 {
			f.fly(1)
		}
		v := &f.views[0]
		v.CapacityJ = f.HomeJ(v)*1.3 + f.ReserveJ + v.TotalJ - v.FittedJ // room for flight that takes 30 % more
		if f.MustReturn(v) {
			t.Fatal("it must return before anything happened")
		}
		got := []bool{}
		for _, joules := range append([]float64{1.9 * slotJ}, c.then...) {
			for i := range f.views {
				f.views[i].TotalJ += joules - slotJ
			}
			f.fly(1)
			v.CapacityJ += joules
			got = append(got, f.MustReturn(v))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestMeterCorrectedDownwards: in slots nothing is subtracted, the account waits until
// the meter has caught up.
func TestMeterCorrectedDownwards(t *testing.T) {
	f := newTestFlight(100)
	f.fly(1)
	spent := f.SpentJ(0)
	f.views[0].TotalJ -= 400
	rows := f.Settle(1, f.views, noTakers)
	if f.SpentJ(0) != spent || rows[0].Aircraft[0].EnergyJ != 0 || rows[0].Aircraft[0].ErrorJ < 400 {
		t.Errorf("%v J spent after %v; %+v", f.SpentJ(0), spent, rows[0].Aircraft[0])
	}
	f.views[0].TotalJ += 500
	f.Settle(2, f.views, noTakers)
	if got := f.SpentJ(0) - spent; math.Abs(got-100) > 1e-9 {
		t.Errorf("%v J more, want 100", got)
	}
}

// TestLandedWhileNothingWasReceived: an aircraft counts as hovering while nothing is
// received. If it landed meanwhile, its meter never catches up; outside the slots the
// excess is subtracted from the transit, wherever it was counted, and no reported
// value falls below 0.
func TestLandedWhileNothingWasReceived(t *testing.T) {
	f := newTestFlight(2)
	for i := range f.views {
		f.views[i].TotalJ += 3000
	}
	f.SettleTransit(f.views)
	f.fly(1)
	f.views[0].TotalJ += 2000 // nothing is received
	f.fly(1)
	for i := range f.views {
		f.views[i].TotalJ += 500 // the way home
	}
	f.SettleTransit(f.views)
	f.views[0].TotalJ += 800
	f.SettleTransit(f.views)
	f.views[0].TotalJ -= 2800 // it landed long ago
	f.SettleTransit(f.views)
	for i, v := range f.views {
		if got, want := f.SpentJ(i)+f.aircraft[i].TransitJ, v.TotalJ-1000; math.Abs(got-want) > 1e-9 {
			t.Errorf("aircraft %d: %v J in the account, %v J drawn", i+1, got, want)
		}
	}
	for i := range f.views {
		f.views[i].TotalJ -= 4000
	}
	if f.SettleTransit(f.views); f.TransitJ() < 0 {
		t.Errorf("transit %v J", f.TransitJ())
	}
}

// addDecision enters a decision for n users in a slot, on aircraft 1.
func (f *testFlight) addDecision(n, users, mayTake int, offered bool) {
	s := slot.Snapshot{Slot: n, Slots: 100, Aircraft: []slot.Aircraft{{Number: 1, CPUHz: 4e10}}}
	d := slot.Decision{PriceSPerJ: 0.01}
	var names []string
	for i := range users {
		s.Users = append(s.Users, slot.User{ID: i, CPUHz: 1e9, Task: physics.Task{Bits: 1e6, CyclesPerBit: 1000, DeadlineS: 0.9},
			Gain: []float64{1e-9}})
		d.Users = append(d.Users, slot.UserDecision{Server: 1, Offload: 0.8, CPUHz: 1e10, CompletionS: 0.3})
		names = append(names, fmt.Sprintf("u%d", i))
	}
	f.AddDecision(SlotDecision{Slot: n, Users: names, Snapshot: &s, Decision: &d, Reported: users, MaxOfferUsers: mayTake,
		OfferedAircraft: offered})
}

// A user of whom nothing is to be computed elsewhere is sent to no aircraft.
func TestOffloadOfNothing(t *testing.T) {
	for share, want := range map[float64]int{0: 0, 0.8: 1} {
		f := newTestFlight(100)
		f.AddDecision(SlotDecision{Users: []string{"u"}, Snapshot: &slot.Snapshot{Slots: 100, Aircraft: []slot.Aircraft{{Number: 1}},
			Users: []slot.User{{CPUHz: 1e9, Task: physics.Task{Bits: 1e6, CyclesPerBit: 1000, DeadlineS: 0.9}, Gain: []float64{1e-9}}}},
			Decision: &slot.Decision{Users: []slot.UserDecision{{Server: 1, Offload: share, CPUHz: 1e10}}}})
		if got := f.results[0].Offloaded; got != want {
			t.Errorf("%v of a task: %d users are sent, want %d", share, got, want)
		}
	}
}

// TestUnknownUsersAreBounded bounds the results that count in a slot of users without
// a report: 300 invented ids change the delay by no more than a few users may.
func TestUnknownUsersAreBounded(t *testing.T) {
	for _, by := range []string{telemetry.ByLocal, telemetry.ByOffer} {
		for _, settled := range []bool{false, true} {
			f := newTestFlight(100)
			f.addDecision(0, 4, 6, true)
			if settled {
				f.fly(1)
			}
			before, refused := f.Objective().DelayS(), 0
			for i := range 300 {
				for range 2 { // and each of them twice
					if f.ApplyResult(fmt.Sprintf("unknown%d", i), &telemetry.Result{Slot: 0, CompletionS: 50, By: by}, true) != nil {
						refused++
					}
				}
			}
			if !settled {
				f.fly(1)
				before = 4 * 0.3
			}
			if got := f.Objective().DelayS() - before; math.Abs(got-6*50) > 1e-9 || refused != 2*294 {
				t.Errorf("by %s, settled %v: the delay moved by %v s, want 300; %d refused", by, settled, got, refused)
			}
			for _, e := range f.ExpireResults(2) {
				if e.Tasks != 10 || e.Unreported != 6 {
					t.Errorf("by %s: %+v, want 10 tasks, 6 of them unreported", by, e)
				}
			}
		}
	}
}

// An offer that too many take is one whose tasks are not over in time for their results to
// count. The next one is made for as many all the same: late results show how many there are.
func TestTasksThatAreNotOverInTime(t *testing.T) {
	f := newTestFlight(100)
	f.addDecision(0, 4, 20, true)
	f.fly(1)
	f.Observed(0)
	if e := f.ExpireResults(2); len(e) != 0 {
		t.Errorf("a slot that was observed before: %+v", e)
	}
	f.addDecision(1, 4, 20, true)
	for i := range 40 { // of each two results, a stranger's and one of many known users'
		for _, n := range []int{0, -1} {
			f.ApplyResult(fmt.Sprintf("x%d", i), &telemetry.Result{Slot: n, CompletionS: 3, By: telemetry.ByOffer}, i >= 5)
		}
	}
	f.fly(1)
	if e := f.ExpireResults(3); len(e) != 1 || e[0] != (ExpiredSlot{Tasks: 24, Unreported: 20}) {
		t.Errorf("35 late results where 20 may be: %+v", e)
	}
	f.addDecision(2, 4, 20, true)
	f.fly(1)
	if e := f.ExpireResults(4); len(e) != 1 || e[0] != (ExpiredSlot{Tasks: 4}) {
		t.Errorf("none since: %+v", e)
	}
}

// TestReportedUsersAlwaysCount: the results of users that reported count, however
// many others came before.
func TestReportedUsersAlwaysCount(t *testing.T) {
	f := newTestFlight(100)
	f.addDecision(0, 4, 2, true)
	for i := range 50 {
		f.ApplyResult(fmt.Sprintf("unknown%d", i), &telemetry.Result{CompletionS: 1, By: telemetry.ByLocal}, true)
	}
	for i := range 4 {
		if err := f.ApplyResult(fmt.Sprintf("u%d", i), &telemetry.Result{CompletionS: 0.5, By: telemetry.ByDecision}, true); err != nil {
			t.Error(err)
		}
	}
	f.fly(1)
	if got, want := f.Objective().DelayS(), 4*0.5+2*1; math.Abs(got-float64(want)) > 1e-9 {
		t.Errorf("delay %v s, want %v", got, want)
	}
}

// TestResultsThatAreRefused has each kind of refusal, and none changes the account.
func TestResultsThatAreRefused(t *testing.T) {
	for _, c := range []struct {
		name    string
		user    string
		result  telemetry.Result
		mayTake int
		offered bool
		kind    string
	}{
		{"of a decision that was never made", "unknown", telemetry.Result{CompletionS: 0.2, By: telemetry.ByDecision}, 6, true,
			"result: by no decision"},
		{"of an offer with nothing on it", "unknown", telemetry.Result{CompletionS: 0.2, By: telemetry.ByOffer}, 6, false,
			"result: by no offer"},
		{"without a report, where none is allowed", "unknown", telemetry.Result{CompletionS: 0.2, By: telemetry.ByLocal}, 0, true,
			"result: without a report"},
		{"too long", "u0", telemetry.Result{CompletionS: 61, By: telemetry.ByDecision}, 6, true, "result: too long"},
	} {
		f := newTestFlight(100)
		f.addDecision(0, 4, c.mayTake, c.offered)
		err := f.ApplyResult(c.user, &c.result, true)
		invalid, _ := err.(*telemetry.InvalidError)
		if invalid == nil || invalid.Kind != c.kind {
			t.Errorf("%s: %v, want %s", c.name, err, c.kind)
		}
		if f.fly(1); math.Abs(f.Objective().DelayS()-4*0.3) > 1e-9 {
			t.Errorf("%s: the delay is %v s", c.name, f.Objective().DelayS())
		}
	}
	f := newTestFlight(100)
	f.addDecision(0, 1, 6, false)
	if err := f.ApplyResult("unknown", &telemetry.Result{CompletionS: 0.2, By: telemetry.ByLocal}, true); err != nil {
		t.Errorf("a user that received an empty offer computes locally: %v", err)
	}
	if err := f.ApplyResult("u0", &telemetry.Result{Slot: 5, CompletionS: 0.2, By: telemetry.ByLocal}, true); err != nil {
		t.Errorf("of a slot that was not opened: %v", err)
	}
}

// TestResultCountsOnce, and only until it expires.
func TestResultCountsOnce(t *testing.T) {
	f := newTestFlight(100)
	f.addDecision(0, 1, 0, true)
	f.ApplyResult("u0", &telemetry.Result{CompletionS: 0.5, By: telemetry.ByDecision}, true)
	f.ApplyResult("u0", &telemetry.Result{CompletionS: 0.8, By: telemetry.ByDecision}, true)
	f.fly(1)
	if got := f.Objective().DelayS(); got != 0.5 {
		t.Errorf("delay %v s", got)
	}
	f.addDecision(1, 1, 0, true)
	f.fly(1)
	f.ApplyResult("u0", &telemetry.Result{Slot: 1, CompletionS: 0.6, By: telemetry.ByDecision}, true) // after the settlement
	if got := f.Objective().DelayS(); math.Abs(got-1.1) > 1e-9 {
		t.Errorf("delay %v s", got)
	}
	if e := f.ExpireResults(2); len(e) != 1 || e[0].Tasks != 1 || e[0].Unreported != 0 {
		t.Errorf("expired in slot 2: %+v", e)
	}
	f.ApplyResult("u0", &telemetry.Result{Slot: 0, CompletionS: 0.1, By: telemetry.ByDecision}, true)
	if got := f.Objective().DelayS(); math.Abs(got-1.1) > 1e-9 {
		t.Errorf("an expired result moved the delay to %v s", got)
	}
	if e := f.ExpireResults(3); len(e) != 1 {
		t.Errorf("expired in slot 3: %+v", e)
	}
}

// The longest completion time that is accepted depends on the task; a longer one is an
// error.
func TestLongestCompletionTime(t *testing.T) {
	for _, c := range []struct {
		name        string
		task        physics.Task
		cpuHz       float64
		completionS float64
		believed    bool
	}{
		{"short", physics.Task{Bits: 1e6, CyclesPerBit: 1000, DeadlineS: 1}, 1e9, 0.5, true},
		{"a minute", physics.Task{Bits: 1e6, CyclesPerBit: 1000, DeadlineS: 1}, 1e9, 60, true},
		{"more than a minute", physics.Task{Bits: 1e6, CyclesPerBit: 1000, DeadlineS: 1}, 1e9, 61, false},
		{"for a late deadline", physics.Task{Bits: 1e6, CyclesPerBit: 1000, DeadlineS: 90}, 1e9, 170, true},
		{"beyond twice a late deadline", physics.Task{Bits: 1e6, CyclesPerBit: 1000, DeadlineS: 90}, 1e9, 181, false},
		{"as slow as the user itself", physics.Task{Bits: 1e6, CyclesPerBit: 1000, DeadlineS: 1}, 5e6, 390, true},
		{"slower still", physics.Task{Bits: 1e6, CyclesPerBit: 1000, DeadlineS: 1}, 5e6, 401, false},
	} {
		f := newTestFlight(100)
		s := slot.Snapshot{Aircraft: []slot.Aircraft{{Number: 1}}, Users: []slot.User{{Task: c.task, CPUHz: c.cpuHz}}}
		d := slot.Decision{Users: []slot.UserDecision{{CompletionS: 3}}}
		f.AddDecision(SlotDecision{Users: []string{"u"}, Snapshot: &s, Decision: &d})
		err := f.ApplyResult("u", &telemetry.Result{CompletionS: c.completionS, By: telemetry.ByDecision}, true)
		if (err == nil) != c.believed || f.results[0].tasks["u"].final != c.believed {
			t.Errorf("%s: %v s: %v", c.name, c.completionS, err)
		}
		if got := f.results[0].DelayS; got > maxCompletionS+c.task.DeadlineS+1 {
			t.Errorf("%s: one task counts for %v s", c.name, got)
		}
	}
}

// TestSpareCountsTheWholeWayHome: the descent, at its rates and multiplier, and
// committed edge energy are not spare.
func TestSpareCountsTheWholeWayHome(t *testing.T) {
	f := newTestFlight(100)
	v := &f.views[0] // above its home, at 100 m
	hoverW := f.Physics.Propulsion.PowerW(0)
	overhead := f.HomeJ(v)
	// From 100 m PX4's own rates are counted as 89 s, the turn two, and the motors turn for five on the ground.
	if want := 96 * hoverW; math.Abs(overhead-want) > 0.02*want {
		t.Errorf("the way home from above it takes %.0f J, want %.0f", overhead, want)
	}
	if got := f.SpareJ(v); got != f.ResidualJ(v)-overhead-15e3 {
		t.Errorf("%v J are spare", got)
	}
	spare := f.SpareJ(v)
	v.UpM = 160
	if got := f.HomeJ(v); got < overhead+0.5*60*hoverW {
		t.Errorf("from 160 m it takes %.0f J, from 100 m %.0f", got, overhead)
	}
	v.UpM = 2 // in the climb it goes up before it comes home
	if got := f.HomeJ(v); got != overhead {
		t.Errorf("from 2 m it takes %.0f J, want that of the flight's altitude, %.0f", got, overhead)
	}
	v.UpM = 100
	v.Home = &physics.Position{EastM: v.Position.EastM + 840, NorthM: v.Position.NorthM}
	cruise := f.HomeJ(v) - overhead
	best := f.Physics.Propulsion.BestSpeedMPS(30)
	if want := 840 / best * f.Physics.Propulsion.PowerW(best); math.Abs(cruise-want) > 1 {
		t.Errorf("840 m take %.0f J, want %.0f", cruise, want)
	}
	v.Home = &physics.Position{EastM: v.Position.EastM, NorthM: v.Position.NorthM}

	f.SetCommitted(1, 2500, 3)
	if got := f.SpareJ(v); math.Abs(spare-got-2500) > 1e-9 || f.ServedUsers(1) != 3 {
		t.Errorf("with 2500 J committed %v J are spare, before %v", got, spare)
	}
	if got := f.SpareJ(&f.views[1]); math.Abs(got-spare) > 1e-9 {
		t.Errorf("the other's are %v J", got)
	}
	f.SetCommitted(1, 0, 0)
	v.Charge = 0.1 // the battery's own report, if that is less
	if got, want := f.SpareJ(v), 0.1*f.Physics.BatteryCapacityJ-overhead-15e3; math.Abs(got-want) > 1e-9 {
		t.Errorf("at a tenth of its charge %v J are spare, want %v", got, want)
	}
	v.Charge = math.NaN()

	for range 40 { // the airframe draws half as much again
		for i := range f.views {
			f.views[i].TotalJ += 1.5 * modelJ
			f.views[i].ModelJ += modelJ
			f.views[i].AtS++
			read(&f.views[i])
		}
		f.slot++
		f.Settle(f.slot-1, f.views, noTakers)
	}
	if got, want := f.HomeJ(v), overhead*f.Objective().PropulsionMultiplier(); math.Abs(got-want) > 1e-6 ||
		f.Objective().PropulsionMultiplier() < 1.45 {
		t.Errorf("at a multiplier of %v it takes %.0f J, want %.0f", f.Objective().PropulsionMultiplier(), got, want)
	}
	// Sent home when nothing is spare, it lands with its reserve.
	left := f.HomeJ(v) + 15e3
	if landed := left - 76*1.5*hoverW; landed < 15e3-0.05*left {
		t.Errorf("it lands with %.0f J, its reserve is 15000", landed)
	}
}

// TestStateSurvives: a restart keeps every sum.
func TestStateSurvives(t *testing.T) {
	f := newTestFlight(100)
	if err := f.SetBudget(40e3, goal.Target); err != nil {
		t.Fatal(err)
	}
	f.SettleTransit(f.views)
	for range 7 {
		f.fly(1)
	}
	next := f.restarted(t)
	a, b := f.State(), next.State()
	for i := range a.Aircraft {
		if a.Aircraft[i].AccountedJ != b.Aircraft[i].AccountedJ || a.Aircraft[i].SpentJ != b.Aircraft[i].SpentJ ||
			a.Aircraft[i].TransitJ != b.Aircraft[i].TransitJ {
			t.Errorf("aircraft %d: %+v, then %+v", i+1, a.Aircraft[i], b.Aircraft[i])
		}
	}
	if a.Objective != b.Objective || a.LocalDelay != b.LocalDelay || next.Objective().BudgetJ() != 40e3 {
		t.Errorf("%+v, then %+v", a, b)
	}
	// State returned a copy.
	a.Aircraft[0].SpentJ = -1
	if f.SpentJ(0) < 0 {
		t.Error("the state that was handed out is the account's own")
	}
}
