package rollout

import (
	"math"
	"reflect"
	"testing"

	"prefdt/inference/goal"
	"prefdt/inference/slot"
	"prefdt/offline/offlinetest"
	"prefdt/simbridge/world"
)

// snapshots is a policy that decides nothing and keeps copies of what it is shown.
type snapshots []slot.Snapshot

func (p *snapshots) Reset() { *p = nil }

func (p *snapshots) Decide(s *slot.Snapshot, _ goal.Objective, d *slot.Decision) goal.Observation {
	c := *s
	c.Users, c.IdleUsers = append([]slot.User(nil), s.Users...), append([]slot.User(nil), s.IdleUsers...)
	c.Results, c.Aircraft = append([]slot.Result(nil), s.Results...), append([]slot.Aircraft(nil), s.Aircraft...)
	*p = append(*p, c)
	d.Resize(s)
	return goal.Observation{}
}

func seen(t *testing.T, c world.Config, l ReportLink) []slot.Snapshot {
	t.Helper()
	var p snapshots
	f := offlinetest.Must(NewWithPolicy(&p, &shippedCheckpoint(t).GoalConstants, c, l))(t)
	f.Fly(testSeed, Request{Mode: goal.Preference, Omega: 1})
	return p
}

// A lost report takes its user out of the slot, with a task or without, and the
// result of that task too; what was reported comes as it is.
func TestLostReportsHideTheirUsers(t *testing.T) {
	c := offlinetest.Must(world.Named("field"))(t)
	const rate = 0.4
	whole, lossy := seen(t, c, ReportLink{}), seen(t, c, ReportLink{LossRate: rate})
	lost := func(slot, user int) bool { return c.ReportLost(testSeed, slot, user, rate) }
	counts := map[string]int{}
	for n := range whole {
		check := func(what string, all, kept []int, slot int) {
			i := 0
			for _, id := range all {
				if lost(slot, id) {
					counts["lost "+what]++
					continue
				}
				counts[what]++
				if i == len(kept) || kept[i] != id {
					t.Fatalf("slot %d: %s of %v are %v, want user %d", n, what, all, kept, id)
				}
				i++
			}
			if i != len(kept) {
				t.Fatalf("slot %d: %s of %v are %v", n, what, all, kept)
			}
		}
		check("users", ids(whole[n].Users), ids(lossy[n].Users), n)
		check("idle users", ids(whole[n].IdleUsers), ids(lossy[n].IdleUsers), n)
		for _, slot := range []int{n - 1, n - 2} { // slow tasks' results come a slot later
			check("results", resultIDs(whole[n].Results, slot), resultIDs(lossy[n].Results, slot), slot)
		}
	}
	for _, what := range []string{"users", "idle users", "results"} {
		if counts[what] == 0 || counts["lost "+what] == 0 {
			t.Errorf("%d %s, %d lost", counts[what], what, counts["lost "+what])
		}
	}
}

func ids(users []slot.User) (list []int) {
	for _, u := range users {
		list = append(list, u.ID)
	}
	return list
}

func resultIDs(results []slot.Result, slot int) (list []int) {
	for _, r := range results {
		if r.Slot == slot {
			list = append(list, r.User)
		}
	}
	return list
}

// Policies that know nothing of what a field hides fly there all the same.
func TestShippedPolicyFliesFieldWorlds(t *testing.T) {
	for _, name := range world.Names() {
		c := offlinetest.Must(world.Named(name))(t)
		fast, slow := flyShipped(t, c, Request{Mode: goal.Preference, Omega: 0}),
			flyShipped(t, c, Request{Mode: goal.Preference, Omega: 0.9})
		if !(fast.DelayS < slow.DelayS && fast.EnergyJ > slow.EnergyJ) {
			t.Errorf("%s: for delay %+v, for energy %+v", name, fast.Point, slow.Point)
		}
	}
}

// localDelayS is what the tasks of a slot take if their users compute them.
func localDelayS(c world.Config, slot int) (delayS float64) {
	truth := world.NewScenario(&c, testSeed)
	for _, a := range truth.Active(slot, nil) {
		if a.Task.Bits > 0 {
			delayS += c.Physics.PenalizedDelayS(a.Task, a.Task.LocalTimeS(truth.CPUHz(slot, a.User)))
		}
	}
	return delayS
}

// Reports that arrive by a list instead of by lot, and slots without a leader: none of
// their users is seen and no result of before comes later. How an aircraft flew is known
// where it was measured.
func TestLinkOfAFlight(t *testing.T) {
	c := offlinetest.Must(world.Named("field"))(t)
	const rate = 0.3
	received := func(slot, user int) bool { return !c.ReportLost(testSeed, slot, user, rate) }
	drawn, listed := seen(t, c, ReportLink{LossRate: rate}), seen(t, c, ReportLink{Received: received})
	if !reflect.DeepEqual(drawn, listed) {
		t.Error("the same reports show something else")
	}
	missed := func(slot int) bool { return slot == 40 || slot == 41 }
	measured := func(slot, number int) bool { return slot%3 > 0 || number == 2 }
	for _, s := range seen(t, c, ReportLink{Missed: missed, Measured: measured}) {
		if missed(s.Slot) {
			t.Fatalf("slot %d was decided", s.Slot)
		}
		for _, a := range s.Aircraft {
			if flown := a.Flown.FlightJ > 0; flown != (s.Slot > 0 && measured(s.Slot, a.Number)) {
				t.Errorf("slot %d: how aircraft %d flew is known: %v", s.Slot, a.Number, flown)
			}
		}
		for _, r := range s.Results {
			if s.Slot > 41 && r.Slot <= 41 {
				t.Errorf("slot %d has the result %+v", s.Slot, r)
			}
		}
	}
	f := newRunner(t, c, ReportLink{Missed: missed})
	slots, delayS, energyJ := 0, 0.0, 0.0
	f.OnSettled = func(slot int, d, e float64) {
		if slot != slots || missed(slot) && math.Abs(d-localDelayS(c, slot)) > 1e-9 || !(e > 0) {
			t.Errorf("slot %d after %d took %v s, %v J", slot, slots, d, e)
		}
		slots, delayS, energyJ = slots+1, delayS+d, energyJ+e
	}
	r := f.Fly(testSeed, Request{Mode: goal.Preference, Omega: 0.3})
	if slots != c.Slots || math.Abs(delayS-r.DelayS) > 1e-6 || math.Abs(energyJ-r.EnergyJ) > 1e-6 {
		t.Errorf("%d slots took %v s, %v J; in all %+v", slots, delayS, energyJ, r.Point)
	}
}
