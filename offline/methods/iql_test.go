package methods

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"prefdt/inference/physics"
	"prefdt/inference/slot"
	"prefdt/offline/corpus"
	"prefdt/offline/nn/nntest"
	"prefdt/offline/offlinetest"
	"prefdt/offline/pareto"
	"prefdt/simbridge/world"
)

// tau u^2 above zero, (1-tau) u^2 below, each with its derivative.
func TestExpectileLoss(t *testing.T) {
	for _, c := range []struct{ u, tau, loss, du float64 }{
		{2, 0.7, 2.8, 2.8}, {-2, 0.7, 1.2, -1.2}, {2, 0.5, 2, 2}, {-2, 0.5, 2, -2}, {0, 0.9, 0, 0},
	} {
		loss, du := expectileLoss(c.u, c.tau)
		if math.Abs(loss-c.loss) > 1e-12 || math.Abs(du-c.du) > 1e-12 {
			t.Errorf("%+v: %v, %v", c, loss, du)
		}
	}
	// The minimiser over a sample is its expectile: for {0, 1} and tau, it is tau.
	v := 0.0
	for range 2000 {
		_, a := expectileLoss(0-v, 0.8)
		_, b := expectileLoss(1-v, 0.8)
		v += 0.05 * (a + b)
	}
	if math.Abs(v-0.8) > 1e-6 {
		t.Errorf("expectile %v, want 0.8", v)
	}
}

// The gradient of the three losses' sum is that of central differences, where what they take as given stays: the
// targets, and the weights of the policy's. Each loss changes its own network alone, and none the averages.
func TestIQLGradient(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 4))
	s := Default().IQL
	s.Width, s.UserWidth, s.Beta = 8, 6, 0.5
	w, g := drawParams(rng, iqlTensors(2, s.Width, s.UserWidth), 0.4)
	n := newIQLNetwork(&s, 2, w, g)
	b := iqlBatch{reward: []float64{-1, -2, -0.5}, last: []bool{false, false, true}}
	b.now, b.next = drawTransitions(rng, false), drawTransitions(rng, false)
	q, bootstrap := n.targets(&b)
	if bootstrap[2] != b.reward[2] || bootstrap[0] == b.reward[0] {
		t.Errorf("bootstrapped returns %v of rewards %v", bootstrap, b.reward)
	}
	n.forward(&b)
	n.setLoss(&b, q, bootstrap, 1)
	n.tape.Backward()
	var weights []float64 // exp(beta A)
	for i, v := range n.v.Value.Data {
		weights = append(weights, min(math.Exp(s.Beta*(q[i]-v)), maxAdvantageWeight))
	}
	largest := nntest.Gradients(t, w, g, 1e-5, func() float64 {
		n.forward(&b)
		loss := n.setLoss(&b, q, bootstrap, 1)
		sum := loss[0] + loss[1]
		for i, weight := range weights {
			sum -= weight / 3 * n.distribution.logProbability(&b.now, i, 0)
		}
		return sum
	})
	for i, tensor := range w.Tensors {
		if averaged := strings.HasPrefix(tensor.Name, "average"); averaged != (largest[i] == 0) {
			t.Errorf("%s has a gradient of up to %v", tensor.Name, largest[i])
		}
	}
}

// toyFront has two members that circle at v* as the heuristics do: one computes nothing on
// the aircraft, the other all tasks at their balance.
func toyFront(r *Run) behaviour {
	circle := func(s *slot.Snapshot, d *slot.Decision) {
		corpus.DecideHeuristic(1, &r.World, s, d)
		clear(d.Users)
	}
	return func() ([]decider, error) {
		return []decider{circle, func(s *slot.Snapshot, d *slot.Decision) {
			circle(s, d)
			for u := range s.Users {
				d.Users[u] = balanced(r, s, u)
			}
		}}, nil
	}
}

func balanced(r *Run, s *slot.Snapshot, u int) slot.UserDecision {
	x := &s.Users[u]
	share := r.World.Physics.EqualShare(x.Gain[0], s.Aircraft[0].CPUHz, float64(len(s.Users)))
	return slot.UserDecision{Server: 1, Offload: physics.BalancedOffload(x.Task.LocalTimeS(x.CPUHz), x.Task.OffloadTimeS(share))}
}

// hesitantFront has two members that decide at random in every slot: to hover or to circle,
// and for each user whether to compute on the aircraft, one of them more often. What they
// do no state reveals, so that every action is known in every state.
func hesitantFront(r *Run) behaviour {
	return func() (members []decider, err error) {
		for _, often := range []float64{0.1, 0.8} {
			members = append(members, func(s *slot.Snapshot, d *slot.Decision) {
				corpus.DecideHeuristic(1, &r.World, s, d)
				clear(d.Users)
				draw := uint64(s.Slot)
				for u := range s.Users {
					draw = 31*draw + math.Float64bits(s.Users[u].Task.Bits)
				}
				rng := rand.New(rand.NewPCG(draw, 1))
				if rng.Float64() < 0.5 {
					clear(d.Move)
				}
				for u := range s.Users {
					if rng.Float64() < often {
						d.Users[u] = balanced(r, s, u)
					}
				}
			})
		}
		return members, nil
	}
}

// From flights that decide at random it finds what is best: next to the least energy where
// that counts, next to the least delay where that does; cloning finds neither.
func TestIQLImproves(t *testing.T) {
	r := toyRun(t, 1)
	s := r.IQL
	s.Steps, s.Batch, s.Rate, s.Average, s.Width, s.UserWidth = 600, 128, 3e-3, 0.05, 32, 16
	s.Corpus.Flights, s.Corpus.Heuristic, s.Corpus.Corner, s.Corpus.Episodes = 300, 0, 0, 10
	least := r.leastJ()
	frugal, fast := map[float64]pareto.Point{}, map[float64]pareto.Point{}
	for _, beta := range []float64{0, 3} {
		s.Beta = beta
		own := *r
		own.Dir = t.TempDir()
		newPolicy := offlinetest.Must(makeIQL(t.Context(), &own, s, hesitantFront(r)))(t)
		frugal[beta] = flyToy(t, r, newPolicy, preferenceFor(1))
		fast[beta] = flyToy(t, r, newPolicy, preferenceFor(0))
		t.Logf("beta %v: frugal %+v, least %.0f J; fast %+v", beta, frugal[beta], least, fast[beta])
	}
	if frugal[3].EnergyJ > 1.05*least || frugal[0].EnergyJ < 1.05*least {
		t.Errorf("%v J with advantages, %v J without, least %v J", frugal[3].EnergyJ, frugal[0].EnergyJ, least)
	}
	if fast[3].DelayS > 0.3*frugal[3].DelayS {
		t.Errorf("%v s where delay counts, %v s where energy does", fast[3].DelayS, frugal[3].DelayS)
	}
}

// A policy that flies at full speed has the least delay, and is not in a corpus.
func TestMembersWithinTheReference(t *testing.T) {
	c := world.Standard()
	fast := func(s *slot.Snapshot, d *slot.Decision) {
		corpus.DecideHeuristic(2, &c, s, d)
		for m := range d.Move {
			way := physics.Position{EastM: c.Physics.SpeedMaxMPS}
			if s.Slot%2 == 1 {
				way.EastM = -way.EastM
			}
			d.Move[m] = way
		}
	}
	f := func() ([]decider, error) {
		return []decider{fast, func(s *slot.Snapshot, d *slot.Decision) { corpus.DecideHeuristic(1, &c, s, d) }}, nil
	}
	front, err := flyMembers(t.Context(), c, f, []uint64{1, 2}, 1)
	if err != nil || len(front.Points) != 1 || !slices.Equal(front.members, []int{1}) {
		t.Errorf("front %+v, %v", front, err)
	}
}
