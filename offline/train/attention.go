package train

import (
	"math"

	"prefdt/inference/kernel"
	"prefdt/inference/model"
)

// chunkSlots is how many slots of queries share one block of keys; a block of
// scores is then (3 chunk, 3 (chunk + context - 1)).
const chunkSlots = 20

// WindowAttention is the sliding-window causal attention of a stream: a token
// attends to itself and to every earlier one of the last Context slots. qkv is
// (L, 3d): query, key and value of each token, head by head.
func (t *Tape[T]) WindowAttention(qkv *Var[T], a model.Arch) *Var[T] {
	d, dh, slots := a.Width, a.Width/a.Heads, qkv.Value.Rows/model.TokensPerSlot
	scale := T(1 / math.Sqrt(float64(dh)))

	// visible returns which of the keys from k0 on the query of token i attends to.
	visible := func(i, k0 int) (low, high int) {
		return model.TokensPerSlot*max(i/model.TokensPerSlot-a.Context+1, 0) - k0, i - k0 + 1
	}
	// eachBlock calls f for each head, with the columns of m that hold its
	// queries, keys and values, and each chunk of queries q0..q1-1, whose keys
	// are k0..q1-1.
	eachBlock := func(m kernel.Matrix[T], f func(q, k, v kernel.Matrix[T], h, q0, q1, k0 int)) {
		for h := range a.Heads {
			for c := 0; c < slots; c += chunkSlots {
				q0, q1 := model.TokensPerSlot*c, model.TokensPerSlot*min(c+chunkSlots, slots)
				k0 := model.TokensPerSlot * max(c-a.Context+1, 0)
				f(m.Slice(q0, q1, h*dh, (h+1)*dh), m.Slice(k0, q1, d+h*dh, d+(h+1)*dh), m.Slice(k0, q1, 2*d+h*dh, 2*d+(h+1)*dh), h, q0, q1, k0)
			}
		}
	}
	value := t.matrix(qkv.Value.Rows, d)
	var weights []kernel.Matrix[T] // of each block
	eachBlock(qkv.Value, func(q, k, v kernel.Matrix[T], h, q0, q1, k0 int) {
		p := t.matrix(q1-q0, q1-k0)
		kernel.MatMulTransB(p, q, k, false)
		for i := range p.Rows {
			row := p.Row(i)
			low, high := visible(q0+i, k0)
			kernel.Scale(row[low:high], scale)
			clear(row[:low])
			clear(row[high:])
			kernel.Softmax(row[low:high])
		}
		kernel.MatMul(value.Slice(q0, q1, h*dh, (h+1)*dh), p, v, false)
		weights = append(weights, p)
	})
	return t.record(value, func(dy kernel.Matrix[T]) {
		dqkv := t.zeros(qkv.Value.Rows, qkv.Value.Cols)
		block := 0
		eachBlock(qkv.Value, func(q, k, v kernel.Matrix[T], h, q0, q1, k0 int) {
			p, dout := weights[block], dy.Slice(q0, q1, h*dh, (h+1)*dh)
			block++
			kernel.MatMulTransA(dqkv.Slice(k0, q1, 2*d+h*dh, 2*d+(h+1)*dh), p, dout, true) // dv
			dp := t.matrix(p.Rows, p.Cols)
			kernel.MatMulTransB(dp, dout, v, false)
			for i := range p.Rows {
				row := dp.Row(i)
				low, high := visible(q0+i, k0)
				kernel.SoftmaxBackward(row[low:high], row[low:high], p.Row(i)[low:high])
				kernel.Scale(row[low:high], scale)
				clear(row[:low])
				clear(row[high:])
			}
			kernel.MatMul(dqkv.Slice(q0, q1, h*dh, (h+1)*dh), dp, k, true)           // dq
			kernel.MatMulTransA(dqkv.Slice(k0, q1, d+h*dh, d+(h+1)*dh), dp, q, true) // dk
		})
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
	weights := t.arena.allocate(total) // per group and head, KeyCount values
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
			dw := t.arena.allocate(g.KeyCount)
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
