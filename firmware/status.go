package main

import (
	"math"

	"prefdt/firmware/energy"
	"prefdt/telemetry"
)

// publishStatus says how the mission stands, retained.
func (l *Leader) publishStatus() {
	l.seq++
	g := l.goal
	if g.Left() > 0 {
		l.setting = g.Setting() // afterwards a budget amounts to none
	}
	s := telemetry.Status{
		Seq: l.seq, Slot: g.Slot() - 1, Slots: l.Config.Slots, MissionS: float64(g.Slot()), State: l.state,
		Setting: l.setting, SpentJ: g.SpentJ(), FloorJ: g.FloorJ(), Saturated: g.Saturated(),
		UsersHeard: l.lastRow.Heard, MissedSlots: l.missed, DecisionMS: l.lastRow.DecisionMS,
		EnergySource: string(energy.Consumed), Aircraft: []telemetry.StatusAircraft{},
	}
	if g.Budgeted() {
		budget, mode, remaining := g.BudgetJ(), string(g.Mode()), g.BudgetJ()-g.SpentJ()
		s.BudgetJ, s.Mode, s.RemainingJ = &budget, &mode, &remaining
	}
	end := g.PredictedEndJ()
	if l.ending() {
		end, s.FloorJ, s.Saturated = g.SpentJ(), g.SpentJ(), g.Budgeted() && g.BudgetJ() < g.SpentJ()
	}
	if g.Slot() > 0 {
		s.PredictedEndJ = &end
	}
	for i := range l.views {
		v, c := &l.views[i], &l.craft[i]
		s.TransitJ += c.transitJ
		s.EnergySource = string(energy.Worse(energy.Source(s.EnergySource), v.Source))
		a := telemetry.StatusAircraft{
			Number: v.Number, SystemID: v.SystemID, EnergySource: string(v.Source), SpentJ: c.spentJ, Landed: v.Landed,
		}
		if v.Heard {
			age := math.Max(v.AgeS, 0)
			a.AgeS, a.Mode = &age, v.Mode.String()
		}
		if v.Located && math.Abs(v.Position.EastM) <= 1e5 && math.Abs(v.Position.NorthM) <= 1e5 && math.Abs(v.UpM) <= 1e5 {
			position, speed := [3]float64{v.Position.EastM, v.Position.NorthM, v.UpM}, v.SpeedMPS
			a.PositionM, a.SpeedMPS = &position, &speed
		}
		if !math.IsNaN(v.Charge) {
			charge := v.Charge
			a.Battery = &charge
		}
		s.Aircraft = append(s.Aircraft, a)
	}
	publish(l.broker, l.broker.topics.Status(), 0, true, s)
	l.fleet.Show("budget_j", g.BudgetJ()) // 0: a preference is in force
	l.fleet.Show("spent_j", g.SpentJ())
	l.fleet.Show("setting", s.Setting)
}
