package inference

import (
	"math/rand/v2"
	"testing"

	"prefdt/inference/goal"
	"prefdt/inference/slot"
)

// When no user reports, the synthetic users give the price and get no decision, and
// the unreported load is expected of the aircraft. When a user reports, synthetic
// users change nothing.
func TestNoReports(t *testing.T) {
	ck := shippedCheckpoint(t)
	r := rand.New(rand.NewPCG(7, 8))
	for _, decoder := range Decoders() {
		for _, mode := range []goal.Mode{goal.Preference, goal.Target, goal.Ceiling} {
			fly := func(s *slot.Snapshot) (d slot.Decision) {
				p, err := New(ck, decoder)
				if err != nil {
					t.Fatal(err)
				}
				o := goal.New(&ck.GoalConstants, &ck.Physics, 100, 2)
				if mode == goal.Preference {
					o.SetOmega(0.02)
				} else if err := o.SetBudget(33e3, mode); err != nil {
					t.Fatal(err)
				}
				for i := range 3 {
					s.Slot = i
					o.Observe(p.Decide(s, o, &d))
				}
				return d
			}
			s := randomSnapshot(r, 0, 2, 6)
			reported := fly(s)
			s.SyntheticUsers = randomSnapshot(r, 0, 2, 4).Users
			if got := fly(s); got.PriceSPerJ != reported.PriceSPerJ || got.DelayS != reported.DelayS || got.Move[1] != reported.Move[1] {
				t.Errorf("%s, %s: with synthetic users %+v, without %+v", decoder, mode, got, reported)
			}
			s.SyntheticUsers, s.Users = s.Users, nil
			s.Aircraft[1].Unreported = slot.UnreportedLoad{ExpectedUsers: 2.5, CyclesPerUser: 1e9}
			d := fly(s)
			if len(d.Users) != 0 || d.DelayS != 0 || d.EdgeJ[0] != 0 || !(d.EdgeJ[1] > 10 && d.EdgeJ[1] < 200) {
				t.Errorf("%s, %s: %+v", decoder, mode, d)
			}
			// The same users lead to about the same price, reported or synthetic.
			if ratio := d.PriceSPerJ / reported.PriceSPerJ; !(ratio > 0.3 && ratio < 3) {
				t.Errorf("%s, %s: price %v, with the same users reported %v", decoder, mode, d.PriceSPerJ, reported.PriceSPerJ)
			}
		}
	}
}

// An unreported load leaves less of an aircraft to the users that reported.
func TestUnreportedLoadReducesShares(t *testing.T) {
	ck := shippedCheckpoint(t)
	p, _ := New(ck, DecoderDispatch)
	r := rand.New(rand.NewPCG(9, 9))
	s := randomSnapshot(r, 0, 1, 3)
	for u := range s.Users {
		s.Users[u].Gain[0] = 1e-8
	}
	o := goal.New(&ck.GoalConstants, &ck.Physics, 100, 1)
	o.SetOmega(0)
	var alone, shared slot.Decision
	o.Observe(p.Decide(s, o, &alone))
	s.Aircraft[0].Unreported = slot.UnreportedLoad{ExpectedUsers: 2, CyclesPerUser: 1e9}
	o.Observe(p.Decide(s, o, &shared))
	if alone.ServedBy(1) != 3 || shared.ServedBy(1) != 3 || shared.Users[0].CPUHz > 0.7*alone.Users[0].CPUHz {
		t.Errorf("alone %+v, with two unreported %+v", alone.Users, shared.Users)
	}
	runs := 50
	if testing.Short() { // an emulator takes a minute
		runs = 5
	}
	if n := testing.AllocsPerRun(runs, func() { o.Observe(p.Decide(s, o, &shared)) }); n != 0 {
		t.Errorf("%v allocations per slot", n)
	}
	s.SyntheticUsers, s.Users = s.Users, nil
	o.Observe(p.Decide(s, o, &shared))
	if n := testing.AllocsPerRun(runs, func() { o.Observe(p.Decide(s, o, &shared)) }); n != 0 {
		t.Errorf("%v allocations per slot of synthetic users", n)
	}
}
