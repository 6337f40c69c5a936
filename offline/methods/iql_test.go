package methods

import (
	"context"
	"io"
	"math"
	"math/rand/v2"
	"testing"

	"prefdt/inference/goal"
	"prefdt/inference/model"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
	"prefdt/offline/rollout"
	"prefdt/offline/train"
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

// The gradients of the three losses are those of central differences, each by its own
// network alone.
func TestIQLGradient(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 4))
	s := Default().IQL
	s.Width, s.UserWidth, s.Beta = 8, 6, 0.5
	tensors := iqlTensors(2, s.Width, s.UserWidth)
	var none model.Arch
	w, g := train.NewParams[float64](none, tensors), train.NewParams[float64](none, tensors)
	for i := range w.Data {
		w.Data[i] = 0.4 * rng.NormFloat64()
	}
	n := newIQLNetwork(&s, 2, w, g)
	b := iqlBatch{reward: []float64{-1, -2, -0.5}, last: []bool{false, false, true}}
	b.now, b.actions = drawObservation(rng)
	b.next, _ = drawObservation(rng)
	q, bootstrap := n.targets(&b)
	if bootstrap[2] != b.reward[2] || bootstrap[0] == b.reward[0] {
		t.Errorf("bootstrapped returns %v of rewards %v", bootstrap, b.reward)
	}
	n.forward(&b)
	n.setLoss(&b, q, bootstrap, 1)
	n.tape.Backward()
	weights := append([]float64(nil), n.weight...)
	first := 0
	for k, tensor := range tensors {
		of := 2 // whose loss the tensor is in
		switch tensor.Name[0] {
		case 'v':
			of = 0
		case 'q':
			of = 1
		}
		for i := first; i < first+tensor.Size(); i += 1 + tensor.Size()/5 {
			const h = 1e-6
			loss := func() float64 {
				n.forward(&b)
				l := n.setLoss(&b, q, bootstrap, 1)
				if of == 2 { // its advantage weights are given
					l[2] = 0
					for i, weight := range weights {
						l[2] -= weight / 3 * n.distribution.logProbability(&b.now, &b.actions, i, 0)
					}
				}
				return l[of]
			}
			at := w.Data[i]
			w.Data[i] = at + h
			right := loss()
			w.Data[i] = at - h
			left := loss()
			w.Data[i] = at
			want := (right - left) / (2 * h)
			if tensor.Name[:2] == "av" {
				want = 0
			}
			if math.Abs(g.Data[i]-want) > 1e-5+1e-5*math.Abs(want) {
				t.Fatalf("tensor %d %s: gradient %v, want %v", k, tensor.Name, g.Data[i], want)
			}
		}
		first += tensor.Size()
	}
}

// toyFront has two members that fly north at v*: one computes nothing on the aircraft,
// the other all tasks at their balance.
func toyFront(r *Run) front {
	best, _ := r.World.Physics.MinPower()
	north := func(s *slot.Snapshot, d *slot.Decision) {
		d.Resize(s)
		for m := range d.Move {
			d.Move[m] = physics.Position{NorthM: best}
		}
	}
	return func() ([]decider, error) {
		return []decider{north, func(s *slot.Snapshot, d *slot.Decision) {
			north(s, d)
			for u := range s.Users {
				x := &s.Users[u]
				share := r.World.Physics.EqualShare(x.Gain[0], s.Aircraft[0].CPUHz, float64(len(s.Users)))
				d.Users[u] = slot.UserDecision{Server: 1, Offload: physics.BalancedOffload(x.Task.LocalTimeS(x.CPUHz), x.Task.OffloadTimeS(share))}
			}
		}}, nil
	}
}

// From flights of which most are bad it finds the good ones: close to the least energy
// where that counts, close to the least delay where that does; cloning alone does not.
func TestIQLImproves(t *testing.T) {
	r := toyRun(t, 1)
	r.Log = io.Discard
	s := r.IQL
	s.Steps, s.Batch, s.Rate, s.Width, s.UserWidth = 600, 128, 3e-3, 32, 16
	s.Corpus.Flights, s.Corpus.Heuristic, s.Corpus.Corner, s.Corpus.Episodes = 300, 0.7, 0, 10
	_, leastW := r.World.Physics.MinPower()
	least := leastW * float64(r.World.Slots)
	energy := map[float64]float64{}
	for _, beta := range []float64{0, 10} {
		s.Beta = beta
		own := *r
		own.Dir = t.TempDir()
		newPolicy, err := NewIQL(context.Background(), &own, s, toyFront(r))
		if err != nil {
			t.Fatal(err)
		}
		frugal := flyToy(t, r, newPolicy, rollout.Request{Mode: goal.Preference, Omega: 1})
		fast := flyToy(t, r, newPolicy, rollout.Request{Mode: goal.Preference, Omega: 0})
		t.Logf("beta %v: frugal %+v, least %.0f J; fast %+v", beta, frugal, least, fast)
		energy[beta] = frugal.EnergyJ
		if beta > 0 && (fast.DelayS > 0.5*frugal.DelayS || frugal.EnergyJ > 1.1*least) {
			t.Errorf("fast %+v, frugal %+v, least %.0f J", fast, frugal, least)
		}
	}
	if energy[10] >= energy[0] {
		t.Errorf("%v J with advantages, %v J without", energy[10], energy[0])
	}
}

func TestIQLRefusesHeldOutSeeds(t *testing.T) {
	r := toyRun(t, 1)
	s := r.IQL
	s.Corpus.Seeds = "1000000:1000010"
	if _, err := NewIQL(context.Background(), r, s, toyFront(r)); err == nil {
		t.Error("a corpus was flown on evaluation seeds")
	}
	if s.Check() == nil {
		t.Error("the settings pass")
	}
}

// Preferences are drawn within the band, matched to the nearest share.
func TestDrawPreference(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 5))
	shares := []float64{0.2, 0.5, 0.6}
	var counts [3]int
	for range 3000 {
		omega := drawPreference(rng, shares, 0)
		if omega < 0.15 || omega > 0.65 {
			t.Fatalf("omega %v outside the band", omega)
		}
		counts[nearestShare(shares, omega)]++
	}
	for i, n := range counts {
		if n < 300 {
			t.Errorf("member %d is flown %d times", i, n)
		}
	}
	for range 100 {
		if omega := drawPreference(rng, []float64{0, 0.01, 0.02, 0.03, 0.5, 1}, 1); omega > 0.03 {
			t.Errorf("omega %v outside the corner's window", omega)
		}
	}
}
