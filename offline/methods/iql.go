package methods

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"

	"prefdt/configs/cli"
	"prefdt/inference/goal"
	"prefdt/inference/kernel"
	"prefdt/inference/model"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
	"prefdt/offline/command"
	"prefdt/offline/nn"
	"prefdt/offline/rollout"
	"prefdt/offline/search"
	"prefdt/simbridge/world"
)

// IQL+omega, Table "classes" of the paper, class 1: implicit Q-learning (Kostrikov, Nair
// and Levine, ICLR 2022) from a corpus of flights, with the preference as an input of
// every network and the linear utility of Sec. III-F, by the flight's own preference, as
// reward. Three losses share a step:
//
//	L_V  = E |tau - 1[u < 0]| u^2,  u = min Q'(s, a) - V(s)         eq. (5)
//	L_Q  = E (r + gamma V(s') - Q(s, a))^2, of two Q                  eq. (6)
//	L_pi = E exp(beta (min Q'(s, a) - V(s))) (-log pi(a | s))         eq. (7)
//
// where Q' are moving averages of Q. beta is the inverse temperature.

// IQLSettings of one policy.
type IQLSettings struct {
	Steps   int     `json:"steps" yaml:"steps" range:"1,1e9"`    // gradient steps
	Batch   int     `json:"batch" yaml:"batch" range:"1,1e6"`    // transitions of each
	Workers int     `json:"workers" yaml:"workers"`              // part of the result: the order of sums depends on them
	Tau     float64 `json:"tau" yaml:"tau" range:"0.5,0.999999"` // expectile
	Beta    float64 `json:"beta" yaml:"beta" range:"0,1e6"`      // inverse temperature
	Gamma   float64 `json:"gamma" yaml:"gamma" range:"0,0.999999"`
	Average float64 `json:"average" yaml:"average" range:"1e-6,1"` // alpha of the moving averages
	Rate    float64 `json:"rate" yaml:"rate" range:"1e-9,1"`       // peak learning rate, falling to a tenth

	Width     int             `json:"width" yaml:"width" range:"8,1024"`
	UserWidth int             `json:"user_width" yaml:"user_width" range:"4,1024"`
	Seed      uint64          `json:"seed" yaml:"seed"`
	Corpus    DatasetSettings `json:"corpus" yaml:"corpus"`
}

func (s *IQLSettings) scale(fraction float64) { s.Steps = scaled(s.Steps, fraction) }

// IQLBetas are further inverse temperatures, each a method of its own.
type IQLBetas []float64

func (b *IQLBetas) scale(float64) {}

// Check returns what is wrong with them.
func (b *IQLBetas) Check() error {
	for i, beta := range *b {
		if !(beta >= 0 && beta <= 1e6) || slices.Contains((*b)[:i], beta) {
			return fmt.Errorf("%v, want 0 to 1e6, each once", beta)
		}
	}
	return nil
}

// iqlMethods learn at some inverse temperatures from two corpora.
func iqlMethods(betas ...float64) (list []Method) {
	for _, x := range []struct {
		name, flown, learnsFrom string
		corner                  func(*IQLSettings) float64 // the archive's corpus alone has its emphasis
		front                   func(context.Context, *Run) (behaviour, error)
	}{
		{"iql-archive", "the searched rules", "", func(s *IQLSettings) float64 { return s.Corpus.Corner }, searchedRules},
		{"iql-ppo", "the PPO policies", plainPPO.name, func(*IQLSettings) float64 { return 0 }, ppoBehaviour(plainPPO)},
	} {
		for _, beta := range betas {
			settings := func(c *Config) IQLSettings {
				s := c.IQL
				s.Beta, s.Corpus.Corner = beta, x.corner(&s)
				return s
			}
			list = append(list, Method{
				Name: x.name, LearnsFrom: x.learnsFrom, Description: fmt.Sprintf(
					"implicit Q-learning under a preference, on the corpus of %s, inverse temperature %v", x.flown, beta),
				Settings: func(c *Config) any { return []any{settings(c), c.PPO.plain(), corpusRecipe} },
				Budget:   func(r *Run) Budget { return Budget{Policies: 1, Transitions: r.IQL.Steps * r.IQL.Batch} },
				New: func(ctx context.Context, r *Run) (func() (rollout.Policy, error), error) {
					f, err := x.front(ctx, r)
					if err != nil {
						return nil, err
					}
					return makeIQL(ctx, r, settings(&r.Config), f)
				},
				Paper: &Paper{Ours: true},
			})
		}
	}
	return list
}

// iqlBetaMethods are those at the further inverse temperatures; of the PPO policies' corpus none is in the paper's tables.
func iqlBetaMethods(betas IQLBetas) []Method {
	list := iqlMethods(betas...)
	for i := range list {
		list[i].Name += fmt.Sprintf("-beta%v", betas[i%len(betas)])
		if list[i].Paper = nil; list[i].LearnsFrom == "" {
			list[i].Paper = &Paper{Few: true}
		}
	}
	return list
}

// Check returns what is wrong with the settings.
func (s *IQLSettings) Check() error {
	return cmp.Or(command.CheckRanges(s), command.InRange("workers", s.Workers, 1, s.Batch), s.Corpus.Check())
}

// maxAdvantageWeight bounds exp(beta A), as in the authors' code.
const maxAdvantageWeight = 100

// expectileLoss is |tau - 1[u < 0]| u^2, eq. (5), and its derivative by u.
func expectileLoss(u, tau float64) (loss, du float64) {
	w := tau
	if u < 0 {
		w = 1 - tau
	}
	return w * u * u, 2 * w * u
}

// critic estimates a value of a slot, or of a slot and its actions.
type critic[T any] struct {
	Encoder encoder[T]
	Out     model.Linear[T]
}

func criticTensors(name string, fleet, user, width, userPart int) critic[model.Tensor] {
	return critic[model.Tensor]{encoderTensors(name, fleet, user, width, userPart),
		model.OutputTensors(name+".out", name+".outb", width, 1)}
}

// iqlWeights are all of a run: the averages are changed by no gradient.
type iqlWeights[T any] struct {
	Actor    actor[T]
	V        critic[T]
	Q        [2]critic[T]
	Averaged [2]critic[T]
}

func (w *iqlWeights[T]) list() []*T {
	return model.Parameters[T](&w.Actor, &w.V, &w.Q[0], &w.Q[1], &w.Averaged[0], &w.Averaged[1])
}

func iqlTensors(aircraft, width, userPart int) []model.Tensor {
	fleet, user := fleetWidth(aircraft), userWidth(aircraft)
	w := iqlWeights[model.Tensor]{Actor: actorTensors(aircraft, width, userPart, flightActions),
		V: criticTensors("v", fleet, user, width, userPart)}
	for k := range w.Q {
		w.Q[k] = criticTensors(fmt.Sprintf("q%d", k), fleet+2*aircraft, user+aircraft+1, width, userPart)
		w.Averaged[k] = criticTensors(fmt.Sprintf("average%d", k), fleet+2*aircraft, user+aircraft+1, width, userPart)
	}
	return model.Tensors(w.list())
}

// withActions returns the rows of slots and users with what was done beside each: an
// aircraft's displacement, a user's fraction at its server.
func withActions(o *observation, a *actions, aircraft int) (fleet, users []float32) {
	fw, uw := fleetWidth(aircraft), userWidth(aircraft)
	for s := range o.slots {
		fleet = append(fleet, o.fleet[s*fw:(s+1)*fw]...)
		for m := range aircraft {
			flight := a.flight[flightActions*(s*aircraft+m):]
			length, east, north := float64(min(max((1+flight[0])/2, 0), 1)), float64(flight[1]), float64(flight[2])
			length /= max(math.Hypot(east, north), 1e-9)
			fleet = append(fleet, float32(length*east), float32(length*north))
		}
	}
	for u, server := range a.server {
		users = append(users, o.users[u*uw:(u+1)*uw]...)
		for m := range aircraft + 1 {
			x := float32(0)
			if m == server {
				x = 1
				if m > 0 {
					x = 0.5 + (1+a.offload[u])/2
				}
			}
			users = append(users, x)
		}
	}
	return fleet, users
}

// iqlBatch is the transitions of a step. Shapes: S slots.
type iqlBatch struct {
	now, next observation
	actions   actions
	reward    []float64 // (S)
	last      []bool    // (S) nothing follows
}

// iqlNetwork computes the three losses of a batch.
type iqlNetwork[T kernel.Float] struct {
	settings *IQLSettings
	aircraft int
	weights  iqlWeights[nn.Param[T]]
	tape     nn.Tape[T]

	distribution distribution[T]
	v            *nn.Var[T]
	q            [2]*nn.Var[T]
	weight       []float64 // (S) exp(beta A), for tests
}

func newIQLNetwork[T kernel.Float](s *IQLSettings, aircraft int, w, g *nn.Params[T]) *iqlNetwork[T] {
	n := &iqlNetwork[T]{settings: s, aircraft: aircraft}
	nn.Bind(n.weights.list(), w, g)
	return n
}

func (n *iqlNetwork[T]) critic(c *critic[nn.Param[T]], fleet, users []float32, o *observation, slotOfUser []int) *nn.Var[T] {
	t := &n.tape
	f := t.Input(fleet, o.slots, c.Encoder.Fleet.Weight.Value.Rows)
	u := t.Input(users, len(slotOfUser), c.Encoder.Embed.Weight.Value.Rows)
	return t.Linear(encode(t, &c.Encoder, f, u, slotOfUser, o.slots), &c.Out)
}

// values copies a critic's outputs; the tape is then free for a pass with gradients.
func (n *iqlNetwork[T]) values(c *critic[nn.Param[T]], fleet, users []float32, o *observation) []float64 {
	n.tape.Reset()
	out := n.critic(c, fleet, users, o, o.slotOfUser()).Value.Data
	v := make([]float64, len(out))
	for i, x := range out {
		v[i] = float64(x)
	}
	return v
}

// targets returns what the losses take as given: min Q' of the slot and its actions, and
// r + gamma V(s').
func (n *iqlNetwork[T]) targets(b *iqlBatch) (q, bootstrap []float64) {
	fleet, users := withActions(&b.now, &b.actions, n.aircraft)
	q = n.values(&n.weights.Averaged[0], fleet, users, &b.now)
	for i, x := range n.values(&n.weights.Averaged[1], fleet, users, &b.now) {
		q[i] = min(q[i], x)
	}
	bootstrap = n.values(&n.weights.V, b.next.fleet, b.next.users, &b.next)
	for i := range bootstrap {
		if b.last[i] {
			bootstrap[i] = 0
		}
		bootstrap[i] = b.reward[i] + n.settings.Gamma*bootstrap[i]
	}
	return q, bootstrap
}

// forward runs what the losses have gradients by.
func (n *iqlNetwork[T]) forward(b *iqlBatch) {
	t := &n.tape
	t.Reset()
	slotOfUser := b.now.slotOfUser()
	n.v = n.critic(&n.weights.V, b.now.fleet, b.now.users, &b.now, slotOfUser)
	fleet, users := withActions(&b.now, &b.actions, n.aircraft)
	for k := range n.q {
		n.q[k] = n.critic(&n.weights.Q[k], fleet, users, &b.now, slotOfUser)
	}
	f := t.Input(b.now.fleet, b.now.slots, fleetWidth(n.aircraft))
	u := t.Input(b.now.users, len(slotOfUser), userWidth(n.aircraft))
	n.distribution = act(t, &n.weights.Actor, f, u, u, slotOfUser, b.now.slots)
}

// setLoss sets the gradients of the three losses by the outputs, times scale, and returns
// them: of V, of Q, of the policy.
func (n *iqlNetwork[T]) setLoss(b *iqlBatch, q, bootstrap []float64, scale float64) (loss [3]float64) {
	k := 1 / float64(b.now.slots)
	dv := n.tape.ZeroGrad(n.v)
	dq := [2]kernel.Matrix[T]{n.tape.ZeroGrad(n.q[0]), n.tape.ZeroGrad(n.q[1])}
	p := &n.distribution
	n.tape.ZeroGrad(p.choice)
	n.tape.ZeroGrad(p.flight)
	n.tape.ZeroGrad(p.logStd)
	n.weight = n.weight[:0]
	for i := range b.now.slots {
		u := q[i] - float64(n.v.Value.Data[i])
		l, du := expectileLoss(u, n.settings.Tau)
		loss[0] += k * l
		dv.Data[i] = T(-scale * k * du)
		for j := range dq {
			l, grad := nn.SquaredError(float64(n.q[j].Value.Data[i]), bootstrap[i], k)
			loss[1] += l
			dq[j].Data[i] = T(scale * grad)
		}
		w := min(math.Exp(n.settings.Beta*u), maxAdvantageWeight)
		n.weight = append(n.weight, w)
		loss[2] -= k * w * p.logProbability(&b.now, &b.actions, i, -scale*k*w)
	}
	return loss
}

// iqlWorker is a worker's part in training; it implements nn.Network.
type iqlWorker struct {
	*iqlNetwork[float32]
	data   *dataset
	scales [objectives]float64 // by which a slot's costs are divided
	floorJ float64
	flight []int // of each slot
	batch  iqlBatch
}

// AddGradient implements nn.Network: of a part of a step's transitions.
func (w *iqlWorker) AddGradient(i int, scale float64) ([]float64, error) {
	rng := rand.New(rand.NewPCG(w.settings.Seed, uint64(i)))
	now := make([]int, w.settings.Batch/w.settings.Workers)
	next := make([]int, len(now))
	b := &w.batch
	b.reward, b.last = b.reward[:0], b.last[:0]
	for k := range now {
		s := rng.IntN(w.data.observation.slots)
		now[k], next[k] = s, s
		if !w.data.last[s] {
			next[k]++
		}
		b.reward, b.last = append(b.reward, w.reward(s)), append(b.last, w.data.last[s])
	}
	b.now.gather(&w.data.observation, now)
	b.next.gather(&w.data.observation, next)
	b.actions.gather(&w.data.actions, &w.data.observation, now)
	q, bootstrap := w.targets(b)
	w.forward(b)
	loss := w.setLoss(b, q, bootstrap, scale)
	w.tape.Backward()
	return []float64{loss[0] + loss[1] + loss[2], loss[0], loss[1], loss[2]}, nil
}

// reward is a slot's utility by its flight's preference.
func (w *iqlWorker) reward(s int) float64 {
	omega := w.data.omega[w.flight[s]]
	cost := w.data.cost[s]
	return -(1-omega)*cost[0]/w.scales[0] - omega*(cost[1]-w.floorJ)/w.scales[1]
}

// iql is a run in progress.
type iql struct {
	settings *IQLSettings
	trainer  *nn.Trainer
	network  *iqlNetwork[float32]
}

func newIQL(s *IQLSettings, c world.Config, scales Scales, data *dataset) (*iql, error) {
	_, minW := c.Physics.MinPower()
	perSlot := float64(c.Slots) // the span of the returns is a slot's worth for each slot, as the authors rescale D4RL's
	var flight []int
	at := 0
	for _, last := range data.last {
		flight = append(flight, at)
		if last {
			at++
		}
	}
	q := &iql{settings: s}
	var err error
	q.trainer, err = nn.New(nn.Config{
		Batch: s.Workers, Workers: s.Workers, Seed: s.Seed,
		Schedule: nn.Schedule{PeakRate: s.Rate, FinalFraction: 0.1, Steps: s.Steps, Beta1: 0.9, Beta2: 0.999},
	}, nn.Task{Tensors: iqlTensors(c.Aircraft, s.Width, s.UserWidth), Losses: []string{"loss", "v", "q", "policy"},
		Network: func(_ int, w, g *nn.Params[float32]) nn.Network {
			return &iqlWorker{
				iqlNetwork: newIQLNetwork(s, c.Aircraft, w, g), data: data, flight: flight, floorJ: float64(c.Aircraft) * minW,
				scales: [objectives]float64{scales.DelayS / perSlot, scales.EnergyJ / perSlot},
			}
		}})
	if err != nil {
		return nil, err
	}
	q.network = newIQLNetwork(s, c.Aircraft, q.trainer.Params, nil)
	q.average(1)
	return q, nil
}

// average moves the averaged Q towards Q by a part alpha.
func (q *iql) average(alpha float64) {
	w := &q.network.weights
	for k := range w.Q {
		from, to := model.Parameters[nn.Param[float32]](&w.Q[k]), model.Parameters[nn.Param[float32]](&w.Averaged[k])
		for i := range from {
			for j, x := range from[i].Value.Data {
				to[i].Value.Data[j] += float32(alpha) * (x - to[i].Value.Data[j])
			}
		}
	}
}

// run trains to the end, from the state in a file if there is one.
func (q *iql) run(ctx context.Context, path string, progress func(done int)) error {
	return trainToEnd(ctx, q.trainer, path, q.settings.Steps, 2000, func() int { return q.trainer.Step }, func() error {
		_, err := q.trainer.Next()
		if err == nil {
			q.average(q.settings.Average)
		}
		return err
	}, progress)
}

// iqlPolicy flies a policy's likeliest actions under the request's preference.
type iqlPolicy struct {
	constants *physics.Constants
	network   *iqlNetwork[float32]
	now       observation
	done      actions
}

// Reset implements rollout.Policy.
func (p *iqlPolicy) Reset() {}

// Decide implements rollout.Policy.
func (p *iqlPolicy) Decide(s *slot.Snapshot, g goal.Objective, d *slot.Decision) goal.Observation {
	p.now.reset()
	p.now.add(p.constants, s, g.Omega())
	t, n := &p.network.tape, len(s.Users)
	t.Reset()
	fleet := t.Input(p.now.fleet, 1, len(p.now.fleet))
	users := t.Input(p.now.users, n, userWidth(len(s.Aircraft)))
	out := act(t, &p.network.weights.Actor, fleet, users, users, p.now.slotOfUser(), 1)
	p.done.reset()
	out.sample(&p.now, &p.done, 0, nil)
	p.done.decide(p.constants, s, 0, 0, d)
	d.Evaluate(p.constants, s)
	return goal.Observation{}
}

// makeIQL trains a policy on the corpus of a front.
func makeIQL(ctx context.Context, r *Run, s IQLSettings, f behaviour) (func() (rollout.Policy, error), error) {
	if err := command.CheckWritable(r.Dir); err != nil {
		return nil, err
	}
	data, err := buildDataset(ctx, r.World, s.Corpus, importanceShares, f, r.Workers, r.Log)
	if err != nil {
		return nil, err
	}
	q, err := newIQL(&s, r.World, r.Scales, data)
	if err != nil {
		return nil, err
	}
	if err := q.run(ctx, filepath.Join(r.Dir, "policy.bin"), command.Progress(r.Log, "steps of IQL", s.Steps)); err != nil {
		return nil, err
	}
	return func() (rollout.Policy, error) {
		return &iqlPolicy{constants: &r.World.Physics, network: newIQLNetwork(&s, r.World.Aircraft, q.trainer.Params, nil)}, nil
	}, nil
}

// searchedRules searches the paper's teacher, once, and returns its archive.
func searchedRules(ctx context.Context, r *Run) (behaviour, error) {
	c := search.Default()
	c.World = r.World
	a, err := search.Ensure(ctx, filepath.Join(r.Dir, "archive.json"), c, r.Workers,
		command.Progress(r.Log, "generations of the search", c.Generations))
	return ruleBehaviour(r.World, &a), err
}

// ppoBehaviour returns what trains the PPO policies of a variant, if they are not trained, in a folder of
// their own, and returns them.
func ppoBehaviour(v *ppoVariant) func(context.Context, *Run) (behaviour, error) {
	return func(ctx context.Context, r *Run) (behaviour, error) {
		own, settings := *r, v.settings(r.PPO)
		own.Dir = r.PPODir
		if v != plainPPO {
			own.Dir = filepath.Join(filepath.Dir(r.PPODir), v.name) // beside these
		}
		if err := own.Claim(Find(&r.Config, v.name), true); err != nil {
			return nil, cli.BadInput(err) // found before any work
		}
		params, _, err := trainPPO(ctx, &own, settings)
		return func() (deciders []decider, err error) {
			for _, w := range params {
				deciders = append(deciders, newActorPolicy(w, &r.World.Physics, settings).decide)
			}
			return deciders, nil
		}, err
	}
}
