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
	arch model.Arch
	ep   *Episode

	aircraft, pairs, state, ret, action kernel.Matrix[T] // inputs

	a0raw, a0   kernel.Matrix[T] // (R, d)
	zraw, z     kernel.Matrix[T] // (N, p)
	pool        attendSet[T]     // over U
	pooled      kernel.Matrix[T] // (R, d)
	a1, a1n     kernel.Matrix[T] // (R, d)
	a1m, a1s    []T
	c1raw, c1   kernel.Matrix[T] // (R, 2d)
	a2          kernel.Matrix[T] // (R, d)
	fleetQuery  kernel.Matrix[T] // (S, d)
	fleet       attendSet[T]     // over M
	fleetPooled kernel.Matrix[T] // (S, d)

	x0     kernel.Matrix[T] // (L, d) token embeddings
	blocks []blockTape[T]
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

	arena arena[T]
}

type blockTape[T kernel.Float] struct {
	x       kernel.Matrix[T] // (L, d) input
	n1      kernel.Matrix[T]
	m1, s1  []T
	qkv     kernel.Matrix[T]   // (L, 3d)
	weights []kernel.Matrix[T] // per head and chunk of queries
	mixed   kernel.Matrix[T]   // (L, d)
	mid     kernel.Matrix[T]   // (L, d)
	n2      kernel.Matrix[T]
	m2, s2  []T
	fcraw   kernel.Matrix[T] // (L, 4d)
	fc      kernel.Matrix[T]
	y       kernel.Matrix[T] // (L, d) output
}

// arena hands out memory that is taken back all at once.
type arena[T kernel.Float] struct {
	chunks [][]T
	chunk  int
	used   int
}

const arenaChunk = 1 << 20

func (a *arena[T]) reset() { a.chunk, a.used = 0, 0 }

// take lends undefined numbers.
func (a *arena[T]) take(n int) []T {
	for a.chunk < len(a.chunks) && a.used+n > len(a.chunks[a.chunk]) {
		a.chunk, a.used = a.chunk+1, 0
	}
	if a.chunk == len(a.chunks) {
		a.chunks = append(a.chunks, make([]T, max(n, arenaChunk)))
		a.used = 0
	}
	s := a.chunks[a.chunk][a.used : a.used+n : a.used+n]
	a.used += n
	return s
}

// matrix lends a matrix of undefined numbers, zeros one to add to.
func (a *arena[T]) matrix(rows, cols int) kernel.Matrix[T] {
	return kernel.View(a.take(rows*cols), rows, cols)
}

func (a *arena[T]) zeros(rows, cols int) kernel.Matrix[T] {
	m := a.matrix(rows, cols)
	clear(m.Data)
	return m
}

func (t *tape[T]) input(src []float32, rows, cols int) kernel.Matrix[T] {
	m := t.arena.matrix(rows, cols)
	for i, x := range src {
		m.Data[i] = T(x)
	}
	return m
}

// linear returns x·w + b.
func (t *tape[T]) linear(x, w kernel.Matrix[T], b []T) kernel.Matrix[T] {
	y := t.arena.matrix(x.Rows, w.Cols)
	kernel.MatMul(y, x, w, false)
	if b != nil {
		kernel.AddBias(y, b)
	}
	return y
}

func (t *tape[T]) gelu(x kernel.Matrix[T]) kernel.Matrix[T] {
	y := t.arena.matrix(x.Rows, x.Cols)
	kernel.Gelu(y.Data, x.Data)
	return y
}

func (t *tape[T]) norm(x kernel.Matrix[T], gain, bias []T) (y kernel.Matrix[T], mean, rstd []T) {
	y = t.arena.matrix(x.Rows, x.Cols)
	mean, rstd = t.arena.take(x.Rows), t.arena.take(x.Rows)
	kernel.LayerNorm(y, x, gain, bias, model.NormEpsilon, mean, rstd)
	return y, mean, rstd
}

func (t *tape[T]) sum(a, b kernel.Matrix[T]) kernel.Matrix[T] {
	y := t.arena.matrix(a.Rows, a.Cols)
	copy(y.Data, a.Data)
	kernel.Add(y.Data, b.Data)
	return y
}

// forward runs the network over a whole episode.
func (t *tape[T]) forward(w *Params[T], ep *Episode) {
	t.arch, t.ep = w.Arch, ep
	t.arena.reset()
	d := w.Arch.Width
	craftRows, pairRows := 0, 0
	for s := range ep.Slots {
		craftRows += ep.Craft[s]
		pairRows += ep.Craft[s] * ep.Users[s]
	}
	t.aircraft = t.input(ep.Aircraft, craftRows, model.AircraftFeatures)
	t.pairs = t.input(ep.Pairs, pairRows, model.PairFeatures)
	t.state = t.input(ep.State, ep.Slots, model.StateFeatures)
	t.ret = t.input(ep.Return, ep.Slots, model.ReturnFeatures)
	t.action = t.input(ep.Action, ep.Slots, model.ActionFeatures)

	// State encoder, eq. (attn) and (stok).
	t.a0raw = t.linear(t.aircraft, w.w("aircraft.w"), w.b("aircraft.b"))
	t.a0 = t.gelu(t.a0raw)
	t.zraw = t.linear(t.pairs, w.w("pair.w"), w.b("pair.b"))
	t.z = t.gelu(t.zraw)
	groups := t.pool.groups[:0] // one query row per aircraft, its users as keys
	row, pair := 0, 0
	for s := range ep.Slots {
		for range ep.Craft[s] {
			groups = append(groups, group{row, pair, ep.Users[s]})
			row, pair = row+1, pair+ep.Users[s]
		}
	}
	t.pool.groups = groups
	t.pooled = t.pool.forward(t, t.linear(t.a0, w.w("pool.q"), nil), t.linear(t.z, w.w("pool.k"), nil), t.linear(t.z, w.w("pool.v"), nil))
	t.a1 = t.sum(t.a0, t.linear(t.pooled, w.w("pool.o"), w.b("pool.ob")))
	t.a1n, t.a1m, t.a1s = t.norm(t.a1, w.b("craft.ng"), w.b("craft.nb"))
	t.c1raw = t.linear(t.a1n, w.w("craft.w1"), w.b("craft.b1"))
	t.c1 = t.gelu(t.c1raw)
	t.a2 = t.sum(t.a1, t.linear(t.c1, w.w("craft.w2"), w.b("craft.b2")))

	groups = t.fleet.groups[:0] // one query row per slot, its aircraft as keys
	row = 0
	for s := range ep.Slots {
		groups = append(groups, group{s, row, ep.Craft[s]})
		row += ep.Craft[s]
	}
	t.fleet.groups = groups
	t.fleetQuery = t.arena.zeros(ep.Slots, d)
	kernel.AddBias(t.fleetQuery, w.b("fleet.q"))
	t.fleetPooled = t.fleet.forward(t, t.fleetQuery, t.linear(t.a2, w.w("fleet.k"), nil), t.linear(t.a2, w.w("fleet.v"), nil))
	state := t.linear(t.state, w.w("state.w"), w.b("state.b"))
	kernel.MatMul(state, t.fleetPooled, w.w("fleet.o"), true)
	ret := t.linear(t.ret, w.w("return.w"), w.b("return.b"))
	action := t.linear(t.action, w.w("action.w"), w.b("action.b"))

	// The stream a(t-1), g(t), s(t) through the blocks.
	t.x0 = t.arena.matrix(ep.tokens(), d)
	for s := range ep.Slots {
		copy(t.x0.Row(3*s), action.Row(s))
		copy(t.x0.Row(3*s+1), ret.Row(s))
		copy(t.x0.Row(3*s+2), state.Row(s))
	}
	x := t.x0
	t.blocks = t.blocks[:0]
	for l := range w.blocks {
		x = t.block(&w.blocks[l], x)
	}
	t.last = t.arena.matrix(ep.Slots, d)
	for s := range ep.Slots {
		copy(t.last.Row(s), x.Row(3*s+2))
	}
	t.e, t.em, t.es = t.norm(t.last, w.b("final.g"), w.b("final.b"))

	// Heads, eq. (bypass1) and (bypass2), per aircraft and per pair.
	t.eCraft = t.linear(t.e, w.w("craft.e"), w.b("craft.hb"))
	t.h0raw = t.linear(t.a2, w.w("craft.a"), nil)
	t.eachCraft(func(s, r int) { kernel.Add(t.h0raw.Row(r), t.eCraft.Row(s)) })
	t.h0 = t.gelu(t.h0raw)
	t.hMean = t.arena.zeros(ep.Slots, d)
	t.eachCraft(func(s, r int) { addScaled(t.hMean.Row(s), t.h0.Row(r), 1/T(ep.Craft[s])) })
	t.hMix = t.linear(t.hMean, w.w("craft.mix"), nil)
	t.h = t.arena.matrix(t.h0.Rows, d)
	copy(t.h.Data, t.h0.Data)
	t.eachCraft(func(s, r int) { kernel.Add(t.h.Row(r), t.hMix.Row(s)) })
	t.move = t.linear(t.h, w.w("flight.w"), w.b("flight.b"))
	for i, v := range t.move.Data {
		t.move.Data[i] = T(math.Tanh(float64(v)))
	}

	t.ePair = t.linear(t.e, w.w("choice.e"), w.b("choice.b"))
	t.hPair = t.linear(t.h, w.w("choice.a"), nil)
	t.k0raw = t.linear(t.z, w.w("choice.p"), nil)
	t.eachPair(func(s, r, n int) {
		kernel.Add(t.k0raw.Row(n), t.ePair.Row(s))
		kernel.Add(t.k0raw.Row(n), t.hPair.Row(r))
	})
	t.k0 = t.gelu(t.k0raw)
	t.k1raw = t.linear(t.k0, w.w("choice.w"), w.b("choice.wb"))
	t.k1 = t.gelu(t.k1raw)
	t.choice = t.linear(t.k1, w.w("choice.o"), w.b("choice.ob"))

	t.p0raw = t.linear(t.e, w.w("price.w"), w.b("price.b"))
	t.p0 = t.gelu(t.p0raw)
	t.price = t.linear(t.p0, w.w("price.o"), w.b("price.ob"))
}

// block runs one pre-norm transformer block.
func (t *tape[T]) block(w *block[T], x kernel.Matrix[T]) kernel.Matrix[T] {
	t.blocks = append(t.blocks, blockTape[T]{x: x})
	b := &t.blocks[len(t.blocks)-1]
	b.n1, b.m1, b.s1 = t.norm(x, w.n1g, w.n1b)
	b.qkv = t.linear(b.n1, w.qkv, w.qkvb)
	b.mixed = t.arena.matrix(x.Rows, x.Cols)
	t.attend(b)
	b.mid = t.sum(x, t.linear(b.mixed, w.proj, w.projb))
	b.n2, b.m2, b.s2 = t.norm(b.mid, w.n2g, w.n2b)
	b.fcraw = t.linear(b.n2, w.fc, w.fcb)
	b.fc = t.gelu(b.fcraw)
	b.y = t.sum(b.mid, t.linear(b.fc, w.out, w.outb))
	return b.y
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
