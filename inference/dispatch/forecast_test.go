package dispatch

import (
	"math"
	"math/rand/v2"
	"testing"

	"prefdt/inference/physics"
	"prefdt/inference/slot"
)

func testPrior() UserPrior {
	return UserPrior{
		ActiveUsers: 5.4, CPUHz: 1e9,
		TaskMean:   physics.Task{Bits: 1e6, CyclesPerBit: 1000, DeadlineS: 1},
		TaskStdDev: physics.Task{Bits: 0.289e6, DeadlineS: 0.289},
	}
}

// twoAircraft is two aircraft that share the standard area.
func twoAircraft(c *physics.Constants) []slot.Aircraft {
	var fleet []slot.Aircraft
	for m := range 2 {
		fleet = append(fleet, slot.Aircraft{Number: m + 1, CPUHz: c.EdgeCPUHz,
			Position: physics.Position{EastM: 250 + 500*float64(m), NorthM: 500}})
	}
	return fleet
}

// An offer concentrates users as dispatch does: on both aircraft where only delay
// counts, on one of them at a high price of energy, at a higher one in some slots
// only, and then on none.
func TestOfferConcentratesUsers(t *testing.T) {
	c := physics.DefaultConstants()
	r := rand.New(rand.NewPCG(1, 2))
	f := Forecast{Prior: testPrior()}
	for i := range 32 {
		f.Settle(3+i%6, 0)
	}
	for _, x := range []struct{ price, none, one, both float64 }{
		{0, 0, 0.1, 0.9}, {0.03, 0, 1, 0}, {0.3, 0.5, 0.5, 0}, {3, 1, 0, 0},
	} {
		var share [3]float64 // of the slots, by how many aircraft serve
		for range 400 {
			o := f.Offer(&c, twoAircraft(&c), x.price, r)
			serving := 0
			for _, a := range o.Aircraft {
				if a.ExpectedUsers > 0 {
					serving++
					if x.price == 0.03 && a.ExpectedUsers < 2 {
						t.Errorf("price %v: %v users at an aircraft", x.price, a.ExpectedUsers)
					}
				}
			}
			share[serving] += 1.0 / 400
		}
		for k, want := range []float64{x.none, x.one, x.both} {
			if math.Abs(share[k]-want) > 0.2 {
				t.Errorf("price %v: %d aircraft serve in %.2f of the slots, want about %v", x.price, k, share[k], want)
			}
		}
	}
}

// The unreported load is the share of the synthetic load that did not report in the
// past; if every user reported it is none.
func TestUnreportedLoad(t *testing.T) {
	c := physics.DefaultConstants()
	f := Forecast{Prior: testPrior()}
	r := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		f.Settle(5, 2)
	}
	o := f.Offer(&c, twoAircraft(&c), 0.001, r)
	s := slot.Snapshot{Aircraft: twoAircraft(&c)}
	f.AnnotateSnapshot(&s)
	for m := range s.Aircraft {
		x := s.Aircraft[m].Unreported
		if want := 0.4 * o.Aircraft[m].ExpectedUsers; math.Abs(x.ExpectedUsers-want) > 1e-3 ||
			want > 0 && !(x.CyclesPerUser > 1e8 && x.CyclesPerUser < 2e9) {
			t.Errorf("aircraft %d expects %+v, want %v users", m+1, x, want)
		}
	}
	if len(s.SyntheticUsers) != 5 {
		t.Errorf("%d synthetic users, want 5", len(s.SyntheticUsers))
	}
	s.Aircraft = s.Aircraft[1:] // one has left since
	f.AnnotateSnapshot(&s)
	if len(s.SyntheticUsers) != 0 || math.Abs(s.Aircraft[0].Unreported.ExpectedUsers-0.4*o.Aircraft[1].ExpectedUsers) > 1e-3 {
		t.Errorf("with one aircraft fewer: %+v, %d synthetic users", s.Aircraft[0].Unreported, len(s.SyntheticUsers))
	}
	f.Reset()
	f.Settle(5, 0)
	f.Offer(&c, twoAircraft(&c), 0.001, r)
	s.Aircraft = twoAircraft(&c)
	f.AnnotateSnapshot(&s)
	if s.Aircraft[0].Unreported.ExpectedUsers != 0 || s.Aircraft[1].Unreported.ExpectedUsers != 0 {
		t.Errorf("every user reported, and %+v are expected", s.Aircraft)
	}
}

// The synthetic users are drawn from the latest reports.
func TestSyntheticUsersAreReportedOnes(t *testing.T) {
	c := physics.DefaultConstants()
	f := Forecast{Prior: testPrior()}
	r := rand.New(rand.NewPCG(5, 6))
	for i := range 500 {
		f.Observe([]slot.User{{ID: i, Position: physics.Position{EastM: float64(i)}, CPUHz: 2e9,
			Task: physics.Task{Bits: 1.4e6, CyclesPerBit: 500, DeadlineS: 2}, Gain: []float64{1, 2}}})
		f.Settle(7, 0)
	}
	f.Offer(&c, twoAircraft(&c), 0.01, r)
	var s slot.Snapshot
	s.Aircraft = twoAircraft(&c)
	f.AnnotateSnapshot(&s)
	if len(s.SyntheticUsers) != 7 {
		t.Fatalf("%d users", len(s.SyntheticUsers))
	}
	for _, u := range s.SyntheticUsers {
		if u.ID < 500-64 || u.Position.EastM != float64(u.ID) || u.CPUHz != 2e9 || u.Task.Bits != 1.4e6 || len(u.Gain) != 2 ||
			u.Gain[0] == 1 {
			t.Errorf("%+v", u)
		}
	}
}

// What a report claims beyond what it weighs is not in the synthetic slot; how much a user of
// the offer may have drawn is bounded by the claim itself.
func TestSyntheticClaimsAreBounded(t *testing.T) {
	c := physics.DefaultConstants()
	prior := testPrior()
	most := prior.Claims()
	f := Forecast{Prior: prior, Claims: most}
	f.Observe([]slot.User{{ID: 1, CPUHz: 1e9, Task: physics.Task{Bits: 1e9, CyclesPerBit: 1000, DeadlineS: 1}}})
	f.Settle(3, 0)
	f.Offer(&c, twoAircraft(&c), 0.001, rand.New(rand.NewPCG(5, 6)))
	for _, u := range f.syntheticSlot.Users {
		if u.Task.Cycles() > most.Cycles*(1+1e-9) || u.Task.LocalTimeS(u.CPUHz) > most.LocalS*(1+1e-9) {
			t.Errorf("%+v is expected", u)
		}
	}
	if _, mostJ := f.OfferUsersEdgeJ(&c, 1); mostJ < 1e4 {
		t.Errorf("1e12 cycles by the offer may have drawn %v J", mostJ)
	}
}

// An offer is made, and quickly, for any prior and any number of users.
func TestOfferForAnyPrior(t *testing.T) {
	c := physics.DefaultConstants()
	r := rand.New(rand.NewPCG(7, 8))
	for _, prior := range []UserPrior{
		{}, {ActiveUsers: math.Inf(1)}, {ActiveUsers: -3}, {ActiveUsers: 1e12, CPUHz: 1e9, TaskMean: testPrior().TaskMean},
		{ActiveUsers: 4, CPUHz: math.NaN(), TaskMean: testPrior().TaskMean},
	} {
		f := Forecast{Prior: prior}
		for _, fleet := range [][]slot.Aircraft{nil, twoAircraft(&c)} {
			o := f.Offer(&c, fleet, math.NaN(), r)
			for _, a := range o.Aircraft {
				if !(a.ExpectedUsers >= 0 && a.ExpectedUsers <= 1e5) {
					t.Errorf("%+v: %+v", prior, a)
				}
			}
		}
	}
	f := Forecast{Prior: testPrior()}
	f.Settle(4096, 0)
	for _, contention := range []bool{false, true} {
		c.Contention = contention
		o := f.Offer(&c, twoAircraft(&c), 0.0005, r)
		sum := o.Aircraft[0].ExpectedUsers + o.Aircraft[1].ExpectedUsers
		if sum > 4096 || !contention && sum < 100 {
			t.Errorf("of 4096 users %v are expected, contention %v", sum, contention)
		}
	}
}

// Without users who decided by the offer, edge energy is that of the decision.
func TestEdgeJ(t *testing.T) {
	c := physics.DefaultConstants()
	f := Forecast{Prior: testPrior()}
	r := rand.New(rand.NewPCG(9, 9))
	f.Offer(&c, twoAircraft(&c), 0.002, r)
	s := slot.Snapshot{Aircraft: twoAircraft(&c)}
	f.AnnotateSnapshot(&s)
	s.Users = s.SyntheticUsers
	var solver Solver
	var d slot.Decision
	solver.Solve(&c, &s, 0.002, &d)
	if got, want := f.SlotEdgeJ(&c, &s, &d, 0), d.EdgeJ[0]+d.EdgeJ[1]; math.Abs(got-want) > 1e-9*want || want == 0 {
		t.Errorf("%v J, want %v", got, want)
	}
	d.Users, s.Users = nil, nil // all of them decided by the offer
	if got, want := f.SlotEdgeJ(&c, &s, &d, 5), f.SlotEdgeJ(&c, &s, &d, 6); !(got > want && want > 1) {
		t.Errorf("five users take %v J and six %v, though they share", got, want)
	}
}

// Users who decide by the offer take about the energy of decisions at the same
// share, and no more than the bound.
func TestOfferUsersEdgeJ(t *testing.T) {
	c := physics.DefaultConstants()
	f := Forecast{Prior: testPrior()}
	r := rand.New(rand.NewPCG(9, 9))
	f.Offer(&c, twoAircraft(&c), 0.002, r)
	if sumJ, maxJ := f.OfferUsersEdgeJ(&c, 1); !(sumJ > 1) || !math.IsInf(maxJ, 1) {
		t.Errorf("before any report one user takes %v J, at most %v", sumJ, maxJ)
	}
	f.Observe(f.syntheticSlot.Users)
	for range 50 {
		offer := f.Offer(&c, twoAircraft(&c), 0.002, r)
		sumJ, largestJ, n := 0.0, 0.0, 0.0
		for i := range f.syntheticSlot.Users {
			u := &f.syntheticSlot.Users[i]
			if d := offer.Choose(&c, u); d.Server > 0 {
				j := c.EdgeJ(u.Task, physics.Share{CPUHz: d.CPUHz}, d.Offload)
				sumJ, largestJ, n = sumJ+j, max(largestJ, j), n+1
			}
		}
		gotJ, maxJ := f.OfferUsersEdgeJ(&c, int(n))
		if maxJ < n*largestJ || n > 0 && (gotJ < sumJ/3 || gotJ > 3*sumJ) {
			t.Errorf("%v users take %.1f J, at most %.1f; their choices take %.1f, the largest %.1f", n, gotJ, maxJ, sumJ, largestJ)
		}
	}
	if sumJ, maxJ := f.OfferUsersEdgeJ(&c, 0); sumJ != 0 || maxJ != 0 {
		t.Errorf("no users take %v J, at most %v", sumJ, maxJ)
	}
}

// A synthetic user's choice, by rates computed once, is that of an offer to it.
func TestChoicesByKnownRates(t *testing.T) {
	c := physics.DefaultConstants()
	f := Forecast{Prior: testPrior()}
	f.Settle(20, 20)
	for _, contention := range []bool{false, true} {
		c.Contention = contention
		offer := f.Offer(&c, twoAircraft(&c), 0.004, rand.New(rand.NewPCG(5, 5)))
		served := 0
		for i := range f.syntheticSlot.Users {
			got, want := f.choice(&c, &offer, i), offer.Choose(&c, &f.syntheticSlot.Users[i])
			if got != want {
				t.Errorf("contention %v, user %d chooses %+v, want %+v", contention, i, got, want)
			}
			if want.Server > 0 {
				served++
			}
		}
		if served == 0 || len(f.syntheticSlot.Users) != 20 {
			t.Errorf("contention %v: %d of %d users choose an aircraft", contention, served, len(f.syntheticSlot.Users))
		}
	}
}
