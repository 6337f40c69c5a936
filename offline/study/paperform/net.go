// Package paperform is the policy network as the paper has it (Sec. IV-A and
// IV-B), an arm of the study: the aircraft stand one after the other in the
// state token, so their number is fixed; the window of the last K slots, in the
// order (g, s, a) with a learned embedding of the slot's number, is computed
// anew in every slot; association is a choice among M+1, and flight a length
// and a heading on [-1, 1]. It reads the paper's features alone: no allowance,
// no price, no place on the front.
//
// Where the paper is silent: a user's token in its own bypass is the
// concatenation of its tokens in every aircraft's frame, so that all gains are
// known when it is associated; the action token holds, for each aircraft, its
// flight action, its users and their mean offload.
package paperform

import (
	"math"

	"prefdt/inference/kernel"
	"prefdt/inference/model"
	"prefdt/offline/train"
)

// tensors lists the parameters for M aircraft and missions of so many slots.
func tensors(a model.Arch, aircraft, slots int) []model.Tensor {
	d, p, m := a.Width, a.PairWidth, aircraft
	list := []model.Tensor{
		{Name: "pool.q", Rows: aircraftFeatures, Cols: d}, {Name: "pool.k", Rows: userFeatures, Cols: d}, {Name: "pool.v", Rows: userFeatures, Cols: d},
		{Name: "pool.o", Rows: d, Cols: d}, {Name: "pool.ob", Rows: 1, Cols: d},
		{Name: "state.z", Rows: m * aircraftFeatures, Cols: d}, {Name: "state.p", Rows: m * d, Cols: d}, {Name: "state.w", Rows: 1, Cols: d}, {Name: "state.b", Rows: 1, Cols: d},
		{Name: "return.w", Rows: returnFeatures, Cols: d}, {Name: "return.b", Rows: 1, Cols: d},
		{Name: "action.x", Rows: m * aircraftActionFeatures, Cols: d}, {Name: "action.w", Rows: 1, Cols: d}, {Name: "action.b", Rows: 1, Cols: d},
		{Name: "time.e", Rows: slots, Cols: d},
	}
	for _, t := range a.Tensors() {
		if len(t.Name) > 5 && t.Name[:5] == "block" {
			list = append(list, t)
		}
	}
	return append(list,
		model.Tensor{Name: "final.g", Rows: 1, Cols: d}, model.Tensor{Name: "final.b", Rows: 1, Cols: d},
		model.Tensor{Name: "flight.h", Rows: d, Cols: d}, model.Tensor{Name: "flight.hb", Rows: 1, Cols: d},
		model.Tensor{Name: "flight.w", Rows: d, Cols: 2 * m}, model.Tensor{Name: "flight.b", Rows: 1, Cols: 2 * m},
		model.Tensor{Name: "choice.e", Rows: d, Cols: p}, model.Tensor{Name: "choice.z", Rows: m * userFeatures, Cols: p}, model.Tensor{Name: "choice.b", Rows: 1, Cols: p},
		model.Tensor{Name: "choice.o", Rows: p, Cols: m + 1}, model.Tensor{Name: "choice.ob", Rows: 1, Cols: m + 1},
		model.Tensor{Name: "rho.e", Rows: d, Cols: p}, model.Tensor{Name: "rho.z", Rows: m * userFeatures, Cols: p}, model.Tensor{Name: "rho.b", Rows: 1, Cols: p},
		model.Tensor{Name: "rho.o", Rows: p, Cols: 1}, model.Tensor{Name: "rho.ob", Rows: 1, Cols: 1},
	)
}

// tape holds the activations of one window. Shapes: S slots, N users over all
// slots, L = 3S tokens; d and p are the widths.
type tape[T kernel.Float] struct {
	train.Workspace[T]
	window *window

	aircraft, pairs, returns, omega, action kernel.Matrix[T] // inputs
	aircraftBySlot                          kernel.Matrix[T] // (S, M aircraftFeatures), the same numbers as craft
	userRows                                kernel.Matrix[T] // (N, M userFeatures)

	pool                 train.SetAttention[T] // of each aircraft over the users
	pooled               kernel.Matrix[T]      // (S*M, d)
	poolTokens           kernel.Matrix[T]      // (S*M, d)
	poolTokensBySlot     kernel.Matrix[T]      // (S, M d), the same numbers
	stateRows            kernel.Matrix[T]      // (S, d) s rows of the last block
	embedding            kernel.Matrix[T]      // (S, d)
	normMean, normInvStd []T

	motionHiddenRaw, motionHidden   kernel.Matrix[T] // (S, d)
	motion                          kernel.Matrix[T] // (S, 2M) on [-1, 1]
	choiceHiddenRaw, choiceHidden   kernel.Matrix[T] // (N, p)
	choice                          kernel.Matrix[T] // (N, M+1)
	offloadHiddenRaw, offloadHidden kernel.Matrix[T] // (N, p)
	offload                         kernel.Matrix[T] // (N, 1) on [-1, 1]
}

// forward runs the network over a window.
func (t *tape[T]) forward(w *train.Params[T], win *window) {
	t.window = win
	slots, m, d := win.slots(), win.AircraftCount, w.Arch.Width
	t.Reset(w.Arch, slots)
	n := len(win.Pairs) / userFeatures / m
	t.aircraft = t.Input(win.AircraftRows, slots*m, aircraftFeatures)
	t.pairs = t.Input(win.Pairs, n*m, userFeatures)
	t.returns = t.Input(win.Return, slots, returnFeatures)
	t.omega = t.Input(win.Omega, slots, 1)
	t.action = t.Input(win.Action, slots, m*aircraftActionFeatures)
	t.aircraftBySlot = kernel.View(t.aircraft.Data, slots, m*aircraftFeatures)
	t.userRows = t.Matrix(n, m*userFeatures)
	t.eachPair(func(_, user, craft, pair int) {
		copy(t.userRows.Row(user)[craft*userFeatures:(craft+1)*userFeatures], t.pairs.Row(pair))
	})

	// Pooling, eq. (attn), and the three tokens, eq. (stok) and (inject).
	groups := t.pool.Groups[:0]
	pair := 0
	for s := range slots {
		for k := range m {
			groups = append(groups, train.AttentionGroup{Query: s*m + k, FirstKey: pair, KeyCount: win.UserCounts[s]})
			pair += win.UserCounts[s]
		}
	}
	t.pool.Groups = groups
	t.pooled = t.pool.Forward(&t.Workspace, t.Linear(t.aircraft, w.Matrix("pool.q"), nil), t.Linear(t.pairs, w.Matrix("pool.k"), nil), t.Linear(t.pairs, w.Matrix("pool.v"), nil))
	t.poolTokens = t.Linear(t.pooled, w.Matrix("pool.o"), w.Vector("pool.ob"))
	t.poolTokensBySlot = kernel.View(t.poolTokens.Data, slots, m*d)
	state := t.Linear(t.aircraftBySlot, w.Matrix("state.z"), w.Vector("state.b"))
	kernel.MatMul(state, t.poolTokensBySlot, w.Matrix("state.p"), true)
	kernel.MatMul(state, t.omega, w.Matrix("state.w"), true)
	ret := t.Linear(t.returns, w.Matrix("return.w"), w.Vector("return.b"))
	action := t.Linear(t.action, w.Matrix("action.x"), w.Vector("action.b"))
	kernel.MatMul(action, t.omega, w.Matrix("action.w"), true)

	x := t.Matrix(model.TokensPerSlot*slots, d)
	for s := range slots {
		for k, row := range [][]T{ret.Row(s), state.Row(s), action.Row(s)} {
			copy(x.Row(3*s+k), row)
			kernel.Add(x.Row(3*s+k), t.slotEmbedding(w, s))
		}
	}
	x = t.TransformerForward(w, x)
	t.stateRows = t.Matrix(slots, d)
	for s := range slots {
		copy(t.stateRows.Row(s), x.Row(3*s+1))
	}
	t.embedding, t.normMean, t.normInvStd = t.LayerNorm(t.stateRows, w.Vector("final.g"), w.Vector("final.b"))

	// Heads, eq. (bypass1) and (bypass2).
	t.motionHiddenRaw = t.Linear(t.embedding, w.Matrix("flight.h"), w.Vector("flight.hb"))
	t.motionHidden = t.Gelu(t.motionHiddenRaw)
	t.motion = t.Linear(t.motionHidden, w.Matrix("flight.w"), w.Vector("flight.b"))
	tanh(t.motion.Data)
	t.choiceHiddenRaw, t.choiceHidden = t.bypass(w, "choice")
	t.choice = t.Linear(t.choiceHidden, w.Matrix("choice.o"), w.Vector("choice.ob"))
	t.offloadHiddenRaw, t.offloadHidden = t.bypass(w, "rho")
	t.offload = t.Linear(t.offloadHidden, w.Matrix("rho.o"), w.Vector("rho.ob"))
	tanh(t.offload.Data)
}

// bypass is the hidden layer of a head on [e; z], a row for each user.
func (t *tape[T]) bypass(w *train.Params[T], head string) (raw, y kernel.Matrix[T]) {
	raw = t.Linear(t.userRows, w.Matrix(head+".z"), w.Vector(head+".b"))
	e := t.Linear(t.embedding, w.Matrix(head+".e"), nil)
	t.eachUser(func(s, user int) { kernel.Add(raw.Row(user), e.Row(s)) })
	return raw, t.Gelu(raw)
}

// slotEmbedding returns the embedding of a slot's number.
func (t *tape[T]) slotEmbedding(w *train.Params[T], s int) []T {
	e := w.Matrix("time.e")
	return e.Row(min(t.window.FirstSlot+s, e.Rows-1))
}

func tanh[T kernel.Float](x []T) {
	for i, v := range x {
		x[i] = T(math.Tanh(float64(v)))
	}
}

// eachUser calls f for every slot and user row.
func (t *tape[T]) eachUser(f func(s, user int)) {
	user := 0
	for s, n := range t.window.UserCounts {
		for range n {
			f(s, user)
			user++
		}
	}
}

// eachPair calls f for every slot, user row, aircraft and pair row.
func (t *tape[T]) eachPair(f func(s, user, craft, pair int)) {
	user, pair := 0, 0
	for s, n := range t.window.UserCounts {
		for craft := range t.window.AircraftCount {
			for u := range n {
				f(s, user+u, craft, pair)
				pair++
			}
		}
		user += n
	}
}
