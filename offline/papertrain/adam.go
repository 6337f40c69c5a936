package papertrain

import (
	"math"
	"sync"

	"prefdt/inference/kernel"
	"prefdt/inference/model"
)

// Schedule is AdamW's (Loshchilov and Hutter 2019): a linear warm-up, then a constant rate
// for as long as the run goes on, then a cool-down in 1 - sqrt to nothing (Hägele et al.,
// Scaling Laws and Compute-Optimal Training Beyond Fixed Training Durations, 2024). The
// constant part needs no length in advance: a run can be stopped, cooled down and measured
// at any step, and then go on from where the cool-down began.
type Schedule struct {
	Rate        float64 `json:"rate" yaml:"rate"`
	WarmUpSteps int     `json:"warm_up" yaml:"warm_up"`
	CoolDown    float64 `json:"cool_down" yaml:"cool_down"` // fraction of a run's steps
	Beta1       float64 `json:"beta1" yaml:"beta1"`
	Beta2       float64 `json:"beta2" yaml:"beta2"`
	WeightDecay float64 `json:"decay" yaml:"decay"`         // of the matrices
	ClipNorm    float64 `json:"clip_norm" yaml:"clip_norm"` // of the whole gradient; 0: not clipped
	Average     float64 `json:"average" yaml:"average"`     // of the weights: horizon of the mean, as a fraction of the steps so far
}

// coolDown is when a cool-down began and how long it is; Steps 0: it has not.
type coolDown struct {
	From  int `json:"from"`
	Steps int `json:"steps"`
}

// rate returns the learning rate of a step, from 0.
func (s *Schedule) rate(step int, c coolDown) float64 {
	rate := s.Rate * min(float64(step+1)/float64(max(s.WarmUpSteps, 1)), 1)
	if c.Steps > 0 && step >= c.From {
		rate *= 1 - math.Sqrt(min(float64(step-c.From+1)/float64(c.Steps+1), 1))
	}
	return rate
}

// adam is the optimiser's state, and a running mean of the weights.
type adam struct {
	m, v, mean []float32
	decay      []bool // per value: does weight decay apply
}

func newAdam(tensors []model.Tensor, w []float32) *adam {
	o := &adam{m: make([]float32, len(w)), v: make([]float32, len(w)), mean: append([]float32(nil), w...)}
	for _, t := range tensors {
		for range t.Size() {
			o.decay = append(o.decay, t.IsMatrix())
		}
	}
	return o
}

// step applies the sum of the workers' gradients, which is left in the first, to w and
// returns the norm that it had before the clip. Each worker has a part of the values.
func (o *adam) step(s *Schedule, step int, c coolDown, w []float32, grads ...[]float32) (norm float64) {
	g := grads[0]
	norms := make([]float64, len(grads))
	parallel(len(grads), len(w), func(k, first, end int) {
		for _, other := range grads[1:] {
			kernel.Add(g[first:end], other[first:end])
		}
		for _, x := range g[first:end] {
			norms[k] += float64(x) * float64(x)
		}
	})
	for _, n := range norms {
		norm += n
	}
	norm = math.Sqrt(norm)
	clip := float32(1)
	if s.ClipNorm > 0 && norm > s.ClipNorm {
		clip = float32(s.ClipNorm / norm)
	}
	rate := s.rate(step, c)
	b1, b2 := float32(s.Beta1), float32(s.Beta2)
	rate1 := float32(rate / (1 - math.Pow(s.Beta1, float64(step+1))))
	scale2 := float32(1 / (1 - math.Pow(s.Beta2, float64(step+1))))
	shrink := float32(1 - rate*s.WeightDecay)
	keep := float32(1 - 1/max(s.Average*float64(step+1), 1))
	parallel(len(grads), len(w), func(_, first, end int) {
		w, g, m, v, mean, decay := w[first:end], g[first:end], o.m[first:end], o.v[first:end], o.mean[first:end], o.decay[first:end]
		for i, x := range g {
			x *= clip
			m[i] = b1*m[i] + (1-b1)*x
			v[i] = b2*v[i] + (1-b2)*x*x
			if decay[i] {
				w[i] *= shrink
			}
			w[i] -= rate1 * m[i] / (float32(math.Sqrt(float64(v[i]*scale2))) + 1e-8)
			mean[i] += (1 - keep) * (w[i] - mean[i])
		}
	})
	return norm
}

// parallel calls f for each worker's part of n values, at once, and waits.
func parallel(workers, n int, f func(k, first, end int)) {
	var wait sync.WaitGroup
	for k := range workers {
		wait.Go(func() { f(k, n*k/workers, n*(k+1)/workers) })
	}
	wait.Wait()
}
