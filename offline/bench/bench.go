// Package bench measures what a decision, a rollout and a training step cost
// on this machine, beside peers: gonum for matrix products, ONNX Runtime for
// the step, the standing figures of FIELD_NOTES for the rest. A checkpoint and
// the built programs come in, a table and bench.json go out. Figures are ratios
// taken in one run, the sides taking turns, since machines differ and others
// may use this one meanwhile.
package bench

import (
	"slices"
	"time"
)

// Report is bench.json. A figure that this machine cannot give is null, and
// Missing says why.
type Report struct {
	Processor string `json:"processor"` // GOARCH and the kernels in use
	Cores     int    `json:"cores"`

	GEMM            []GEMM                     `json:"gemm"`
	Step            *Step                      `json:"step"`       // at the checkpoint's size
	PaperStep       *Step                      `json:"paper_step"` // at the paper's size
	StepScaling     []ScaledStep               `json:"crowds"`     // the checkpoint's step, with more users or later
	DecisionP50MS   *float64                   `json:"decision_p50_ms"`
	RolloutS        *float64                   `json:"rollout_s"`
	TrainTokensPerS *float64                   `json:"train_tokens_per_s"` // at the checkpoint's size
	TrainingSteps   []TrainingStep             `json:"train"`
	Leader          map[string]LeaderFootprint `json:"leader"` // by architecture
	Missing         map[string]string          `json:"missing,omitempty"`
}

// quantile returns the q-quantile of durations, which it sorts, in milliseconds.
func quantile(times []float64, q float64) float64 {
	slices.Sort(times)
	return times[min(int(q*float64(len(times))), len(times)-1)]
}

// leastSeconds returns the least seconds that one call of each function took over
// rounds in which they take turns, each at least span long.
func leastSeconds(rounds int, span time.Duration, fs ...func()) []float64 {
	best := make([]float64, len(fs))
	for round := range rounds + 1 { // the first warms up
		for i, f := range fs {
			calls, start := 0, time.Now()
			for calls == 0 || time.Since(start) < span {
				f()
				calls++
			}
			if s := time.Since(start).Seconds() / float64(calls); round == 1 || round > 1 && s < best[i] {
				best[i] = s
			}
		}
	}
	return best
}
