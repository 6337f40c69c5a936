package train

import (
	"prefdt/inference/kernel"
	"prefdt/inference/model"
)

// Workspace is what a tape is made of: memory for the activations of one stream of
// tokens, the layers that networks share, and the transformer. The study's
// paper form builds its own network of them.
type Workspace[T kernel.Float] struct {
	Arch  model.Arch // of the transformer and its attentions
	Slots int        // of the stream, model.TokensPerSlot tokens each

	blocks []blockTape[T]
	arena  arena[T]
}

// Reset takes all memory back for another stream.
func (t *Workspace[T]) Reset(a model.Arch, slots int) {
	t.Arch, t.Slots = a, slots
	t.arena.reset()
}

// Matrix lends a matrix of undefined numbers, until the next Start.
func (t *Workspace[T]) Matrix(rows, cols int) kernel.Matrix[T] {
	return kernel.View(t.arena.allocate(rows*cols), rows, cols)
}

// Zeros lends a matrix to add to.
func (t *Workspace[T]) Zeros(rows, cols int) kernel.Matrix[T] {
	m := t.Matrix(rows, cols)
	clear(m.Data)
	return m
}

// Input copies rows of features into a matrix.
func (t *Workspace[T]) Input(src []float32, rows, cols int) kernel.Matrix[T] {
	m := t.Matrix(rows, cols)
	for i, x := range src {
		m.Data[i] = T(x)
	}
	return m
}

// Linear returns x·w + b.
func (t *Workspace[T]) Linear(x, w kernel.Matrix[T], b []T) kernel.Matrix[T] {
	y := t.Matrix(x.Rows, w.Cols)
	kernel.MatMul(y, x, w, false)
	if b != nil {
		kernel.AddBias(y, b)
	}
	return y
}

// Gelu returns gelu(x), element by element.
func (t *Workspace[T]) Gelu(x kernel.Matrix[T]) kernel.Matrix[T] {
	y := t.Matrix(x.Rows, x.Cols)
	kernel.Gelu(y.Data, x.Data)
	return y
}

// LayerNorm returns the layer norm of each row, and what Backward needs of it.
func (t *Workspace[T]) LayerNorm(x kernel.Matrix[T], gain, bias []T) (y kernel.Matrix[T], mean, rstd []T) {
	y = t.Matrix(x.Rows, x.Cols)
	mean, rstd = t.arena.allocate(x.Rows), t.arena.allocate(x.Rows)
	kernel.LayerNorm(y, x, gain, bias, model.NormEpsilon, mean, rstd)
	return y, mean, rstd
}

// Sum returns a + b.
func (t *Workspace[T]) Sum(a, b kernel.Matrix[T]) kernel.Matrix[T] {
	y := t.Matrix(a.Rows, a.Cols)
	copy(y.Data, a.Data)
	kernel.Add(y.Data, b.Data)
	return y
}

// LinearBackward adds the gradients of y = x·w + b: to dw and db, and to dx
// unless it is empty.
func LinearBackward[T kernel.Float](dx, dw kernel.Matrix[T], db []T, dy, x, w kernel.Matrix[T]) {
	if dy.Rows == 0 {
		return
	}
	kernel.MatMulTransA(dw, x, dy, true)
	if db != nil {
		kernel.AddBiasBackward(db, dy)
	}
	if dx.Rows > 0 {
		kernel.MatMulTransB(dx, dy, w, true)
	}
}

// LinearInputGradient returns the gradient by x of y = x·w + b, and adds those by w and b.
func (t *Workspace[T]) LinearInputGradient(dw kernel.Matrix[T], db []T, dy, x, w kernel.Matrix[T]) kernel.Matrix[T] {
	LinearBackward(kernel.Matrix[T]{}, dw, db, dy, x, w)
	dx := t.Matrix(x.Rows, x.Cols)
	kernel.MatMulTransB(dx, dy, w, false)
	return dx
}

// ZerosLike lends zeros to add gradients to.
func (t *Workspace[T]) ZerosLike(x kernel.Matrix[T]) kernel.Matrix[T] { return t.Zeros(x.Rows, x.Cols) }

// arena hands out memory that is taken back all at once.
type arena[T kernel.Float] struct {
	chunks [][]T
	chunk  int
	used   int
}

const arenaChunkSize = 1 << 20

func (a *arena[T]) reset() { a.chunk, a.used = 0, 0 }

// allocate lends undefined numbers.
func (a *arena[T]) allocate(n int) []T {
	for a.chunk < len(a.chunks) && a.used+n > len(a.chunks[a.chunk]) {
		a.chunk, a.used = a.chunk+1, 0
	}
	if a.chunk == len(a.chunks) {
		a.chunks = append(a.chunks, make([]T, max(n, arenaChunkSize)))
		a.used = 0
	}
	s := a.chunks[a.chunk][a.used : a.used+n : a.used+n]
	a.used += n
	return s
}
