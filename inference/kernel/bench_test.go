package kernel

import (
	"fmt"
	"testing"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"
)

// BenchmarkMatMul times the shapes of training and of the measured
// references, (m, k, n), beside gonum's product.
func BenchmarkMatMul(b *testing.B) {
	for _, s := range []struct {
		form    int
		m, k, n int
	}{
		{0, 60, 256, 1024}, {0, 3840, 256, 1024},
		{0, 300, 128, 512}, {0, 300, 512, 128}, {0, 300, 256, 1024}, {0, 3, 256, 1024},
		{1, 128, 300, 512}, {1, 512, 300, 128},
		{2, 300, 512, 128}, {2, 300, 128, 512}, {2, 300, 32, 300}, {0, 300, 300, 32}, {1, 300, 300, 32},
		{2, 3, 64, 60}, {0, 3, 60, 64}, {2, 1, 64, 8}, {0, 1, 8, 64},
	} {
		r := newRand()
		x, y, z := randomSlice[float32](r, s.m*s.k), randomSlice[float32](r, s.k*s.n), make([]float32, s.m*s.n)
		flop := 2 * float64(s.m) * float64(s.k) * float64(s.n)
		name := fmt.Sprintf("%s/%dx%dx%d/", []string{"AB", "AtB", "ABt"}[s.form], s.m, s.k, s.n)
		c := View(z, s.m, s.n)
		run := MatMul[float32]
		a, bb := View(x, s.m, s.k), View(y, s.k, s.n)
		ta, tb := blas.NoTrans, blas.NoTrans
		switch s.form {
		case 1:
			run, a, ta = MatMulTransA[float32], View(x, s.k, s.m), blas.Trans
		case 2:
			run, bb, tb = MatMulTransB[float32], View(y, s.n, s.k), blas.Trans
		}
		eachLevel(b, func(l level) {
			b.Run(name+string(l), func(b *testing.B) {
				for b.Loop() {
					run(c, a, bb, false)
				}
				b.ReportMetric(flop*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
			})
		})
		b.Run(name+"gonum", func(b *testing.B) {
			general := func(m Matrix[float32]) blas32.General {
				return blas32.General{Rows: m.Rows, Cols: m.Cols, Stride: m.Stride, Data: m.Data}
			}
			for b.Loop() {
				blas32.Gemm(ta, tb, 1, general(a), general(bb), 0, general(c))
			}
			b.ReportMetric(flop*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
		})
	}
}

// BenchmarkPacked times the products of a streaming step, (rows, in, out),
// and the rate at which weights are read. The weights of 12 matrices are used
// in turn, so that a large one comes from the last-level cache as in flight.
func BenchmarkPacked(b *testing.B) {
	for _, s := range [][3]int{{1, 256, 1024}, {2, 256, 1024}, {3, 256, 1024}, {3, 1024, 256}, {3, 256, 768}, {3, 128, 512}, {6, 256, 1024},
		{9, 256, 1024}, {12, 256, 1024}, {60, 256, 1024}, {100, 128, 512}} {
		rows, in, out := s[0], s[1], s[2]
		r := newRand()
		weights := make([]*Packed, 12)
		for i := range weights {
			weights[i] = PackFloat16(randomFloat16s(r, in*out), in, out)
		}
		x, dst, bias := View(randomSlice[float32](r, rows*in), rows, in), View(make([]float32, rows*out), rows, out), make([]float32, out)
		eachLevel(b, func(l level) {
			b.Run(fmt.Sprintf("%dx%dx%d/%s", rows, in, out, l), func(b *testing.B) {
				for n := 0; b.Loop(); n++ {
					weights[n%len(weights)].MatMul(dst, x, bias)
				}
				seconds := b.Elapsed().Seconds() / float64(b.N)
				b.ReportMetric(2*float64(rows)*float64(in)*float64(out)/seconds/1e9, "GFLOP/s")
				b.ReportMetric(2*float64(in)*float64(out)/seconds/1e9, "weights-GB/s")
			})
		})
	}
}

// BenchmarkRows times the row operations over one layer of an episode.
func BenchmarkRows(b *testing.B) {
	const rows, n = 300, 256
	r := newRand()
	x, dy, dst := View(randomSlice[float32](r, rows*n), rows, n), View(randomSlice[float32](r, rows*n), rows, n),
		View(make([]float32, rows*n), rows, n)
	gain, bias, dgain, dbias := randomSlice[float32](r, n), randomSlice[float32](r, n), make([]float32, n), make([]float32, n)
	mean, rstd := make([]float32, rows), make([]float32, rows)
	for _, op := range []struct {
		name string
		f    func()
	}{
		{"Gelu", func() { Gelu(dst.Data, x.Data) }},
		{"GeluBackward", func() { GeluBackward(dst.Data, dy.Data, x.Data) }},
		{"LayerNorm", func() { LayerNorm(dst, x, gain, bias, 1e-5, mean, rstd) }},
		{"LayerNormBackward", func() { LayerNormBackward(dst, dy, x, gain, mean, rstd, dgain, dbias, false) }},
		{"Softmax", func() {
			for i := range rows {
				Softmax(dy.Row(i))
			}
		}},
		{"SoftmaxBackward", func() {
			for i := range rows {
				SoftmaxBackward(dst.Row(i), dy.Row(i), x.Row(i))
			}
		}},
		{"AddBias", func() { AddBias(dst, bias) }},
	} {
		eachLevel(b, func(l level) {
			b.Run(op.name+"/"+string(l), func(b *testing.B) {
				for b.Loop() {
					op.f()
				}
				b.ReportMetric(b.Elapsed().Seconds()/float64(b.N)/rows/n*1e9, "ns/number")
			})
		})
	}
}
