package methods

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"prefdt/inference/goal"
	"prefdt/inference/kernel"
	"prefdt/inference/model"
	"prefdt/inference/slot"
	"prefdt/offline/command"
	"prefdt/offline/nn"
	"prefdt/offline/rollout"
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

// IQLBetas are further inverse temperatures, each a method of its own.
type IQLBetas []float64

// Check returns what is wrong with them.
func (b *IQLBetas) Check() error {
	for i, beta := range *b {
		if !(beta >= 0 && beta <= 1e6) || slices.Contains((*b)[:i], beta) {
			return fmt.Errorf("%v, want 0 to 1e6, each once", beta)
		}
	}
	return nil
}

// iqlMethods learn at some inverse temperatures from two corpora. Of further ones, beside the configuration's, none from the
// PPO policies' corpus is in the paper's tables.
func iqlMethods(further bool, betas ...float64) (list []Method) {
	for _, x := range []struct {
		name, flown, learnsFrom string
		corner                  bool // the corpus has its emphasis
		front                   func(context.Context, *Run) (behaviour, error)
	}{
		{"iql-archive", "the searched rules", "", true, searchedRules},
		{"iql-ppo", "the PPO policies", plainPPO.name, false, plainPPO.behaviour},
	} {
		for _, beta := range betas {
			settings := func(c *Config) IQLSettings {
				s := c.IQL
				if s.Beta = beta; !x.corner {
					s.Corpus.Corner = 0
				}
				return s
			}
			m := Method{
				Name: x.name, LearnsFrom: x.learnsFrom, Description: fmt.Sprintf(
					"implicit Q-learning under a preference, on the corpus of %s, inverse temperature %v", x.flown, beta),
				Settings: func(c *Config) any { return []any{settings(c), plainPPO.settings(c.PPO), corpusRecipe} },
				Spending: func(c *Config) []*int { return []*int{&c.IQL.Steps} },
				Budget:   func(r *Run) Budget { return Budget{Policies: 1, Transitions: r.IQL.Steps * r.IQL.Batch} },
				New: func(ctx context.Context, r *Run) (NewPolicy, error) {
					f, err := x.front(ctx, r)
					if err != nil {
						return nil, err
					}
					return makeIQL(ctx, r, settings(&r.Config), f)
				},
				Paper: &Paper{Ours: true},
			}
			if further {
				m.Name += fmt.Sprintf("-beta%v", beta)
				if m.Paper = nil; x.corner {
					m.Paper = &Paper{Few: true}
				}
			}
			list = append(list, m)
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

// iqlWeights are all of a run: the averages are changed by no gradient.
type iqlWeights[T any] struct {
	Actor    actor[T]
	V        critic[T]
	Q        [2]critic[T]
	Averaged [2]critic[T]
}

func iqlTensors(aircraft, width, userPart int) []model.Tensor {
	fleet, user := fleetWidth(aircraft), userWidth(aircraft)
	w := iqlWeights[model.Tensor]{Actor: actorTensors(aircraft, width, userPart, flightActions),
		V: criticTensors("v", fleet, user, width, userPart, 1)}
	for k := range w.Q {
		w.Q[k] = criticTensors(fmt.Sprintf("q%d", k), fleet+2*aircraft, user+aircraft+1, width, userPart, 1)
		w.Averaged[k] = criticTensors(fmt.Sprintf("average%d", k), fleet+2*aircraft, user+aircraft+1, width, userPart, 1)
	}
	return model.Tensors(model.Parameters[model.Tensor](&w))
}

// withActions returns the rows of slots and users with what was done beside each: an
// aircraft's displacement, a user's fraction at its server.
func withActions(x *transitions, aircraft int) (fleet, users []float32) {
	fw, uw := fleetWidth(aircraft), userWidth(aircraft)
	for s := range x.slots {
		fleet = append(fleet, x.fleet[s*fw:(s+1)*fw]...)
		for m := range aircraft {
			flight := x.flight[flightActions*(s*aircraft+m):]
			length, east, north := float64(min(max((1+flight[0])/2, 0), 1)), float64(flight[1]), float64(flight[2])
			length /= max(math.Hypot(east, north), 1e-9)
			fleet = append(fleet, float32(length*east), float32(length*north))
		}
	}
	for u, server := range x.server {
		users = append(users, x.users[u*uw:(u+1)*uw]...)
		at := make([]float32, aircraft+1)
		if at[server] = 1; server > 0 {
			at[server] = 0.5 + (1+x.offload[u])/2
		}
		users = append(users, at...)
	}
	return fleet, users
}

// iqlBatch is the transitions of a step. Shapes: S slots.
type iqlBatch struct {
	now, next transitions
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
}

func newIQLNetwork[T kernel.Float](s *IQLSettings, aircraft int, w, g *nn.Params[T]) *iqlNetwork[T] {
	n := &iqlNetwork[T]{settings: s, aircraft: aircraft}
	nn.Bind(model.Parameters[nn.Param[T]](&n.weights), w, g)
	return n
}

// values copies a critic's outputs; the tape is then free for a pass with gradients.
func (n *iqlNetwork[T]) values(c *critic[nn.Param[T]], fleet, users []float32, x *transitions) (v []float64) {
	n.tape.Reset()
	for _, y := range estimate(&n.tape, c, fleet, users, x).Value.Data {
		v = append(v, float64(y))
	}
	return v
}

// targets returns what the losses take as given: min Q' of the slot and its actions, and
// r + gamma V(s').
func (n *iqlNetwork[T]) targets(b *iqlBatch) (q, bootstrap []float64) {
	fleet, users := withActions(&b.now, n.aircraft)
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
	n.tape.Reset()
	n.v = estimate(&n.tape, &n.weights.V, b.now.fleet, b.now.users, &b.now)
	fleet, users := withActions(&b.now, n.aircraft)
	for k := range n.q {
		n.q[k] = estimate(&n.tape, &n.weights.Q[k], fleet, users, &b.now)
	}
	n.distribution = act(&n.tape, &n.weights.Actor, &b.now, false)
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
		loss[2] -= k * w * p.logProbability(&b.now, i, -scale*k*w)
	}
	return loss
}

// iqlWorker is a worker's part in training; it implements nn.Network.
type iqlWorker struct {
	*iqlNetwork[float32]
	data   *dataset
	scales [objectives]float64 // by which a slot's costs are divided
	floorJ float64
	batch  iqlBatch
}

// AddGradient implements nn.Network: of a part of a step's transitions.
func (w *iqlWorker) AddGradient(i int, scale float64) ([]float64, error) {
	rng := rand.New(rand.NewPCG(w.settings.Seed, uint64(i)))
	b := &w.batch
	b.now.reset()
	b.next.reset()
	b.reward, b.last = b.reward[:0], b.last[:0]
	slots := w.data.flights[0].slots
	for range w.settings.Batch / w.settings.Workers {
		drawn := rng.IntN(len(w.data.flights) * slots)
		f, s := &w.data.flights[drawn/slots], drawn%slots
		next := min(s+1, slots-1)
		b.now.append(&f.transitions, s, s+1)
		b.next.append(&f.transitions, next, next+1)
		b.reward, b.last = append(b.reward, w.reward(f.omega, f.cost[s])), append(b.last, s == next)
	}
	q, bootstrap := w.targets(b)
	w.forward(b)
	loss := w.setLoss(b, q, bootstrap, scale)
	w.tape.Backward()
	return []float64{loss[0] + loss[1] + loss[2], loss[0], loss[1], loss[2]}, nil
}

// reward is a slot's utility by its flight's preference.
func (w *iqlWorker) reward(omega float64, cost [objectives]float64) float64 {
	return -(1-omega)*cost[0]/w.scales[0] - omega*(cost[1]-w.floorJ)/w.scales[1]
}

// average moves the averaged Q towards Q by a part alpha.
func (n *iqlNetwork[T]) average(alpha float64) {
	w := &n.weights
	for k := range w.Q {
		from, to := model.Parameters[nn.Param[T]](&w.Q[k]), model.Parameters[nn.Param[T]](&w.Averaged[k])
		for i := range from {
			for j, x := range from[i].Value.Data {
				to[i].Value.Data[j] += T(alpha) * (x - to[i].Value.Data[j])
			}
		}
	}
}

// makeIQL trains a policy on the corpus of a front.
func makeIQL(ctx context.Context, r *Run, s IQLSettings, f behaviour) (NewPolicy, error) {
	data, err := buildDataset(ctx, r.World, s.Corpus, importanceShare, f, r.Workers, r.Log)
	if err != nil {
		return nil, err
	}
	_, minW := r.World.Physics.MinPower()
	aircraft, perSlot := r.World.Aircraft, float64(r.World.Slots)
	t, err := nn.New(nn.Config{
		Batch: s.Workers, Workers: s.Workers, Seed: s.Seed,
		Schedule: nn.Schedule{PeakRate: s.Rate, FinalFraction: 0.1, Steps: s.Steps, Beta1: 0.9, Beta2: 0.999},
	}, nn.Task{Tensors: iqlTensors(aircraft, s.Width, s.UserWidth), Losses: []string{"loss", "v", "q", "policy"},
		Network: func(_ int, w, g *nn.Params[float32]) nn.Network {
			return &iqlWorker{
				iqlNetwork: newIQLNetwork(&s, aircraft, w, g), data: data, floorJ: float64(aircraft) * minW,
				// the span of the returns is a slot's worth for each slot, as the authors rescale D4RL's
				scales: [objectives]float64{r.Scales.DelayS / perSlot, r.Scales.EnergyJ / perSlot},
			}
		}})
	if err != nil {
		return nil, err
	}
	n := newIQLNetwork(&s, aircraft, t.Params, nil)
	n.average(1)
	round := func() error {
		_, err := t.Next()
		n.average(s.Average)
		return err
	}
	newPolicy := func() rollout.Policy {
		a := newActorFlight(t.Params, &r.World.Physics, false, false)
		return rollout.PolicyFunc(func(s *slot.Snapshot, g goal.Objective, d *slot.Decision) {
			a.omega = g.Omega()
			a.decide(s, d)
		})
	}
	return newPolicy, trainToEnd(ctx, t, r.policyPath(), 2000, 1, round, command.Progress(r.Log, "steps of IQL", s.Steps))
}
