// Package bench measures this machine's figures that a testing.B cannot: the
// network's step against ONNX Runtime, the two sides taking turns so that their
// ratio holds on any machine and beside any load; a whole flight, which CI holds
// to ONNX Runtime's time; the size and memory of the leader's programs; and
// how a worker serves its users.
// Inputs: a checkpoint and the built programs. Outputs: a table and bench.json.
// "offline bench" calls it. Everything else is timed by the benchmarks of the
// packages themselves (make bench); those here are of the training step, and of
// the step at other numbers of users.
package bench

import "slices"

// Report is bench.json. A figure that this machine cannot give is null, and
// Missing holds the reason.
type Report struct {
	Processor string `json:"processor"` // GOARCH and the kernels in use
	Cores     int    `json:"cores"`

	Step          *Step                      `json:"step"`       // at the checkpoint's size
	PaperStep     *Step                      `json:"paper_step"` // at the paper's size
	DecisionP50MS *float64                   `json:"decision_p50_ms"`
	RolloutS      *float64                   `json:"rollout_s"`
	Scale         []Scale                    `json:"scale,omitempty"`
	Leader        map[string]LeaderFootprint `json:"leader"` // by architecture
	Tasks         []Tasks                    `json:"tasks,omitempty"`
	Loop          *Loop                      `json:"loop,omitempty"`
	Missing       map[string]string          `json:"missing,omitempty"`
}

// quantile returns the q-quantile of durations, which it sorts, in milliseconds.
func quantile(times []float64, q float64) float64 {
	slices.Sort(times)
	return times[min(int(q*float64(len(times))), len(times)-1)]
}
