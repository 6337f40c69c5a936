package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// eachLevel runs f once per level that this processor has, the naive
// reference included.
func eachLevel(t testing.TB, f func(l level)) {
	was := activeLevel
	defer func() { activeLevel = was }()
	for _, l := range supported() {
		activeLevel = l
		f(l)
	}
}

// stridedMatrix returns a rows x cols matrix of numbers between guards: it starts
// off alignment, and its stride exceeds its columns.
func stridedMatrix(r *rand.Rand, rows, cols int, fill func(i int) float32) Matrix[float32] {
	stride := cols + r.IntN(9)
	offset := r.IntN(17)
	data := make([]float32, offset+rows*stride+16)
	for i := range data {
		data[i] = guard
	}
	m := Matrix[float32]{Rows: rows, Cols: cols, Stride: stride, Data: data[offset:]}
	for i := range rows {
		for j := range cols {
			m.Data[i*stride+j] = fill(i*cols + j)
		}
	}
	return m
}

const guard = 12345678

// span is the number of elements of Data from the first of m to the last.
func span(m Matrix[float32]) int {
	if m.Rows == 0 || m.Cols == 0 {
		return 0
	}
	return (m.Rows-1)*m.Stride + m.Cols
}

// checkGuards fails if a number outside m was written.
func checkGuards(t *testing.T, what string, m Matrix[float32]) {
	t.Helper()
	for _, v := range m.Data[span(m):] {
		if v != guard {
			t.Fatalf("%s wrote past its result", what)
		}
	}
	for i, v := range m.Data[:span(m)] {
		if row, col := i/m.Stride, i%m.Stride; (row >= m.Rows || col >= m.Cols) && v != guard {
			t.Fatalf("%s wrote outside its result, at row %d column %d", what, row, col)
		}
	}
}

func TestProducts(t *testing.T) {
	eachLevel(t, func(l level) {
		r := newRand()
		shapes := [][3]int{{1, 1, 1}, {12, 1, 32}, {12, 8, 32}, {13, 9, 33}, {60, 256, 64}, {3, 57, 64}, {3, 64, 57},
			{1, 5, 32}, {2, 64, 64}, {3, 57, 70}, {3, 1, 33}, {400, 7, 40}, {30, 700, 50}, {5, 0, 7}, {0, 5, 7}, {7, 5, 0}, {25, 321, 32},
			{24, 320, 96}}
		random := 60
		if testing.Short() {
			random = 10
		}
		for range random {
			shapes = append(shapes, [3]int{1 + r.IntN(70), 1 + r.IntN(90), 1 + r.IntN(80)},
				[3]int{1 + r.IntN(4), 1 + r.IntN(90), 1 + r.IntN(130)})
		}
		for _, s := range shapes {
			for form, name := range []string{"MatMul", "MatMulTransA", "MatMulTransB"} {
				for _, accumulate := range []bool{false, true} {
					testProduct(t, r, fmt.Sprintf("%s: %s %v, accumulate %t", l, name, s, accumulate), form, s[0], s[1], s[2], accumulate)
				}
			}
		}
	})
}

// testProduct compares a float32 product with the naive one in float64. The
// bound is the rounding of a sum of k terms.
func testProduct(t *testing.T, r *rand.Rand, what string, form, m, k, n int, accumulate bool) {
	t.Helper()
	normal := func(int) float32 { return float32(r.NormFloat64()) }
	aRows, aCols, bRows, bCols := m, k, k, n
	tuned, naive := MatMul[float32], matMulNaive[float64]
	switch form {
	case 1:
		aRows, aCols = k, m
		tuned, naive = MatMulTransA[float32], matMulTransANaive[float64]
	case 2:
		bRows, bCols = n, k
		tuned, naive = MatMulTransB[float32], matMulTransBNaive[float64]
	}
	a, b, c := stridedMatrix(r, aRows, aCols, normal), stridedMatrix(r, bRows, bCols, normal), stridedMatrix(r, m, n, normal)
	want := toFloat64(c)
	naive(want, toFloat64(a), toFloat64(b), accumulate)
	tuned(c, a, b, accumulate)
	checkGuards(t, what, c)
	for i := range m {
		for j, v := range c.Row(i) {
			w := want.Data[i*n+j]
			if math.Abs(float64(v)-w) > 2e-6*math.Sqrt(float64(k+1))*(1+math.Abs(w)) {
				t.Fatalf("%s: element (%d, %d) is %g, want %g", what, i, j, v, w)
			}
		}
	}
}

// toFloat64 copies m to contiguous float64.
func toFloat64(m Matrix[float32]) Matrix[float64] {
	w := View(make([]float64, m.Rows*m.Cols), m.Rows, m.Cols)
	for i := range m.Rows {
		for j, v := range m.Row(i) {
			w.Data[i*m.Cols+j] = float64(v)
		}
	}
	return w
}

// Infinities and NaNs must be in the result where the reference has them and nowhere
// else, and subnormal numbers must not be flushed to zero.
func TestProductSpecials(t *testing.T) {
	eachLevel(t, func(l level) {
		r := newRand()
		specials := []float32{float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()), 1e-42, -1e-44, 1e-39, 0}
		sparse := func(int) float32 {
			if r.IntN(40) == 0 {
				return specials[r.IntN(len(specials))]
			}
			return float32(r.IntN(9) - 4)
		}
		for trial := range 90 {
			m, k, n := 1+r.IntN(40), 1+r.IntN(20), 1+r.IntN(70)
			if trial%2 == 0 {
				m = 1 + r.IntN(3)
			}
			form := trial % 3
			name := []string{"MatMul", "MatMulTransA", "MatMulTransB"}[form]
			tuned := []func(c, a, b Matrix[float32], accumulate bool){MatMul[float32], MatMulTransA[float32], MatMulTransB[float32]}[form]
			naive := []func(c, a, b Matrix[float32], accumulate bool){matMulNaive[float32], matMulTransANaive[float32],
				matMulTransBNaive[float32]}[form]
			a, b, c := stridedMatrix(r, m, k, sparse), stridedMatrix(r, k, n, sparse), stridedMatrix(r, m, n, sparse)
			if form == 1 {
				a = stridedMatrix(r, k, m, sparse)
			} else if form == 2 {
				b = stridedMatrix(r, n, k, sparse)
			}
			want := View(make([]float32, m*n), m, n)
			naive(want, a, b, false)
			tuned(c, a, b, false)
			for i := range m {
				for j, v := range c.Row(i) {
					w := want.Data[i*n+j]
					same := v == w || v != v && w != w || math.Abs(float64(v-w)) <= 1e-6*math.Abs(float64(w))
					if !same {
						t.Fatalf("%s %s %dx%dx%d: element (%d, %d) is %g, want %g", l, name, m, k, n, i, j, v, w)
					}
				}
			}
		}
		tiny := View([]float32{1e-42}, 1, 1)
		c := View([]float32{0}, 1, 1)
		MatMul(c, tiny, View([]float32{1}, 1, 1), false)
		if c.Data[0] != 1e-42 {
			t.Errorf("%s: 1e-42 times 1 is %g", l, c.Data[0])
		}
	})
}

func TestProductsDoNotAllocate(t *testing.T) {
	eachLevel(t, func(l level) {
		r := newRand()
		a, b, c := View(randomSlice[float32](r, 30*40), 30, 40), View(randomSlice[float32](r, 40*50), 40, 50),
			View(make([]float32, 30*50), 30, 50)
		MatMul(c, a, b, false)
		if n := testing.AllocsPerRun(100, func() {
			MatMul(c, a, b, true)
			var onStack [40 * 40]float32 // must stay there
			MatMulTransA(View(onStack[:], 40, 40), a, a, false)
		}); n != 0 {
			t.Errorf("%s: %g allocations", l, n)
		}
	})
}

func TestSelectLevel(t *testing.T) {
	for _, l := range supported() {
		if got, err := selectLevel(string(l)); got != l || err != nil {
			t.Errorf("choose(%q) = %q, %v", l, got, err)
		}
	}
	best, err := selectLevel("")
	if err != nil {
		t.Error(err)
	}
	if got, err := selectLevel("mmx"); got != best || err == nil {
		t.Errorf("choose(mmx) = %q, %v; want %q and an error", got, err, best)
	}
}

// Workspaces are shared between goroutines one at a time.
func TestProductsConcurrently(t *testing.T) {
	const m, k, n, workers = 25, 70, 45, 8
	r := newRand()
	a, b := View(randomSlice[float32](r, m*k), m, k), View(randomSlice[float32](r, n*k), n, k)
	want := View(make([]float32, m*n), m, n)
	MatMulTransB(want, a, b, false)
	bad := make(chan int, workers)
	for range workers {
		go func() {
			c, wrong := View(make([]float32, m*n), m, n), 0
			for range 200 {
				MatMulTransB(c, a, b, false)
				if !slices.Equal(c.Data, want.Data) {
					wrong++
				}
			}
			bad <- wrong
		}()
	}
	for range workers {
		if wrong := <-bad; wrong > 0 {
			t.Errorf("%d of 200 products differ when others run", wrong)
		}
	}
}

func ExampleMatMul() {
	x := View([]float32{1, 2, 3, 4, 5, 6}, 2, 3) // (rows, in)
	w := View([]float32{1, 0, 0, 1, 1, 1}, 3, 2) // (in, out)
	y := View(make([]float32, 4), 2, 2)
	MatMul(y, x, w, false)
	AddBias(y, []float32{10, 20})
	fmt.Println(y.Row(0), y.Row(1))
	// Output: [14 25] [20 31]
}
