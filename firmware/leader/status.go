package leader

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"prefdt/firmware/account"
	"prefdt/firmware/energy"
	"prefdt/firmware/fleet"
	"prefdt/inference/goal"
	"prefdt/telemetry"
)

// publish publishes a status with the next sequence number, the present challenge, and what would be refused now.
func (l *Leader) publish(s telemetry.Status) {
	l.current.statusSeq++
	s.Seq, s.Challenge, s.Refuses = l.current.statusSeq, l.crew.Challenge(), l.checks(l.fleet.Views()).refuses()
	l.mqtt.PublishStatus(s)
	l.fleet.AnnounceValue("budget_j", l.account.RequestedJ()) // 0: a preference is in force
	l.fleet.AnnounceValue("spent_j", s.SpentJ)
	l.fleet.AnnounceValue("setting", s.Setting)
}

// status composes the present state, without sequence number and challenge.
func (l *Leader) status(views []fleet.View) telemetry.Status {
	o := l.account.Objective()
	if o.SlotsLeft() > 0 || !o.Budgeted() { // after the last slot a budget has no setting that it amounts to
		l.current.setting = o.Setting()
	}
	warning := "" // what the crew has to know of flight power, in a mission that flies: first it is logged
	if l.mission.InSlots() {
		warning = l.account.FlightWarning()
		if warning != "" && !l.current.warnedOfFlight {
			l.Log.Warn("flight is not as the checkpoint expects", "reason", warning)
		}
		l.current.warnedOfFlight = warning != ""
	}
	s := telemetry.Status{
		Slot: o.Slot() - 1, Slots: l.Config.Slots, MissionS: float64(o.Slot()), Mission: l.mission.ID(), State: l.mission.Phase(),
		Reason:  cmp.Or(l.mission.Reason(), warning),
		Setting: l.current.setting, SpentJ: o.SpentJ(), FloorJ: o.FloorJ(), Saturated: o.Saturated(), TransitJ: l.account.TransitJ(),
		UsersHeard: l.current.lastRow.Reported, MissedSlots: l.schedule.Missed, DecisionMS: l.current.lastRow.DecisionMS,
		EnergySource: string(energy.Consumed), LastCommand: l.crew.LastCommand(), CrewAgeS: l.mission.CrewAgeS(),
		Aircraft: []telemetry.StatusAircraft{},
	}
	end, predicted := o.PredictedEndJ(), o.Slot() > 0
	if b := l.account.Bounds(); b != nil {
		s.SpentJ = l.account.DrawnJ()
		s.BudgetJ, s.Mode, s.RemainingJ, s.Scope = new(b.BudgetJ), new(string(b.Mode)), new(b.BudgetJ-s.SpentJ), b.Scope
		if end = l.duty.endJ; l.duty.inForce {
			s.FloorJ, s.Saturated, s.CoveredUntilSlot = l.duty.floorJ, l.duty.saturates(b), new(l.duty.covered)
		}
		predicted = predicted && (l.duty.inForce || l.mission.Ending()) // a leader that has just started has not planned yet
	} else if o.Budgeted() {
		s.BudgetJ, s.Mode, s.RemainingJ, s.Scope = new(o.BudgetJ()), new(string(o.Mode())), new(o.BudgetJ()-o.SpentJ()),
			telemetry.ScopeSlots
	}
	if l.mission.Ending() {
		end = s.SpentJ + l.account.WaysHomeJ(views)
		s.FloorJ, s.Saturated = end, s.BudgetJ != nil && *s.BudgetJ < s.SpentJ
	}
	if predicted {
		s.PredictedEndJ = &end
	}
	if l.mission.InSlots() && l.current.decided {
		s.ValueSPerJ = new(l.users.PriceSPerJ)
	}
	for _, v := range views {
		s.EnergySource = string(energy.Worse(energy.Source(s.EnergySource), v.Source))
		a := telemetry.StatusAircraft{
			Number: v.Number, SystemID: v.SystemID, EnergySource: string(v.Source), SpentJ: l.account.AircraftDrawnJ(v.Number),
			Landed: v.Landed, Reason: reasonText(&v),
			Worker: l.workers.Status(v.Number, l.Clock.Now()),
		}
		if v.Received {
			a.AgeS, a.Mode, a.Role, a.Autopilot = new(math.Max(v.AgeS, 0)), v.ModeName, v.Role.String(), v.Autopilot()
		}
		if v.Located && math.Abs(v.Position.EastM) <= 1e5 && math.Abs(v.Position.NorthM) <= 1e5 && v.UpM.Off(0) <= 1e5 {
			a.PositionM, a.SpeedMPS = &[3]float64{v.Position.EastM, v.Position.NorthM, float64(v.UpM)}, new(v.SpeedMPS)
		}
		if !math.IsNaN(v.Charge) {
			a.Battery = new(v.Charge)
		}
		a.Duty = l.duty.part(&v, l.mission.InSlots())
		l.duty.addTo(&a, &v, &l.account)
		s.Aircraft = append(s.Aircraft, a)
	}
	s.Dangers, l.current.dangerSince = dangers(&s, l.current.dangerSince, &l.mission, &l.account, views)
	return s
}

// reasonText is why an aircraft does not fly as commanded: by the leader's own decision, by its pilot's, by its
// autopilot's, or for its link.
func reasonText(v *fleet.View) string {
	sentHome := v.SentHome
	if sentHome != "" {
		sentHome = "sent home: " + sentHome
	}
	reasons := []string{sentHome, v.Reason, v.LinkTrouble}
	return strings.Join(slices.DeleteFunc(reasons, func(s string) bool { return s == "" }), ": ")
}

// addTo adds to an aircraft's status what its pack has for the mission, where a budget has bounds.
func (d *dutyPlan) addTo(a *telemetry.StatusAircraft, v *fleet.View, by *account.Account) {
	if !v.Received || !v.Located || by.Bounds() == nil {
		return
	}
	homeJ := 0.0
	if v.InAir {
		homeJ = by.WayHome(v).TotalJ()
	}
	a.UsableJ, a.ReserveJ, a.HomeJ = new(by.UsableJ(v)), new(by.KeptJ(v)), &homeJ
	if !d.inForce {
		a.LeftAtTouchdownJ = new(max(*a.UsableJ-homeJ, 0))
		return
	}
	a.LeftAtTouchdownJ = new(d.leftJ[v.Number-1])
	if x := &d.input.Aircraft[v.Number-1]; by.Bounds().MayLand() && !x.Left && !d.leaving(v.Number) {
		a.FliesUntilSlot = new(d.orders[v.Number-1].FliesUntil - 1)
	}
}

// LoopReport is the state of the loop after an iteration, for metrics and watchdog.
type LoopReport struct {
	At                time.Duration // on the leader's clock
	Mission, State    string
	HeldBy            string
	Slot, MissedSlots int
	Objective         goal.Objective
	TransitJ          float64
	PriceSPerJ        float64
	LedgerMS          float64
	Connected         bool // to the broker
	LastRow           account.Row
	RejectedMessages  map[string]uint64 // MQTT messages refused, by kind
	DroppedMessages   map[string]uint64 // MQTT messages dropped for a full queue, by queue
	RejectedFrames    map[string]uint64 // MAVLink frames refused, by reason
	FleetCounts       fleet.Counts
	Aircraft          []AircraftReport
}

// AircraftReport is one aircraft of a LoopReport.
type AircraftReport struct {
	fleet.View
	SpentJ float64
}

func (l *Leader) reportIteration() {
	if l.OnIteration == nil {
		return
	}
	r := LoopReport{
		At: l.Clock.Now(), Mission: l.mission.ID(), State: l.mission.Phase(), HeldBy: l.mission.HeldBy(), Slot: l.schedule.Current(),
		MissedSlots: l.schedule.Missed,
		Objective:   l.account.Objective(), TransitJ: l.account.TransitJ(),
		PriceSPerJ: l.users.PriceSPerJ, LedgerMS: l.ledgerWriter.lastWriteMS, Connected: l.mqtt.Connected(), LastRow: l.current.lastRow,
		RejectedMessages: l.mqtt.Rejects.Counts(), DroppedMessages: l.mqtt.Dropped(), RejectedFrames: l.fleet.RejectedFrames(),
		FleetCounts: l.fleet.Counts(),
	}
	for i, v := range l.fleet.Views() {
		r.Aircraft = append(r.Aircraft, AircraftReport{v, l.account.SpentJ(i)})
	}
	l.OnIteration(r)
}
