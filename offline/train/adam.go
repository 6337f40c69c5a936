package train

import (
	"math"

	"prefdt/inference/model"
)

// Schedule is AdamW's (Loshchilov and Hutter 2019) with a linear warm-up and a
// cosine down to a fraction of the peak.
type Schedule struct {
	Rate     float64 `json:"rate" yaml:"rate"`       // peak learning rate
	Final    float64 `json:"final" yaml:"final"`     // fraction of the peak at the last step
	WarmUp   int     `json:"warm_up" yaml:"warm_up"` // steps
	Steps    int     `json:"steps" yaml:"steps"`     // of the whole run
	Beta1    float64 `json:"beta1" yaml:"beta1"`
	Beta2    float64 `json:"beta2" yaml:"beta2"`
	Decay    float64 `json:"decay" yaml:"decay"`         // weight decay of the matrices
	ClipNorm float64 `json:"clip_norm" yaml:"clip_norm"` // of the whole gradient
}

// DefaultSchedule is LAB's recipe.
func DefaultSchedule() Schedule {
	return Schedule{Rate: 1e-3, Final: 0.02, WarmUp: 100, Steps: 3000, Beta1: 0.9, Beta2: 0.98, Decay: 0.01, ClipNorm: 1}
}

// at returns the learning rate of a step, from 0.
func (s Schedule) at(step int) float64 {
	if step < s.WarmUp {
		return s.Rate * float64(step+1) / float64(s.WarmUp)
	}
	x := float64(step-s.WarmUp) / float64(max(s.Steps-s.WarmUp, 1))
	return s.Rate * (s.Final + (1-s.Final)*(1+math.Cos(math.Pi*min(x, 1)))/2)
}

// adam holds the optimiser's moments.
type adam struct {
	m, v  []float32
	decay []bool // per value: does weight decay apply
}

func newAdam(a model.Arch) *adam {
	n := a.Parameters()
	o := &adam{m: make([]float32, n), v: make([]float32, n)}
	for _, t := range a.Tensors() {
		for range t.Size() {
			o.decay = append(o.decay, t.Matrix())
		}
	}
	return o
}

// step applies a gradient to w and returns the norm it had before the clip.
func (o *adam) step(s Schedule, step int, w, g []float32) (norm float64) {
	for _, x := range g {
		norm += float64(x) * float64(x)
	}
	norm = math.Sqrt(norm)
	clip := float32(1)
	if s.ClipNorm > 0 && norm > s.ClipNorm {
		clip = float32(s.ClipNorm / norm)
	}
	rate := s.at(step)
	b1, b2 := float32(s.Beta1), float32(s.Beta2)
	rate1 := float32(rate / (1 - math.Pow(s.Beta1, float64(step+1))))
	scale2 := float32(1 / (1 - math.Pow(s.Beta2, float64(step+1))))
	shrink := float32(1 - rate*s.Decay)
	for i, x := range g {
		x *= clip
		m := b1*o.m[i] + (1-b1)*x
		v := b2*o.v[i] + (1-b2)*x*x
		o.m[i], o.v[i] = m, v
		if o.decay[i] {
			w[i] *= shrink
		}
		w[i] -= rate1 * m / (float32(math.Sqrt(float64(v*scale2))) + 1e-8)
	}
	return norm
}
