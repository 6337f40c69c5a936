package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// unalignedSlice returns n numbers of spread 3, off alignment, a few of them special.
func unalignedSlice(r *rand.Rand, n int, specials ...float32) []float32 {
	s := make([]float32, n+9)[r.IntN(9):][:n]
	for i := range s {
		s[i] = 3 * float32(r.NormFloat64())
		if len(specials) > 0 && r.IntN(10) == 0 {
			s[i] = specials[r.IntN(len(specials))]
		}
	}
	return s
}

// checkNear fails unless got equals want within tol, relative or absolute, with
// NaN and infinity where want has them.
func checkNear(t *testing.T, what string, got, want []float32, tol float64) {
	t.Helper()
	for i, w := range want {
		g, w := float64(got[i]), float64(w)
		if g == w || math.IsNaN(g) && math.IsNaN(w) {
			continue
		}
		if !(math.Abs(g-w) <= tol*(1+math.Abs(w))) || math.IsInf(w, 0) {
			t.Fatalf("%s: number %d of %d is %g, want %g", what, i, len(want), g, w)
		}
	}
}

func TestRowOperations(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	eachLevel(t, func(l level) {
		r := newRand()
		for n := range 70 {
			what := func(op string) string { return fmt.Sprintf("%s: %s of %d", l, op, n) }
			x := unalignedSlice(r, n, inf, -inf, nan, 1e-42, -1e-44, 40, -40, 1000)
			dy, got, want := unalignedSlice(r, n), unalignedSlice(r, n), make([]float32, n)

			copy(want, got)
			Add(got, x)
			addNaive(want, x)
			checkNear(t, what("Add"), got, want, 0)

			y := unalignedSlice(r, n)
			copy(want, got)
			AddScaled(got, 1.5, y)
			addScaledNaive(want, 1.5, y)
			checkNear(t, what("AddScaled"), got, want, 1e-6)
			Scale(got, -3)
			scaleNaive(want, -3)
			checkNear(t, what("Scale"), got, want, 1e-6)
			checkNear(t, what("Dot"), []float32{Dot(dy, y)}, []float32{dotNaive(dy, y)}, 1e-5)

			Gelu(got, x)
			geluNaive(want, x)
			checkNear(t, what("Gelu"), got, want, 1e-6)

			GeluBackward(got, dy, x)
			geluBackwardNaive(want, dy, x)
			checkNear(t, what("GeluBackward"), got, want, 2e-6)

			for _, specials := range [][]float32{nil, {-inf}, {-inf, nan}, {inf}} {
				y := unalignedSlice(r, n, specials...)
				copy(got, y)
				copy(want, y)
				Softmax(got)
				softmaxNaive(want)
				checkNear(t, what("Softmax"), got, want, 1e-6)
			}

			Softmax(y)
			SoftmaxBackward(got, dy, y)
			softmaxBackwardNaive(want, dy, y, dotNaive(dy, y))
			checkNear(t, what("SoftmaxBackward"), got, want, 5e-6)
		}
	})
}

func TestLayerNormTuned(t *testing.T) {
	eachLevel(t, func(l level) {
		r := newRand()
		for range 100 {
			rows, n := 1+r.IntN(5), 1+r.IntN(80)
			if r.IntN(2) == 0 {
				n = (n + 7) &^ 7
			}
			what := fmt.Sprintf("%s: %dx%d", l, rows, n)
			shift := float32(r.NormFloat64())
			normal := func(int) float32 { return shift + float32(r.NormFloat64()) }
			x, dy, dst, dx := stridedMatrix(r, rows, n, normal), stridedMatrix(r, rows, n, normal), stridedMatrix(r, rows, n, normal),
				stridedMatrix(r, rows, n, normal)
			gain, bias := unalignedSlice(r, n), unalignedSlice(r, n)
			mean, rstd, wantMean, wantRstd := make([]float32, rows), make([]float32, rows), make([]float32, rows), make([]float32, rows)
			want := make([]float32, n)

			LayerNorm(dst, x, gain, bias, 1e-5, mean, rstd)
			checkGuards(t, what, dst)
			for i := range rows {
				wantMean[i], wantRstd[i] = layerNormNaive(want, x.Row(i), gain, bias, 1e-5)
				if n > 1 { // one number is its own mean
					checkNear(t, what+" dst", dst.Row(i), want, 2e-5)
				}
			}
			checkNear(t, what+" mean", mean, wantMean, 1e-6)
			checkNear(t, what+" rstd", rstd, wantRstd, 1e-5)

			accumulate := r.IntN(2) == 0
			dgain, dbias := unalignedSlice(r, n), unalignedSlice(r, n)
			wantGain, wantBias := append([]float32(nil), dgain...), append([]float32(nil), dbias...)
			wantDx := View(make([]float32, rows*n), rows, n)
			for i := range rows {
				copy(wantDx.Row(i), dx.Row(i))
				layerNormBackwardNaive(wantDx.Row(i), dy.Row(i), x.Row(i), gain, mean[i], rstd[i], wantGain, wantBias, accumulate)
			}
			LayerNormBackward(dx, dy, x, gain, mean, rstd, dgain, dbias, accumulate)
			checkGuards(t, what, dx)
			for i := range rows {
				if n > 1 {
					checkNear(t, what+" dx", dx.Row(i), wantDx.Row(i), 5e-5*float64(1+rstd[i]))
				}
			}
			checkNear(t, what+" dgain", dgain, wantGain, 1e-5)
			checkNear(t, what+" dbias", dbias, wantBias, 1e-5)
		}
	})
}

func TestRowOperationsDoNotAllocate(t *testing.T) {
	eachLevel(t, func(l level) {
		r := newRand()
		const rows, n = 4, 70
		x, dy, dx := View(randomSlice[float32](r, rows*n), rows, n), View(randomSlice[float32](r, rows*n), rows, n),
			View(randomSlice[float32](r, rows*n), rows, n)
		gain, dgain := make([]float32, n), make([]float32, n)
		if a := testing.AllocsPerRun(20, func() {
			var mean, rstd [rows]float32
			LayerNorm(dx, x, gain, gain, 1e-5, mean[:], rstd[:])
			LayerNormBackward(dx, dy, x, gain, mean[:], rstd[:], dgain, dgain, true)
			GeluBackward(dx.Data, dy.Data, x.Data)
			Gelu(dx.Data, x.Data)
			AddBias(dx, gain)
			AddBiasBackward(dgain, dy)
			Softmax(dx.Data)
			SoftmaxBackward(dx.Data, dy.Data, dx.Data)
		}); a != 0 {
			t.Errorf("%s: %g allocations", l, a)
		}
	})
}
