package nn

import (
	"math"

	"prefdt/inference/kernel"
	"prefdt/inference/model"
)

// MatMul returns x·w.
func (t *Tape[T]) MatMul(x *Var[T], w *Param[T]) *Var[T] {
	value := t.matrix(x.Value.Rows, w.Value.Cols)
	kernel.MatMul(value, x.Value, w.Value, false)
	return t.record(value, func(dy kernel.Matrix[T]) {
		kernel.MatMulTransA(w.Grad, x.Value, dy, true)
		if !x.constant {
			dx, accumulate := t.gradOf(x)
			kernel.MatMulTransB(dx, dy, w.Value, accumulate)
		}
	})
}

// Linear returns x·Weight + Bias. The bias is added in the product's memory, which nothing else reads.
func (t *Tape[T]) Linear(x *Var[T], l *model.Linear[Param[T]]) *Var[T] {
	product := t.MatMul(x, &l.Weight)
	kernel.AddBias(product.Value, l.Bias.Value.Data)
	return t.record(product.Value, func(dy kernel.Matrix[T]) {
		kernel.AddBiasBackward(l.Bias.Grad.Data, dy)
		t.addGrad(product, dy)
	})
}

// AddLinear returns x + (y·Weight + Bias), the residual of a block.
func (t *Tape[T]) AddLinear(x, y *Var[T], l *model.Linear[Param[T]]) *Var[T] {
	return t.Add(x, t.Linear(y, l))
}

// Add returns a + b.
func (t *Tape[T]) Add(a, b *Var[T]) *Var[T] {
	value := t.clone(a.Value)
	kernel.Add(value.Data, b.Value.Data)
	return t.record(value, func(dy kernel.Matrix[T]) {
		t.addGrad(b, t.clone(dy))
		t.addGrad(a, dy)
	})
}

// AddRows returns x with row index[i] of y added to row i.
func (t *Tape[T]) AddRows(x, y *Var[T], index []int) *Var[T] { return t.Add(x, t.rows(y, index)) }

// MeanRows returns rows of means: row j over those rows i of x with index[i] = j.
func (t *Tape[T]) MeanRows(x *Var[T], index []int, rows int) *Var[T] {
	value := t.zeros(rows, x.Value.Cols)
	share := make([]T, rows)
	for _, j := range index {
		share[j]++
	}
	for j, n := range share {
		share[j] = 1 / n
	}
	for i, j := range index {
		kernel.AddScaled(value.Row(j), share[j], x.Value.Row(i))
	}
	return t.record(value, func(dy kernel.Matrix[T]) {
		dx := t.zeros(x.Value.Rows, x.Value.Cols)
		for i, j := range index {
			kernel.AddScaled(dx.Row(i), share[j], dy.Row(j))
		}
		t.addGrad(x, dx)
	})
}

// Lookup returns row index[i] of a parameter as row i.
func (t *Tape[T]) Lookup(w *Param[T], index []int) *Var[T] {
	return t.rows(&Var[T]{Value: w.Value, Grad: w.Grad, hasGrad: true}, index)
}

// rows returns row index[i] of x as row i.
func (t *Tape[T]) rows(x *Var[T], index []int) *Var[T] {
	value := t.matrix(len(index), x.Value.Cols)
	for i, j := range index {
		copy(value.Row(i), x.Value.Row(j))
	}
	return t.record(value, func(dy kernel.Matrix[T]) {
		dx, accumulate := t.gradOf(x)
		if !accumulate {
			clear(dx.Data)
		}
		for i, j := range index {
			kernel.Add(dx.Row(j), dy.Row(i))
		}
	})
}

// Reshape returns the numbers of x in another shape.
func (t *Tape[T]) Reshape(x *Var[T], rows, cols int) *Var[T] {
	y := t.record(kernel.View(x.Value.Data, rows, cols), func(dy kernel.Matrix[T]) {
		t.addGrad(x, kernel.View(dy.Data, x.Value.Rows, x.Value.Cols))
	})
	y.constant = x.constant
	return y
}

// Interleave returns a stream of tokens: the first row of each x, the second of
// each, and so on.
func (t *Tape[T]) Interleave(xs ...*Var[T]) *Var[T] {
	n := len(xs)
	value := t.matrix(n*xs[0].Value.Rows, xs[0].Value.Cols)
	for i := range value.Rows {
		copy(value.Row(i), xs[i%n].Value.Row(i/n))
	}
	return t.record(value, func(dy kernel.Matrix[T]) {
		for k, x := range xs {
			dx := t.matrix(x.Value.Rows, x.Value.Cols)
			for i := range dx.Rows {
				copy(dx.Row(i), dy.Row(n*i+k))
			}
			t.addGrad(x, dx)
		}
	})
}

// Gelu returns gelu(x), element by element.
func (t *Tape[T]) Gelu(x *Var[T]) *Var[T] {
	value := t.matrix(x.Value.Rows, x.Value.Cols)
	kernel.Gelu(value.Data, x.Value.Data)
	return t.record(value, func(dy kernel.Matrix[T]) {
		kernel.GeluBackward(dy.Data, dy.Data, x.Value.Data)
		t.addGrad(x, dy)
	})
}

// Tanh returns tanh(x), element by element.
func (t *Tape[T]) Tanh(x *Var[T]) *Var[T] {
	value := t.matrix(x.Value.Rows, x.Value.Cols)
	for i, v := range x.Value.Data {
		value.Data[i] = T(math.Tanh(float64(v)))
	}
	return t.record(value, func(dy kernel.Matrix[T]) {
		for i, y := range value.Data {
			dy.Data[i] *= 1 - y*y
		}
		t.addGrad(x, dy)
	})
}

// LayerNorm returns the layer norm of each row.
func (t *Tape[T]) LayerNorm(x *Var[T], n *model.Norm[Param[T]]) *Var[T] {
	value := t.matrix(x.Value.Rows, x.Value.Cols)
	mean, rstd := t.arena.take(x.Value.Rows), t.arena.take(x.Value.Rows)
	gain := n.Gain.Value.Data
	kernel.LayerNorm(value, x.Value, gain, n.Bias.Value.Data, model.NormEpsilon, mean, rstd)
	return t.record(value, func(dy kernel.Matrix[T]) {
		dx, accumulate := t.gradOf(x)
		kernel.LayerNormBackward(dx, dy, x.Value, gain, mean, rstd, n.Gain.Grad.Data, n.Bias.Grad.Data, accumulate)
	})
}

// MLP is two linear layers with a gelu between them.
func (t *Tape[T]) MLP(x *Var[T], up, down *model.Linear[Param[T]]) *Var[T] {
	return t.Linear(t.Gelu(t.Linear(x, up)), down)
}

// columns returns columns low to high-1 of a layer, in the same memory.
func columns[T kernel.Float](l *model.Linear[Param[T]], low, high int) *model.Linear[Param[T]] {
	cut := func(m kernel.Matrix[T]) kernel.Matrix[T] {
		if len(m.Data) == 0 { // no gradient
			return m
		}
		return m.Slice(0, m.Rows, low, high)
	}
	of := func(p *Param[T]) Param[T] { return Param[T]{cut(p.Value), cut(p.Grad)} }
	return &model.Linear[Param[T]]{Weight: of(&l.Weight), Bias: of(&l.Bias)}
}

// Transformer takes a stream of tokens (L, d), in windows of so many slots each, through
// pre-norm blocks, and returns the outputs at the token numbered read of each slot, (L/3, d).
// The last block computes its queries, and all that follows them, for these tokens alone.
func (t *Tape[T]) Transformer(a model.Arch, blocks []model.Block[Param[T]], x *Var[T], windows []int, read int) *Var[T] {
	tokens := make([]int, x.Value.Rows/model.TokensPerSlot) // that are read
	for s := range tokens {
		tokens[s] = model.TokensPerSlot*s + read
	}
	for l := range blocks {
		b := &blocks[l]
		x = t.beginBlock(x)
		all := t.LayerNorm(x, &b.Norm1)
		queried, token := all, 0
		if l == len(blocks)-1 {
			x, queried, token = t.rows(x, tokens), t.rows(all, tokens), read
		}
		query, keyValue := t.Linear(queried, columns(&b.QKV, 0, a.Width)), t.Linear(all, columns(&b.QKV, a.Width, 3*a.Width))
		x = t.AddLinear(x, t.windowAttention(query, keyValue, a, windows, token), &b.Proj)
		x = t.AddLinear(x, t.Gelu(t.Linear(t.LayerNorm(x, &b.Norm2), &b.Up)), &b.Down)
	}
	return t.endBlocks(x)
}

// beginBlock returns x as the input of a block of operations that read nothing else with a
// gradient. When their backward passes are done, the memory in which they worked is taken
// back while it is still in the cache.
func (t *Tape[T]) beginBlock(x *Var[T]) *Var[T] {
	dx := t.matrix(x.Value.Rows, x.Value.Cols)
	return t.record(x.Value, func(dy kernel.Matrix[T]) {
		copy(dx.Data, dy.Data)
		t.arena.release(t.mark)
		t.addGrad(x, dx)
	})
}

// endBlocks returns x as the output of the last block.
func (t *Tape[T]) endBlocks(x *Var[T]) *Var[T] {
	return t.record(x.Value, func(dy kernel.Matrix[T]) {
		t.mark = t.arena
		t.addGrad(x, dy)
	})
}
