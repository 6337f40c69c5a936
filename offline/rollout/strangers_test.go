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
// users, and returns the delay of the own ones and what is left of the budget, if there is
// one; else at a delay share. It is the closed form of the decisions.
func besideStrangers(ck *checkpoint.Checkpoint, in world.Config, seed uint64, budgetJ, omega float64,
	others func(slot int) []slot.User) (delayS, leftJ float64) {
	w := world.New(in, seed)
	p, err := inference.New(ck, inference.DecoderDispatch)
	if err != nil {
		panic(err)
	}
	c := &w.Config.Physics
	o := goal.New(&ck.GoalConstants, c, w.Config.Slots, len(w.Aircraft))
	if o.SetOmega(omega); budgetJ > 0 {
		if err := o.SetBudget(budgetJ, goal.Target); err != nil {
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
			x := c.PenalizedDelayS(s.Users[i].Task, d.Users[i].CompletionS)
			if i < own {
				delayS += x
			} else { // as the account bounds it
				settled.DelayS -= max(x-60, 0)
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
	return delayS, budgetJ - o.SpentJ()
}

// honestTask is one as the world's users have it.
func honestTask(r *rand.Rand) physics.Task {
	return physics.Task{Bits: 1e6 * (0.5 + r.Float64()), CyclesPerBit: 1000, DeadlineS: 0.5 + r.Float64()}
}

// inFull has the tests of strangers try every claim under every request: minutes.
var inFull = flag.Bool("all-strangers", false, "every claim under every request in the tests of strangers")

// TestStrangers: whatever one report claims, in one slot or in each, the others' delay is no
// more than beside as many honest users, and 5 %.
func TestStrangers(t *testing.T) {
	ck := shippedCheckpoint(t)
	user := func(id int, task physics.Task, cpuHz float64) slot.User {
		return slot.User{ID: id, Task: task, CPUHz: cpuHz, Position: physics.Position{EastM: 400, NorthM: 450}}
	}
	const seeds = 6
	mean := func(budgetJ, omega float64, others func(slot int) []slot.User) (delayS, leftJ float64) {
		for seed := range uint64(seeds) {
			s, j := besideStrangers(ck, world.Standard(), 100_000+seed, budgetJ, omega, others)
			delayS, leftJ = delayS+s/seeds, leftJ+j/seeds
		}
		return delayS, leftJ
	}
	ordinary := physics.Task{Bits: 1e6, CyclesPerBit: 1000, DeadlineS: 1}
	until := func(deadlineS float64) physics.Task {
		task := ordinary
		task.DeadlineS = deadlineS
		return task
	}
	claims := []struct {
		name  string
		task  physics.Task
		cpuHz float64
		gain  []float64
		at    []physics.Position // in turn; none: where the honest one is
	}{
		{"1e12 cycles", physics.Task{Bits: 1e6, CyclesPerBit: 1e6, DeadlineS: 1}, 1e9, nil, nil},
		{"1e11 cycles", physics.Task{Bits: 1e6, CyclesPerBit: 1e5, DeadlineS: 1}, 1e9, nil, nil},
		{"1e10 cycles", physics.Task{Bits: 1e6, CyclesPerBit: 1e4, DeadlineS: 1}, 1e9, nil, nil},
		{"1e9 cycles on a slow CPU", physics.Task{Bits: 1e6, CyclesPerBit: 1e3, DeadlineS: 1}, 1.2e4, nil, nil},
		{"1e12 bits", physics.Task{Bits: 1e12, CyclesPerBit: 1, DeadlineS: 3600}, 1.2e7, nil, nil},
		{"the best gains", physics.Task{Bits: 1e6, CyclesPerBit: 1e6, DeadlineS: 1e-9}, 1e9, []float64{1, 1}, nil},
		{"the best gains, an ordinary task", ordinary, 1e9, []float64{1, 1}, nil},
		{"the least gains", ordinary, 1e9, []float64{math.SmallestNonzeroFloat64, 1e-30}, nil},
		{"an hour", until(3600), 1e9, nil, nil},
		{"no time", until(math.SmallestNonzeroFloat64), 1e9, nil, nil},
		{"far away", ordinary, 1e9, nil, []physics.Position{{EastM: 1e5, NorthM: -1e5}}},
		{"everywhere", ordinary, 1e9, nil, []physics.Position{{}, {EastM: 1000, NorthM: 1000}, {EastM: 1000}, {NorthM: 1000}}},
	}
	for _, x := range []struct{ budgetJ, omega float64 }{{31e3, 0}, {33e3, 0}, {36e3, 0}, {42e3, 0}, {0, 0.01}, {0, 0.5}} {
		none, _ := mean(x.budgetJ, x.omega, func(int) []slot.User { return nil })
		r := rand.New(rand.NewPCG(3, 3))
		honest, _ := mean(x.budgetJ, x.omega, func(int) []slot.User {
			return []slot.User{user(1000, honestTask(r), 1e9)}
		})
		for i, claim := range claims {
			if i >= 6 && x.budgetJ != 33e3 && !*inFull {
				continue
			}
			stranger := func(n int) []slot.User {
				one := user(1000, claim.task, claim.cpuHz)
				if one.Gain = claim.gain; len(claim.at) > 0 {
					one.Position = claim.at[n%len(claim.at)]
				}
				return []slot.User{one}
			}
			once, left := mean(x.budgetJ, x.omega, func(n int) []slot.User {
				if n == 10 {
					return stranger(n)
				}
				return nil
			})
			always, leftAlways := mean(x.budgetJ, x.omega, stranger)
			t.Logf("%v J, omega %v, %s: alone %.1f s, beside an honest user %.1f, once %.1f (%.0f J left), always %.1f (%.0f)", x.budgetJ,
				x.omega, claim.name, none, honest, once, left, always, leftAlways)
			if most := 1.05 * max(none, honest); math.Max(once, always) > most {
				t.Errorf("%v J, omega %v, %s: once %.1f s, always %.1f s, at most %.1f s", x.budgetJ, x.omega, claim.name, once, always,
					most)
			}
		}
	}

	// Two of a few users, who are most in some slots.
	both := func(claimed bool) func(int) []slot.User {
		r := rand.New(rand.NewPCG(3, 4))
		return func(int) (users []slot.User) {
			for i := range 2 {
				task := honestTask(r)
				if claimed {
					task = claims[0].task
				}
				users = append(users, user(1000+i, task, 1e9))
			}
			return users
		}
	}
	honest, _ := mean(33e3, 0, both(false))
	strange, _ := mean(33e3, 0, both(true))
	if t.Logf("33 kJ beside two honest users %.1f s, beside two strangers %.1f", honest, strange); strange > 1.06*honest {
		t.Errorf("beside two strangers %.1f s, beside two honest users %.1f", strange, honest)
	}
}

// Ten strangers of a hundred users take no more from the others than ten honest users more,
// and 5 %.
func TestTenStrangersOfAHundred(t *testing.T) {
	ck := shippedCheckpoint(t)
	const users, strangers = 90, 10
	c := world.Standard()
	c.Users, c.ActiveMin, c.ActiveMax, c.TaskProbability = users, users, users, 1
	type request struct{ budgetJ, omega float64 }
	requests := []request{{36e3, 0}}
	if *inFull {
		requests = []request{{31e3, 0}, {33e3, 0}, {36e3, 0}, {42e3, 0}, {0, 0.01}, {0, 0.5}}
	}
	for _, x := range requests {
		// beside flies the others in the slots from one on, and before another.
		beside := func(from, before int, task func(r *rand.Rand) physics.Task, gain []float64) (delayS float64) {
			r := rand.New(rand.NewPCG(1, 5))
			places := [strangers]physics.Position{}
			for i := range places {
				places[i] = physics.Position{EastM: 1000 * r.Float64(), NorthM: 1000 * r.Float64()}
			}
			delayS, _ = besideStrangers(ck, c, 100_000, x.budgetJ, x.omega, func(n int) (others []slot.User) {
				for i, at := range places {
					if n >= from && n < before {
						others = append(others, slot.User{ID: 1000 + i, Task: task(r), CPUHz: 1e9, Position: at, Gain: gain})
					}
				}
				return others
			})
			return delayS
		}
		honestS := beside(0, c.Slots, honestTask, nil)
		for _, claim := range []struct {
			name string
			task physics.Task
			gain []float64
			full bool // only in full
		}{
			{"1e12 cycles", physics.Task{Bits: 1e6, CyclesPerBit: 1e6, DeadlineS: 1}, nil, false},
			{"1e12 bits", physics.Task{Bits: 1e12, CyclesPerBit: 0.08, DeadlineS: 3600}, nil, false},
			{"1e10 cycles", physics.Task{Bits: 1e6, CyclesPerBit: 1e4, DeadlineS: 1}, nil, true},
			{"an hour", physics.Task{Bits: 1e6, CyclesPerBit: 1000, DeadlineS: 3600}, nil, true},
			{"no time", physics.Task{Bits: 1e6, CyclesPerBit: 1000, DeadlineS: 1e-9}, nil, true},
			{"the best gains", physics.Task{Bits: 1e6, CyclesPerBit: 1e6, DeadlineS: 1e-9}, []float64{1, 1}, true},
			{"the least gains", physics.Task{Bits: 1e6, CyclesPerBit: 1000, DeadlineS: 1}, []float64{1e-30, 1e-30}, true},
		} {
			if claim.full && !*inFull {
				continue
			}
			task := func(*rand.Rand) physics.Task { return claim.task }
			onceS, alwaysS := 0.0, beside(0, c.Slots, task, claim.gain)
			if *inFull {
				onceS = beside(10, 11, task, claim.gain)
			}
			t.Logf("%v J, omega %v, %s: once %.1f s, always %.1f, beside honest users %.1f", x.budgetJ, x.omega, claim.name, onceS, alwaysS,
				honestS)
			if max(onceS, alwaysS) > 1.05*honestS {
				t.Errorf("%v J, omega %v, %s: once %.1f s, always %.1f, beside honest users %.1f", x.budgetJ, x.omega, claim.name, onceS,
					alwaysS, honestS)
			}
		}
	}
}
