// Package nntest is for the tests of networks.
package nntest

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"prefdt/inference/kernel"
	"prefdt/inference/model"
	"prefdt/offline/nn"
)

// Gradients compares g, the gradient of a loss by the parameters w, with central differences at
// some values of each tensor. It returns each tensor's largest, for tests that it is not zero.
func Gradients(t testing.TB, w, g *nn.Params[float64], absolute float64, loss func() float64) (largest []float64) {
	t.Helper()
	const samples, h = 12, 1e-5
	at, got := 0, slices.Clone(g.Data) // the loss may add to it
	for _, tensor := range w.Tensors {
		var worst, scale float64
		for k := range min(samples, tensor.Size()) {
			i := at + (k*7919+5*tensor.Cols)%tensor.Size()
			saved := w.Data[i]
			w.Data[i] = saved + h
			up := loss()
			w.Data[i] = saved - h
			down := loss()
			w.Data[i] = saved
			want := (up - down) / (2 * h)
			worst, scale = max(worst, math.Abs(got[i]-want)), max(scale, math.Abs(want), math.Abs(got[i]))
		}
		if !(worst <= 1e-5*scale+absolute) {
			t.Errorf("%s: gradient off by %.3g of %.3g", tensor.Name, worst, scale)
		}
		at, largest = at+tensor.Size(), append(largest, scale)
	}
	return largest
}

// Row draws n features.
func Row(r *rand.Rand, n int) (row []float32) {
	for range n {
		row = append(row, float32(r.NormFloat64()))
	}
	return row
}

// Random draws parameters, all off their neutral values, that a checkpoint's float16 holds exactly.
func Random[T kernel.Float](tensors []model.Tensor, seed uint64) *nn.Params[T] {
	r, p := rand.New(rand.NewPCG(seed, 1)), nn.NewParams[T](tensors)
	at := 0
	for _, t := range tensors {
		for range t.Size() {
			x := float32(t.InitMean + (t.InitStdDev+0.1)*r.NormFloat64())
			p.Data[at] = T(kernel.FromFloat16(kernel.ToFloat16(x)))
			at++
		}
	}
	return p
}
