package train

import (
	"math"

	"prefdt/inference/kernel"
	"prefdt/inference/model"
)

// chunkSlots is how many slots of queries share one block of keys; a block of
// scores is then (3 chunk, 3 (chunk + context - 1)).
const chunkSlots = 20

// window returns, for the chunk of slots from c, its query rows and key rows.
func (t *tape[T]) window(c int) (q0, q1, k0 int) {
	last := min(c+chunkSlots, t.ep.Slots)
	first := max(c-t.arch.Context+1, 0)
	return model.TokensPerSlot * c, model.TokensPerSlot * last, model.TokensPerSlot * first
}

// firstKey returns the first token that token i attends to.
func (t *tape[T]) firstKey(i int) int {
	return model.TokensPerSlot * max(i/model.TokensPerSlot-t.arch.Context+1, 0)
}

// attend computes the sliding-window causal attention of a block.
func (t *tape[T]) attend(b *blockTape[T]) {
	d, heads := t.arch.Width, t.arch.Heads
	dh := d / heads
	scale := T(1 / math.Sqrt(float64(dh)))
	b.weights = b.weights[:0]
	for h := range heads {
		for c := 0; c < t.ep.Slots; c += chunkSlots {
			q0, q1, k0 := t.window(c)
			q := b.qkv.Slice(q0, q1, h*dh, (h+1)*dh)
			k := b.qkv.Slice(k0, q1, d+h*dh, d+(h+1)*dh)
			v := b.qkv.Slice(k0, q1, 2*d+h*dh, 2*d+(h+1)*dh)
			p := t.arena.matrix(q1-q0, q1-k0)
			kernel.MatMulTransB(p, q, k, false)
			for i := range p.Rows {
				row := p.Row(i)
				low, high := t.firstKey(q0+i)-k0, q0+i-k0+1
				kernel.Scale(row[low:high], scale)
				clear(row[:low])
				clear(row[high:])
				kernel.Softmax(row[low:high])
			}
			kernel.MatMul(b.mixed.Slice(q0, q1, h*dh, (h+1)*dh), p, v, false)
			b.weights = append(b.weights, p)
		}
	}
}

// attendBackward adds to dqkv the gradient of attend.
func (t *tape[T]) attendBackward(b *blockTape[T], dqkv, dmixed kernel.Matrix[T]) {
	d, heads := t.arch.Width, t.arch.Heads
	dh := d / heads
	scale := T(1 / math.Sqrt(float64(dh)))
	block := 0
	for h := range heads {
		for c := 0; c < t.ep.Slots; c += chunkSlots {
			q0, q1, k0 := t.window(c)
			p := b.weights[block]
			block++
			dy := dmixed.Slice(q0, q1, h*dh, (h+1)*dh)
			kernel.MatMulTransA(dqkv.Slice(k0, q1, 2*d+h*dh, 2*d+(h+1)*dh), p, dy, true) // dv
			dp := t.arena.matrix(p.Rows, p.Cols)
			kernel.MatMulTransB(dp, dy, b.qkv.Slice(k0, q1, 2*d+h*dh, 2*d+(h+1)*dh), false)
			for i := range p.Rows {
				low, high := t.firstKey(q0+i)-k0, q0+i-k0+1
				row := dp.Row(i)
				kernel.SoftmaxBackward(row[low:high], row[low:high], p.Row(i)[low:high])
				kernel.Scale(row[low:high], scale)
				clear(row[:low])
				clear(row[high:])
			}
			kernel.MatMul(dqkv.Slice(q0, q1, h*dh, (h+1)*dh), dp, b.qkv.Slice(k0, q1, d+h*dh, d+(h+1)*dh), true)       // dq
			kernel.MatMulTransA(dqkv.Slice(k0, q1, d+h*dh, d+(h+1)*dh), dp, b.qkv.Slice(q0, q1, h*dh, (h+1)*dh), true) // dk
		}
	}
}

// group is one set attention: a query row and a run of key rows.
type group struct{ query, first, count int }

// attendSet is attention of one query over an unordered set, eq. (attn): the
// users of an aircraft, or the aircraft of a fleet. An empty set gives zero.
type attendSet[T kernel.Float] struct {
	groups  []group
	q, k, v kernel.Matrix[T]
	weights []T // per group and head, count values
}

func (a *attendSet[T]) forward(t *tape[T], q, k, v kernel.Matrix[T]) kernel.Matrix[T] {
	a.q, a.k, a.v = q, k, v
	heads, dh := t.arch.Heads, t.arch.Width/t.arch.Heads
	scale := T(1 / math.Sqrt(float64(dh)))
	total := 0
	for _, g := range a.groups {
		total += g.count * heads
	}
	a.weights = t.arena.take(total)
	y := t.arena.zeros(q.Rows, q.Cols)
	at := 0
	for _, g := range a.groups {
		for h := range heads {
			w := a.weights[at : at+g.count]
			at += g.count
			query := q.Row(g.query)[h*dh : (h+1)*dh]
			for i := range w {
				w[i] = scale * kernel.Dot(query, k.Row(g.first + i)[h*dh:(h+1)*dh])
			}
			kernel.Softmax(w)
			out := y.Row(g.query)[h*dh : (h+1)*dh]
			for i, p := range w {
				addScaled(out, v.Row(g.first + i)[h*dh:(h+1)*dh], p)
			}
		}
	}
	return y
}

func (a *attendSet[T]) backward(t *tape[T], dy kernel.Matrix[T]) (dq, dk, dv kernel.Matrix[T]) {
	dq = t.arena.zeros(a.q.Rows, a.q.Cols)
	dk = t.arena.zeros(a.k.Rows, a.k.Cols)
	dv = t.arena.zeros(a.v.Rows, a.v.Cols)
	heads, dh := t.arch.Heads, t.arch.Width/t.arch.Heads
	scale := T(1 / math.Sqrt(float64(dh)))
	at := 0
	for _, g := range a.groups {
		dw := t.arena.take(g.count)
		for h := range heads {
			low, high := h*dh, (h+1)*dh
			w := a.weights[at : at+g.count]
			at += g.count
			out := dy.Row(g.query)[low:high]
			for i := range w {
				dw[i] = kernel.Dot(out, a.v.Row(g.first + i)[low:high])
				addScaled(dv.Row(g.first + i)[low:high], out, w[i])
			}
			kernel.SoftmaxBackward(dw, dw, w)
			for i := range w {
				addScaled(dq.Row(g.query)[low:high], a.k.Row(g.first + i)[low:high], scale*dw[i])
				addScaled(dk.Row(g.first + i)[low:high], a.q.Row(g.query)[low:high], scale*dw[i])
			}
		}
	}
	return dq, dk, dv
}
