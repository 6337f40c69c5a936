// Package kernel computes the dense arithmetic of the policy's network: matrix
// products in the three forms that a forward and a backward pass need, and the
// row-wise layers between them.
//
// Inputs and outputs: row-major matrices and vectors in the caller's memory. Package
// model calls it for a step in flight, and training for whole batches.
//
// Every operation has one naive reference, written to be read. float64 always uses
// it, for gradient checks. float32 uses kernels tuned for the processor, in assembly
// with AVX2, AVX-512 or NEON, selected once at start (see Selected); on other
// processors, such as 32-bit ARM, scalar code written for many registers.
//
// All functions run on the calling goroutine and may be called concurrently. They do
// not allocate in steady state. A shape that does not fit panics.
package kernel

import (
	"fmt"
	"math/bits"
)

// Float is the set of number types that the kernels compute with.
type Float interface{ ~float32 | ~float64 }

// Matrix is a row-major view of the caller's memory. Element (i, j) is
// Data[i*Stride+j], and Stride is at least Cols.
type Matrix[T Float] struct {
	Rows, Cols, Stride int
	Data               []T
}

// View returns data as a contiguous matrix of rows x cols.
func View[T Float](data []T, rows, cols int) Matrix[T] {
	m := Matrix[T]{Rows: rows, Cols: cols, Stride: cols, Data: data}
	m.check("View")
	return m
}

// Slice returns rows r0..r1-1 and columns c0..c1-1 of m, in the same memory.
func (m Matrix[T]) Slice(r0, r1, c0, c1 int) Matrix[T] {
	if r0 < 0 || r1 < r0 || r1 > m.Rows || c0 < 0 || c1 < c0 || c1 > m.Cols {
		panic(fmt.Sprintf("kernel: Slice [%d:%d, %d:%d] of a %dx%d matrix", r0, r1, c0, c1, m.Rows, m.Cols))
	}
	s := Matrix[T]{Rows: r1 - r0, Cols: c1 - c0, Stride: c1 - c0} // so that rows without columns are inside no data
	if s.Rows > 0 && s.Cols > 0 {
		first := r0*m.Stride + c0
		s.Stride = m.Stride
		s.Data = m.Data[first : first+(s.Rows-1)*s.Stride+s.Cols]
	}
	return s
}

// Row returns row i.
func (m Matrix[T]) Row(i int) []T { return m.Data[i*m.Stride : i*m.Stride+m.Cols] }

// check panics unless every element of m is inside Data, also where a product of
// sizes overflows; the assembly relies on it.
func (m *Matrix[T]) check(op string) {
	fits := m.Rows >= 0 && m.Cols >= 0 && m.Stride >= m.Cols
	if fits && m.Rows > 0 && m.Cols > 0 {
		high, low := bits.Mul64(uint64(m.Rows-1), uint64(m.Stride))
		fits = m.Cols <= len(m.Data) && high == 0 && low <= uint64(len(m.Data)-m.Cols)
	}
	if !fits {
		panic(fmt.Sprintf("kernel: %s: matrix %dx%d with stride %d does not fit its %d numbers",
			op, m.Rows, m.Cols, m.Stride, len(m.Data)))
	}
}

// checkShape is check for a matrix that must have that many rows and columns.
func (m *Matrix[T]) checkShape(op string, rows, cols int) {
	m.check(op)
	if m.Rows != rows || m.Cols != cols {
		panic(fmt.Sprintf("kernel: %s: matrix is %dx%d, want %dx%d", op, m.Rows, m.Cols, rows, cols))
	}
}

func checkLen(op, what string, got, want int) {
	if got != want {
		panic(fmt.Sprintf("kernel: %s: %s has length %d, want %d", op, what, got, want))
	}
}
