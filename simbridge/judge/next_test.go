package judge

import (
	"testing"

	"prefdt/simbridge/record"
	"prefdt/simbridge/world"
	"prefdt/telemetry"
)

func TestNextRules(t *testing.T) {
	const packJ, leftJ = 100e3, 60e3
	onGround := func(f *flight) {
		f.next, f.handled = newFlight(), "kept new"
		f.next.Flight = f.Flight
		for _, a := range f.aircraft {
			f.next.aircraft = append(f.next.aircraft, &aircraft{Aircraft: a.Aircraft, airframe: a.airframe, number: a.number,
				states: []state{{200, record.State{OnGround: true, PackJ: packJ, LeftJ: leftJ, SpentJ: packJ - leftJ}, 0}}})
		}
		packs := telemetry.Budget{ID: "packs", Packs: []telemetry.Pack{{Aircraft: 1, Reserve: new(0.2)}, {Aircraft: 2, Reserve: new(0.2)}}}
		f.next.give(201, true, order{kind: telemetry.KindBudget, budget: packs})
		f.next.give(220, true, order{kind: telemetry.KindMission, mission: telemetry.Mission{Action: telemetry.ActionStart}})
		s := status{timeS: 210, Status: telemetry.Status{BudgetJ: new(2 * leftJ)}}
		for n := range f.next.aircraft {
			s.Aircraft = append(s.Aircraft, telemetry.StatusAircraft{Number: n + 1, UsableJ: new(leftJ)})
		}
		f.next.statuses = append(f.next.statuses, s)
	}
	dear := func(f *flight) {
		onGround(f)
		_, bestW := f.Physics.MinPower()
		f.World.Shock = world.Shock{FromSlot: 2, Factor: 1.5}
		s := status{timeS: 205, Status: telemetry.Status{State: telemetry.StateIdle, FloorJ: 1.5 * bestW * 2 * float64(f.Slots)}}
		f.next.statuses = append([]status{s}, f.next.statuses...)
	}
	testRules(t, nextRules, []ruleCase{
		{"next floor", "by the checkpoint", dear, func(f *flight) { f.next.statuses[0].FloorJ /= 1.5 }},
		{"pack at rest", "taken for full", onGround, func(f *flight) { *f.next.statuses[0].Aircraft[0].UsableJ = packJ }},
		{"within packs", "a start", onGround, func(f *flight) { *f.next.statuses[0].BudgetJ = 3 * packJ }},
		{"within packs", "a budget", onGround, func(f *flight) { f.next.orders[0].budget.EnergyJ = 3 * packJ }},
		{"enough for a flight", "a used pack", onGround, func(f *flight) { f.next.aircraft[0].states[0].LeftJ = 25e3 }},
	})
	f := servingFlight() // of which all slots in which flying cost more were missed
	dear(f)
	f.next.statuses[0].FloorJ /= 1.5
	for i := range f.end.Ledger.Rows {
		f.end.Ledger.Rows[i].Missed = true
	}
	if got := judged(t, "next floor", f); got.Broken > 0 || got.Active > 0 {
		t.Errorf("nothing was measured: %+v", got)
	}
}
