package train

import "prefdt/inference/kernel"

// Arena lends the memory of one pass, which the next uses again. A copy of it is a mark, to
// which Release goes back.
type Arena[T kernel.Float] struct {
	chunks      [][]T
	chunk, used int
}

const arenaChunk = 1 << 20

// Reset takes all of it back.
func (a *Arena[T]) Reset() { a.chunk, a.used = 0, 0 }

// Release takes back what was lent since a mark.
func (a *Arena[T]) Release(mark Arena[T]) { a.chunk, a.used = mark.chunk, mark.used }

// Take lends undefined numbers.
func (a *Arena[T]) Take(n int) []T {
	for a.chunk < len(a.chunks) && a.used+n > len(a.chunks[a.chunk]) {
		a.chunk, a.used = a.chunk+1, 0
	}
	if a.chunk == len(a.chunks) {
		a.chunks = append(a.chunks, make([]T, max(n, arenaChunk)))
		a.used = 0
	}
	s := a.chunks[a.chunk][a.used : a.used+n : a.used+n]
	a.used += (n + 15) &^ 15 // whole cache lines
	a.used = min(a.used, len(a.chunks[a.chunk]))
	return s
}

// Matrix lends a matrix of undefined numbers.
func (a *Arena[T]) Matrix(rows, cols int) kernel.Matrix[T] {
	return kernel.View(a.Take(rows*cols), rows, cols)
}
