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
		{Name: "pool.q", Rows: craftFeatures, Cols: d}, {Name: "pool.k", Rows: userFeatures, Cols: d}, {Name: "pool.v", Rows: userFeatures, Cols: d},
		{Name: "pool.o", Rows: d, Cols: d}, {Name: "pool.ob", Rows: 1, Cols: d},
		{Name: "state.z", Rows: m * craftFeatures, Cols: d}, {Name: "state.p", Rows: m * d, Cols: d}, {Name: "state.w", Rows: 1, Cols: d}, {Name: "state.b", Rows: 1, Cols: d},
		{Name: "return.w", Rows: returnFeatures, Cols: d}, {Name: "return.b", Rows: 1, Cols: d},
		{Name: "action.x", Rows: m * craftActions, Cols: d}, {Name: "action.w", Rows: 1, Cols: d}, {Name: "action.b", Rows: 1, Cols: d},
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
	train.Tools[T]
	win *window

	craft, pairs, ret, omega, action kernel.Matrix[T] // inputs
	fleet                            kernel.Matrix[T] // (S, M craftFeatures), the same numbers as craft
	users                            kernel.Matrix[T] // (N, M userFeatures)

	pool   train.SetAttention[T] // of each aircraft over the users
	pooled kernel.Matrix[T]      // (S*M, d)
	p      kernel.Matrix[T]      // (S*M, d)
	pFleet kernel.Matrix[T]      // (S, M d), the same numbers
	last   kernel.Matrix[T]      // (S, d) s rows of the last block
	e      kernel.Matrix[T]      // (S, d)
	em, es []T

	f0raw, f0 kernel.Matrix[T] // (S, d)
	flight    kernel.Matrix[T] // (S, 2M) on [-1, 1]
	c0raw, c0 kernel.Matrix[T] // (N, p)
	choice    kernel.Matrix[T] // (N, M+1)
	r0raw, r0 kernel.Matrix[T] // (N, p)
	rho       kernel.Matrix[T] // (N, 1) on [-1, 1]
}

// forward runs the network over a window.
func (t *tape[T]) forward(w *train.Params[T], win *window) {
	t.win = win
	slots, m, d := win.slots(), win.Aircraft, w.Arch.Width
	t.Start(w.Arch, slots)
	n := len(win.Pairs) / userFeatures / m
	t.craft = t.Input(win.Craft, slots*m, craftFeatures)
	t.pairs = t.Input(win.Pairs, n*m, userFeatures)
	t.ret = t.Input(win.Return, slots, returnFeatures)
	t.omega = t.Input(win.Omega, slots, 1)
	t.action = t.Input(win.Action, slots, m*craftActions)
	t.fleet = kernel.View(t.craft.Data, slots, m*craftFeatures)
	t.users = t.Matrix(n, m*userFeatures)
	t.eachPair(func(_, user, craft, pair int) {
		copy(t.users.Row(user)[craft*userFeatures:(craft+1)*userFeatures], t.pairs.Row(pair))
	})

	// Pooling, eq. (attn), and the three tokens, eq. (stok) and (inject).
	groups := t.pool.Groups[:0]
	pair := 0
	for s := range slots {
		for k := range m {
			groups = append(groups, train.Group{Query: s*m + k, First: pair, Count: win.Users[s]})
			pair += win.Users[s]
		}
	}
	t.pool.Groups = groups
	t.pooled = t.pool.Forward(&t.Tools, t.Linear(t.craft, w.W("pool.q"), nil), t.Linear(t.pairs, w.W("pool.k"), nil), t.Linear(t.pairs, w.W("pool.v"), nil))
	t.p = t.Linear(t.pooled, w.W("pool.o"), w.B("pool.ob"))
	t.pFleet = kernel.View(t.p.Data, slots, m*d)
	state := t.Linear(t.fleet, w.W("state.z"), w.B("state.b"))
	kernel.MatMul(state, t.pFleet, w.W("state.p"), true)
	kernel.MatMul(state, t.omega, w.W("state.w"), true)
	ret := t.Linear(t.ret, w.W("return.w"), w.B("return.b"))
	action := t.Linear(t.action, w.W("action.x"), w.B("action.b"))
	kernel.MatMul(action, t.omega, w.W("action.w"), true)

	x := t.Matrix(model.TokensPerSlot*slots, d)
	for s := range slots {
		for k, row := range [][]T{ret.Row(s), state.Row(s), action.Row(s)} {
			copy(x.Row(3*s+k), row)
			kernel.Add(x.Row(3*s+k), t.time(w, s))
		}
	}
	x = t.Transform(w, x)
	t.last = t.Matrix(slots, d)
	for s := range slots {
		copy(t.last.Row(s), x.Row(3*s+1))
	}
	t.e, t.em, t.es = t.Norm(t.last, w.B("final.g"), w.B("final.b"))

	// Heads, eq. (bypass1) and (bypass2).
	t.f0raw = t.Linear(t.e, w.W("flight.h"), w.B("flight.hb"))
	t.f0 = t.Gelu(t.f0raw)
	t.flight = t.Linear(t.f0, w.W("flight.w"), w.B("flight.b"))
	tanh(t.flight.Data)
	t.c0raw, t.c0 = t.bypass(w, "choice")
	t.choice = t.Linear(t.c0, w.W("choice.o"), w.B("choice.ob"))
	t.r0raw, t.r0 = t.bypass(w, "rho")
	t.rho = t.Linear(t.r0, w.W("rho.o"), w.B("rho.ob"))
	tanh(t.rho.Data)
}

// bypass is the hidden layer of a head on [e; z], a row for each user.
func (t *tape[T]) bypass(w *train.Params[T], head string) (raw, y kernel.Matrix[T]) {
	raw = t.Linear(t.users, w.W(head+".z"), w.B(head+".b"))
	e := t.Linear(t.e, w.W(head+".e"), nil)
	t.eachUser(func(s, user int) { kernel.Add(raw.Row(user), e.Row(s)) })
	return raw, t.Gelu(raw)
}

// time returns the embedding of a slot's number.
func (t *tape[T]) time(w *train.Params[T], s int) []T {
	e := w.W("time.e")
	return e.Row(min(t.win.First+s, e.Rows-1))
}

func tanh[T kernel.Float](x []T) {
	for i, v := range x {
		x[i] = T(math.Tanh(float64(v)))
	}
}

// eachUser calls f for every slot and user row.
func (t *tape[T]) eachUser(f func(s, user int)) {
	user := 0
	for s, n := range t.win.Users {
		for range n {
			f(s, user)
			user++
		}
	}
}

// eachPair calls f for every slot, user row, aircraft and pair row.
func (t *tape[T]) eachPair(f func(s, user, craft, pair int)) {
	user, pair := 0, 0
	for s, n := range t.win.Users {
		for craft := range t.win.Aircraft {
			for u := range n {
				f(s, user+u, craft, pair)
				pair++
			}
		}
		user += n
	}
}
