package methods

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"prefdt/inference/goal"
	"prefdt/inference/slot"
	"prefdt/offline/nn"
	"prefdt/offline/nn/nntest"
	"prefdt/offline/pareto"
	"prefdt/offline/rollout"
	"prefdt/offline/seeds"
	"prefdt/simbridge/world"
)

// The clipped objective at a ratio of 1.5 and of 0.5, epsilon 0.2: the pessimistic of
// both, without a gradient where that is the clipped one.
func TestClippedObjective(t *testing.T) {
	for _, c := range []struct{ ratio, advantage, objective, dlog float64 }{
		{1, 2, 2, 2}, {1, -2, -2, -2},
		{1.5, 2, 2.4, 0}, {1.5, -2, -3, -3}, // 1.2 x 2; -3 is below -2.4
		{0.5, 2, 1, 1}, {0.5, -2, -1.6, 0},
	} {
		objective, dlog := clippedObjective(math.Log(c.ratio), c.advantage, 0.2)
		if math.Abs(objective-c.objective) > 1e-12 || math.Abs(dlog-c.dlog) > 1e-12 {
			t.Errorf("%+v: %v, %v", c, objective, dlog)
		}
	}
}

// Three slots by hand, gamma 0.5, lambda 0.5, of two objectives whose second has twice
// the rewards and values of the first:
//
//	delta = r + 0.5 V' - V:  3+0-2 = 1,  2+1-1 = 2,  1+0.5-3 = -1.5
//	A     = 1,  2 + 0.25 x 1 = 2.25,  -1.5 + 0.25 x 2.25 = -0.9375
func TestEstimateAdvantages(t *testing.T) {
	rewards := [][objectives]float64{{1, 2}, {2, 4}, {3, 6}}
	values := [][objectives]float64{{3, 6}, {1, 2}, {2, 4}}
	got := make([][objectives]float64, 3)
	estimateAdvantages(rewards, values, got, 0.5, 0.5)
	for i, want := range []float64{-0.9375, 2.25, 1} {
		if got[i] != [objectives]float64{want, 2 * want} {
			t.Errorf("slot %d: %v, want %v and twice that", i, got[i], want)
		}
	}
}

// drawObservation returns a few slots of the standard world, one of them without users,
// and random actions.
func drawObservation(rng *rand.Rand, plain bool) (o observation, a actions) {
	c := world.Standard()
	w := world.New(c, 5)
	var s slot.Snapshot
	o.plain, a.plain = plain, plain
	o.reset()
	for i := range 3 {
		w.Snapshot(&s)
		if i == 1 {
			s.Users = s.Users[:0]
		}
		o.add(&c.Physics, &s, 0.3)
		for range flightWidth(plain) * c.Aircraft {
			a.flight = append(a.flight, float32(rng.NormFloat64()))
		}
		for range s.Users {
			a.server, a.offload = append(a.server, rng.IntN(c.Aircraft+1)), append(a.offload, float32(rng.NormFloat64()))
		}
	}
	return o, a
}

// The whole loss's gradient is that of central differences, in float64.
func TestPPOGradient(t *testing.T) {
	for _, plain := range []bool{false, true} {
		t.Run(fmt.Sprintf("plain %v", plain), func(t *testing.T) { checkPPOGradient(t, plain) })
	}
}

func checkPPOGradient(t *testing.T, plain bool) {
	rng := rand.New(rand.NewPCG(1, 2))
	s := Default().PPO
	s.Entropy = 0.1
	tensors := ppoTensors(2, 8, 6, flightWidth(plain))
	w, g := nn.NewParams[float64](tensors), nn.NewParams[float64](tensors)
	for i := range w.Data {
		w.Data[i] = 0.4 * rng.NormFloat64()
	}
	n := newPPONetwork(w, g, false)
	var b ppoBatch
	b.observation, b.actions = drawObservation(rng, plain)
	loss := func() float64 {
		n.forward(&b.observation, true)
		return n.setLoss(&s, &b)
	}
	n.forward(&b.observation, true)
	for i := range b.observation.slots { // ratios next to 1 and beyond the clip
		b.log = append(b.log, n.distribution.logProbability(&b.observation, &b.actions, i, 0)+[]float64{0.05, -0.5, 0.5}[i])
		b.advantage = append(b.advantage, []float64{1, -2, 1.5}[i])
		b.returns = append(b.returns, [objectives]float64{rng.NormFloat64(), rng.NormFloat64()})
	}
	loss()
	n.tape.Backward()
	nntest.Gradients(t, w, g, 1e-6, loss)
	if zeros := countZeros(g.Data); zeros > len(g.Data)/2 {
		t.Errorf("%d of %d gradients are zero", zeros, len(g.Data))
	}
}

// Actions are drawn as often as their density says.
func TestChooseServer(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 3))
	logits := []float64{math.Log(0.2), math.Log(0.5), math.Log(0.3)}
	var counts [3]float64
	for range 20000 {
		counts[chooseServer(logits, rng)]++
	}
	for i, want := range []float64{0.2, 0.5, 0.3} {
		if got := counts[i] / 20000; math.Abs(got-want) > 0.015 {
			t.Errorf("%d drawn %v of the times, want %v", i, got, want)
		}
	}
	if chooseServer(logits, nil) != 1 {
		t.Error("the likeliest is not taken")
	}
}

// toyRun is a world of one aircraft, short flights, and a small budget.
func toyRun(t testing.TB, steps int) *Run {
	c := world.Standard()
	c.Aircraft, c.Slots, c.Users, c.ActiveMin, c.ActiveMax = 1, 20, 4, 2, 4
	r := &Run{Config: Default(), World: c, Dir: t.TempDir(), Workers: 2, Log: io.Discard}
	r.Scales = Scales{DelayS: 40, EnergyJ: 1200}
	r.PPO.Preferences, r.PPO.Steps, r.PPO.Rate = 2, steps, 3e-3
	r.CMDP.PPO = r.PPO
	return r
}

func flyToy(t *testing.T, r *Run, newPolicy func() (rollout.Policy, error), q rollout.Request) (mean pareto.Point) {
	p, err := newPolicy()
	if err != nil {
		t.Fatal(err)
	}
	runner, err := rollout.NewWithPolicy(p, r.GoalConstants(), r.World, rollout.ReportLink{})
	if err != nil {
		t.Fatal(err)
	}
	const n = 6
	for _, seed := range seeds.List(seeds.CalibrationFirst, n) {
		x := runner.Fly(seed, q)
		mean.DelayS += x.DelayS / n
		mean.EnergyJ += x.EnergyJ / n
	}
	return mean
}

// Where energy alone counts, the optimum is to compute nothing and to fly at v*; where
// delay alone does, exact knowledge of it is the SCA oracle's.
func TestPPOLearns(t *testing.T) {
	r := toyRun(t, 16_000)
	for name, s := range map[string]PPOSettings{"ppo": r.PPO, "ppo-plain": r.PPO.plain()} {
		t.Run(name, func(t *testing.T) { learnsToy(t, r, s) })
	}
}

func learnsToy(t *testing.T, r *Run, s PPOSettings) {
	r.Dir = t.TempDir()
	newPolicy, err := makePPO(context.Background(), r, s)
	if err != nil {
		t.Fatal(err)
	}
	_, leastW := r.World.Physics.MinPower()
	frugal := flyToy(t, r, newPolicy, rollout.Request{Mode: goal.Preference, Omega: 1})
	fast := flyToy(t, r, newPolicy, rollout.Request{Mode: goal.Preference, Omega: 0})
	best := flyToy(t, r, func() (rollout.Policy, error) {
		return makeSCAOracle(r.SCAOracle.SCASettings, &r.World.Physics, r.Scales)
	}, rollout.Request{Mode: goal.Preference, Omega: 0})
	t.Logf("frugal %+v, least %.0f J; fast %+v, best %+v", frugal, leastW*float64(r.World.Slots), fast, best)
	if frugal.EnergyJ > 1.1*leastW*float64(r.World.Slots) {
		t.Errorf("%v J where energy counts, least %v J", frugal.EnergyJ, leastW*float64(r.World.Slots))
	}
	if fast.DelayS > 1.8*best.DelayS || fast.DelayS > 0.6*frugal.DelayS {
		t.Errorf("%v s where delay counts, best %v s, without %v s", fast.DelayS, best.DelayS, frugal.DelayS)
	}
}

// The policy of a budget spends about that, and that of a larger one spends more.
func TestCMDPKeepsItsBudget(t *testing.T) {
	r := toyRun(t, 32_000)
	r.CMDP.BudgetsJ = []float64{3000, 3800}
	r.CMDP.MultiplierRate = 0.1
	newPolicy, err := makeCMDP(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range r.CMDP.BudgetsJ {
		got := flyToy(t, r, newPolicy, rollout.Request{Mode: goal.Target, BudgetJ: b})
		t.Logf("budget %v J: %+v", b, got)
		if math.Abs(got.EnergyJ/b-1) > 0.12 {
			t.Errorf("%v J spent of %v J", got.EnergyJ, b)
		}
	}
}

func TestMultiplierAscent(t *testing.T) {
	s := CMDPSettings{MultiplierRate: 0.5, MultiplierMax: 3}
	for _, c := range []struct{ multiplier, energyJ, want float64 }{
		{1, 120, 1.1}, {1, 100, 1}, {1, 80, 0.9}, {0.05, 0, 0}, {2.9, 1000, 3},
	} {
		if got := s.raise(c.multiplier, c.energyJ, 100, 100); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// An interrupted training that goes on ends with the bits of an uninterrupted one, the
// multiplier included.
func TestPPOResumes(t *testing.T) {
	r := toyRun(t, 800) // 5 updates
	path := map[string]string{}
	for _, name := range []string{"whole", "parts"} {
		path[name] = filepath.Join(r.Dir, name+".bin")
		for ended := name == "whole"; ; {
			p, err := newPPO(r.CMDP.PPO, r.World, r.Scales, 3)
			if err != nil {
				t.Fatal(err)
			}
			weights := func() [objectives]float64 {
				x := &p.learner.weights.Multiplier.Value.Data[0]
				*x += float32(p.meanCost[1] / 1e4)
				return [objectives]float64{1, float64(*x)}
			}
			ctx, cancel := context.WithCancel(context.Background())
			err = p.run(ctx, path[name], weights, func(int) {
				if !ended {
					cancel() // each part makes one update
				}
			})
			cancel()
			if p.iteration() == 5 {
				break
			}
			if !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
		}
	}
	a, errA := os.ReadFile(path["whole"])
	b, errB := os.ReadFile(path["parts"])
	if errA != nil || errB != nil || !slices.Equal(a, b) {
		t.Errorf("the states differ: %v, %v", errA, errB)
	}
}

// No method trains on episodes that are held out.
func TestTrainingSeedsAlone(t *testing.T) {
	for _, text := range []string{"100000:100001", "1000000:1000100", "99999:100001"} {
		r := toyRun(t, 100)
		r.PPO.Seeds, r.CMDP.PPO.Seeds = text, text
		if err := r.PPO.Check(); err == nil || !strings.Contains(err.Error(), "seed") {
			t.Errorf("%s: %v", text, err)
		}
		if _, err := makePPO(context.Background(), r, r.PPO); err == nil {
			t.Errorf("PPO trains on %s", text)
		}
		if _, err := makeCMDP(context.Background(), r); err == nil {
			t.Errorf("CMDP trains on %s", text)
		}
	}
}
