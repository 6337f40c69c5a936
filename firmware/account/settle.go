package account

import (
	"math"

	"prefdt/firmware/fleet"
	"prefdt/inference/goal"
)

// Settle settles slot n, and the missed slots before it, from the meters and the
// delays as far as they are known. offerEdgeJ returns the edge energy of a number of
// users that accepted the standing offer: expected, and at most. It returns a row for
// each slot.
func (a *Account) Settle(n int, views []fleet.View, offerEdgeJ func(users int) (expectedJ, mostJ float64)) (rows []Row) {
	by, flying, comparable := a.advanceMeters(views, 0)
	first := a.objective.Slot()
	slots := n - first + 1
	sum := goal.Settlement{Slots: slots, Flying: flying}
	for i := range by {
		a.aircraft[i].SpentJ += by[i].energyJ
		sum.EnergyJ += by[i].energyJ
		// The joules of missed slots are counted at once, at speeds that may not have
		// been received: they do not measure the multiplier.
		if comparable && slots == 1 && (views[i].InAir || by[i].energyJ > 0) {
			sum.ModelFlightJ += by[i].modelJ
		}
	}
	share := 1 / float64(slots)
	// What the fleet's CPUs compute in a slot bounds what users of the offer took,
	// whatever tasks they reported.
	p := &a.Physics
	mostEdgeJ := p.SwitchedCapacitance * p.EdgeCPUHz * p.EdgeCPUHz * p.EdgeCPUHz * float64(len(by))
	for k := first; k <= n; k++ {
		row := Row{Slot: k, EnergyJ: sum.EnergyJ * share, PropulsionMultiplier: a.objective.PropulsionMultiplier(), DelayS: a.allLocalDelayS, Missed: true}
		if r := a.results[k]; r != nil { // otherwise no decision was possible, and all was computed locally
			r.settled = true
			expectedJ, mostJ := offerEdgeJ(r.offerUsers)
			expectedJ, mostJ = min(expectedJ, mostEdgeJ), min(mostJ, mostEdgeJ)
			row.Missed, row.DelayS, row.EdgeJ = false, r.delayS, r.edgeJ+expectedJ
			row.Reported, row.Offloaded, row.PriceSPerJ, row.DecisionMS = r.reported, r.offloaded, r.priceSPerJ, r.decisionMS
			sum.MinEdgeJ += r.edgeJ
			sum.MaxEdgeJ += r.edgeJ + mostJ
		}
		sum.DelayS += row.DelayS
		sum.EdgeJ += row.EdgeJ
		for i := range by {
			v, c := &views[i], &a.aircraft[i]
			row.Aircraft = append(row.Aircraft, AircraftRow{
				Number: v.Number, EnergyJ: by[i].energyJ * share, SpentJ: c.SpentJ, Source: v.Source,
				ErrorJ: v.UncertaintyJ + c.StartErrorJ + math.Max(c.AccountedJ-v.TotalJ, 0),
				EastM:  v.Position.EastM, NorthM: v.Position.NorthM,
			})
		}
		rows = append(rows, row)
	}
	a.settleObjective(sum)
	return rows
}
