package dispatch

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"prefdt/inference/physics"
	"prefdt/inference/slot"
)

// offered flies slots of static users of whose reports a part is lost, and returns how far in
// the mean those that came to an aircraft are from those that it expected, as a share of all
// users, and the delay of a slot, with offers and with none.
// A leader that is late for a slot leaves all users to the offer, though all had decisions in the slots before:
// together they are no slower than if each computed locally.
func TestOfferOfALateLeader(t *testing.T) {
	c := physics.DefaultConstants()
	fleet := []slot.Aircraft{{Number: 1, CPUHz: c.EdgeCPUHz, Position: physics.Position{EastM: 333, NorthM: 500}},
		{Number: 2, CPUHz: c.EdgeCPUHz, Position: physics.Position{EastM: 667, NorthM: 500}}}
	for _, tt := range []struct{ users, lost int }{{5, 0}, {30, 0}, {100, 0}, {300, 0}, {300, 1}} {
		users := tt.users
		r := rand.New(rand.NewPCG(uint64(users), 13))
		prior := testPrior()
		prior.ActiveUsers = float64(users)
		f := Forecast{Prior: prior}
		delayS, localS := 0.0, 0.0
		for range 8 {
			s := slot.Snapshot{Aircraft: fleet}
			for range users {
				u := prior.Sample(c.AreaSideM, r)
				for m := range fleet {
					u.Gain = append(u.Gain, SampleGain(&c.Channel, u.Position.Sub(fleet[m].Position).Norm(), c.AltitudeM, r))
				}
				s.Users = append(s.Users, u)
			}
			offer := f.Offer(&c, fleet, 0.004, r)
			var d slot.Decision
			d.Resize(&s)
			for i := range s.Users {
				d.Users[i] = offer.Choose(&c, &s.Users[i])
			}
			d.Evaluate(&c, &s)
			f.Observe(s.Users)
			f.Settle(users, tt.lost)
			delayS += d.DelayS
			for i := range s.Users {
				localS += c.PenalizedDelayS(s.Users[i].Task, s.Users[i].Task.LocalTimeS(s.Users[i].CPUHz))
			}
		}
		if !(delayS < 0.95*localS) {
			t.Errorf("%d users, of whom %d lacked a decision before: %.1f s by the offer, %.1f locally", users, tt.lost, delayS, localS)
		}
	}
}

func offered(users, aircraft int, lost float64, slots int, seed uint64, change ...func(i int, u *slot.User)) (off, delayS, localS float64) {
	c := physics.DefaultConstants()
	r := rand.New(rand.NewPCG(seed, 12))
	prior := testPrior()
	prior.ActiveUsers = float64(users)
	f := Forecast{Prior: prior}
	var fleet []slot.Aircraft
	for m := range aircraft {
		fleet = append(fleet, slot.Aircraft{Number: m + 1, CPUHz: c.EdgeCPUHz,
			Position: physics.Position{EastM: 1000 * float64(m+1) / float64(aircraft+1), NorthM: 500}})
	}
	var all []slot.User
	for i := range users {
		u := prior.Sample(c.AreaSideM, r)
		u.ID = i
		all = append(all, u)
	}
	const price = 0.004
	expected, come := make([]float64, aircraft), make([]float64, aircraft)
	var solver Solver
	var d slot.Decision
	for n := range slots {
		offer := f.Offer(&c, fleet, price, rand.New(rand.NewPCG(seed, uint64(n))))
		s := slot.Snapshot{Aircraft: append([]slot.Aircraft(nil), fleet...)}
		var without []slot.User
		for i := range all {
			u := &all[i]
			u.Task = prior.Sample(c.AreaSideM, r).Task
			for _, x := range change {
				x(i, u)
			}
			u.Gain = nil
			for m := range fleet {
				u.Gain = append(u.Gain, SampleGain(&c.Channel, u.Position.Sub(fleet[m].Position).Norm(), c.AltitudeM, r))
			}
			if r.Float64() < lost {
				without = append(without, *u)
			} else {
				s.Users = append(s.Users, *u)
			}
		}
		f.Observe(s.Users)
		f.AnnotateSnapshot(&s)
		d.Resize(&s)
		solver.Solve(&c, &s, price, &d)
		for i := range without {
			x := offer.Choose(&c, &without[i])
			s.Users, d.Users = append(s.Users, without[i]), append(d.Users, x)
		}
		f.Settle(users, len(without))
		for m := range s.Aircraft {
			s.Aircraft[m].Unreported = slot.UnreportedLoad{}
		}
		d.Evaluate(&c, &s)
		if n < slots/4 {
			continue
		}
		for m := range fleet {
			if offer.Aircraft[m].CPUHz > 0 {
				expected[m] += offer.Aircraft[m].ExpectedUsers
				come[m] += float64(d.ServedBy(m + 1))
			}
		}
		delayS += d.DelayS
		for i := range s.Users {
			localS += c.PenalizedDelayS(s.Users[i].Task, s.Users[i].Task.LocalTimeS(s.Users[i].CPUHz))
		}
	}
	flown := float64(slots - slots/4)
	for m := range fleet {
		off = max(off, math.Abs(come[m]-expected[m])/flown/float64(users))
	}
	return off, delayS / flown, localS / flown
}

// allOffers has TestOfferIsAnEquilibrium try all 108 cells, and TestOfferToUsersThatDiffer all of its own: minutes.
var allOffers = flag.Bool("all-offers", false, "more fleets and numbers of users in tests of offers, each with reports lost in part")

// Who expects n sharers finds n, however many users there are and however many reports are
// lost, and no offer is worse than none.
func TestOfferIsAnEquilibrium(t *testing.T) {
	numbers := []int{10, 60, 150, 4000}
	if *allOffers {
		numbers = []int{10, 20, 40, 60, 100, 150, 300, 1000, 4000}
	}
	for _, aircraft := range []int{1, 2, 4, 8} {
		if aircraft == 4 && !*allOffers {
			continue // between the others
		}
		for _, users := range numbers {
			for _, lost := range []float64{0.1, 0.4, 1} {
				if users > 150 && lost < 1 && !*allOffers || testing.Short() && (users > 10 || aircraft > 4) {
					continue // where few offers are made and most is the dispatch's; or an emulator takes minutes
				}
				if users > 60 && lost == 0.4 && !*allOffers {
					continue // between the others
				}
				slots, seeds := 16, 1
				switch {
				case users < 60:
					slots, seeds = 32, 2 // of few users each counts, and where they are
				case users > 150:
					slots = 4 // of many none
				}
				off, delayS, localS := 0.0, 0.0, 0.0
				for seed := range seeds {
					x, s, l := offered(users, aircraft, lost, slots, uint64(users+1000*seed))
					off, delayS, localS = off+x/float64(seeds), delayS+s/float64(seeds), localS+l/float64(seeds)
				}
				name := fmt.Sprintf("%d users, %d aircraft, %.0f %% lost", users, aircraft, 100*lost)
				t.Logf("%s: %.1f %% of the users elsewhere than expected, %.1f s a slot, local %.1f", name, 100*off, delayS, localS)
				if off > 0.1 || delayS > localS {
					t.Errorf("%s: %.1f %% of the users come elsewhere than expected, %.1f s a slot, local %.1f", name, 100*off, delayS,
						localS)
				}
			}
		}
	}
}

// Nor where users differ in what decides their choice: mixtures of deadlines, CPUs and tasks, and all in
// one place.
func TestOfferToUsersThatDiffer(t *testing.T) {
	every := func(n int, x, y float64) func(int) float64 { // x for one of n, y for the others
		return func(i int) float64 {
			if i%n == 0 {
				return x
			}
			return y
		}
	}
	deadline := func(of func(int) float64) func(int, *slot.User) {
		return func(i int, u *slot.User) { u.Task.DeadlineS = of(i) }
	}
	for name, change := range map[string]func(i int, u *slot.User){
		"half have no time and half an hour": deadline(every(2, 1e-9, 3600)), "one of ten has an hour": deadline(every(10, 3600, 1)),
		"one of ten has no time": deadline(every(10, 1e-9, 1)),
		"fast and slow CPUs":     func(i int, u *slot.User) { u.CPUHz = every(2, 5e9, 0.5e9)(i) },
		"small and large tasks":  func(i int, u *slot.User) { u.Task.Bits *= every(2, 0.1, 1.4)(i) },
		"all in one corner": func(i int, u *slot.User) {
			u.Position = physics.Position{EastM: 20 + float64(i%10), NorthM: 20 + float64(i/10)}
		},
	} {
		for _, users := range []int{10, 100} {
			for _, lost := range []float64{0.1, 0.4, 1} {
				if testing.Short() && users > 10 {
					continue // an emulator takes minutes
				}
				if lost == 0.4 && !*allOffers {
					continue // between the others
				}
				off, delayS, localS := 0.0, 0.0, 0.0
				seeds := 1
				if users == 10 { // each of them counts, and where it is
					seeds = 2
				}
				for seed := range seeds {
					x, s, l := offered(users, 2, lost, 16, uint64(users+1000*seed), change)
					off, delayS, localS = off+x/float64(seeds), delayS+s/float64(seeds), localS+l/float64(seeds)
				}
				at := fmt.Sprintf("%s, %d users, %.0f %% lost", name, users, 100*lost)
				t.Logf("%s: %.1f %% of the users elsewhere than expected, %.1f s a slot, local %.1f", at, 100*off, delayS, localS)
				if most := max(0.1, 1.5/float64(users)); off > most || delayS > localS { // of ten, one and a half
					t.Errorf("%s: %.1f %% of the users come elsewhere than expected, %.1f s a slot, local %.1f", at, 100*off, delayS,
						localS)
				}
			}
		}
	}
}
