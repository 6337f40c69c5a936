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
	"prefdt/inference/model"
	"prefdt/inference/slot"
	"prefdt/offline/nn"
	"prefdt/offline/nn/nntest"
	"prefdt/offline/offlinetest"
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

// drawTransitions returns a few slots of the standard world, one of them without users,
// and random actions.
func drawTransitions(rng *rand.Rand, plain bool) (x transitions) {
	c := world.Standard()
	w := world.New(c, 5)
	var s slot.Snapshot
	x.plain = plain
	x.reset()
	for i := range 3 {
		w.Snapshot(&s)
		if i == 1 {
			s.Users = s.Users[:0]
		}
		x.observe(&c.Physics, &s, 0.3)
		for range flightWidth(plain) * c.Aircraft {
			x.flight = append(x.flight, float32(rng.NormFloat64()))
		}
		for range s.Users {
			x.server, x.offload = append(x.server, rng.IntN(c.Aircraft+1)), append(x.offload, float32(rng.NormFloat64()))
		}
	}
	return x
}

// drawParams returns parameters, all of them random, and room for their gradient.
func drawParams(rng *rand.Rand, tensors []model.Tensor, deviation float64) (w, g *nn.Params[float64]) {
	w, g = nn.NewParams[float64](tensors), nn.NewParams[float64](tensors)
	for i := range w.Data {
		w.Data[i] = deviation * rng.NormFloat64()
	}
	return w, g
}

// The whole loss's gradient is that of central differences, in float64.
func TestPPOGradient(t *testing.T) {
	for _, plain := range []bool{false, true} {
		rng := rand.New(rand.NewPCG(1, 2))
		s := Default().PPO
		s.Entropy = 0.1
		w, g := drawParams(rng, ppoTensors(2, 8, 6, flightWidth(plain)), 0.4)
		n := newPPONetwork(w, g, false)
		b := ppoBatch{transitions: drawTransitions(rng, plain), advantage: []float64{1, -2, 1.5}}
		loss := func() float64 {
			n.forward(&b.transitions, true)
			return n.setLoss(&s, &b)
		}
		n.forward(&b.transitions, true)
		for i, off := range []float64{0.05, -0.5, 0.5} { // ratios next to 1 and beyond the clip
			b.log = append(b.log, n.distribution.logProbability(&b.transitions, i, 0)+off)
			b.returns = append(b.returns, [objectives]float64{rng.NormFloat64(), rng.NormFloat64()})
		}
		loss()
		n.tape.Backward()
		nntest.Gradients(t, w, g, 1e-6, loss)
		if zeros := countZeros(g.Data); zeros > len(g.Data)/2 {
			t.Errorf("plain %v: %d of %d gradients are zero", plain, zeros, len(g.Data))
		}
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
	r.CMDP.PPO, r.PGMORL.PPO = r.PPO, r.PPO
	s, p := &r.PEDA, &r.PGMORL
	s.Steps, s.Width, s.Layers, s.Heads, s.Context = 1, 16, 1, 2, 5
	s.Corpus.Flights, s.Corpus.Heuristic, s.Corpus.Episodes = 20, 0, 3
	r.IQL.Steps, r.IQL.Batch, r.IQL.Corpus = 3, 8, s.Corpus
	p.Tasks, p.WarmUp, p.Generations, p.Updates, p.Episodes = 2, 2, 1, 1, 2
	return r
}

// preferenceFor requests a preference.
func preferenceFor(omega float64) rollout.Request { return (&Method{}).request(omega) }

// flyToy returns the mean outcome of a policy.
func flyToy(t *testing.T, r *Run, newPolicy NewPolicy, q rollout.Request) (mean pareto.Point) {
	t.Helper()
	runner := offlinetest.Must(rollout.NewWithPolicy(newPolicy(), r.GoalConstants(), r.World, rollout.ReportLink{}))(t)
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
	r := toyRun(t, 6_000)
	leastJ := r.leastJ()
	best := flyToy(t, r, offlinetest.Must(scaOracleMethod.New(t.Context(), r))(t), preferenceFor(0))
	for name, s := range map[string]PPOSettings{"ppo": r.PPO, "ppo-plain": plainPPO.settings(r.PPO)} {
		r.Dir = t.TempDir()
		newPolicy := offlinetest.Must(makePPO(t.Context(), r, s))(t)
		frugal, fast := flyToy(t, r, newPolicy, preferenceFor(1)), flyToy(t, r, newPolicy, preferenceFor(0))
		t.Logf("%s: frugal %+v, least %.0f J; fast %+v, best %+v", name, frugal, leastJ, fast, best)
		if frugal.EnergyJ > 1.1*leastJ {
			t.Errorf("%s: %v J where energy counts, least %v J", name, frugal.EnergyJ, leastJ)
		}
		if fast.DelayS > 1.8*best.DelayS || fast.DelayS > 0.6*frugal.DelayS {
			t.Errorf("%s: %v s where delay counts, best %v s, without %v s", name, fast.DelayS, best.DelayS, frugal.DelayS)
		}
	}
}

// leastJ is what the fleet's flight takes at v*.
func (r *Run) leastJ() float64 {
	_, leastW := r.World.Physics.MinPower()
	return leastW * float64(r.World.Slots)
}

// The policy of a budget spends about that, and that of a larger one spends more.
func TestCMDPKeepsItsBudget(t *testing.T) {
	r := toyRun(t, 32_000)
	r.CMDP.BudgetsJ = []float64{3000, 3800}
	r.CMDP.MultiplierRate = 0.1
	newPolicy := offlinetest.Must(makeCMDP(t.Context(), r))(t)
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
	path := func(parts int) string { return filepath.Join(r.Dir, fmt.Sprintf("%d.bin", parts)) }
	for _, parts := range []int{1, 5} {
		for range parts {
			p := offlinetest.Must(newPPO(r.CMDP.PPO, r.World, r.Scales, 3))(t)
			update := func() error {
				p.collect()
				x := &p.network.weights.Multiplier.Value.Data[0]
				*x += float32(p.meanCost[1] / 1e4)
				return p.learn([objectives]float64{1, float64(*x)})
			}
			ctx, cancel := context.WithCancel(t.Context())
			err := trainToEnd(ctx, p.trainer, path(parts), 50, r.CMDP.PPO.gradientSteps(), update, func(int) {
				if parts > 1 {
					cancel() // each part makes one update
				}
			})
			cancel()
			if err != nil && !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
		}
	}
	a, errA := os.ReadFile(path(1))
	b, errB := os.ReadFile(path(5))
	if errA != nil || errB != nil || !slices.Equal(a, b) {
		t.Errorf("the states differ: %v, %v", errA, errB)
	}
}

// No method trains on episodes that are held out.
func TestTrainingSeedsAlone(t *testing.T) {
	for _, text := range []string{"100000:100001", "1000000:1000100", "99999:100001"} {
		r := toyRun(t, 100)
		for _, seeds := range []*string{&r.PPO.Seeds, &r.CMDP.PPO.Seeds, &r.PGMORL.PPO.Seeds, &r.IQL.Corpus.Seeds, &r.PEDA.Corpus.Seeds} {
			*seeds = text
		}
		for _, s := range []settings{&r.PPO, &r.CMDP, &r.PGMORL, &r.IQL, &r.PEDA} {
			if err := s.Check(); err == nil || !strings.Contains(err.Error(), "seed") {
				t.Errorf("%s: settings %T: %v", text, s, err)
			}
		}
		form := formOf("prefdt")
		for name, train := range map[string]func() (NewPolicy, error){
			"PPO":    func() (NewPolicy, error) { return makePPO(t.Context(), r, r.PPO) },
			"CMDP":   func() (NewPolicy, error) { return makeCMDP(t.Context(), r) },
			"PGMORL": func() (NewPolicy, error) { return makePGMORL(t.Context(), r) },
			"IQL":    func() (NewPolicy, error) { return makeIQL(t.Context(), r, r.IQL, toyFront(r)) },
			"PEDA":   func() (NewPolicy, error) { return makePEDA(t.Context(), r, r.PEDA, form, toyFront(r)) },
		} {
			if _, err := train(); err == nil || !strings.Contains(err.Error(), "is not for search or training") {
				t.Errorf("%s trains on %s: %v", name, text, err)
			}
		}
	}
}
