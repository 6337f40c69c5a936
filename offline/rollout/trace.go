package rollout

import "prefdt/offline/pareto"

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
func TraceEnergy(f *Runner, seeds []uint64, requests []Request) (traces []EnergyTrace) {
	slots := f.world.Config.Slots
	defer func(before func(int, float64, float64)) { f.OnSettled = before }(f.OnSettled)
	for _, request := range requests {
		t := EnergyTrace{BudgetJ: request.BudgetJ, ReviseSlot: request.ReviseSlot, RevisedBudgetJ: request.RevisedBudgetJ}
		spentJ, delayS := make([][]float64, slots+1), make([][]float64, slots+1) // [slot][seed]
		for _, seed := range seeds {
			var at pareto.Point
			spentJ[0], delayS[0] = append(spentJ[0], 0), append(delayS[0], 0)
			f.OnSettled = func(slot int, delay, energyJ float64) {
				at.DelayS, at.EnergyJ = at.DelayS+delay, at.EnergyJ+energyJ
				spentJ[slot+1], delayS[slot+1] = append(spentJ[slot+1], at.EnergyJ), append(delayS[slot+1], at.DelayS)
			}
			f.Fly(seed, request)
		}
		for i := range spentJ {
			j := pareto.Summarise(spentJ[i])
			t.MeanJ, t.StdDevJ = append(t.MeanJ, j.Mean), append(t.StdDevJ, j.Std)
			t.MeanDelayS = append(t.MeanDelayS, pareto.Summarise(delayS[i]).Mean)
		}
		traces = append(traces, t)
	}
	return traces
}
