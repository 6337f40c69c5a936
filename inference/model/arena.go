package model

import "prefdt/inference/kernel"

// arena lends the matrices of one step. What does not fit is allocated, and
// the next reset makes room for as much.
type arena struct {
	buffer []float32
	used   int
}

func (w *arena) reset() {
	if w.used > len(w.buffer) {
		w.buffer = make([]float32, w.used+w.used/4)
	}
	w.used = 0
}

// alloc lends a matrix of undefined numbers.
func (w *arena) alloc(rows, cols int) matrix {
	n := rows * cols
	first := w.used
	w.used += (n + 15) &^ 15 // whole cache lines
	if w.used > len(w.buffer) {
		return kernel.View(make([]float32, n), rows, cols)
	}
	return kernel.View(w.buffer[first:first+n:first+n], rows, cols)
}

// linear lends x·w + b.
func (w *arena) linear(l *linear, x matrix) matrix {
	_, cols := l.w.Size()
	y := w.alloc(x.Rows, cols)
	l.w.MatMul(y, x, l.b)
	return y
}

// linearInto sets dst to the row x·w + b.
func (w *arena) linearInto(dst matrix, l *linear, x []float32) {
	l.w.MatMul(dst, kernel.View(x, 1, len(x)), l.b)
}

// gelu applies GELU in place.
func (w *arena) gelu(x matrix) matrix {
	kernel.Gelu(x.Data, x.Data)
	return x
}

// norm lends the layer norm of x.
func (w *arena) norm(n *norm, x matrix) matrix {
	y, mean, rstd := w.alloc(x.Rows, x.Cols), w.alloc(1, x.Rows), w.alloc(1, x.Rows)
	kernel.LayerNorm(y, x, n.gain, n.bias, NormEpsilon, mean.Data, rstd.Data)
	return y
}
