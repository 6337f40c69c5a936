package prefdttrain

import (
	"math"
	"slices"
	"testing"

	"prefdt/inference"
	"prefdt/inference/checkpoint"
	"prefdt/inference/goal"
	"prefdt/inference/physics"
	"prefdt/inference/prefdt"
	"prefdt/inference/slot"
	"prefdt/inference/token"
	"prefdt/offline/nn/nntest"
	"prefdt/offline/offlinetest"
	"prefdt/offline/pareto"
	"prefdt/offline/rollout"
	"prefdt/offline/seeds"
	"prefdt/offline/teacher"
	"prefdt/simbridge/world"
)

func identity(n int) (m token.Moments) {
	for range n {
		m.Mean, m.Std = append(m.Mean, 0), append(m.Std, 1)
	}
	return m
}

// What flies is what was trained: the policy's decisions on a flight are those of training
// on the window that ends there.
func TestPolicyEqualsTraining(t *testing.T) {
	c := world.Standard()
	c.Slots = 12
	f := smallForm()
	params := nntest.Random[float32](f.Tensors(), 3)
	net := offlinetest.Must(prefdt.NewNet(&f, params.Data))(t)
	statistics := prefdt.Statistics{Aircraft: identity(prefdt.AircraftFeatures), User: identity(len(f.UserFeatures))}
	scales := goal.Constants{EtaDelayS: 600, EtaEnergyJ: 12e3, Slots: 12, AircraftCount: 2,
		Conditioner: goal.Conditioner{Omegas: []float64{0, 0.5, 1}, DelayS: []float64{90, 200, 700}, EnergyJ: []float64{39e3, 29e3, 27e3}},
		SettingMap:  goal.SettingMap{Omegas: []float64{0, 1}}}
	w := world.New(c, 7)
	policy := prefdt.NewPolicy(net, &prefdt.Archived{Form: f, Statistics: statistics, AsPublished: true}, &scales, &w.Config.Physics)
	builder := prefdt.NewBuilder(&f, &w.Config.Physics, &statistics)
	o := goal.New(&scales, &c.Physics, c.Slots, c.Aircraft)
	var whole []batch // a slot each
	var moves [][]physics.Position
	var r teacher.Runner
	r.Fly(w, func(s *slot.Snapshot, d *slot.Decision) {
		b := batch{slotNumber: []int{s.Slot}, userCounts: []int{len(s.Users)}, omega: []float32{float32(o.Omega())},
			returns: prefdt.AppendReturn(nil, o.Omega(), o.DelayToGoS(), o.EnergyToGoJ(), scales.EtaDelayS, scales.EtaEnergyJ)}
		b.aircraft, b.users = builder.AppendSlot(nil, nil, s)
		policy.Decide(s, o, d)
		for m, move := range d.Move {
			from := s.Aircraft[m].Position
			if to := from.Add(move); to.EastM <= 0 || to.EastM >= 1000 || to.NorthM <= 0 || to.NorthM >= 1000 {
				t.Fatal("the flight reaches the edge of the area, where a move is cut")
			}
			length, heading := prefdt.Polar(move.EastM/c.Physics.SpeedMaxMPS, move.NorthM/c.Physics.SpeedMaxMPS)
			b.motion = append(b.motion, length, heading)
		}
		for _, u := range d.Users {
			b.server, b.offload = append(b.server, u.Server), append(b.offload, float32(2*u.Offload-1))
		}
		b.action = prefdt.AppendAction(nil, b.motion, b.server, func(u int) float64 { return d.Users[u].Offload })
		whole = append(whole, b)
		moves = append(moves, slices.Clone(d.Move))
	}, func(x teacher.SettledSlot) {
		o.Settle(goal.Settlement{DelayS: x.Outcome.DelayS, EnergyJ: x.Outcome.EnergyJ(), Flying: 2})
	})
	n := newNetwork[float32](&f, params, nil)
	for s := range moves {
		var b batch
		first := max(s-f.Context+1, 0)
		b.windows = []int{s - first + 1}
		for _, x := range whole[first : s+1] {
			b.slotNumber, b.userCounts, b.omega = append(b.slotNumber, x.slotNumber...), append(b.userCounts, x.userCounts...),
				append(b.omega, x.omega...)
			b.aircraft, b.users, b.returns = append(b.aircraft, x.aircraft...), append(b.users, x.users...), append(b.returns, x.returns...)
			b.action, b.server, b.motion = append(b.action, x.action...), append(b.server, x.server...), append(b.motion, x.motion...)
		}
		n.forward(&b)
		got := n.motion.Value.Row(n.motion.Value.Rows - 1)
		length, heading := prefdt.Polar(moves[s][0].EastM/c.Physics.SpeedMaxMPS, moves[s][0].NorthM/c.Physics.SpeedMaxMPS)
		if math.Abs(float64(got[0]-length)) > 2e-4 || math.Abs(float64(got[1]-heading)) > 2e-3 {
			t.Errorf("slot %d: training answers %v, the policy flew (%v, %v)", s, got[:2], length, heading)
		}
		for u, server := range whole[s].server {
			row := n.choice.Value.Row(n.choice.Value.Rows - len(whole[s].server) + u)
			for i, v := range row {
				if v > row[server]+1e-3 {
					t.Errorf("slot %d, user %d: training prefers %d, the policy chose %d", s, u, i, server)
				}
			}
		}
	}
}

// A move turns by 60 degrees at most and is as long as the network's;
// as published it turns by any angle.
func TestTurns(t *testing.T) {
	ck := shipped(t)
	published, archived := *ck, *ck.Published
	archived.AsPublished = true
	published.Published = &archived
	var policies []*inference.Policy
	for _, c := range []*checkpoint.Checkpoint{ck, &published} {
		p := offlinetest.Must(inference.New(c, inference.DecoderHeads))(t)
		policies = append(policies, p)
	}
	o := goal.New(&ck.GoalConstants, &ck.Physics, 100, 2)
	offlinetest.NoError(t, o.SetPreference(1))
	var widest [2]float64
	var last [2][]physics.Position
	var s slot.Snapshot
	var d [2]slot.Decision
	var action world.Action
	for w := world.New(world.Standard(), seeds.CalibrationFirst+1); !w.Done(); w.Step(action) {
		w.Snapshot(&s)
		for k, p := range policies {
			p.Decide(&s, o, &d[k])
			for m, x := range d[k].Move {
				if len(last[k]) > 0 {
					turn := math.Remainder(math.Atan2(x.NorthM, x.EastM)-math.Atan2(last[k][m].NorthM, last[k][m].EastM), 2*math.Pi)
					widest[k] = max(widest[k], math.Abs(turn)*180/math.Pi)
				}
			}
			last[k] = append(last[k][:0], d[k].Move...)
		}
		if s.Slot == 0 && d[0].Move[0] != d[1].Move[0] {
			t.Errorf("the first move is %v, as published %v", d[0].Move[0], d[1].Move[0])
		}
		for m, x := range d[0].Move {
			// As published it has the real batteries and so another length, by little.
			if math.Abs(x.Norm()-d[1].Move[m].Norm()) > 1 {
				t.Errorf("slot %d: a move of %.2f m, as published of %.2f m", s.Slot, x.Norm(), d[1].Move[m].Norm())
			}
		}
		w.FillAction(&s, &d[0], &action)
	}
	if widest[0] > 60.001 || widest[1] < 150 {
		t.Errorf("it turns by %.0f degrees at most, as published by %.0f", widest[0], widest[1])
	}
}

// Users near the place where an aircraft was lost are served by the one that is left: at the
// setting of least delay a flight that loses one of two takes 160 s, and 240 s where the
// frame of the lost one hides the other's.
func TestLostAircraftIsFar(t *testing.T) {
	ck := shipped(t)
	c := world.Standard()
	c.AircraftLosses = []world.AircraftLoss{{Aircraft: 0, Slot: 50}}
	flown := sweep(t, ck, c, seeds.List(seeds.CalibrationFirst, 4),
		rollout.PreferenceRequests(rollout.CalibratedOmegas(&ck.GoalConstants.SettingMap, 2))[0])
	if delayS := pareto.MeanPoints(rollout.Outcomes(flown))[0].DelayS; delayS > 200 {
		t.Errorf("delay of %.0f s, want 200 s at most", delayS)
	}
}

// In the leader an aircraft's speed is that of its last move: what an airframe has left of it in its
// turns changes nothing.
func TestSpeedIsThatOfTheLastMove(t *testing.T) {
	ck := shipped(t)
	o := goal.New(&ck.GoalConstants, &ck.Physics, 100, 2)
	var moves [2][]physics.Position
	c := world.Standard()
	c.Slots = 5
	for k, slows := range []bool{false, true} {
		policy := offlinetest.Must(inference.New(ck, inference.DecoderHeads))(t)
		var r teacher.Runner
		r.Fly(world.New(c, 100_000), func(s *slot.Snapshot, d *slot.Decision) {
			for m := range s.Aircraft {
				if s.Slot > 0 && slows {
					s.Aircraft[m].SpeedMPS /= 5
				}
			}
			policy.Decide(s, o, d)
			moves[k] = append(moves[k], d.Move...)
		}, nil)
	}
	if !slices.Equal(moves[0], moves[1]) {
		t.Errorf("moves %v, with slower aircraft %v", moves[0], moves[1])
	}
}

// A steady slot allocates nothing, and a lost aircraft serves nobody.
func TestSteadySlotDoesNotAllocate(t *testing.T) {
	m, c := offlinetest.Must(builtCorpus())(t), testConfig()
	ck := offlinetest.Must(m.Checkpoint(&c.Form, nntest.Random[float32](c.Form.Tensors(), 3).Data))(t)
	policy := offlinetest.Must(inference.New(ck, inference.DecoderHeads))(t)
	w := world.New(world.Standard(), 3)
	o := goal.New(&ck.GoalConstants, &ck.Physics, 100, 2)
	var s slot.Snapshot
	var d slot.Decision
	served := 0
	var r teacher.Runner
	r.Fly(w, func(x *slot.Snapshot, d *slot.Decision) {
		s = *x
		policy.Decide(x, o, d)
		served += d.ServedBy(1)
	}, nil)
	if n := testing.AllocsPerRun(20, func() { policy.Decide(&s, o, &d) }); n != 0 {
		t.Errorf("%v allocations a slot", n)
	}
	offlinetest.NoError(t, o.SetBudget(32e3, goal.Target))
	if n := testing.AllocsPerRun(20, func() { policy.Decide(&s, o, &d) }); n != 0 {
		t.Errorf("%v allocations a slot under a budget", n)
	}
	if served == 0 {
		t.Fatal("the first aircraft serves nobody: the check below would be empty")
	}
	// With number 2 alone, whose place in the snapshot is the first.
	policy.Reset()
	w.Reset(3)
	for range 5 {
		w.Snapshot(&s)
		s.Aircraft = s.Aircraft[1:]
		for u := range s.Users {
			s.Users[u].Gain = s.Users[u].Gain[1:]
		}
		policy.Decide(&s, o, &d)
		for u, x := range d.Users {
			if x.Server > 1 || len(d.Move) != 1 || !(x.CompletionS > 0) {
				t.Fatalf("slot %d: user %d gets %+v of one aircraft", s.Slot, u, x)
			}
		}
	}
}
