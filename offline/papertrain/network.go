package papertrain

import (
	"math"

	"prefdt/inference/kernel"
	"prefdt/inference/model"
	"prefdt/inference/paperform"
	"prefdt/offline/train"
)

// network runs a batch of windows forward and back; package paperform has its formulas.
// Shapes: S slots, N users over all slots, R = 3S tokens, M aircraft; d and p are the
// widths. All windows of a batch are rows of the same products.
//
// Only a slot's s* row of the last block is read, so that block computes queries, and
// all that follows them, for these rows alone.
type network[T kernel.Float] struct {
	form  *paperform.Form
	w, g  *paperform.Weights[kernel.Matrix[T]] // parameters and gradient
	arena train.Arena[T]
	batch *batch

	aircraft, users, returns, omega, action kernel.Matrix[T] // inputs
	nearest                                 kernel.Matrix[T] // users in the nearest aircraft's frame, of the heads
	query, key, value, weights, gathered    kernel.Matrix[T] // of the pooling, weights (N*M, heads)
	pooled                                  kernel.Matrix[T] // (S*M, d)
	blocks                                  []pass[T]
	x, e                                    kernel.Matrix[T] // (S, d) before and after the final norm
	xStats                                  stats[T]
	flightSum, flightGelu, motion           kernel.Matrix[T] // (S, d), (S, d), (S, 2M)
	choiceSum, choiceGelu, choice           kernel.Matrix[T] // (N, p), (N, p), (N, M+1)
	offloadSum, offloadGelu, offload        kernel.Matrix[T] // (N, p), (N, p), (N, 1)

	dmotion, dchoice, doffload kernel.Matrix[T] // gradients by the outputs
	logits                     []float64
}

// pass is what a block's backward pass needs of its forward pass.
type pass[T kernel.Float] struct {
	x, h1              kernel.Matrix[T]   // (R, d) input, normed
	q, k, v            kernel.Matrix[T]   // views of the projections
	attention          []kernel.Matrix[T] // per window and head (queries, keys)
	mixed              kernel.Matrix[T]   // (R, d), in the last block (S, d), as all below
	x2, h2             kernel.Matrix[T]
	sum, gelu          kernel.Matrix[T] // (R, 4d)
	stats1, stats2     stats[T]
	queries, firstSeen int // tokens of a slot that query; keys of its slot that the first of them sees
}

// stats are what a layer norm's backward pass needs.
type stats[T kernel.Float] struct{ mean, rstd []T }

func newNetwork[T kernel.Float](f *paperform.Form, w, g []T) *network[T] {
	bind := func(data []T) *paperform.Weights[kernel.Matrix[T]] {
		return paperform.MapWeights(f, func(t model.Tensor) kernel.Matrix[T] {
			m := kernel.View(data[:t.Size()], t.Rows, t.Cols)
			data = data[t.Size():]
			return m
		})
	}
	n := &network[T]{form: f, w: bind(w), blocks: make([]pass[T], f.Layers)}
	if g != nil {
		n.g = bind(g)
	}
	return n
}

func (n *network[T]) input(src []float32, rows, cols int) kernel.Matrix[T] {
	m := n.arena.Matrix(rows, cols)
	for i, v := range src {
		m.Data[i] = T(v)
	}
	return m
}

// linear returns x·w + b.
func (n *network[T]) linear(x kernel.Matrix[T], l *model.Linear[kernel.Matrix[T]]) kernel.Matrix[T] {
	y := n.arena.Matrix(x.Rows, l.Weight.Cols)
	kernel.MatMul(y, x, l.Weight, false)
	kernel.AddBias(y, l.Bias.Data)
	return y
}

// added returns x + y·w + b.
func (n *network[T]) added(x, y kernel.Matrix[T], l *model.Linear[kernel.Matrix[T]]) kernel.Matrix[T] {
	z := n.arena.Matrix(x.Rows, x.Cols)
	for i := range z.Rows {
		copy(z.Row(i), l.Bias.Data)
		kernel.Add(z.Row(i), x.Row(i))
	}
	kernel.MatMul(z, y, l.Weight, true)
	return z
}

func (n *network[T]) geluOf(x kernel.Matrix[T]) kernel.Matrix[T] {
	y := n.arena.Matrix(x.Rows, x.Cols)
	kernel.Gelu(y.Data, x.Data)
	return y
}

func (n *network[T]) norm(x kernel.Matrix[T], w *model.Norm[kernel.Matrix[T]]) (kernel.Matrix[T], stats[T]) {
	y := n.arena.Matrix(x.Rows, x.Cols)
	s := stats[T]{n.arena.Take(x.Rows), n.arena.Take(x.Rows)}
	kernel.LayerNorm(y, x, w.Gain.Data, w.Bias.Data, model.NormEpsilon, s.mean, s.rstd)
	return y, s
}

// perSlot returns the rows k, 3+k, 6+k ... of a stream as a matrix in the same memory.
func perSlot[T kernel.Float](x kernel.Matrix[T], k int) kernel.Matrix[T] {
	return kernel.Matrix[T]{Rows: x.Rows / model.TokensPerSlot, Cols: x.Cols, Stride: model.TokensPerSlot * x.Stride, Data: x.Data[k*x.Stride:]}
}

// columns returns columns a to b-1 of a matrix in the same memory.
func columns[T kernel.Float](m kernel.Matrix[T], a, b int) kernel.Matrix[T] {
	return m.Slice(0, m.Rows, a, b)
}

func (n *network[T]) forward(b *batch) {
	n.arena.Reset()
	n.batch = b
	w, f := n.w, n.form
	slots, users, m, d := len(b.slotNumber), len(b.server), f.Aircraft, f.Width
	n.aircraft = n.input(b.aircraft, slots*m, paperform.AircraftFeatures)
	n.users = n.input(b.users, users, f.UserWidth())
	n.nearest = n.arena.Matrix(users, f.UserWidth())
	paperform.NearestFrames(f, n.nearest.Data, n.users.Data)
	n.returns = n.input(b.returns, slots, paperform.ReturnFeatures)
	n.omega = n.input(b.omega, slots, 1)
	n.action = n.input(b.action, slots, m*paperform.ActionFeatures)

	n.pool()
	// The three tokens of each slot.
	x := n.arena.Matrix(model.TokensPerSlot*slots, d)
	ret, state, act := perSlot(x, 0), perSlot(x, 1), perSlot(x, 2)
	for s, t := range b.slotNumber {
		for _, r := range []struct {
			token kernel.Matrix[T]
			bias  []T
		}{{ret, w.ReturnToken.Bias.Data}, {state, w.StateAircraft.Bias.Data}, {act, w.ActionToken.Bias.Data}} {
			copy(r.token.Row(s), r.bias)
			kernel.Add(r.token.Row(s), w.SlotEmbedding.Row(t))
		}
		kernel.AddScaled(state.Row(s), n.omega.Data[s], w.StateOmega.Data)
		kernel.AddScaled(act.Row(s), n.omega.Data[s], w.ActionOmega.Data)
	}
	kernel.MatMul(ret, n.returns, w.ReturnToken.Weight, true)
	kernel.MatMul(state, kernel.View(n.aircraft.Data, slots, m*paperform.AircraftFeatures), w.StateAircraft.Weight, true)
	kernel.MatMul(state, kernel.View(n.pooled.Data, slots, m*d), w.StatePooled, true)
	kernel.MatMul(act, n.action, w.ActionToken.Weight, true)

	for l := range n.blocks {
		x = n.block(l, x)
	}
	n.x = x
	n.e, n.xStats = n.norm(x, &w.Final)

	n.flightSum = n.linear(n.e, &w.FlightHidden)
	n.flightGelu = n.geluOf(n.flightSum)
	n.motion = n.linear(n.flightGelu, &w.Flight)
	tanh(n.motion.Data)
	n.choiceSum, n.choiceGelu, n.choice = n.userHead(&w.Choice)
	n.offloadSum, n.offloadGelu, n.offload = n.userHead(&w.Offload)
	tanh(n.offload.Data)
}

func tanh[T kernel.Float](x []T) {
	for i, v := range x {
		x[i] = T(math.Tanh(float64(v)))
	}
}

// pool lets each aircraft gather its users, eq. (attn).
func (n *network[T]) pool() {
	w, f, b := n.w, n.form, n.batch
	m, d, heads := f.Aircraft, f.Width, f.Heads
	pairs := kernel.View(n.users.Data, n.users.Rows*m, len(f.UserFeatures))
	n.query, n.key, n.value = n.arena.Matrix(n.aircraft.Rows, d), n.arena.Matrix(pairs.Rows, d), n.arena.Matrix(pairs.Rows, d)
	kernel.MatMul(n.query, n.aircraft, w.UserQuery, false)
	kernel.MatMul(n.key, pairs, w.UserKey, false)
	kernel.MatMul(n.value, pairs, w.UserValue, false)
	n.weights = n.arena.Matrix(heads, pairs.Rows) // a slot's users of one aircraft side by side
	n.gathered = n.arena.Matrix(n.aircraft.Rows, d)
	clear(n.gathered.Data)
	dh := d / heads
	scale := T(1 / math.Sqrt(float64(dh)))
	first := 0
	for s, users := range b.userCounts {
		for k := range m {
			q, out := n.query.Row(s*m+k), n.gathered.Row(s*m+k)
			for h := range heads {
				low, high := h*dh, (h+1)*dh
				p := n.weights.Row(h)[first*m+k*users:][:users]
				for u := range p {
					p[u] = scale * kernel.Dot(q[low:high], n.key.Row((first+u)*m + k)[low:high])
				}
				kernel.Softmax(p)
				for u, weight := range p {
					kernel.AddScaled(out[low:high], weight, n.value.Row((first+u)*m + k)[low:high])
				}
			}
		}
		first += users
	}
	n.pooled = n.linear(n.gathered, &w.UserOut)
}

// block runs block l on the stream x and returns its output: the stream or, of the last
// block, the s* rows.
func (n *network[T]) block(l int, x kernel.Matrix[T]) kernel.Matrix[T] {
	p, w, d := &n.blocks[l], &n.w.Blocks[l], n.form.Width
	p.x = x
	p.h1, p.stats1 = n.norm(x, &w.Norm1)
	into := x
	if l < len(n.blocks)-1 {
		p.queries, p.firstSeen = model.TokensPerSlot, 1
		qkv := n.linear(p.h1, &w.QKV)
		p.q, p.k, p.v = columns(qkv, 0, d), columns(qkv, d, 2*d), columns(qkv, 2*d, 3*d)
	} else {
		p.queries, p.firstSeen = 1, 2
		into = perSlot(x, 1)
		p.q = n.arena.Matrix(into.Rows, d)
		kernel.MatMul(p.q, perSlot(p.h1, 1), columns(w.QKV.Weight, 0, d), false)
		kernel.AddBias(p.q, w.QKV.Bias.Data[:d])
		kv := n.arena.Matrix(x.Rows, 2*d)
		kernel.MatMul(kv, p.h1, columns(w.QKV.Weight, d, 3*d), false)
		kernel.AddBias(kv, w.QKV.Bias.Data[d:])
		p.k, p.v = columns(kv, 0, d), columns(kv, d, 2*d)
	}
	n.attend(p)
	p.x2 = n.added(into, p.mixed, &w.Proj)
	p.h2, p.stats2 = n.norm(p.x2, &w.Norm2)
	p.sum = n.linear(p.h2, &w.Up)
	p.gelu = n.geluOf(p.sum)
	return n.added(p.x2, p.gelu, &w.Down)
}

// eachWindow calls f with each window's rows among the queries and among the keys, and
// each head's columns.
func (n *network[T]) eachWindow(p *pass[T], f func(i, q0, q1, k0, k1, c0, c1 int)) {
	dh := n.form.Width / n.form.Heads
	slot, i := 0, 0
	for _, slots := range n.batch.windows {
		for h := range n.form.Heads {
			f(i, p.queries*slot, p.queries*(slot+slots), model.TokensPerSlot*slot, model.TokensPerSlot*(slot+slots), h*dh, (h+1)*dh)
			i++
		}
		slot += slots
	}
}

// seen is how many keys of its window query i sees.
func (p *pass[T]) seen(i int) int { return model.TokensPerSlot/p.queries*i + p.firstSeen }

// attend is causal attention within each window.
func (n *network[T]) attend(p *pass[T]) {
	scale := T(1 / math.Sqrt(float64(n.form.Width/n.form.Heads)))
	p.mixed = n.arena.Matrix(p.q.Rows, n.form.Width)
	p.attention = p.attention[:0]
	n.eachWindow(p, func(_, q0, q1, k0, k1, c0, c1 int) {
		a := n.arena.Matrix(q1-q0, k1-k0)
		kernel.MatMulTransB(a, p.q.Slice(q0, q1, c0, c1), p.k.Slice(k0, k1, c0, c1), false)
		kernel.Scale(a.Data, scale)
		for i := range a.Rows {
			row, seen := a.Row(i), p.seen(i)
			clear(row[seen:])
			kernel.Softmax(row[:seen])
		}
		kernel.MatMul(p.mixed.Slice(q0, q1, c0, c1), a, p.v.Slice(k0, k1, c0, c1), false)
		p.attention = append(p.attention, a)
	})
}

// userHead is a head on [e; z], eq. (bypass1) and (bypass2).
func (n *network[T]) userHead(h *paperform.UserHead[kernel.Matrix[T]]) (sum, gelu, out kernel.Matrix[T]) {
	context := n.arena.Matrix(n.e.Rows, h.Context.Cols)
	kernel.MatMul(context, n.e, h.Context, false)
	kernel.AddBias(context, h.User.Bias.Data)
	sum = n.arena.Matrix(n.users.Rows, context.Cols)
	user := 0
	for s, users := range n.batch.userCounts {
		for range users {
			copy(sum.Row(user), context.Row(s))
			user++
		}
	}
	kernel.MatMul(sum, n.nearest, h.User.Weight, true)
	gelu = n.geluOf(sum)
	return sum, gelu, n.linear(gelu, &h.Out)
}
