package rollout

import (
	"prefdt/inference/goal"
	"prefdt/inference/slot"
	"prefdt/offline/pareto"
	"prefdt/simbridge/world"
)

// EnergyTrace is the energy spent and the delay so far, slot by slot, over seeds.
type EnergyTrace struct {
	BudgetJ        float64   `json:"budget_j"`
	ReviseSlot     int       `json:"revise"`
	RevisedBudgetJ float64   `json:"revised_j"`
	MeanJ          []float64 `json:"mean_j"` // [slot], 0 to T
	StdDevJ        []float64 `json:"std_j"`
	MeanDelayS     []float64 `json:"mean_delay_s"`
}

// TraceEnergy flies requests and keeps what was spent and the delay before each slot and
// at the end.
func TraceEnergy(p Policy, constants *goal.Constants, c world.Config, seeds []uint64, requests []Request) (traces []EnergyTrace, err error) {
	recorder := &progressRecorder{Policy: p}
	runner, err := NewWithPolicy(recorder, constants, c, ReportLink{})
	if err != nil {
		return nil, err
	}
	for _, request := range requests {
		t := EnergyTrace{BudgetJ: request.BudgetJ, ReviseSlot: request.ReviseSlot, RevisedBudgetJ: request.RevisedBudgetJ}
		spentJ, delayS := make([][]float64, c.Slots+1), make([][]float64, c.Slots+1) // [slot][seed]
		for _, seed := range seeds {
			recorder.points = recorder.points[:0]
			end := runner.Fly(seed, request).Point
			for i, at := range append(recorder.points, end) {
				spentJ[i], delayS[i] = append(spentJ[i], at.EnergyJ), append(delayS[i], at.DelayS)
			}
		}
		for i := range spentJ {
			j := pareto.Summarise(spentJ[i])
			t.MeanJ, t.StdDevJ = append(t.MeanJ, j.Mean), append(t.StdDevJ, j.Std)
			t.MeanDelayS = append(t.MeanDelayS, pareto.Summarise(delayS[i]).Mean)
		}
		traces = append(traces, t)
	}
	return traces, nil
}

// progressRecorder keeps the delay and the energy so far before each slot.
type progressRecorder struct {
	Policy
	points []pareto.Point
}

func (r *progressRecorder) Decide(s *slot.Snapshot, g goal.Objective, d *slot.Decision) goal.Observation {
	r.points = append(r.points, pareto.Point{DelayS: g.DelayS(), EnergyJ: g.SpentJ()})
	return r.Policy.Decide(s, g, d)
}
