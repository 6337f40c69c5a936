package bench

import (
	"runtime"
	"time"

	"prefdt/inference"
	"prefdt/inference/checkpoint"
	"prefdt/inference/goal"
	"prefdt/inference/slot"
	"prefdt/offline/rollout"
	"prefdt/offline/seeds"
	"prefdt/simbridge/world"
)

// measureRollout returns the median seconds of a flight of the standard world's
// 100 slots, world included, on one core.
func measureRollout(ck *checkpoint.Checkpoint) (float64, error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	c := world.Standard()
	c.Physics = ck.Physics
	f, err := rollout.New(ck, inference.DecoderDispatch, c, rollout.ReportLink{})
	if err != nil {
		return 0, err
	}
	const flights = 41
	var times []float64
	for i := range uint64(flights) {
		omega := float64(i) / (flights - 1)
		start := time.Now()
		f.Fly(seeds.EvaluationFirst+i, rollout.Request{Mode: goal.Preference, Omega: omega})
		times = append(times, time.Since(start).Seconds())
	}
	return quantile(times, 0.5), nil
}

// measureDecision returns the median milliseconds of a whole decision: targets,
// tokens, step and dispatch, over a flight's snapshots with users and links as
// they come.
func measureDecision(ck *checkpoint.Checkpoint) (float64, error) {
	c := world.Standard()
	c.Physics = ck.Physics
	policy, err := inference.New(ck, inference.DecoderDispatch)
	if err != nil {
		return 0, err
	}
	var times []float64
	w := world.New(c, seeds.EvaluationFirst)
	var s slot.Snapshot
	var d slot.Decision
	var action world.Action
	for flight := range uint64(10) {
		w.Reset(seeds.EvaluationFirst + flight)
		policy.Reset()
		g := goal.New(&ck.GoalConstants, &c.Physics, c.Slots, c.Aircraft)
		for !w.Done() {
			w.Snapshot(&s)
			start := time.Now()
			seen := policy.Decide(&s, g, &d)
			times = append(times, time.Since(start).Seconds()*1e3)
			g.Observe(seen)
			w.FillAction(&s, &d, &action)
			o := w.Step(action)
			settled := goal.Settlement{DelayS: o.DelayS, EnergyJ: o.EnergyJ(), Flying: c.Aircraft}
			for m := range w.Aircraft {
				settled.EdgeJ += o.EdgeJ[m]
				settled.ModelFlightJ += c.Physics.Propulsion.PowerW(w.Aircraft[m].SpeedMPS)
			}
			g.Settle(settled)
		}
	}
	return quantile(times, 0.5), nil
}
