package leader

import (
	"math"

	"prefdt/firmware/energy"
	"prefdt/telemetry"
)

func (l *Leader) publishStatus() {
	l.current.statusSeq++
	o := l.account.Objective()
	if o.SlotsLeft() > 0 {
		l.current.setting = o.Setting() // after the last slot a budget has no setting that it amounts to
	}
	s := telemetry.Status{
		Seq: l.current.statusSeq, Slot: o.Slot() - 1, Slots: l.Config.Slots, MissionS: float64(o.Slot()), State: l.mission.Phase(),
		Setting: l.current.setting, SpentJ: o.SpentJ(), FloorJ: o.FloorJ(), Saturated: o.Saturated(), TransitJ: l.account.TransitJ(),
		UsersHeard: l.current.lastRow.Reported, MissedSlots: l.schedule.Missed, DecisionMS: l.current.lastRow.DecisionMS,
		EnergySource: string(energy.Consumed), Challenge: l.crew.Challenge(), LastCommand: l.crew.LastCommand(), Aircraft: []telemetry.StatusAircraft{},
	}
	if o.Budgeted() {
		budget, mode, remaining := o.BudgetJ(), string(o.Mode()), o.BudgetJ()-o.SpentJ()
		s.BudgetJ, s.Mode, s.RemainingJ = &budget, &mode, &remaining
	}
	end := o.PredictedEndJ()
	if l.mission.Ending() {
		end, s.FloorJ, s.Saturated = o.SpentJ(), o.SpentJ(), o.Budgeted() && o.BudgetJ() < o.SpentJ()
	}
	if o.Slot() > 0 {
		s.PredictedEndJ = &end
	}
	for i, v := range l.views {
		s.EnergySource = string(energy.Worse(energy.Source(s.EnergySource), v.Source))
		a := telemetry.StatusAircraft{
			Number: v.Number, SystemID: v.SystemID, EnergySource: string(v.Source), SpentJ: l.account.SpentJ(i), Landed: v.Landed, Reason: v.Reason,
		}
		if v.Received {
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
	l.mqtt.PublishStatus(s)
	l.fleet.AnnounceValue("budget_j", o.BudgetJ()) // 0: a preference is in force
	l.fleet.AnnounceValue("spent_j", o.SpentJ())
	l.fleet.AnnounceValue("setting", s.Setting)
}
