package kernel

import (
	"math"
	"math/rand/v2"
	"testing"
)

// randomSlice returns n normal numbers.
func randomSlice[T Float](r *rand.Rand, n int) []T {
	s := make([]T, n)
	for i := range s {
		s[i] = T(r.NormFloat64())
	}
	return s
}

func newRand() *rand.Rand { return rand.New(rand.NewPCG(1, 2)) }

// mustPanic holds that a misuse is refused before any number is touched.
func mustPanic(t *testing.T, what string, f func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Errorf("%s: no panic", what)
		}
	}()
	f()
}

func TestSlice(t *testing.T) {
	m := View([]named{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, 3, 4)
	s := m.Slice(1, 3, 1, 3)
	if s.Rows != 2 || s.Cols != 2 || s.Stride != 4 || s.Row(0)[0] != 5 || s.Row(1)[1] != 10 {
		t.Errorf("Slice(1, 3, 1, 3) = %+v", s)
	}
	for _, empty := range []Matrix[named]{m.Slice(3, 3, 0, 4), m.Slice(0, 3, 4, 4), m.Slice(0, 0, 0, 0)} {
		if len(empty.Data) != 0 {
			t.Errorf("an empty slice holds numbers: %+v", empty)
		}
		for i := range empty.Rows {
			if row := empty.Row(i); len(row) > 0 {
				t.Errorf("row %d of an empty slice: %v", i, row)
			}
		}
	}
	// A product over no terms is zero, as where a set that is attended to is empty.
	eachLevel(t, func(l level) {
		a, c := View(make([]float32, 12), 3, 4), View([]float32{1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7,
			8, 9}, 3, 9)
		MatMul(c, a.Slice(0, 3, 4, 4), c.Slice(0, 0, 0, 9), false)
		for _, x := range c.Data {
			if x != 0 {
				t.Fatalf("%s: an empty product is %v", l, c.Data)
			}
		}
	})
}

// named shows that named types work.
type named float32

func TestMisuse(t *testing.T) {
	a := View(make([]float32, 6), 2, 3)
	b := View(make([]float32, 12), 3, 4)
	c := View(make([]float32, 8), 2, 4)
	mustPanic(t, "View over too few numbers", func() { View(make([]float32, 5), 2, 3) })
	mustPanic(t, "Slice past the end", func() { a.Slice(0, 3, 0, 1) })
	mustPanic(t, "inner sizes differ", func() { MatMul(c, b, a, false) })
	mustPanic(t, "wrong result shape", func() { MatMul(a, a, b, false) })
	mustPanic(t, "TransA without transposing", func() { MatMulTransA(c, a, b, false) })
	mustPanic(t, "TransB without transposing", func() { MatMulTransB(c, a, b, false) })
	mustPanic(t, "negative size", func() { MatMul(c, Matrix[float32]{Rows: 2, Cols: -1}, b, false) })
	mustPanic(t, "sizes that overflow", func() { View(make([]float32, 8), math.MaxInt/2+2, 4) })
	short := c
	short.Data = short.Data[:7]
	mustPanic(t, "result too short", func() { MatMul(short, a, b, false) })
	mustPanic(t, "bias too short", func() { AddBias(c, make([]float32, 3)) })
	mustPanic(t, "gelu lengths", func() { Gelu(make([]float32, 3), make([]float32, 4)) })
	mustPanic(t, "softmax lengths", func() { SoftmaxBackward(make([]float32, 3), make([]float32, 4), make([]float32, 4)) })
}

// checkGradient compares dx with central differences of the scalar function f at
// x, in float64; 1e-6 is well above the rounding of a step of 1e-5.
func checkGradient(t *testing.T, what string, x, dx []float64, f func() float64) {
	t.Helper()
	const step = 1e-5
	for i := range x {
		v := x[i]
		x[i] = v + step
		up := f()
		x[i] = v - step
		down := f()
		x[i] = v
		want := (up - down) / (2 * step)
		if math.Abs(dx[i]-want) > 1e-6*(1+math.Abs(want)) {
			t.Errorf("%s[%d] = %.9g, differences say %.9g", what, i, dx[i], want)
		}
	}
}

func dot(a, b []float64) (sum float64) {
	for i, v := range a {
		sum += v * b[i]
	}
	return sum
}
