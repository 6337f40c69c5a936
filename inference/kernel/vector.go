package kernel

import "unsafe"

// The row operations compute whole vectors in assembly, and the rest of a row with
// the naive reference.

// vectorPart returns how many of n numbers the assembly computes: those in whole
// vectors of 8, or none where T or the processor has no kernel.
func vectorPart[T Float](n int) int {
	if !vectorised || !isTuned[T]() {
		return 0
	}
	return n &^ 7
}

// first is the address of a row's first number, for assembly.
func first[T Float](row []T) *float32 { return (*float32)(unsafe.Pointer(unsafe.SliceData(row))) }
