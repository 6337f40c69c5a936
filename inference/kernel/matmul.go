package kernel

import (
	"fmt"
	"unsafe"
)

// MatMul computes c = a·b, or c += a·b if accumulate is set.
// a is (m, k), b is (k, n), c is (m, n); c must not overlap a or b.
func MatMul[T Float](c, a, b Matrix[T], accumulate bool) {
	checkProduct("MatMul", &c, &a, &b, a.Rows, a.Cols, b.Rows, b.Cols)
	if isTuned[T]() {
		product(float32s(&c), float32s(&a), float32s(&b), false, false, accumulate)
		return
	}
	if isScalar[T]() {
		matMulScalar(float32s(&c), float32s(&a), float32s(&b), accumulate)
		return
	}
	matMulNaive(c, a, b, accumulate)
}

// MatMulTransA computes c = aᵀ·b, or c += aᵀ·b if accumulate is set.
// a is (k, m), b is (k, n), c is (m, n); c must not overlap a or b. This is
// the gradient of a weight.
func MatMulTransA[T Float](c, a, b Matrix[T], accumulate bool) {
	checkProduct("MatMulTransA", &c, &a, &b, a.Cols, a.Rows, b.Rows, b.Cols)
	if isTuned[T]() {
		product(float32s(&c), float32s(&a), float32s(&b), true, false, accumulate)
		return
	}
	matMulTransANaive(c, a, b, accumulate)
}

// MatMulTransB computes c = a·bᵀ, or c += a·bᵀ if accumulate is set.
// a is (m, k), b is (n, k), c is (m, n); c must not overlap a or b. This is
// the gradient of a layer's input, and the scores of attention.
func MatMulTransB[T Float](c, a, b Matrix[T], accumulate bool) {
	checkProduct("MatMulTransB", &c, &a, &b, a.Rows, a.Cols, b.Cols, b.Rows)
	if isTuned[T]() {
		product(float32s(&c), float32s(&a), float32s(&b), false, true, accumulate)
		return
	}
	matMulTransBNaive(c, a, b, accumulate)
}

// float32s returns a matrix whose elements are of a float32 type as one of float32.
func float32s[T Float](m *Matrix[T]) *Matrix[float32] { return (*Matrix[float32])(unsafe.Pointer(m)) }

// isTuned reports whether T has kernels in assembly on this processor, isScalar
// whether it has those in scalar Go.
func isTuned[T Float]() bool {
	var x T
	return unsafe.Sizeof(x) == 4 && activeLevel != generic && activeLevel != scalar
}

func isScalar[T Float]() bool {
	var x T
	return unsafe.Sizeof(x) == 4 && activeLevel == scalar
}

// checkProduct panics unless an (m, k) times a (k2, n) factor fits c.
func checkProduct[T Float](op string, c, a, b *Matrix[T], m, k, k2, n int) {
	c.check(op)
	a.check(op)
	b.check(op)
	if k != k2 || c.Rows != m || c.Cols != n {
		panic(fmt.Sprintf("kernel: %s: (%d, %d) times (%d, %d) into (%d, %d)", op, m, k, k2, n, c.Rows, c.Cols))
	}
}

func matMulNaive[T Float](c, a, b Matrix[T], accumulate bool) {
	for i := range c.Rows {
		row := c.Row(i)
		if !accumulate {
			clear(row)
		}
		for p := range a.Cols {
			addScaledNaive(row, a.Data[i*a.Stride+p], b.Row(p))
		}
	}
}

func matMulTransANaive[T Float](c, a, b Matrix[T], accumulate bool) {
	for i := range c.Rows {
		row := c.Row(i)
		if !accumulate {
			clear(row)
		}
		for p := range a.Rows {
			addScaledNaive(row, a.Data[p*a.Stride+i], b.Row(p))
		}
	}
}

func matMulTransBNaive[T Float](c, a, b Matrix[T], accumulate bool) {
	for i := range c.Rows {
		left := a.Row(i)
		for j := range c.Cols {
			sum := dotNaive(left, b.Row(j))
			if accumulate {
				sum += c.Data[i*c.Stride+j]
			}
			c.Data[i*c.Stride+j] = sum
		}
	}
}
