package bench

import (
	"runtime"
	"time"

	"prefdt/inference"
	"prefdt/inference/checkpoint"
	"prefdt/inference/goal"
	"prefdt/offline/rollout"
	"prefdt/offline/seeds"
	"prefdt/simbridge/world"
)

// measureRollout returns the median seconds of a flight of the standard world's
// 100 slots, world included, on one core, and the median milliseconds of one of
// its decisions: targets, tokens, step and dispatch.
func measureRollout(ck *checkpoint.Checkpoint) (flightS, decisionMS float64, err error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	c := world.Standard()
	c.Physics = ck.Physics
	policy, err := inference.New(ck, inference.DecoderDispatch)
	if err != nil {
		return 0, 0, err
	}
	timer := &rollout.DecisionTimer{Policy: policy}
	runner, err := rollout.NewWithPolicy(timer, &ck.GoalConstants, c, rollout.ReportLink{})
	if err != nil {
		return 0, 0, err
	}
	const flights = 41
	var times []float64
	for i := range uint64(flights) {
		omega := float64(i) / (flights - 1)
		start := time.Now()
		runner.Fly(seeds.EvaluationFirst+i, rollout.Request{Mode: goal.Preference, Omega: omega})
		times = append(times, time.Since(start).Seconds())
	}
	return quantile(times, 0.5), timer.Median().Seconds() * 1e3, nil
}
