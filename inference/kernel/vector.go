package kernel

import (
	"math"
	"unsafe"
)

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

func softmaxTuned(row []float32) {
	masked := float32(math.Inf(-1))
	last := [8]float32{masked, masked, masked, masked, masked, masked, masked, masked} // the last numbers, filled up
	n := len(row) &^ 7
	copy(last[:], row[n:])
	top := maxVector(&last[0], len(last))
	if n > 0 {
		top = max(top, maxVector(&row[0], n))
	}
	if math.IsInf(float64(top), -1) { // all masked, or a NaN that maxVector dropped
		softmaxNaive(row)
		return
	}
	sum := expSumVector(&last[0], top, len(last))
	if n > 0 {
		sum += expSumVector(&row[0], top, n)
	}
	copy(row[n:], last[:])
	Scale(row, 1/sum)
}
