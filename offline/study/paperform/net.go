// Package paperform is the policy network as the paper has it (Sec. IV-A and
// IV-B), an arm of the study: the aircraft stand one after the other in the
// state token, so their number is fixed; the window of the last K slots, in the
// order (g, s, a) with a learned embedding of the slot's number, is computed
// anew in every slot; association is a choice among M+1, and flight a length
// and a heading on [-1, 1]. It reads the paper's features alone: no allowance,
// no price, no front position.
//
// Inputs: in training the examples of a corpus (New), in flight a slot's snapshot
// and objective (Policy). Outputs: parameters, and decisions. Package study calls
// both.
//
// Where the paper is silent: a user's token in its own bypass is the
// concatenation of its tokens in every aircraft's frame, so that all gains are
// known when it is associated; the action token holds, for each aircraft, its
// flight action, its users and their mean offload.
package paperform

import (
	"math/rand/v2"

	"prefdt/inference/kernel"
	"prefdt/inference/model"
	"prefdt/offline/corpus"
	"prefdt/offline/train"
)

// weights are the network's parameters, as model.Weights are the shipped one's.
type weights[T any] struct {
	UserQuery, UserKey, UserValue T
	UserOut                       model.Linear[T]

	StateAircraft           model.Linear[T] // of the state token: aircraft,
	StatePooled, StateOmega T               // their users, the preference
	ReturnToken             model.Linear[T]
	Action                  model.Linear[T] // of the action token
	ActionOmega             T
	SlotEmbedding           T
	Blocks                  []model.Block[T]
	Final                   model.Norm[T]

	FlightHidden, Flight model.Linear[T]
	Choice, Offload      userHead[T]
}

// userHead is a head on [e; z], a row for each user.
type userHead[T any] struct {
	Context T
	User    model.Linear[T]
	Out     model.Linear[T]
}

// list returns every parameter in the order of a state file.
func (w *weights[T]) list() []*T {
	return model.Parameters[T](
		&w.UserQuery, &w.UserKey, &w.UserValue, &w.UserOut,
		&w.StateAircraft.Weight, &w.StatePooled, &w.StateOmega, &w.StateAircraft.Bias, &w.ReturnToken,
		&w.Action.Weight, &w.ActionOmega, &w.Action.Bias, &w.SlotEmbedding,
		&w.Blocks, &w.Final, &w.FlightHidden, &w.Flight, &w.Choice, &w.Offload)
}

// tensors lists the parameters for M aircraft and missions of so many slots.
func tensors(a model.Arch, aircraft, slots int) []model.Tensor {
	d, p, m := a.Width, a.PairWidth, aircraft
	shared := a.Layout()
	w := weights[model.Tensor]{
		UserQuery: model.MatrixTensor("pool.q", aircraftFeatures, d), UserKey: model.MatrixTensor("pool.k", userFeatures, d), UserValue: model.MatrixTensor("pool.v", userFeatures, d),
		UserOut: model.LinearTensors("pool.o", "pool.ob", d, d),

		StateAircraft: model.LinearTensors("state.z", "state.b", m*aircraftFeatures, d),
		StatePooled:   model.MatrixTensor("state.p", m*d, d), StateOmega: model.Tensor{Name: "state.w", Rows: 1, Cols: d},
		ReturnToken: model.LinearTensors("return.w", "return.b", returnFeatures, d),
		Action:      model.LinearTensors("action.x", "action.b", m*aircraftActionFeatures, d), ActionOmega: model.Tensor{Name: "action.w", Rows: 1, Cols: d},
		SlotEmbedding: model.MatrixTensor("time.e", slots, d),
		Blocks:        shared.Blocks, Final: shared.Final,

		FlightHidden: model.LinearTensors("flight.h", "flight.hb", d, d), Flight: model.OutputTensors("flight.w", "flight.b", d, 2*m),
		Choice: userHead[model.Tensor]{
			Context: model.MatrixTensor("choice.e", d, p), User: model.LinearTensors("choice.z", "choice.b", m*userFeatures, p),
			Out: model.OutputTensors("choice.o", "choice.ob", p, m+1),
		},
		Offload: userHead[model.Tensor]{
			Context: model.MatrixTensor("rho.e", d, p), User: model.LinearTensors("rho.z", "rho.b", m*userFeatures, p),
			Out: model.LinearTensors("rho.o", "rho.ob", p, 1),
		},
	}
	return model.Tensors(w.list())
}

// network computes one window. Shapes: S slots, N users over all slots, L = 3S
// tokens; d and p are the widths.
type network[T kernel.Float] struct {
	arch    model.Arch
	weights weights[train.Param[T]]
	tape    train.Tape[T]

	motion  *train.Var[T] // (S, 2M) on [-1, 1]
	choice  *train.Var[T] // (N, M+1)
	offload *train.Var[T] // (N, 1) on [-1, 1]

	userRows   []float32              // (N, M userFeatures)
	slotOfUser []int                  // (N)
	usersOf    []train.AttentionGroup // each aircraft's pairs
	embedding  []int                  // (L) row of the slot's embedding
	logits     []float64              // of one user
}

func newNetwork[T kernel.Float](w, g *train.Params[T]) *network[T] {
	n := &network[T]{arch: w.Arch}
	n.weights.Blocks = make([]model.Block[train.Param[T]], w.Arch.Layers)
	train.Bind(n.weights.list(), w, g)
	return n
}

func (n *network[T]) aircraft() int { return n.weights.Flight.Weight.Value.Cols / 2 }

// index lists which rows belong together.
func (n *network[T]) index(win *window) {
	m := win.AircraftCount
	n.userRows, n.slotOfUser, n.usersOf, n.embedding = n.userRows[:0], n.slotOfUser[:0], n.usersOf[:0], n.embedding[:0]
	pair := 0
	for s, count := range win.UserCounts {
		for u := range count {
			n.slotOfUser = append(n.slotOfUser, s)
			for k := range m {
				first := (pair + k*count + u) * userFeatures
				n.userRows = append(n.userRows, win.Pairs[first:first+userFeatures]...)
			}
		}
		for k := range m {
			n.usersOf = append(n.usersOf, train.AttentionGroup{Query: s*m + k, FirstKey: pair, KeyCount: count})
			pair += count
		}
		row := min(win.FirstSlot+s, n.weights.SlotEmbedding.Value.Rows-1)
		n.embedding = append(n.embedding, row, row, row)
	}
}

func (n *network[T]) forward(win *window) {
	t, w := &n.tape, &n.weights
	slots, m, d := win.slots(), win.AircraftCount, n.arch.Width
	t.Reset()
	n.index(win)
	aircraft := t.Input(win.AircraftRows, slots*m, aircraftFeatures)
	pairs := t.Input(win.Pairs, len(n.slotOfUser)*m, userFeatures)
	users := t.Input(n.userRows, len(n.slotOfUser), m*userFeatures)
	returns := t.Input(win.Return, slots, returnFeatures)
	omega := t.Input(win.Omega, slots, 1)
	action := t.Input(win.Action, slots, m*aircraftActionFeatures)

	// Pooling, eq. (attn), and the three tokens, eq. (stok) and (inject).
	pooled := t.SetAttention(t.MatMul(aircraft, &w.UserQuery), t.MatMul(pairs, &w.UserKey), t.MatMul(pairs, &w.UserValue), n.usersOf, n.arch.Heads)
	pooled = t.Reshape(t.Linear(pooled, &w.UserOut), slots, m*d)
	state := t.Add(t.Linear(t.Reshape(aircraft, slots, m*aircraftFeatures), &w.StateAircraft), t.MatMul(pooled, &w.StatePooled))
	state = t.Add(state, t.MatMul(omega, &w.StateOmega))
	ret := t.Linear(returns, &w.ReturnToken)
	act := t.Add(t.Linear(action, &w.Action), t.MatMul(omega, &w.ActionOmega))
	x := t.Add(t.Interleave(ret, state, act), t.Lookup(&w.SlotEmbedding, n.embedding)) // (L, d)
	x = t.Transformer(n.arch, w.Blocks, x)
	e := t.LayerNorm(t.EveryNth(x, model.TokensPerSlot, 1), &w.Final) // (S, d)

	// Heads, eq. (bypass1) and (bypass2).
	n.motion = t.Tanh(t.MLP(e, &w.FlightHidden, &w.Flight))
	n.choice = n.userHead(&w.Choice, e, users)
	n.offload = t.Tanh(n.userHead(&w.Offload, e, users))
}

func (n *network[T]) userHead(h *userHead[train.Param[T]], e, users *train.Var[T]) *train.Var[T] {
	t := &n.tape
	hidden := t.AddRows(t.Linear(users, &h.User), t.MatMul(e, &h.Context), n.slotOfUser) // (N, p)
	return t.Linear(t.Gelu(hidden), &h.Out)
}

// setLoss is the decision transformer's mixed imitation loss, Sec. IV-B: squared
// errors of the continuous actions and cross-entropy of the association, equally
// weighted. It sets the gradients by the outputs, times scale.
func (n *network[T]) setLoss(win *window, scale float64) (sum train.LossTerms) {
	squared := func(y *train.Var[T], want []float32) (mean float64) {
		dy := n.tape.ZeroGrad(y)
		for i, v := range y.Value.Data {
			loss, grad := train.SquaredError(float64(v), float64(want[i]), 1/float64(len(want)))
			mean += loss
			dy.Data[i] = T(scale * grad)
		}
		return mean
	}
	sum.Move = squared(n.motion, win.Motion)
	sum.Offload = squared(n.offload, win.Offload)
	dchoice := n.tape.ZeroGrad(n.choice)
	k := 1 / float64(max(len(win.Server), 1))
	for u, server := range win.Server {
		n.logits = n.logits[:0]
		for _, v := range n.choice.Value.Row(u) {
			n.logits = append(n.logits, float64(v))
		}
		loss, right := train.CrossEntropy(n.logits, server)
		sum.Association += k * loss
		if right {
			sum.Accuracy += k
		}
		for i, dv := range n.logits {
			dchoice.Row(u)[i] = T(scale * k * dv)
		}
	}
	sum.Loss = sum.Association + sum.Offload + sum.Move
	return sum
}

// learner trains a network on a corpus's examples, each cut into windows at
// random places, as the decision transformer trains.
type learner struct {
	*network[float32]
	columns *featureColumns
	seed    uint64
	whole   window
}

// New starts the training of a network bound to so many aircraft and slots, on a
// source standardised by Standard's statistics.
func New(c train.Config, aircraft, slots int, source train.Source) (*train.Trainer, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	columns, err := findFeatureColumns()
	if err != nil {
		return nil, err
	}
	return train.NewTask(c, train.Task{
		Tensors: tensors(c.Arch, aircraft, slots), Losses: train.LossNames(), Source: source,
		Network: func(w, g *train.Params[float32]) train.Network {
			return &learner{network: newNetwork(w, g), columns: &columns, seed: c.Seed}
		},
	})
}

// AddGradient implements train.Network.
func (l *learner) AddGradient(i int, ex *corpus.Example, scale float64) ([]float64, error) {
	if err := l.whole.readExample(l.columns, ex, l.aircraft()); err != nil {
		return nil, err
	}
	var sum train.LossTerms
	n, context := l.whole.slots(), l.arch.Context
	for first, end := 0, 1+rand.New(rand.NewPCG(l.seed, uint64(i))).IntN(context); first < n; first, end = end, end+context {
		end = min(end, n)
		part := float64(end-first) / float64(n)
		win := l.whole.slice(first, end)
		l.forward(&win)
		sum.AddScaled(part, l.setLoss(&win, scale*part))
		l.tape.Backward()
	}
	return sum.List(), nil
}
