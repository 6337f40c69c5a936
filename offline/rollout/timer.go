package rollout

import (
	"slices"
	"time"

	"prefdt/inference/goal"
	"prefdt/inference/slot"
)

// DecisionTimer is a policy that keeps how long each of its decisions took.
type DecisionTimer struct {
	Policy
	times []time.Duration
}

// Decide implements Policy.
func (t *DecisionTimer) Decide(s *slot.Snapshot, o goal.Objective, d *slot.Decision) goal.Observation {
	start := time.Now()
	observed := t.Policy.Decide(s, o, d)
	t.times = append(t.times, time.Since(start))
	return observed
}

// Median returns the median time of a decision; there must have been one.
func (t *DecisionTimer) Median() time.Duration {
	slices.Sort(t.times)
	return t.times[len(t.times)/2]
}
