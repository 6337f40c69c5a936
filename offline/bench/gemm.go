package bench

import (
	"math/rand/v2"
	"sync"
	"time"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"

	"prefdt/inference/kernel"
)

// GEMM is one product c (m, n) = a (m, k) · b (k, n), with a or b transposed in
// the backward pass, as billions of multiplications and additions a second.
type GEMM struct {
	Form        string  `json:"form"` // AB, AtB, ABt; half is AB with packed float16 weights
	M           int     `json:"m"`
	K           int     `json:"k"`
	N           int     `json:"n"`
	Cores       int     `json:"cores"`
	GFLOPS      float64 `json:"gflops"`
	GonumGFLOPS float64 `json:"gonum_gflops"`
	Ratio       float64 `json:"ratio"`
}

// The shapes of FIELD_NOTES, of training and of a step.
var gemmShapes = []GEMM{
	{Form: "AB", M: 60, K: 256, N: 1024, Cores: 1},
	{Form: "half", M: 60, K: 256, N: 1024, Cores: 1},
	{Form: "AB", M: 3840, K: 256, N: 1024, Cores: 1},
	{Form: "AB", M: 3840, K: 256, N: 1024, Cores: 2},
	{Form: "AB", M: 300, K: 128, N: 512, Cores: 1},
	{Form: "AtB", M: 128, K: 300, N: 512, Cores: 1},
	{Form: "ABt", M: 300, K: 512, N: 128, Cores: 1},
	{Form: "half", M: 3, K: 128, N: 512, Cores: 1},
	{Form: "half", M: 3, K: 256, N: 1024, Cores: 1},
}

func measureGEMM() []GEMM {
	r := rand.New(rand.NewPCG(1, 1))
	rows := append([]GEMM(nil), gemmShapes...)
	for i := range rows {
		rows[i].measure(r)
	}
	return rows
}

func (g *GEMM) measure(r *rand.Rand) {
	a, b := randomNormal(r, g.M*g.K), randomNormal(r, g.K*g.N)
	ours, theirs := make([]float32, g.M*g.N), make([]float32, g.M*g.N)
	x, y, z := kernel.View(a, g.M, g.K), kernel.View(b, g.K, g.N), kernel.View(ours, g.M, g.N)
	ta, tb := blas.NoTrans, blas.NoTrans
	product := kernel.MatMul[float32]
	switch g.Form {
	case "AtB":
		product, x, ta = kernel.MatMulTransA[float32], kernel.View(a, g.K, g.M), blas.Trans
	case "ABt":
		product, y, tb = kernel.MatMulTransB[float32], kernel.View(b, g.N, g.K), blas.Trans
	}
	run := func() { product(z, x, y, false) }
	if g.Form == "half" {
		half := make([]uint16, len(b))
		for i, v := range b {
			half[i] = kernel.ToFloat16(v)
		}
		packed := kernel.PackFloat16(half, g.K, g.N)
		run = func() { packed.MatMul(z, x, nil) }
	}
	if g.Cores > 1 { // rows shared out, as episodes are among workers in training
		run = func() {
			var wait sync.WaitGroup
			for c := range g.Cores {
				first, end := g.M*c/g.Cores, g.M*(c+1)/g.Cores
				wait.Go(func() { product(z.Slice(first, end, 0, g.N), x.Slice(first, end, 0, g.K), y, false) })
			}
			wait.Wait()
		}
	}
	general := func(m kernel.Matrix[float32]) blas32.General {
		return blas32.General{Rows: m.Rows, Cols: m.Cols, Stride: m.Stride, Data: m.Data}
	}
	gonum := func() { blas32.Gemm(ta, tb, 1, general(x), general(y), 0, general(kernel.View(theirs, g.M, g.N))) }
	best := leastSeconds(5, 20*time.Millisecond, run, gonum)
	flop := 2 * float64(g.M) * float64(g.K) * float64(g.N)
	g.GFLOPS, g.GonumGFLOPS, g.Ratio = flop/best[0]/1e9, flop/best[1]/1e9, best[1]/best[0]
}

func randomNormal(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}
