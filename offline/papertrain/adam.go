package papertrain

import (
	"math"

	"prefdt/offline/train"
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

// step is what a step of the schedule is made with.
func (s *Schedule) step(n int, c coolDown) train.AdamStep {
	return train.AdamStep{Number: n, Rate: s.rate(n, c), Beta1: s.Beta1, Beta2: s.Beta2, WeightDecay: s.WeightDecay, ClipNorm: s.ClipNorm}
}

// takeMean moves a running mean of the weights to those after step n, with as many workers.
func (s *Schedule) takeMean(n, workers int, mean, w []float32) {
	keep := float32(1 - 1/max(s.Average*float64(n+1), 1))
	train.ParallelRanges(workers, len(w), func(_, first, end int) {
		for i := first; i < end; i++ {
			mean[i] += (1 - keep) * (w[i] - mean[i])
		}
	})
}
