package train

import (
	"math"

	"prefdt/inference/kernel"
	"prefdt/inference/model"
)

// chunkSlots is how many slots of queries share one block of keys; a block of
// scores is then (3 chunk, 3 (chunk + context - 1)).
const chunkSlots = 20

// chunkRows returns, for the chunk of slots from c, its query rows and key rows.
func (t *Workspace[T]) chunkRows(c int) (q0, q1, k0 int) {
	last := min(c+chunkSlots, t.Slots)
	first := max(c-t.Arch.Context+1, 0)
	return model.TokensPerSlot * c, model.TokensPerSlot * last, model.TokensPerSlot * first
}

// firstKey returns the first token that token i attends to.
func (t *Workspace[T]) firstKey(i int) int {
	return model.TokensPerSlot * max(i/model.TokensPerSlot-t.Arch.Context+1, 0)
}

// attentionForward computes the sliding-window causal attention of a block.
func (t *Workspace[T]) attentionForward(b *blockTape[T]) {
	d, heads := t.Arch.Width, t.Arch.Heads
	dh := d / heads
	scale := T(1 / math.Sqrt(float64(dh)))
	b.weights = b.weights[:0]
	for h := range heads {
		for c := 0; c < t.Slots; c += chunkSlots {
			q0, q1, k0 := t.chunkRows(c)
			q := b.qkv.Slice(q0, q1, h*dh, (h+1)*dh)
			k := b.qkv.Slice(k0, q1, d+h*dh, d+(h+1)*dh)
			v := b.qkv.Slice(k0, q1, 2*d+h*dh, 2*d+(h+1)*dh)
			p := t.Matrix(q1-q0, q1-k0)
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

// attentionBackward adds to dqkv the gradient of attend.
func (t *Workspace[T]) attentionBackward(b *blockTape[T], dqkv, dmixed kernel.Matrix[T]) {
	d, heads := t.Arch.Width, t.Arch.Heads
	dh := d / heads
	scale := T(1 / math.Sqrt(float64(dh)))
	block := 0
	for h := range heads {
		for c := 0; c < t.Slots; c += chunkSlots {
			q0, q1, k0 := t.chunkRows(c)
			p := b.weights[block]
			block++
			dy := dmixed.Slice(q0, q1, h*dh, (h+1)*dh)
			kernel.MatMulTransA(dqkv.Slice(k0, q1, 2*d+h*dh, 2*d+(h+1)*dh), p, dy, true) // dv
			dp := t.Matrix(p.Rows, p.Cols)
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

// AttentionGroup is one set attention: a query row and a run of key rows.
type AttentionGroup struct{ Query, FirstKey, KeyCount int }

// SetAttention is attention of one query over an unordered set, eq. (attn): the
// users of an aircraft, or the aircraft of a fleet. An empty set gives zero.
type SetAttention[T kernel.Float] struct {
	Groups  []AttentionGroup
	q, k, v kernel.Matrix[T]
	weights []T // per group and head, count values
}

// Forward returns each query row's weighted sum of value rows.
func (a *SetAttention[T]) Forward(t *Workspace[T], q, k, v kernel.Matrix[T]) kernel.Matrix[T] {
	a.q, a.k, a.v = q, k, v
	heads, dh := t.Arch.Heads, t.Arch.Width/t.Arch.Heads
	scale := T(1 / math.Sqrt(float64(dh)))
	total := 0
	for _, g := range a.Groups {
		total += g.KeyCount * heads
	}
	a.weights = t.arena.allocate(total)
	y := t.Zeros(q.Rows, q.Cols)
	at := 0
	for _, g := range a.Groups {
		for h := range heads {
			w := a.weights[at : at+g.KeyCount]
			at += g.KeyCount
			query := q.Row(g.Query)[h*dh : (h+1)*dh]
			for i := range w {
				w[i] = scale * kernel.Dot(query, k.Row(g.FirstKey + i)[h*dh:(h+1)*dh])
			}
			kernel.Softmax(w)
			out := y.Row(g.Query)[h*dh : (h+1)*dh]
			for i, p := range w {
				addScaled(out, v.Row(g.FirstKey + i)[h*dh:(h+1)*dh], p)
			}
		}
	}
	return y
}

// Backward returns the gradients of Forward.
func (a *SetAttention[T]) Backward(t *Workspace[T], dy kernel.Matrix[T]) (dq, dk, dv kernel.Matrix[T]) {
	dq = t.Zeros(a.q.Rows, a.q.Cols)
	dk = t.Zeros(a.k.Rows, a.k.Cols)
	dv = t.Zeros(a.v.Rows, a.v.Cols)
	heads, dh := t.Arch.Heads, t.Arch.Width/t.Arch.Heads
	scale := T(1 / math.Sqrt(float64(dh)))
	at := 0
	for _, g := range a.Groups {
		dw := t.arena.allocate(g.KeyCount)
		for h := range heads {
			low, high := h*dh, (h+1)*dh
			w := a.weights[at : at+g.KeyCount]
			at += g.KeyCount
			out := dy.Row(g.Query)[low:high]
			for i := range w {
				dw[i] = kernel.Dot(out, a.v.Row(g.FirstKey + i)[low:high])
				addScaled(dv.Row(g.FirstKey + i)[low:high], out, w[i])
			}
			kernel.SoftmaxBackward(dw, dw, w)
			for i := range w {
				addScaled(dq.Row(g.Query)[low:high], a.k.Row(g.FirstKey + i)[low:high], scale*dw[i])
				addScaled(dk.Row(g.FirstKey + i)[low:high], a.q.Row(g.Query)[low:high], scale*dw[i])
			}
		}
	}
	return dq, dk, dv
}
