package kernel

import (
	"math"
	"testing"
)

func TestMatMulKnown(t *testing.T) {
	a := View([]float64{1, 2, 3, 4, 5, 6}, 2, 3)
	b := View([]float64{7, 8, 9, 10, 11, 12}, 3, 2)
	want := []float64{58, 64, 139, 154}
	at := View([]float64{1, 4, 2, 5, 3, 6}, 3, 2)
	bt := View([]float64{7, 9, 11, 8, 10, 12}, 2, 3)
	for _, form := range []struct {
		name string
		f    func(c Matrix[float64], accumulate bool)
	}{
		{"MatMul", func(c Matrix[float64], acc bool) { MatMul(c, a, b, acc) }},
		{"MatMulTransA", func(c Matrix[float64], acc bool) { MatMulTransA(c, at, b, acc) }},
		{"MatMulTransB", func(c Matrix[float64], acc bool) { MatMulTransB(c, a, bt, acc) }},
	} {
		c := View([]float64{-1, -1, -1, -1}, 2, 2)
		form.f(c, false)
		form.f(c, true)
		for i, v := range c.Data {
			if v != 2*want[i] {
				t.Errorf("%s: element %d after = and += is %g, want %g", form.name, i, v, 2*want[i])
			}
		}
	}
}

func TestGradients(t *testing.T) {
	r := newRand()
	const rows, n = 3, 7
	x, w := randomSlice[float64](r, rows*n), randomSlice[float64](r, rows*n)
	y, dx := make([]float64, rows*n), make([]float64, rows*n)

	GeluBackward(dx, w, x)
	checkGradient(t, "gelu dx", x, dx, func() float64 { Gelu(y, x); return dot(y, w) })

	soft := func() float64 { copy(y[:n], x[:n]); Softmax(y[:n]); return dot(y[:n], w[:n]) }
	soft()
	SoftmaxBackward(dx[:n], w[:n], y[:n])
	checkGradient(t, "softmax dx", x[:n], dx[:n], soft)

	gain, bias := randomSlice[float64](r, n), randomSlice[float64](r, n)
	dgain, dbias := make([]float64, n), make([]float64, n)
	mean, rstd := make([]float64, rows), make([]float64, rows)
	norm := func() float64 {
		LayerNorm(View(y, rows, n), View(x, rows, n), gain, bias, 1e-5, mean, rstd)
		return dot(y, w)
	}
	norm()
	LayerNormBackward(View(dx, rows, n), View(w, rows, n), View(x, rows, n), gain, mean, rstd, dgain, dbias, false)
	checkGradient(t, "layernorm dx", x, dx, norm)
	checkGradient(t, "layernorm dgain", gain, dgain, norm)
	checkGradient(t, "layernorm dbias", bias, dbias, norm)
	first := append([]float64(nil), dx...)
	norm()
	LayerNormBackward(View(dx, rows, n), View(w, rows, n), View(x, rows, n), gain, mean, rstd, dgain, dbias, true)
	for i := range dx {
		if math.Abs(dx[i]-2*first[i]) > 1e-12 {
			t.Errorf("layernorm dx[%d] accumulated to %g, want %g", i, dx[i], 2*first[i])
		}
	}

	clear(dbias)
	AddBiasBackward(dbias, View(w, rows, n))
	checkGradient(t, "bias", bias, dbias, func() float64 {
		copy(y, x)
		AddBias(View(y, rows, n), bias)
		return dot(y, w)
	})
}

func TestSoftmaxMasked(t *testing.T) {
	inf := float32(math.Inf(-1))
	eachLevel(t, func(l level) {
		for _, n := range []int{5, 8, 21} {
			row := make([]float32, n)
			for j := range row {
				row[j] = inf
			}
			row[1], row[3], row[4] = 2, 2, -200
			Softmax(row)
			for j, w := range row {
				if want := map[int]float32{1: 0.5, 3: 0.5}[j]; w != want {
					t.Errorf("%s: weight %d of %d is %g, want %g", l, j, n, w, want)
				}
			}
			for j := range row {
				row[j] = inf
			}
			Softmax(row)
			for j, w := range row {
				if w != 0 {
					t.Errorf("%s: weight %d of a row masked whole is %g, want 0", l, j, w)
				}
			}
		}
		Softmax([]float32{}) // nothing to attend to is no error
	})
}

// The float32 approximations against math. Three units in the last place
// are 3.6e-7 at most.
func TestFloat32Functions(t *testing.T) {
	for x := float32(-87); x < 87; x += 0.00137 {
		if got, want := float64(exp(x)), math.Exp(float64(x)); math.Abs(got-want) > 2.4e-7*want {
			t.Fatalf("exp(%g) = %.9g, want %.9g", x, got, want)
		}
	}
	nan, inf := math.NaN(), math.Inf(1)
	for _, c := range []struct{ x, want float64 }{{nan, nan}, {-inf, 0}, {inf, math.Exp(87)}, {-88, 0}, {0, 1}} {
		got := float64(exp(float32(c.x)))
		if math.Abs(got-c.want) > 1e-6*c.want || math.IsNaN(got) != math.IsNaN(c.want) {
			t.Errorf("exp(%g) = %g, want %g", c.x, got, c.want)
		}
	}
	// Where the tanh form in float64 does not cancel. The exponent, up to 7
	// here, carries its rounding into the relative error.
	for x := float32(-3); x < 12; x += 0.00137 {
		v := float64(x)
		want := 0.5 * v * (1 + math.Tanh(0.7978845608*(v+0.044715*v*v*v)))
		dst := []float32{x}
		Gelu(dst, dst)
		if got := float64(dst[0]); math.Abs(got-want) > 1e-6*math.Abs(want) {
			t.Fatalf("gelu(%g) = %.9g, want %.9g", x, got, want)
		}
	}
}
