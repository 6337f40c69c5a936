package train

import (
	"math"

	"prefdt/inference/kernel"
	"prefdt/inference/model"
)

// chunkSlots is how many slots of queries share one block of keys; a block of
// scores is then (3 chunk, 3 (chunk + context - 1)).
const chunkSlots = 20

// attentionBlock is a chunk of queries of one head, tokens q0 to q1-1. Their keys
// are the tokens k0 to q1-1.
type attentionBlock struct{ head, q0, q1, k0 int }

func attentionBlocks(a model.Arch, slots int) (blocks []attentionBlock) {
	for h := range a.Heads {
		for c := 0; c < slots; c += chunkSlots {
			blocks = append(blocks, attentionBlock{h, model.TokensPerSlot * c, model.TokensPerSlot * min(c+chunkSlots, slots), model.TokensPerSlot * max(c-a.Context+1, 0)})
		}
	}
	return blocks
}

// visible returns the columns of the block that its i-th query attends to.
func (b *attentionBlock) visible(a model.Arch, i int) (low, high int) {
	token := b.q0 + i
	return model.TokensPerSlot*max(token/model.TokensPerSlot-a.Context+1, 0) - b.k0, token - b.k0 + 1
}

// WindowAttention is the sliding-window causal attention of a stream: a token
// attends to itself and to every earlier one of the last Context slots. qkv is
// (L, 3d): query, key and value of each token, head by head.
func (t *Tape[T]) WindowAttention(qkv *Var[T], a model.Arch) *Var[T] {
	d, dh := a.Width, a.Width/a.Heads
	scale := T(1 / math.Sqrt(float64(dh)))
	blocks := attentionBlocks(a, qkv.Value.Rows/model.TokensPerSlot)
	queries := func(m kernel.Matrix[T], b *attentionBlock) kernel.Matrix[T] {
		return m.Slice(b.q0, b.q1, b.head*dh, (b.head+1)*dh)
	}
	keys := func(m kernel.Matrix[T], b *attentionBlock) kernel.Matrix[T] {
		return m.Slice(b.k0, b.q1, d+b.head*dh, d+(b.head+1)*dh)
	}
	values := func(m kernel.Matrix[T], b *attentionBlock) kernel.Matrix[T] {
		return m.Slice(b.k0, b.q1, 2*d+b.head*dh, 2*d+(b.head+1)*dh)
	}
	y := t.matrix(qkv.Value.Rows, d)
	weights := make([]kernel.Matrix[T], len(blocks))
	for i := range blocks {
		b := &blocks[i]
		p := t.matrix(b.q1-b.q0, b.q1-b.k0)
		kernel.MatMulTransB(p, queries(qkv.Value, b), keys(qkv.Value, b), false)
		for r := range p.Rows {
			row := p.Row(r)
			low, high := b.visible(a, r)
			kernel.Scale(row[low:high], scale)
			clear(row[:low])
			clear(row[high:])
			kernel.Softmax(row[low:high])
		}
		kernel.MatMul(queries(y, b), p, values(qkv.Value, b), false)
		weights[i] = p
	}
	return t.record(y, func(dy kernel.Matrix[T]) {
		dqkv := t.zeros(qkv.Value.Rows, qkv.Value.Cols)
		for i := range blocks {
			b, p := &blocks[i], weights[i]
			kernel.MatMulTransA(values(dqkv, b), p, queries(dy, b), true)
			dp := t.matrix(p.Rows, p.Cols)
			kernel.MatMulTransB(dp, queries(dy, b), values(qkv.Value, b), false)
			for r := range p.Rows {
				row := dp.Row(r)
				low, high := b.visible(a, r)
				kernel.SoftmaxBackward(row[low:high], row[low:high], p.Row(r)[low:high])
				kernel.Scale(row[low:high], scale)
				clear(row[:low])
				clear(row[high:])
			}
			kernel.MatMul(queries(dqkv, b), dp, keys(qkv.Value, b), true)
			kernel.MatMulTransA(keys(dqkv, b), dp, queries(qkv.Value, b), true)
		}
		t.addGrad(qkv, dqkv)
	})
}

// AttentionGroup is one set of a set attention: a query row and a run of key rows.
type AttentionGroup struct{ Query, FirstKey, KeyCount int }

// SetAttention is attention of one query over an unordered set, eq. (attn): the
// users of an aircraft, or the aircraft of a fleet. It returns each query row's
// weighted sum of value rows; an empty set gives zero.
func (t *Tape[T]) SetAttention(q, k, v *Var[T], groups []AttentionGroup, heads int) *Var[T] {
	dh := q.Value.Cols / heads
	scale := T(1 / math.Sqrt(float64(dh)))
	total := 0
	for _, g := range groups {
		total += g.KeyCount * heads
	}
	weights := t.arena.Take(total) // per group and head, KeyCount values
	value := t.zeros(q.Value.Rows, q.Value.Cols)
	at := 0
	for _, g := range groups {
		for h := range heads {
			low, high := h*dh, (h+1)*dh
			w := weights[at : at+g.KeyCount]
			at += g.KeyCount
			for i := range w {
				w[i] = scale * kernel.Dot(q.Value.Row(g.Query)[low:high], k.Value.Row(g.FirstKey + i)[low:high])
			}
			kernel.Softmax(w)
			for i, p := range w {
				kernel.AddScaled(value.Row(g.Query)[low:high], p, v.Value.Row(g.FirstKey + i)[low:high])
			}
		}
	}
	return t.record(value, func(dy kernel.Matrix[T]) {
		dq, dk, dv := t.zeros(q.Value.Rows, q.Value.Cols), t.zeros(k.Value.Rows, k.Value.Cols), t.zeros(v.Value.Rows, v.Value.Cols)
		at := 0
		for _, g := range groups {
			dw := t.arena.Take(g.KeyCount)
			for h := range heads {
				low, high := h*dh, (h+1)*dh
				w := weights[at : at+g.KeyCount]
				at += g.KeyCount
				out := dy.Row(g.Query)[low:high]
				for i := range w {
					dw[i] = kernel.Dot(out, v.Value.Row(g.FirstKey + i)[low:high])
					kernel.AddScaled(dv.Row(g.FirstKey + i)[low:high], w[i], out)
				}
				kernel.SoftmaxBackward(dw, dw, w)
				for i := range w {
					kernel.AddScaled(dq.Row(g.Query)[low:high], scale*dw[i], k.Value.Row(g.FirstKey + i)[low:high])
					kernel.AddScaled(dk.Row(g.FirstKey + i)[low:high], scale*dw[i], q.Value.Row(g.Query)[low:high])
				}
			}
		}
		t.addGrad(q, dq)
		t.addGrad(k, dk)
		t.addGrad(v, dv)
	})
}
