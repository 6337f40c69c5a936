package train

import (
	"math"

	"prefdt/inference/kernel"
	"prefdt/inference/model"
)

// tape holds every activation of one episode. Shapes: R rows of aircraft
// (sum M), N rows of pairs (sum M*U), S slots, L = 3S tokens; d and p are the
// widths. Backward needs them all; the buffers grow once and are reused.
type tape[T kernel.Float] struct {
	Tools[T]
	ep *Episode

	aircraft, pairs, state, ret, action kernel.Matrix[T] // inputs

	a0raw, a0   kernel.Matrix[T] // (R, d)
	zraw, z     kernel.Matrix[T] // (N, p)
	pool        SetAttention[T]  // over U
	pooled      kernel.Matrix[T] // (R, d)
	a1, a1n     kernel.Matrix[T] // (R, d)
	a1m, a1s    []T
	c1raw, c1   kernel.Matrix[T] // (R, 2d)
	a2          kernel.Matrix[T] // (R, d)
	fleetQuery  kernel.Matrix[T] // (S, d)
	fleet       SetAttention[T]  // over M
	fleetPooled kernel.Matrix[T] // (S, d)

	x0     kernel.Matrix[T] // (L, d) token embeddings
	last   kernel.Matrix[T] // (S, d) s rows of the last block
	e      kernel.Matrix[T] // (S, d)
	em, es []T

	eCraft    kernel.Matrix[T] // (S, d)
	h0raw, h0 kernel.Matrix[T] // (R, d)
	hMean     kernel.Matrix[T] // (S, d)
	hMix      kernel.Matrix[T] // (S, d)
	h         kernel.Matrix[T] // (R, d)
	move      kernel.Matrix[T] // (R, 2)
	ePair     kernel.Matrix[T] // (S, p)
	hPair     kernel.Matrix[T] // (R, p)
	k0raw, k0 kernel.Matrix[T] // (N, p)
	k1raw, k1 kernel.Matrix[T] // (N, p)
	choice    kernel.Matrix[T] // (N, 3)
	p0raw, p0 kernel.Matrix[T] // (S, p)
	price     kernel.Matrix[T] // (S, 1)
}

// forward runs the network over a whole episode.
func (t *tape[T]) forward(w *Params[T], ep *Episode) {
	t.ep = ep
	t.Start(w.Arch, ep.Slots)
	d := w.Arch.Width
	craftRows, pairRows := 0, 0
	for s := range ep.Slots {
		craftRows += ep.Craft[s]
		pairRows += ep.Craft[s] * ep.Users[s]
	}
	t.aircraft = t.Input(ep.Aircraft, craftRows, model.AircraftFeatures)
	t.pairs = t.Input(ep.Pairs, pairRows, model.PairFeatures)
	t.state = t.Input(ep.State, ep.Slots, model.StateFeatures)
	t.ret = t.Input(ep.Return, ep.Slots, model.ReturnFeatures)
	t.action = t.Input(ep.Action, ep.Slots, model.ActionFeatures)

	// State encoder, eq. (attn) and (stok).
	t.a0raw = t.Linear(t.aircraft, w.W("aircraft.w"), w.B("aircraft.b"))
	t.a0 = t.Gelu(t.a0raw)
	t.zraw = t.Linear(t.pairs, w.W("pair.w"), w.B("pair.b"))
	t.z = t.Gelu(t.zraw)
	groups := t.pool.Groups[:0] // one query row per aircraft, its users as keys
	row, pair := 0, 0
	for s := range ep.Slots {
		for range ep.Craft[s] {
			groups = append(groups, Group{row, pair, ep.Users[s]})
			row, pair = row+1, pair+ep.Users[s]
		}
	}
	t.pool.Groups = groups
	t.pooled = t.pool.Forward(&t.Tools, t.Linear(t.a0, w.W("pool.q"), nil), t.Linear(t.z, w.W("pool.k"), nil), t.Linear(t.z, w.W("pool.v"), nil))
	t.a1 = t.Sum(t.a0, t.Linear(t.pooled, w.W("pool.o"), w.B("pool.ob")))
	t.a1n, t.a1m, t.a1s = t.Norm(t.a1, w.B("craft.ng"), w.B("craft.nb"))
	t.c1raw = t.Linear(t.a1n, w.W("craft.w1"), w.B("craft.b1"))
	t.c1 = t.Gelu(t.c1raw)
	t.a2 = t.Sum(t.a1, t.Linear(t.c1, w.W("craft.w2"), w.B("craft.b2")))

	groups = t.fleet.Groups[:0] // one query row per slot, its aircraft as keys
	row = 0
	for s := range ep.Slots {
		groups = append(groups, Group{s, row, ep.Craft[s]})
		row += ep.Craft[s]
	}
	t.fleet.Groups = groups
	t.fleetQuery = t.Zeros(ep.Slots, d)
	kernel.AddBias(t.fleetQuery, w.B("fleet.q"))
	t.fleetPooled = t.fleet.Forward(&t.Tools, t.fleetQuery, t.Linear(t.a2, w.W("fleet.k"), nil), t.Linear(t.a2, w.W("fleet.v"), nil))
	state := t.Linear(t.state, w.W("state.w"), w.B("state.b"))
	kernel.MatMul(state, t.fleetPooled, w.W("fleet.o"), true)
	ret := t.Linear(t.ret, w.W("return.w"), w.B("return.b"))
	action := t.Linear(t.action, w.W("action.w"), w.B("action.b"))

	// The stream a(t-1), g(t), s(t) through the blocks.
	t.x0 = t.Matrix(ep.tokens(), d)
	for s := range ep.Slots {
		copy(t.x0.Row(3*s), action.Row(s))
		copy(t.x0.Row(3*s+1), ret.Row(s))
		copy(t.x0.Row(3*s+2), state.Row(s))
	}
	x := t.Transform(w, t.x0)
	t.last = t.Matrix(ep.Slots, d)
	for s := range ep.Slots {
		copy(t.last.Row(s), x.Row(3*s+2))
	}
	t.e, t.em, t.es = t.Norm(t.last, w.B("final.g"), w.B("final.b"))

	// Heads, eq. (bypass1) and (bypass2), per aircraft and per pair.
	t.eCraft = t.Linear(t.e, w.W("craft.e"), w.B("craft.hb"))
	t.h0raw = t.Linear(t.a2, w.W("craft.a"), nil)
	t.eachCraft(func(s, r int) { kernel.Add(t.h0raw.Row(r), t.eCraft.Row(s)) })
	t.h0 = t.Gelu(t.h0raw)
	t.hMean = t.Zeros(ep.Slots, d)
	t.eachCraft(func(s, r int) { addScaled(t.hMean.Row(s), t.h0.Row(r), 1/T(ep.Craft[s])) })
	t.hMix = t.Linear(t.hMean, w.W("craft.mix"), nil)
	t.h = t.Matrix(t.h0.Rows, d)
	copy(t.h.Data, t.h0.Data)
	t.eachCraft(func(s, r int) { kernel.Add(t.h.Row(r), t.hMix.Row(s)) })
	t.move = t.Linear(t.h, w.W("flight.w"), w.B("flight.b"))
	for i, v := range t.move.Data {
		t.move.Data[i] = T(math.Tanh(float64(v)))
	}

	t.ePair = t.Linear(t.e, w.W("choice.e"), w.B("choice.b"))
	t.hPair = t.Linear(t.h, w.W("choice.a"), nil)
	t.k0raw = t.Linear(t.z, w.W("choice.p"), nil)
	t.eachPair(func(s, r, n int) {
		kernel.Add(t.k0raw.Row(n), t.ePair.Row(s))
		kernel.Add(t.k0raw.Row(n), t.hPair.Row(r))
	})
	t.k0 = t.Gelu(t.k0raw)
	t.k1raw = t.Linear(t.k0, w.W("choice.w"), w.B("choice.wb"))
	t.k1 = t.Gelu(t.k1raw)
	t.choice = t.Linear(t.k1, w.W("choice.o"), w.B("choice.ob"))

	t.p0raw = t.Linear(t.e, w.W("price.w"), w.B("price.b"))
	t.p0 = t.Gelu(t.p0raw)
	t.price = t.Linear(t.p0, w.W("price.o"), w.B("price.ob"))
}

// eachCraft calls f for every slot s and row r of aircraft.
func (t *tape[T]) eachCraft(f func(s, r int)) {
	r := 0
	for s := range t.ep.Slots {
		for range t.ep.Craft[s] {
			f(s, r)
			r++
		}
	}
}

// eachPair calls f for every slot s, aircraft row r and pair row n.
func (t *tape[T]) eachPair(f func(s, r, n int)) {
	n := 0
	t.eachCraft(func(s, r int) {
		for range t.ep.Users[s] {
			f(s, r, n)
			n++
		}
	})
}

func addScaled[T kernel.Float](dst, src []T, k T) { kernel.AddScaled(dst, k, src) }
