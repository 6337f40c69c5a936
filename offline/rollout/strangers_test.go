package rollout

import (
	"flag"
	"math"
	"math/rand/v2"
	"testing"

	"prefdt/inference"
	"prefdt/inference/checkpoint"
	"prefdt/inference/goal"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
	"prefdt/simbridge/world"
)

// besideStrangers flies a mission with the reports of others among those of the world's own
// users, and returns the delay of the own ones. It is the closed form of the decisions.
func besideStrangers(ck *checkpoint.Checkpoint, in world.Config, seed uint64, x request,
	others func(slot int) []slot.User) (delayS float64) {
	w := world.New(in, seed)
	p, err := inference.New(ck, inference.DecoderDispatch)
	if err != nil {
		panic(err)
	}
	c := &w.Config.Physics
	o := goal.New(&ck.GoalConstants, c, w.Config.Slots, len(w.Aircraft))
	if o.SetOmega(x.omega); x.budgetJ > 0 {
		if err := o.SetBudget(x.budgetJ, goal.Target); err != nil {
			panic(err)
		}
	}
	r := rand.New(rand.NewPCG(seed, 38))
	var s slot.Snapshot
	var d slot.Decision
	var a world.Action
	for !w.Done() {
		w.Snapshot(&s)
		own := len(s.Users)
		for _, u := range others(s.Slot) {
			if u.Gain == nil {
				for m := range s.Aircraft {
					u.Gain = append(u.Gain, c.Channel.MeanGain(u.Position.Sub(s.Aircraft[m].Position).Norm(), c.AltitudeM)*r.ExpFloat64())
				}
			}
			s.Users = append(s.Users, u)
		}
		o.Observe(p.Decide(&s, o, &d))
		settled := goal.Settlement{DelayS: d.DelayS, EdgeJ: d.TotalEdgeJ(), MinEdgeJ: d.TotalEdgeJ(), MaxEdgeJ: d.TotalEdgeJ(),
			Flying: len(s.Aircraft)}
		for i := range s.Users {
			userS := c.PenalizedDelayS(s.Users[i].Task, d.Users[i].CompletionS)
			if i < own {
				delayS += userS
			} else { // as the account bounds it
				settled.DelayS -= max(userS-60, 0)
			}
		}
		for _, v := range d.Move {
			settled.ModelFlightJ += c.Propulsion.PowerW(v.Norm())
		}
		settled.EnergyJ = settled.ModelFlightJ + settled.EdgeJ
		o.Settle(settled)
		s.Users, d.Users = s.Users[:own], d.Users[:own]
		w.FillAction(&s, &d, &a)
		w.Step(a)
	}
	return delayS
}

// honestTask is one as the world's users have it.
func honestTask(r *rand.Rand) physics.Task {
	return physics.Task{Bits: 1e6 * (0.5 + r.Float64()), CyclesPerBit: 1000, DeadlineS: 0.5 + r.Float64()}
}

// inFull has the tests of strangers try every claim under every request: minutes.
var inFull = flag.Bool("all-strangers", false, "every claim under every request in the tests of strangers")

// request is what a mission beside strangers is asked for: a budget or, without one, a delay share.
type request struct{ budgetJ, omega float64 }

var strangersRequests = []request{{31e3, 0}, {33e3, 0}, {36e3, 0}, {42e3, 0}, {0, 0.01}, {0, 0.5}}

// claim is what a stranger reports.
type claim struct {
	name  string
	task  physics.Task
	cpuHz float64
	gain  []float64          // none: as the channel draws it
	at    []physics.Position // in turn; none: where an honest user is
}

// claims begin with those that take most.
var claims = []claim{
	{"1e12 cycles", physics.Task{Bits: 1e6, CyclesPerBit: 1e6, DeadlineS: 1}, 1e9, nil, nil},
	{"1e12 bits", physics.Task{Bits: 1e12, CyclesPerBit: 1, DeadlineS: 3600}, 1.2e7, nil, nil},
	{"1e11 cycles", physics.Task{Bits: 1e6, CyclesPerBit: 1e5, DeadlineS: 1}, 1e9, nil, nil},
	{"1e10 cycles", physics.Task{Bits: 1e6, CyclesPerBit: 1e4, DeadlineS: 1}, 1e9, nil, nil},
	{"1e9 cycles on a slow CPU", ordinaryTask(1), 1.2e4, nil, nil},
	{"the best gains", physics.Task{Bits: 1e6, CyclesPerBit: 1e6, DeadlineS: 1e-9}, 1e9, []float64{1, 1}, nil},
	{"the best gains, an ordinary task", ordinaryTask(1), 1e9, []float64{1, 1}, nil},
	{"the least gains", ordinaryTask(1), 1e9, []float64{math.SmallestNonzeroFloat64, 1e-30}, nil},
	{"an hour", ordinaryTask(3600), 1e9, nil, nil},
	{"no time", ordinaryTask(math.SmallestNonzeroFloat64), 1e9, nil, nil},
	{"far away", ordinaryTask(1), 1e9, nil, []physics.Position{{EastM: 1e5, NorthM: -1e5}}},
	{"everywhere", ordinaryTask(1), 1e9, nil, []physics.Position{{}, {EastM: 1000, NorthM: 1000}, {EastM: 1000}, {NorthM: 1000}}},
}

func ordinaryTask(deadlineS float64) physics.Task {
	return physics.Task{Bits: 1e6, CyclesPerBit: 1000, DeadlineS: deadlineS}
}

// user is the claim's, in a slot.
func (c *claim) user(id, slotNumber int, at physics.Position) slot.User {
	if len(c.at) > 0 {
		at = c.at[slotNumber%len(c.at)]
	}
	return slot.User{ID: id, Task: c.task, CPUHz: c.cpuHz, Position: at, Gain: c.gain}
}

// heldTo compares the delay of the own users beside a claim, made once or always, with that beside honest users.
func (c *claim) heldTo(t *testing.T, x request, honestS, onceS, alwaysS float64) {
	t.Helper()
	t.Logf("%+v, %s: once %.1f s, always %.1f, beside honest users %.1f", x, c.name, onceS, alwaysS, honestS)
	if max(onceS, alwaysS) > 1.05*honestS {
		t.Errorf("%+v, %s: once %.1f s, always %.1f, beside honest users %.1f", x, c.name, onceS, alwaysS, honestS)
	}
}

// TestStrangers: whatever one report claims, in one slot or in each, the others' delay is no
// more than beside as many honest users, and 5 %.
func TestStrangers(t *testing.T) {
	ck, place := shippedCheckpoint(t), physics.Position{EastM: 400, NorthM: 450}
	const seeds = 2
	mean := func(x request, others func(slot int) []slot.User) (delayS float64) {
		for seed := range uint64(seeds) {
			delayS += besideStrangers(ck, world.Standard(), 100_000+seed, x, others) / seeds
		}
		return delayS
	}
	honest := func(users int, seed uint64) func(int) []slot.User {
		r := rand.New(rand.NewPCG(3, seed))
		return func(int) (list []slot.User) {
			for i := range users {
				list = append(list, slot.User{ID: 1000 + i, Task: honestTask(r), CPUHz: 1e9, Position: place})
			}
			return list
		}
	}
	for _, x := range strangersRequests {
		if (x.budgetJ == 42e3 || x.omega == 0.5) && !*inFull {
			continue // next to what others ask for
		}
		honestS := max(mean(x, func(int) []slot.User { return nil }), mean(x, honest(1, 3)))
		for i, claim := range claims {
			if i >= 2 && x.budgetJ != 33e3 && !*inFull {
				continue
			}
			always := func(n int) []slot.User { return []slot.User{claim.user(1000, n, place)} }
			once := func(n int) []slot.User {
				if n != 10 {
					return nil
				}
				return always(n)
			}
			onceS := 0.0
			if i < 2 || *inFull {
				onceS = mean(x, once)
			}
			claim.heldTo(t, x, honestS, onceS, mean(x, always))
		}
	}

	// Two of a few users, who are most in some slots.
	honestS := mean(request{33e3, 0}, honest(2, 4))
	strangeS := mean(request{33e3, 0}, func(n int) []slot.User {
		return []slot.User{claims[0].user(1000, n, place), claims[0].user(1001, n, place)}
	})
	if t.Logf("33 kJ beside two honest users %.1f s, beside two strangers %.1f", honestS, strangeS); strangeS > 1.06*honestS {
		t.Errorf("beside two strangers %.1f s, beside two honest users %.1f", strangeS, honestS)
	}
}

// Ten strangers of a hundred users take no more from the others than ten honest users more,
// and 5 %.
func TestTenStrangersOfAHundred(t *testing.T) {
	ck := shippedCheckpoint(t)
	const users, strangers = 90, 10
	c := world.Standard()
	c.Users, c.ActiveMin, c.ActiveMax, c.TaskProbability = users, users, users, 1
	requests, tried := strangersRequests, claims
	if !*inFull {
		c.Slots = 50
		requests, tried = []request{{18e3, 0}}, claims[:2]
	}
	for _, x := range requests {
		// beside flies the others in the slots from one on, and before another.
		beside := func(from, before int, other func(r *rand.Rand, id, n int, at physics.Position) slot.User) (delayS float64) {
			r := rand.New(rand.NewPCG(1, 5))
			places := [strangers]physics.Position{}
			for i := range places {
				places[i] = physics.Position{EastM: 1000 * r.Float64(), NorthM: 1000 * r.Float64()}
			}
			return besideStrangers(ck, c, 100_000, x, func(n int) (others []slot.User) {
				for i, at := range places {
					if n >= from && n < before {
						others = append(others, other(r, 1000+i, n, at))
					}
				}
				return others
			})
		}
		honestS := beside(0, c.Slots, func(r *rand.Rand, id, _ int, at physics.Position) slot.User {
			return slot.User{ID: id, Task: honestTask(r), CPUHz: 1e9, Position: at}
		})
		for _, claim := range tried {
			stranger := func(_ *rand.Rand, id, n int, at physics.Position) slot.User { return claim.user(id, n, at) }
			onceS := 0.0
			if *inFull {
				onceS = beside(10, 11, stranger)
			}
			claim.heldTo(t, x, honestS, onceS, beside(0, c.Slots, stranger))
		}
	}
}
