package compare

import (
	"fmt"

	"prefdt/inference"
	"prefdt/inference/checkpoint"
	"prefdt/offline/rollout"
)

// BesideModel is a flight whose tasks were computed beside a rollout of the same seed, and so the
// same arrivals, with the same request and missed slots.
type BesideModel struct {
	Arrivals    int     `json:"arrivals"` // tasks that the world had
	Tasks       int     `json:"tasks"`    // of them, that were computed
	MissedSlots int     `json:"missed_slots"`
	Flight      Cost    `json:"flight"` // its delay as users measured it
	Rollout     Cost    `json:"rollout"`
	DelayError  float64 `json:"delay_error"`
	EnergyError float64 `json:"energy_error"` // of the flight against the rollout
}

// CompareExecuted flies the rollout: with the cycles of a bit that were measured, and the CPU
// that the workers had in the mean.
func CompareExecuted(f *Flight) (c BesideModel, err error) {
	x := f.Summary.Executed
	if !(x.EdgeCPUHz > 0 && x.CyclesPerBit > 0) {
		return c, fmt.Errorf("compare: no worker was offered, or the flight is an old one: its edge_cpu_hz is %v, cycles_per_bit %v",
			x.EdgeCPUHz, x.CyclesPerBit)
	}
	frozen, err := checkpoint.Load(f.Leader.Checkpoint)
	if err != nil {
		return c, err
	}
	w := f.World
	w.CyclesPerBit, w.Physics.EdgeCPUHz = x.CyclesPerBit, x.EdgeCPUHz
	l := rollout.ReportLink{Fallback: rollout.FallbackOffer, Missed: func(n int) bool { return n < len(f.Slots) && f.Slots[n].Missed }}
	r, err := rollout.New(frozen, inference.DecoderOf(f.Leader.Decoder), w, l)
	if err != nil {
		return c, err
	}
	c.Rollout = f.rollout(r)
	c.Flight, c.MissedSlots = f.cost()
	c.Arrivals, c.Tasks, c.Flight.DelayS = f.Summary.Tasks.Total, x.Tasks, x.MeasuredDelayS
	c.DelayError, c.EnergyError = c.Flight.DelayS/c.Rollout.DelayS-1, c.Flight.EnergyJ/c.Rollout.EnergyJ-1
	return c, nil
}

// String says how far the flight is off.
func (c *BesideModel) String() string {
	return fmt.Sprintf("%d of %d tasks took %.1f s, a rollout of the same arrivals %.1f s: the flight is off by %+.1f %%, its joules by "+
		"%+.1f %%", c.Tasks, c.Arrivals, c.Flight.DelayS, c.Rollout.DelayS, 100*c.DelayError, 100*c.EnergyError)
}
