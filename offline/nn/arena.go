package nn

import "prefdt/inference/kernel"

// arena lends the memory of one pass, which the next uses again. A copy of it is a mark, to
// which release goes back.
type arena[T kernel.Float] struct {
	chunks      [][]T
	chunk, used int
}

const arenaChunk = 1 << 20

// release takes back what was lent since a mark; the zero mark is before all.
func (a *arena[T]) release(mark arena[T]) { a.chunk, a.used = mark.chunk, mark.used }

// take lends undefined numbers.
func (a *arena[T]) take(n int) []T {
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
