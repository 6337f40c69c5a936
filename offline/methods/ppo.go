package methods

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"sync"

	"prefdt/configs/cli"
	"prefdt/inference/goal"
	"prefdt/inference/kernel"
	"prefdt/inference/model"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
	"prefdt/offline/command"
	"prefdt/offline/jobs"
	"prefdt/offline/nn"
	"prefdt/offline/pareto"
	"prefdt/offline/rollout"
	"prefdt/offline/seeds"
	"prefdt/simbridge/world"
)

// Per-preference PPO, Table "classes" of the paper, class 1: one policy for each of 21
// preferences, by proximal policy optimisation (Schulman, Wolski, Dhariwal, Radford and
// Klimov, arXiv:1707.06347) with generalised advantage estimation (Schulman, Moritz,
// Levine, Jordan and Abbeel, ICLR 2016). The reward is the linear utility of Sec. III-F at
// the scales eta. The critic estimates the two returns apart, and a preference weighs
// their advantages: the same estimate, since all of it is linear, which the Lagrangian
// and the evolutionary methods use with other weights.

// PPOSettings of one policy, and of how many.
type PPOSettings struct {
	Preferences int `json:"preferences" yaml:"preferences" range:"2,1001"` // evenly from omega 0 to 1
	Steps       int `json:"steps" yaml:"steps" range:"1,2e9"`              // of the environment, for each policy

	Episodes    int     `json:"episodes" yaml:"episodes" range:"1,10000"` // flown between two updates
	Epochs      int     `json:"epochs" yaml:"epochs" range:"1,1000"`
	Minibatches int     `json:"minibatches" yaml:"minibatches" range:"1,10000"`
	Gamma       float64 `json:"gamma" yaml:"gamma" range:"0,0.999999"`
	Lambda      float64 `json:"lambda" yaml:"lambda" range:"0,1"` // of the advantage estimation
	Clip        float64 `json:"clip" yaml:"clip" range:"1e-6,10"` // epsilon
	Entropy     float64 `json:"entropy" yaml:"entropy" range:"0,10"`
	Value       float64 `json:"value" yaml:"value" range:"0,1000"` // weight of the critic's loss
	Rate        float64 `json:"rate" yaml:"rate" range:"1e-9,1"`   // peak learning rate, falling to a tenth
	ClipNorm    float64 `json:"clip_norm" yaml:"clip_norm" range:"0,1e6"`

	Plain     bool   `json:"plain,omitempty" yaml:"-"`  // states and actions by the letter: see transitions.go
	Pooled    bool   `json:"pooled,omitempty" yaml:"-"` // users are decided for by the summary of their slot alone
	Width     int    `json:"width" yaml:"width" range:"8,1024"`
	UserWidth int    `json:"user_width" yaml:"user_width" range:"4,1024"`
	Seeds     string `json:"seeds" yaml:"seeds"` // episodes, training seeds A:B
	Seed      uint64 `json:"seed" yaml:"seed"`
}

// Check returns what is wrong with the settings.
func (s *PPOSettings) Check() error {
	_, err := command.ParseSeeds(s.Seeds, seeds.CheckTraining)
	return cmp.Or(command.CheckRanges(s), err)
}

// iterations returns how many updates the steps make, one at least.
func (s *PPOSettings) iterations(slots int) int { return max(s.Steps/(s.Episodes*slots), 1) }

func (s *PPOSettings) gradientSteps() int { return s.Epochs * s.Minibatches } // of an update

// trainConfig returns the optimiser's configuration: Adam without weight decay.
func (s *PPOSettings) trainConfig(slots int, seed uint64) nn.Config {
	return nn.Config{
		Batch: 1, Workers: 1, Seed: seed,
		Schedule: nn.Schedule{PeakRate: s.Rate, FinalFraction: 0.1, Steps: s.iterations(slots) * s.gradientSteps(), Beta1: 0.9,
			Beta2: 0.999, ClipNorm: s.ClipNorm},
	}
}

// ppoWeights are the actor, the critic of both returns, and the multiplier of methods
// that have one, which no gradient changes: with it, a state file is all of a run.
type ppoWeights[T any] struct {
	Actor      actor[T]
	Critic     critic[T]
	Multiplier T
}

func ppoTensors(aircraft, width, userPart, flight int) []model.Tensor {
	w := ppoWeights[model.Tensor]{
		Actor:      actorTensors(aircraft, width, userPart, flight),
		Critic:     criticTensors("critic", fleetWidth(aircraft), userWidth(aircraft), width, userPart, objectives),
		Multiplier: model.Tensor{Name: "multiplier", Rows: 1, Cols: 1},
	}
	return model.Tensors(model.Parameters[model.Tensor](&w))
}

// ppoBatch is what an update learns from. Shapes: S slots.
type ppoBatch struct {
	transitions
	log       []float64             // (S) log density of the actions when they were drawn
	advantage []float64             // (S) weighed and standardised
	returns   [][objectives]float64 // (S) that the critic is to estimate
}

// gather sets b to the slots of another one, by their numbers.
func (b *ppoBatch) gather(from *ppoBatch, slots []int) {
	b.reset()
	b.log, b.advantage, b.returns = b.log[:0], b.advantage[:0], b.returns[:0]
	for _, s := range slots {
		b.append(&from.transitions, s, s+1)
		b.log, b.advantage, b.returns = append(b.log, from.log[s]), append(b.advantage, from.advantage[s]),
			append(b.returns, from.returns[s])
	}
}

// ppoNetwork computes distributions and values of a batch.
type ppoNetwork[T kernel.Float] struct {
	weights ppoWeights[nn.Param[T]]
	tape    nn.Tape[T]
	pooled  bool // of the settings

	distribution distribution[T]
	value        *nn.Var[T] // (S, objectives)
}

func newPPONetwork[T kernel.Float](w, g *nn.Params[T], pooled bool) *ppoNetwork[T] {
	n := &ppoNetwork[T]{pooled: pooled}
	nn.Bind(model.Parameters[nn.Param[T]](&n.weights), w, g)
	return n
}

func (n *ppoNetwork[T]) forward(x *transitions, withValue bool) {
	n.tape.Reset()
	n.distribution = act(&n.tape, &n.weights.Actor, x, n.pooled)
	if withValue {
		n.value = estimate(&n.tape, &n.weights.Critic, x.fleet, x.users, x)
	}
}

// clippedObjective returns the surrogate objective of one slot, eq. (7) of Schulman et
// al. 2017, and its derivative by the log density.
func clippedObjective(logRatio, advantage, clip float64) (objective, dlog float64) {
	ratio := math.Exp(logRatio)
	clipped := min(max(ratio, 1-clip), 1+clip)
	if clipped*advantage < ratio*advantage {
		return clipped * advantage, 0
	}
	return ratio * advantage, ratio * advantage
}

// setLoss sets the gradients of the loss by the outputs: the negative clipped objective,
// the critic's squared error and the negative entropy of the association and of the
// deviations, as means over the slots. It returns the loss.
func (n *ppoNetwork[T]) setLoss(s *PPOSettings, b *ppoBatch) (loss float64) {
	p, k := &n.distribution, 1/float64(b.slots)
	dchoice, dvalue, dstd := n.tape.ZeroGrad(p.choice), n.tape.ZeroGrad(n.value), n.tape.ZeroGrad(p.logStd)
	n.tape.ZeroGrad(p.flight)
	for i := range b.slots {
		log := p.logProbability(&b.transitions, i, 0)
		objective, dlog := clippedObjective(log-b.log[i], b.advantage[i], s.Clip)
		loss -= k * objective
		if dlog != 0 {
			p.logProbability(&b.transitions, i, -k*dlog)
		}
		for j, want := range b.returns[i] {
			l, grad := nn.SquaredError(float64(n.value.Value.Row(i)[j]), want, k*s.Value)
			loss += l
			dvalue.Row(i)[j] = T(grad)
		}
		for u := b.first[i]; u < b.first[i+1]; u++ {
			row := p.choice.Value.Row(u)
			loss -= addEntropy(row[:len(row)-1], dchoice.Row(u), k*s.Entropy)
		}
	}
	for i, v := range p.logStd.Value.Data {
		loss -= s.Entropy * float64(v)
		dstd.Data[i] -= T(s.Entropy)
	}
	return loss
}

// addEntropy returns the entropy of the softmax of logits times a weight, and subtracts
// its gradient.
func addEntropy[T kernel.Float](logits, grad []T, weight float64) (entropy float64) {
	p := make([]float64, len(logits))
	top, total := math.Inf(-1), 0.0
	for _, v := range logits {
		top = max(top, float64(v))
	}
	for i, v := range logits {
		p[i] = math.Exp(float64(v) - top)
		total += p[i]
	}
	for i := range p {
		p[i] /= total
		entropy -= p[i] * math.Log(p[i]+1e-30)
	}
	for i := range p {
		grad[i] += T(weight * p[i] * (math.Log(p[i]+1e-30) + entropy))
	}
	return weight * entropy
}

// ppo is one policy in training. It implements nn.Network: each gradient step of the
// trainer is on the next minibatch.
type ppo struct {
	settings PPOSettings
	scales   Scales
	trainer  *nn.Trainer
	network  *ppoNetwork[float32]
	worlds   []*world.World
	seeds    []uint64
	seed     uint64
	minJ     float64 // of the fleet's flight in a slot

	batch, minibatch ppoBatch
	order            []int
	meanCost         [objectives]float64 // of the last episodes: delay in s, energy in J
}

func newPPO(s PPOSettings, c world.Config, scales Scales, seed uint64) (*ppo, error) {
	list, err := command.ParseSeeds(s.Seeds, seeds.CheckTraining)
	if err != nil {
		return nil, err
	}
	if len(c.AircraftLosses) > 0 {
		return nil, errors.New("a fleet that loses aircraft: these networks are bound to its size")
	}
	_, minW := c.Physics.MinPower()
	p := &ppo{settings: s, scales: scales, seeds: list, seed: seed, minJ: float64(c.Aircraft) * minW}
	p.trainer, err = nn.New(s.trainConfig(c.Slots, seed),
		nn.Task{Tensors: ppoTensors(c.Aircraft, s.Width, s.UserWidth, flightWidth(s.Plain)), Losses: []string{"loss"},
			Network: func(_ int, w, g *nn.Params[float32]) nn.Network {
				p.network = newPPONetwork(w, g, s.Pooled)
				return p
			}})
	if err != nil {
		return nil, err
	}
	for range s.Episodes {
		p.worlds = append(p.worlds, &world.World{Config: c})
	}
	return p, nil
}

// iteration returns how many updates were made.
func (p *ppo) iteration() int { return p.trainer.Step / p.settings.gradientSteps() }

// AddGradient implements nn.Network.
func (p *ppo) AddGradient(i int, _ float64) ([]float64, error) {
	slots := p.batch.slots
	k := i % p.settings.Minibatches
	if k == 0 || len(p.order) != slots {
		p.order = rand.New(rand.NewPCG(p.seed, uint64(i))).Perm(slots)
	}
	p.minibatch.gather(&p.batch, p.order[k*slots/p.settings.Minibatches:(k+1)*slots/p.settings.Minibatches])
	p.network.forward(&p.minibatch.transitions, true)
	loss := p.network.setLoss(&p.settings, &p.minibatch)
	p.network.tape.Backward()
	return []float64{loss}, nil
}

// learn makes an update from the flights that collect made; w weighs the advantage of each objective.
func (p *ppo) learn(w [objectives]float64) error {
	b := &p.batch
	p.network.forward(&b.transitions, true)
	values := make([][objectives]float64, b.slots)
	for i := range values {
		for j, v := range p.network.value.Value.Row(i) {
			values[i][j] = float64(v)
		}
	}
	slots := p.worlds[0].Config.Slots
	advantages := make([][objectives]float64, b.slots)
	for first := 0; first < b.slots; first += slots {
		estimateAdvantages(b.returns[first:first+slots], values[first:first+slots], advantages[first:first+slots], p.settings.Gamma,
			p.settings.Lambda)
	}
	mean, square := 0.0, 0.0
	for i, a := range advantages {
		sum := 0.0
		for j := range a {
			sum += w[j] * a[j]
			b.returns[i][j] = a[j] + values[i][j]
		}
		b.advantage[i] = sum
		mean += sum / float64(len(advantages))
		square += sum * sum / float64(len(advantages))
	}
	deviation := math.Sqrt(max(square-mean*mean, 0)) + 1e-8
	for i := range b.advantage {
		b.advantage[i] = (b.advantage[i] - mean) / deviation
	}
	for range p.settings.gradientSteps() {
		if _, err := p.trainer.Next(); err != nil {
			return err
		}
	}
	return nil
}

// collect flies the next episodes by drawn actions, all at once, and leaves their rewards
// in the batch's returns, episode after episode.
func (p *ppo) collect() {
	first, slots, episodes := p.iteration()*len(p.worlds), p.worlds[0].Config.Slots, len(p.worlds)
	snapshots, draws := make([]slot.Snapshot, episodes), make([]*rand.Rand, episodes)
	for e, w := range p.worlds {
		w.Reset(p.seeds[(first+e)%len(p.seeds)])
		draws[e] = rand.New(rand.NewPCG(p.seed, uint64(first+e)))
	}
	p.meanCost = [objectives]float64{}
	var flown ppoBatch // the slots of all episodes, in order of time
	flown.reset()
	now := transitions{plain: p.settings.Plain}
	var decision slot.Decision
	var action world.Action
	scale := (1 - p.settings.Gamma) * float64(slots)
	for range slots {
		now.reset()
		for e, w := range p.worlds {
			w.Snapshot(&snapshots[e])
			now.observe(&w.Config.Physics, &snapshots[e], 0)
		}
		p.network.forward(&now, false)
		for e, w := range p.worlds {
			p.network.distribution.sample(&now, e, draws[e])
			now.decide(&w.Config.Physics, &snapshots[e], e, &decision)
			flown.log = append(flown.log, p.network.distribution.logProbability(&now, e, 0))
			w.FillAction(&snapshots[e], &decision, &action)
			o := w.Step(action)
			flown.returns = append(flown.returns, [objectives]float64{-o.DelayS * scale / p.scales.DelayS,
				-(o.EnergyJ() - p.minJ) * scale / p.scales.EnergyJ})
			p.meanCost[0] += o.DelayS / float64(episodes)
			p.meanCost[1] += o.EnergyJ() / float64(episodes)
		}
		flown.append(&now, 0, episodes)
	}
	flown.advantage = make([]float64, flown.slots) // estimated later
	var order []int
	for e := range episodes {
		for t := range slots {
			order = append(order, t*episodes+e)
		}
	}
	p.batch.gather(&flown, order)
}

// estimateAdvantages is generalised advantage estimation over one episode, eq. (16) of
// Schulman et al. 2016; after its last slot nothing more is earned.
func estimateAdvantages(rewards, values, advantages [][objectives]float64, gamma, lambda float64) {
	for j := range objectives {
		next, sum := 0.0, 0.0
		for t := len(rewards) - 1; t >= 0; t-- {
			delta := rewards[t][j] + gamma*next - values[t][j]
			sum = delta + gamma*lambda*sum
			advantages[t][j], next = sum, values[t][j]
		}
	}
}

// newMembers returns what makes policies of trained parameters. Each flies, of several actors, the one that
// choose names for the request.
func newMembers(c *physics.Constants, s PPOSettings, params []*nn.Params[float32], choose func(goal.Objective) int) NewPolicy {
	return func() rollout.Policy {
		members := s.flights(c, params)
		return rollout.PolicyFunc(func(s *slot.Snapshot, g goal.Objective, d *slot.Decision) { members[choose(g)](s, d) })
	}
}

// flights returns what decides by each of trained parameters.
func (s *PPOSettings) flights(c *physics.Constants, params []*nn.Params[float32]) (list []decider) {
	for _, w := range params {
		list = append(list, newActorFlight(w, c, s.Plain, s.Pooled).decide)
	}
	return list
}

// trainMembers trains one policy for each key, several at a time.
func trainMembers(ctx context.Context, r *Run, s PPOSettings, what string, keys []float64,
	weights func(p *ppo, key float64) [objectives]float64) ([]*nn.Params[float32], error) {
	updates := s.iterations(r.World.Slots)
	done := sumProgress(command.Progress(r.Log, "updates of "+what, updates*len(keys)), len(keys))
	params := make([]*nn.Params[float32], len(keys))
	return params, jobs.Do(ctx, len(keys), r.Workers, jobs.Stateless, func(_ struct{}, i int) error {
		p, err := newPPO(s, r.World, r.Scales, s.Seed+uint64(i))
		if err != nil {
			return err
		}
		params[i] = p.trainer.Params
		update := func() error {
			p.collect()
			return p.learn(weights(p, keys[i]))
		}
		return trainToEnd(ctx, p.trainer, filepath.Join(r.Dir, fmt.Sprintf("policy%02d.bin", i)), 50, s.gradientSteps(), update,
			func(n int) { done(i, n) })
	}, nil)
}

// sumProgress returns a function to which several workers report how much of their part is
// done, and that passes on the sum.
func sumProgress(progress func(done int), parts int) func(part, done int) {
	var mu sync.Mutex
	each, sum := make([]int, parts), 0
	return func(part, done int) {
		mu.Lock()
		defer mu.Unlock()
		sum += done - each[part]
		each[part] = done
		progress(sum)
	}
}

// plainGamma stands for the discount of the paper's problem, 1, at which the scale of rewards
// would be 0.
const plainGamma = 0.999

// ppoVariant is a row of the comparison whose policies are PPO's.
type ppoVariant struct {
	name, description string
	plain             bool // nearest to the paper's text: its states, its actions, its discount
	pooled            bool // without a path of each user's own, which is PrefDT's in the paper
	weaker            bool // after a quarter of the steps: nearer to the paper's hypervolume
	ours              bool
}

// The variants whose flights others learn from.
var (
	plainPPO = &ppoVariant{name: "ppo-plain", plain: true, ours: true, description: "proximal policy optimisation, one policy for each " +
		"preference: the paper's states and actions, users without latencies, headings as angles, a discount of 0.999 for its 1"}
	weakerPPO = &ppoVariant{name: "ppo-weaker", plain: true, pooled: true, weaker: true,
		description: "the same after a quarter of the steps: nearer to the paper's hypervolume"}
)

// ppoVariants are all.
var ppoVariants = []*ppoVariant{
	plainPPO,
	{name: "ppo-pooled", plain: true, pooled: true,
		description: "the same where users are decided for by the summary of their slot alone"},
	weakerPPO,
	{name: "ppo", ours: true,
		description: "the first as we would make it: latencies, headings as unit vectors, a discount of 0.95"},
}

// settings returns those of a variant.
func (v *ppoVariant) settings(s PPOSettings) PPOSettings {
	s.Pooled = v.pooled
	if v.plain {
		s.Plain, s.Gamma = true, plainGamma
	}
	if v.weaker {
		s.Steps = max(s.Steps/4, 1)
	}
	return s
}

// utilityWeights are those of delay and energy in the linear utility of Sec. III-F under a preference.
func utilityWeights(omega float64) [objectives]float64 { return [objectives]float64{1 - omega, omega} }

// trainPPO trains one policy for each preference.
func trainPPO(ctx context.Context, r *Run, s PPOSettings) (params []*nn.Params[float32], omegas []float64, err error) {
	omegas = rollout.Linspace(0, 1, s.Preferences)
	params, err = trainMembers(ctx, r, s, "PPO", omegas, func(_ *ppo, omega float64) [objectives]float64 {
		return utilityWeights(omega)
	})
	return params, omegas, err
}

// makePPO trains one policy for each preference.
func makePPO(ctx context.Context, r *Run, s PPOSettings) (NewPolicy, error) {
	params, omegas, err := trainPPO(ctx, r, s)
	return newMembers(&r.World.Physics, s, params, func(g goal.Objective) int { return pareto.Nearest(omegas, g.Omega()) }), err
}

// behaviour trains the policies of a variant, if they are not trained, in a folder of their own, and returns them.
func (v *ppoVariant) behaviour(ctx context.Context, r *Run) (behaviour, error) {
	own, settings := *r, v.settings(r.PPO)
	own.Dir = r.PPODir
	if v != plainPPO {
		own.Dir = filepath.Join(filepath.Dir(r.PPODir), v.name) // beside these
	}
	if err := own.Claim(Find(&r.Config, v.name), true); err != nil {
		return nil, cli.BadInput(err) // found before any work
	}
	params, _, err := trainPPO(ctx, &own, settings)
	return func() ([]decider, error) { return settings.flights(&r.World.Physics, params), nil }, err
}

// ppoMethods are the variants.
func ppoMethods() (list []Method) {
	for _, x := range ppoVariants {
		list = append(list, Method{
			Name: x.name, Description: x.description,
			Settings: func(c *Config) any { return x.settings(c.PPO) },
			Spending: func(c *Config) []*int { return []*int{&c.PPO.Steps} },
			Budget: func(r *Run) Budget {
				return Budget{Policies: r.PPO.Preferences, EnvironmentSteps: r.PPO.Preferences * x.settings(r.PPO).Steps}
			},
			New:   func(ctx context.Context, r *Run) (NewPolicy, error) { return makePPO(ctx, r, x.settings(r.PPO)) },
			Paper: &Paper{Ours: x.ours},
		})
	}
	return list
}
