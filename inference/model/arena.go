package model

import "prefdt/inference/kernel"

// arena lends the matrices of one step. What does not fit is allocated, and
// the next reset makes room for as much.
type arena struct {
	buffer []float32
	used   int
}

func (s *arena) reset() {
	if s.used > len(s.buffer) {
		s.buffer = make([]float32, s.used+s.used/4)
	}
	s.used = 0
}

// alloc lends a matrix of undefined numbers.
func (s *arena) alloc(rows, cols int) matrix {
	n := rows * cols
	first := s.used
	s.used += (n + 15) &^ 15 // whole cache lines
	if s.used > len(s.buffer) {
		return kernel.View(make([]float32, n), rows, cols)
	}
	return kernel.View(s.buffer[first:first+n:first+n], rows, cols)
}

func (s *arena) matMul(w *stored, x matrix) matrix { return s.linear(&Linear[stored]{Weight: *w}, x) }

func (s *arena) linear(l *Linear[stored], x matrix) matrix {
	_, cols := l.Weight.matrix.Size()
	y := s.alloc(x.Rows, cols)
	l.Weight.matrix.MatMul(y, x, l.Bias.vector)
	return y
}

func row(x []float32) matrix { return kernel.View(x, 1, len(x)) }

// gelu applies GELU in place.
func (s *arena) gelu(x matrix) matrix {
	kernel.Gelu(x.Data, x.Data)
	return x
}

func (s *arena) norm(n *Norm[stored], x matrix) matrix {
	y, mean, rstd := s.alloc(x.Rows, x.Cols), s.alloc(1, x.Rows), s.alloc(1, x.Rows)
	kernel.LayerNorm(y, x, n.Gain.vector, n.Bias.vector, NormEpsilon, mean.Data, rstd.Data)
	return y
}
