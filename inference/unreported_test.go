package inference

import (
	"math/rand/v2"
	"testing"

	"prefdt/inference/goal"
	"prefdt/inference/slot"
)

// When nobody is heard the imagined users give the price, and get no decision;
// what those unheard will take is expected of the aircraft. When somebody is
// heard, whoever is imagined changes nothing.
func TestNobodyHeard(t *testing.T) {
	ck := shippedCheckpoint(t)
	r := rand.New(rand.NewPCG(7, 8))
	for _, decoder := range Decoders() {
		for _, mode := range []goal.Mode{goal.Preference, goal.Target, goal.Ceiling} {
			fly := func(s *slot.Snapshot) (d slot.Decision) {
				p, err := New(ck, decoder)
				if err != nil {
					t.Fatal(err)
				}
				g := goal.New(&ck.GoalConstants, &ck.Physics, 100, 2)
				if mode == goal.Preference {
					g.SetOmega(0.02)
				} else if err := g.SetBudget(33e3, mode); err != nil {
					t.Fatal(err)
				}
				for i := range 3 {
					s.Slot = i
					g.Observe(p.Decide(s, g, &d))
				}
				return d
			}
			s := randomSnapshot(r, 0, 2, 6)
			heard := fly(s)
			s.SyntheticUsers = randomSnapshot(r, 0, 2, 4).Users
			if got := fly(s); got.PriceSPerJ != heard.PriceSPerJ || got.DelayS != heard.DelayS || got.Move[1] != heard.Move[1] {
				t.Errorf("%s, %s: with others imagined %+v, without %+v", decoder, mode, got, heard)
			}
			s.SyntheticUsers, s.Users = s.Users, nil
			s.Aircraft[1].Unreported = slot.UnreportedLoad{ExpectedUsers: 2.5, CyclesPerUser: 1e9}
			d := fly(s)
			if len(d.Users) != 0 || d.DelayS != 0 || d.EdgeJ[0] != 0 || !(d.EdgeJ[1] > 10 && d.EdgeJ[1] < 200) {
				t.Errorf("%s, %s: %+v", decoder, mode, d)
			}
			// The same crowd, heard or imagined, is worth about the same price.
			if ratio := d.PriceSPerJ / heard.PriceSPerJ; !(ratio > 0.3 && ratio < 3) {
				t.Errorf("%s, %s: price %v, with the same users heard %v", decoder, mode, d.PriceSPerJ, heard.PriceSPerJ)
			}
		}
	}
}

// Users who come unheard leave less of an aircraft to those who were heard.
func TestUnheardShare(t *testing.T) {
	ck := shippedCheckpoint(t)
	p, _ := New(ck, DecoderDispatch)
	r := rand.New(rand.NewPCG(9, 9))
	s := randomSnapshot(r, 0, 1, 3)
	for u := range s.Users {
		s.Users[u].Gain[0] = 1e-8
	}
	g := goal.New(&ck.GoalConstants, &ck.Physics, 100, 1)
	g.SetOmega(0)
	var alone, shared slot.Decision
	g.Observe(p.Decide(s, g, &alone))
	s.Aircraft[0].Unreported = slot.UnreportedLoad{ExpectedUsers: 2, CyclesPerUser: 1e9}
	g.Observe(p.Decide(s, g, &shared))
	if alone.ServedBy(1) != 3 || shared.ServedBy(1) != 3 || shared.Users[0].CPUHz > 0.7*alone.Users[0].CPUHz {
		t.Errorf("alone %+v, with two unheard %+v", alone.Users, shared.Users)
	}
	if n := testing.AllocsPerRun(50, func() { g.Observe(p.Decide(s, g, &shared)) }); n != 0 {
		t.Errorf("%v allocations per slot", n)
	}
	s.SyntheticUsers, s.Users = s.Users, nil
	g.Observe(p.Decide(s, g, &shared))
	if n := testing.AllocsPerRun(50, func() { g.Observe(p.Decide(s, g, &shared)) }); n != 0 {
		t.Errorf("%v allocations per slot of imagined users", n)
	}
}
