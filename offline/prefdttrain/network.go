package prefdttrain

import (
	"math"

	"prefdt/inference/kernel"
	"prefdt/inference/model"
	"prefdt/inference/prefdt"
	"prefdt/offline/nn"
)

// network runs a batch of windows forward and back; package prefdt has its formulas.
// Shapes: S slots, N users over all slots, R = 3S tokens, M aircraft; d and p are the
// widths. All windows of a batch are rows of the same products.
type network[T kernel.Float] struct {
	form *prefdt.Form
	w    *prefdt.Weights[nn.Param[T]]
	tape nn.Tape[T]

	motion, choice, offload *nn.Var[T] // (S, 2M), (N, M+1), (N, 1)

	groups     []nn.AttentionGroup // each aircraft's users
	slotOfUser []int
	embedding  []int // of each token
}

func newNetwork[T kernel.Float](f *prefdt.Form, w, g *nn.Params[T]) *network[T] {
	n := &network[T]{form: f, w: &prefdt.Weights[nn.Param[T]]{Blocks: make([]model.Block[nn.Param[T]], f.Layers)}}
	nn.Bind(n.w.List(), w, g)
	return n
}

// index lists which rows belong together.
func (n *network[T]) index(b *batch) {
	n.groups, n.slotOfUser, n.embedding = n.groups[:0], n.slotOfUser[:0], n.embedding[:0]
	m := n.form.Aircraft
	for s, users := range b.userCounts {
		for k := range m {
			n.groups = append(n.groups, nn.AttentionGroup{Query: s*m + k, FirstKey: len(n.slotOfUser)*m + k, KeyCount: users, Stride: m})
		}
		for range users {
			n.slotOfUser = append(n.slotOfUser, s)
		}
		for range model.TokensPerSlot {
			n.embedding = append(n.embedding, b.slotNumber[s])
		}
	}
}

func (n *network[T]) forward(b *batch) {
	t, w, f := &n.tape, n.w, n.form
	t.Reset()
	n.index(b)
	slots, users, m, d := len(b.slotNumber), len(b.server), f.Aircraft, f.Width
	aircraft := t.Input(b.aircraft, slots*m, prefdt.AircraftFeatures)
	pairs := t.Input(b.users, users*m, len(f.UserFeatures))
	omega := t.Input(b.omega, slots, 1)

	// Each aircraft gathers its users, eq. (attn), and the three tokens of each slot.
	gathered := t.SetAttention(t.MatMul(aircraft, &w.UserQuery), t.MatMul(pairs, &w.UserKey), t.MatMul(pairs, &w.UserValue), n.groups,
		f.Heads)
	pooled := t.Reshape(t.Linear(gathered, &w.UserOut), slots, m*d)
	ret := t.Linear(t.Input(b.returns, slots, prefdt.ReturnFeatures), &w.ReturnToken)
	state := t.Add(t.Linear(t.Reshape(aircraft, slots, m*prefdt.AircraftFeatures), &w.StateAircraft), t.MatMul(pooled, &w.StatePooled))
	state = t.Add(state, t.MatMul(omega, &w.StateOmega))
	act := t.Add(t.Linear(t.Input(b.action, slots, m*prefdt.ActionFeatures), &w.ActionToken), t.MatMul(omega, &w.ActionOmega))
	x := t.Add(t.Interleave(ret, state, act), t.Lookup(&w.SlotEmbedding, n.embedding)) // (R, d)
	e := t.LayerNorm(t.Transformer(f.Arch, w.Blocks, x, b.windows, 1), &w.Final)       // (S, d) at the state token

	// Heads, eq. (bypass1) and (bypass2): of each user on its row in the nearest aircraft's frame.
	frames := make([]float32, len(b.users))
	prefdt.NearestFrames(f, frames, b.users)
	nearest := t.Input(frames, users, f.UserWidth())
	head := func(h *prefdt.UserHead[nn.Param[T]]) *nn.Var[T] {
		sum := t.AddRows(t.Linear(nearest, &h.User), t.MatMul(e, &h.Context), n.slotOfUser)
		return t.Linear(t.Gelu(sum), &h.Out)
	}
	n.motion = t.Tanh(t.MLP(e, &w.FlightHidden, &w.Flight))
	n.choice, n.offload = head(&w.Choice), t.Tanh(head(&w.Offload))
}

// loss is the mixed imitation loss, Sec. IV-B: squared errors of the continuous actions, a
// mean over the flight controls and one over the offload ratios, and cross-entropy of the
// association, equally weighted. It sets the gradients by the outputs, where slots and
// users are those that the means are over.
//
// The error of a heading, every other flight control, is around the circle: between 1 and -1, which are
// one heading, it is 0, where the plain difference has its least mean at the opposite heading.
func (n *network[T]) loss(b *batch, slots, users int) (sum Losses) {
	dmotion, dchoice, doffload := n.tape.ZeroGrad(n.motion), n.tape.ZeroGrad(n.choice), n.tape.ZeroGrad(n.offload)
	for i, v := range n.motion.Value.Data {
		off := float64(v) - float64(b.motion[i])
		if i%2 == 1 {
			off = math.Remainder(off, 2)
		}
		l, grad := nn.SquaredError(off, 0, 1/float64(slots*n.motion.Value.Cols))
		sum.Flight += l
		dmotion.Data[i] = T(grad)
	}
	k := 1 / float64(max(users, 1))
	for u, want := range b.server {
		doffload.Data[u] = AddUser(&sum, n.choice.Value.Row(u), dchoice.Row(u), want,
			float64(n.offload.Value.Data[u]), float64(b.offload[u]), k, 1)
	}
	return sum
}
