package learned

import (
	"math"

	"prefdt/inference/kernel"
	"prefdt/inference/slot"
)

// timing is the speed that one result shows of a user's CPU.
type timing struct {
	arrived, slot int
	slow          float64 // 0: as reported, 1: throttled, by the logarithm of the speed
}

const (
	timingFeatures = 5
	phoneFeatures  = 2
	phoneOutputs   = 1
)

func newTiming(r *slot.Result, reportedHz, factor float64, now int) timing {
	slow := math.Log(r.LocalCycles/r.LocalS/reportedHz) / math.Log(min(factor, 0.99))
	return timing{now, r.Slot, min(max(slow, -1), 2)}
}

func (o *timing) appendRow(rows []float32, slot int) []float32 {
	age := float64(slot - o.slot)
	return append(rows, float32(o.slow), float32(age/ageScale), float32(math.Exp(-age/3)), float32(math.Exp(-age/10)), 1)
}

// Throttled returns the probability that an output stands for.
func Throttled[T kernel.Float](y T) float64 { return 1 / (1 + math.Exp(-float64(y))) }
