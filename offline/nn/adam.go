package nn

import (
	"math"
	"slices"
	"sync"

	"prefdt/inference/kernel"
	"prefdt/inference/model"
)

// Schedule is AdamW's (Loshchilov and Hutter 2019) with a linear warm-up and a
// cosine down to a fraction of the peak.
type Schedule struct {
	PeakRate      float64 `json:"rate" yaml:"rate"`       // peak learning rate
	FinalFraction float64 `json:"final" yaml:"final"`     // fraction of the peak at the last step
	WarmUpSteps   int     `json:"warm_up" yaml:"warm_up"` // steps
	Steps         int     `json:"steps" yaml:"steps"`     // of the whole run
	Beta1         float64 `json:"beta1" yaml:"beta1"`
	Beta2         float64 `json:"beta2" yaml:"beta2"`
	WeightDecay   float64 `json:"decay" yaml:"decay"`         // weight decay of the matrices
	ClipNorm      float64 `json:"clip_norm" yaml:"clip_norm"` // of the whole gradient
}

// rate returns the learning rate of a step, from 0.
func (s Schedule) rate(step int) float64 {
	if step < s.WarmUpSteps {
		return s.PeakRate * float64(step+1) / float64(s.WarmUpSteps)
	}
	x := float64(step-s.WarmUpSteps) / float64(max(s.Steps-s.WarmUpSteps, 1))
	return s.PeakRate * (s.FinalFraction + (1-s.FinalFraction)*(1+math.Cos(math.Pi*min(x, 1)))/2)
}

// adam is the state of AdamW.
type adam struct {
	m, v  []float32 // both moments
	decay []bool    // per value: does weight decay apply
}

// newAdam returns the state before the first step.
func newAdam(tensors []model.Tensor) *adam {
	o := &adam{}
	for _, t := range tensors {
		o.decay = append(o.decay, slices.Repeat([]bool{t.IsMatrix()}, t.Size())...)
	}
	o.m, o.v = make([]float32, len(o.decay)), make([]float32, len(o.decay))
	return o
}

// step applies the sum of gradients, which is left in the first, to w at a rate, after n
// steps, and returns the norm it had before the clip. Each worker has a part of the
// parameters; the norm is the sum of their sums in order.
func (o *adam) step(s *Schedule, n int, rate float64, w []float32, grads [][]float32) (norm float64) {
	g := grads[0]
	norms := make([]float64, len(grads))
	parallelRanges(len(grads), len(w), func(k, first, end int) {
		for _, other := range grads[1:] {
			kernel.Add(g[first:end], other[first:end])
		}
		for _, x := range g[first:end] {
			norms[k] += float64(x) * float64(x)
		}
	})
	for _, x := range norms {
		norm += x
	}
	norm = math.Sqrt(norm)
	clip := float32(1)
	if s.ClipNorm > 0 && norm > s.ClipNorm {
		clip = float32(s.ClipNorm / norm)
	}
	b1, b2 := float32(s.Beta1), float32(s.Beta2)
	rate1 := float32(rate / (1 - math.Pow(s.Beta1, float64(n+1))))
	scale2 := float32(1 / (1 - math.Pow(s.Beta2, float64(n+1))))
	shrink := float32(1 - rate*s.WeightDecay)
	parallelRanges(len(grads), len(w), func(_, first, end int) {
		w, g, m, v, decay := w[first:end], g[first:end], o.m[first:end], o.v[first:end], o.decay[first:end]
		for i, x := range g {
			x *= clip
			m[i] = b1*m[i] + (1-b1)*x
			v[i] = b2*v[i] + (1-b2)*x*x
			if decay[i] {
				w[i] *= shrink
			}
			w[i] -= rate1 * m[i] / (float32(math.Sqrt(float64(v[i]*scale2))) + 1e-8)
		}
	})
	return norm
}

// parallelRanges calls f for each worker's part of n values, at once, and waits.
func parallelRanges(workers, n int, f func(k, first, end int)) {
	var wait sync.WaitGroup
	for k := range workers {
		wait.Go(func() { f(k, n*k/workers, n*(k+1)/workers) })
	}
	wait.Wait()
}
