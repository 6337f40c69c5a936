package nn

import (
	"fmt"
	"math"

	"prefdt/inference/kernel"
	"prefdt/inference/model"
)

// chunkSlots is how many slots of queries share one block of keys; a block of
// scores is then (3 chunk, 3 (chunk + context - 1)).
const chunkSlots = 20

// attentionBlock is a chunk of queries of one head, those of slots s0 to s1-1. Their
// keys are the tokens of slots k0 to s1-1.
type attentionBlock struct{ head, s0, s1, k0 int }

// attentionBlocks returns the blocks of a stream of windows, of so many slots each.
func attentionBlocks(a model.Arch, windows []int) (blocks []attentionBlock) {
	for h := range a.Heads {
		first := 0
		for _, slots := range windows {
			end := first + slots
			for s := first; s < end; s += chunkSlots {
				blocks = append(blocks, attentionBlock{h, s, min(s+chunkSlots, end), max(s-a.Context+1, first)})
			}
			first = end
		}
	}
	return blocks
}

// windowAttention is the sliding-window causal attention of a stream of windows, each of
// so many slots: a token attends to itself and to every earlier one of its window's last
// Context slots. Queries are of all tokens, (L, d), or of the token of that number of each
// slot, (L/3, d); keys and values side by side, (L, 2d); all of them head by head.
func (t *Tape[T]) windowAttention(query, keyValue *Var[T], a model.Arch, windows []int, token int) *Var[T] {
	d, dh := a.Width, a.Width/a.Heads
	scale := T(1 / math.Sqrt(float64(dh)))
	slots := keyValue.Value.Rows / model.TokensPerSlot
	perSlot := query.Value.Rows / max(slots, 1)
	blocks := attentionBlocks(a, windows)
	if last := len(blocks) - 1; last >= 0 && blocks[last].s1 != slots {
		panic(fmt.Sprintf("nn: windows of %v slots in a stream of %d", windows, slots))
	}
	queries := func(m kernel.Matrix[T], b *attentionBlock) kernel.Matrix[T] {
		return m.Slice(perSlot*b.s0, perSlot*b.s1, b.head*dh, (b.head+1)*dh)
	}
	keys := func(m kernel.Matrix[T], b *attentionBlock) kernel.Matrix[T] {
		return m.Slice(model.TokensPerSlot*b.k0, model.TokensPerSlot*b.s1, b.head*dh, (b.head+1)*dh)
	}
	values := func(m kernel.Matrix[T], b *attentionBlock) kernel.Matrix[T] {
		return m.Slice(model.TokensPerSlot*b.k0, model.TokensPerSlot*b.s1, d+b.head*dh, d+(b.head+1)*dh)
	}
	visible := func(b *attentionBlock, row int) (low, high int) { // columns that a query attends to
		slot := b.s0 + row/perSlot - b.k0
		return model.TokensPerSlot * max(slot-a.Context+1, 0), model.TokensPerSlot*slot + token + row%perSlot + 1
	}
	y := t.matrix(query.Value.Rows, d)
	weights := make([]kernel.Matrix[T], len(blocks))
	for i := range blocks {
		b := &blocks[i]
		p := t.matrix(perSlot*(b.s1-b.s0), model.TokensPerSlot*(b.s1-b.k0))
		kernel.MatMulTransB(p, queries(query.Value, b), keys(keyValue.Value, b), false)
		for r := range p.Rows {
			row := p.Row(r)
			low, high := visible(b, r)
			kernel.Scale(row[low:high], scale)
			clear(row[:low])
			clear(row[high:])
			kernel.Softmax(row[low:high])
		}
		kernel.MatMul(queries(y, b), p, values(keyValue.Value, b), false)
		weights[i] = p
	}
	return t.record(y, func(dy kernel.Matrix[T]) {
		dquery, dkeyValue := t.zeros(query.Value.Rows, d), t.zeros(keyValue.Value.Rows, 2*d)
		for i := range blocks {
			b, p := &blocks[i], weights[i]
			kernel.MatMulTransA(values(dkeyValue, b), p, queries(dy, b), true)
			dp := t.matrix(p.Rows, p.Cols)
			kernel.MatMulTransB(dp, queries(dy, b), values(keyValue.Value, b), false)
			for r := range p.Rows {
				row := dp.Row(r)
				low, high := visible(b, r)
				kernel.SoftmaxBackward(row[low:high], row[low:high], p.Row(r)[low:high])
				kernel.Scale(row[low:high], scale)
				clear(row[:low])
				clear(row[high:])
			}
			kernel.MatMul(queries(dquery, b), dp, keys(keyValue.Value, b), true)
			kernel.MatMulTransA(keys(dkeyValue, b), dp, queries(query.Value, b), true)
		}
		t.addGrad(query, dquery)
		t.addGrad(keyValue, dkeyValue)
	})
}

// AttentionGroup is one set of a set attention: a query row and, Stride apart, its key rows.
type AttentionGroup struct{ Query, FirstKey, KeyCount, Stride int }

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
	weights := t.arena.take(total) // per group and head, KeyCount values
	value := t.zeros(q.Value.Rows, q.Value.Cols)
	at := 0
	for _, g := range groups {
		for h := range heads {
			low, high := h*dh, (h+1)*dh
			w := weights[at : at+g.KeyCount]
			at += g.KeyCount
			for i := range w {
				w[i] = scale * kernel.Dot(q.Value.Row(g.Query)[low:high], k.Value.Row(g.FirstKey + i*g.Stride)[low:high])
			}
			kernel.Softmax(w)
			for i, p := range w {
				kernel.AddScaled(value.Row(g.Query)[low:high], p, v.Value.Row(g.FirstKey + i*g.Stride)[low:high])
			}
		}
	}
	return t.record(value, func(dy kernel.Matrix[T]) {
		dq, dk, dv := t.zeros(q.Value.Rows, q.Value.Cols), t.zeros(k.Value.Rows, k.Value.Cols), t.zeros(v.Value.Rows, v.Value.Cols)
		at := 0
		for _, g := range groups {
			dw := t.arena.take(g.KeyCount)
			for h := range heads {
				low, high := h*dh, (h+1)*dh
				w := weights[at : at+g.KeyCount]
				at += g.KeyCount
				out := dy.Row(g.Query)[low:high]
				for i := range w {
					dw[i] = kernel.Dot(out, v.Value.Row(g.FirstKey + i*g.Stride)[low:high])
					kernel.AddScaled(dv.Row(g.FirstKey + i*g.Stride)[low:high], w[i], out)
				}
				kernel.SoftmaxBackward(dw, dw, w)
				for i := range w {
					kernel.AddScaled(dq.Row(g.Query)[low:high], scale*dw[i], k.Value.Row(g.FirstKey + i*g.Stride)[low:high])
					kernel.AddScaled(dk.Row(g.FirstKey + i*g.Stride)[low:high], scale*dw[i], q.Value.Row(g.Query)[low:high])
				}
			}
		}
		t.addGrad(q, dq)
		t.addGrad(k, dk)
		t.addGrad(v, dv)
	})
}
