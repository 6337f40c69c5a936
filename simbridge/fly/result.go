package fly

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"prefdt/simbridge/autopilot"
	"prefdt/simbridge/battery"
	"prefdt/simbridge/report"
	"prefdt/simbridge/sitl"
	"prefdt/simbridge/users"
	"prefdt/simbridge/world"
	"prefdt/telemetry"
)

// buildReport collects the report of the flight from its parts, after the last slot.
func (f *flight) buildReport(landed bool) *report.Flight {
	status := f.observer.status()
	o, records := f.observer.recorded()
	trails, separationM, speedMPS := f.fleet.flown()
	r := &report.Flight{
		Trails: trails, Users: f.users.Positions(), AreaM: f.World.Physics.AreaSideM, Slots: status.Slots,
		States: records.states, Touchdowns: f.fleet.touchdowns(),
	}
	if shock := f.World.Shock; shock.Factor != 0 && shock.Factor != 1 {
		r.Shock = &report.Shock{Slot: shock.FromSlot, Factor: shock.Factor}
	}
	budgets := acceptedBudgets(&records)
	drawn, spent := make([]map[int]battery.Spent, len(f.fleet.vehicles)), make([]map[int]battery.Spent, len(f.fleet.vehicles))
	for m, a := range f.fleet.vehicles {
		drawn[m] = a.BySlot()
		spent[m] = maps.Clone(drawn[m])
		records.transit.move(spent[m], m, r.Slots)
	}
	// From the first slot to the last that was flown, also those that no beacon opened. The leader settles slots that
	// it missed, the last of a mission too; what a return or a stop left over is never settled.
	r.Rows = make([]report.Row, max(f.observer.lastSlot(), status.Slot)+1)
	var executed *report.Executed
	if f.executed != nil {
		executed = f.executed.summarize()
	}
	f.users.ComputeUnopened(len(r.Rows))
	f.fillRows(r, drawn, spent, records.statusBySlot)

	s := &r.Summary
	*s = report.Summary{
		State: status.State, Landed: landed, Seed: f.Seed, Speed: f.Speed, Broker: f.url,
		PlannedSlots: r.Slots, Slots: o.slotsOpened, MissedSlots: len(r.Rows) - o.slotsOpened, RepeatedSlots: o.repeatedBeacons,
		LeaderMissedSlots: status.MissedSlots, Decisions: o.decisions,
		EnergySource: status.EnergySource, MaxSpeedMPS: speedMPS, Commands: f.commands,
		Traffic: report.Traffic{ControlBytes: o.controlBytes},
		World:   &f.World, ReportLoss: f.Users.ReportLoss, Budgets: budgets, Executed: executed,
	}
	if f.World.HidesState() {
		for _, o := range f.users.Outcomes() {
			r.Tasks = append(r.Tasks, report.Task{Slot: o.Slot, User: o.User, ByDecision: o.By == telemetry.ByDecision, DelayS: o.DelayS})
		}
	}
	if !math.IsInf(separationM, 1) {
		s.MinSeparationM = &separationM
	}
	for i := range s.Commands {
		c := &s.Commands[i]
		a := records.acks[c.ID]
		c.Accepted, c.EffectiveSlot, c.Saturated, c.FloorJ, c.Reason = a.Accepted, a.EffectiveSlot, a.Saturated, a.FloorJ, a.Reason
	}
	for _, outcome := range f.users.Outcomes() {
		s.Traffic.OffloadedBits += outcome.Bits
	}
	if s.Traffic.OffloadedBits > 0 {
		s.Traffic.Ratio = 8 * float64(s.Traffic.ControlBytes) / s.Traffic.OffloadedBits
	}
	sumRows(s, r)
	for m, a := range f.fleet.vehicles {
		state := a.State()
		aircraft := report.AircraftSummary{
			Number: m + 1, PackJ: state.PackJ, LeftJ: state.LeftJ, LeftSlot: leftSlot(records.statusBySlot, m),
			Setpoints: state.Traffic.Setpoints, SetpointsRefused: state.Traffic.Refused,
			MAVLinkCommands: state.Traffic.Commands, MalformedFrames: state.Traffic.Malformed, Lost: f.fleet.isLost(m),
		}
		if v, ok := a.(*sitl.Vehicle); ok {
			aircraft.ClockRate = v.ClockRate()
			aircraft.OwnBattery, aircraft.UndrawnEdgeJ = v.OwnBattery()
		}
		for slot, j := range spent[m] {
			if slot < 0 || slot >= len(r.Rows) {
				aircraft.TransitJ += j.J()
				continue
			}
			aircraft.FlightJ += j.FlightJ
			aircraft.EdgeJ += j.EdgeJ
		}
		s.Setpoints += aircraft.Setpoints
		s.Budget.TransitJ += aircraft.TransitJ
		s.Aircraft = append(s.Aircraft, aircraft)
	}
	r.Latencies, s.Latency = f.fleet.latency.summarize()
	s.Budget.LeaderTransitJ = status.TransitJ
	judgeBudget(&s.Budget, s.Budgets, s.Aircraft, status.SpentJ)
	var decisionMS []float64
	for _, status := range records.statusBySlot {
		decisionMS = append(decisionMS, status.DecisionMS)
	}
	s.DecisionMS = report.QuantilesOf(decisionMS)
	s.Problems = problems(s, r.SpentBeforeJ)
	return r
}

// leftSlot is the slot from which on aircraft m, from 0, was on its way home before the mission's end; 0: it stayed.
func leftSlot(bySlot map[int]telemetry.Status, m int) int {
	left := 0
	for _, slot := range slices.Sorted(maps.Keys(bySlot)) {
		s := bySlot[slot]
		switch {
		case isEnding(s.State) || m >= len(s.Aircraft):
		case s.Aircraft[m].Duty == telemetry.DutyServing: // also one that was launched again
			left = 0
		case s.Aircraft[m].Duty == telemetry.DutyLeaving && left == 0:
			left = slot + 1 // what a settlement tells is of the slot that opens
		}
	}
	return left
}

// acceptedBudgets are those that the leader accepted, in order, and the end of one that a preference cleared.
func acceptedBudgets(x *records) (budgets []report.Budget) {
	for _, id := range x.ackOrder {
		a, b := x.acks[id], x.budgets[id]
		switch n := len(budgets); {
		case !a.Accepted:
		case b.ID != "":
			accepted := report.Budget{
				Slot: *a.EffectiveSlot, EnergyJ: b.EnergyJ, Landed: b.Scope == telemetry.ScopeLanded,
				OfPacks: b.EnergyJ == 0, Packs: b.Packs,
			}
			if accepted.OfPacks && a.EnergyJ != nil {
				accepted.EnergyJ = *a.EnergyJ
			}
			budgets = append(budgets, accepted)
		case a.Setting != nil && n > 0 && budgets[n-1].EnergyJ > 0: // a preference clears a budget
			budgets = append(budgets, report.Budget{Slot: *a.EffectiveSlot})
		}
	}
	return budgets
}

// missedMost is the share of missed slots above which a completed flight ends with an error.
const missedMost = 0.05

// unkeepable says from where on no budget as low as the last one could be kept, if that is so; "" also where that
// is not known: in wind, with a payload, or if an aircraft came home early.
func unkeepable(s *report.Summary, spentBeforeJ func(slot int) float64) string {
	cameHome := slices.ContainsFunc(s.Aircraft, func(a report.AircraftSummary) bool { return a.LeftSlot > 0 || a.Lost })
	if s.World == nil || s.World.HidesState() || len(s.World.AircraftLosses) > 0 || len(s.Budgets) == 0 || cameHome {
		return ""
	}
	slot, what := s.Budgets[len(s.Budgets)-1].Slot, "budget"
	for _, shock := range []world.Shock{s.World.Shock, s.World.SecondShock} {
		if shock.Factor != 0 && shock.FromSlot > slot && shock.FromSlot < s.World.Slots {
			slot, what = shock.FromSlot, "change"
		}
	}
	leastJ := spentBeforeJ(slot) + s.World.FloorFromJ(slot)
	if s.Budget.Landed {
		leastJ += s.Budget.TransitJ
	}
	if leastJ <= s.Budget.RevisedJ {
		return ""
	}
	return fmt.Sprintf(": after the %s at slot %d no less than %s kJ could be kept", what, slot, kilojoules(leastJ))
}

// problems are what a completed flight has to say first, a line each. spentBeforeJ is what was spent in the slots
// before one.
func problems(s *report.Summary, spentBeforeJ func(slot int) float64) (list []string) {
	if slots := s.Slots + s.MissedSlots; float64(s.MissedSlots) > missedMost*float64(slots) {
		list = append(list, fmt.Sprintf("%d of %d slots were missed: the leader or the broker was away, or this machine too busy "+
			"for speed %v", s.MissedSlots, slots, s.Speed))
	}
	for _, a := range s.Aircraft {
		if a.LeftJ < 0 {
			list = append(list, fmt.Sprintf("aircraft %d drew %.1f %% more than its pack holds", a.Number, -100*a.LeftJ/a.PackJ))
		}
	}
	if s.Slots+s.MissedSlots < s.PlannedSlots { // it ended early
		return list
	}
	if s.Budget.Error > report.PassedMost {
		causes := fmt.Sprintf("the leader counted %s kJ", kilojoules(s.Budget.LeaderSpentJ))
		for _, c := range []struct {
			what string
			n    int
		}{{"slots missed", s.MissedSlots}, {"decisions late", s.Latency.LateDecisions}} {
			if c.n > 0 {
				causes += fmt.Sprintf("; %s: %d", c.what, c.n)
			}
		}
		list = append(list, fmt.Sprintf("the budget of %s kJ was passed by %.1f %% (%s)%s", kilojoules(s.Budget.RevisedJ),
			100*s.Budget.Error, causes, unkeepable(s, spentBeforeJ)))
	}
	for _, a := range s.Aircraft {
		if s.Budget.Landed && a.LeftJ < a.KeptJ-report.PassedMost*a.PackJ {
			list = append(list, fmt.Sprintf("aircraft %d landed with %.1f %% of its pack, and the budget asks for %.1f %%", a.Number,
				100*a.LeftJ/a.PackJ, 100*a.KeptJ/a.PackJ))
		}
	}
	return list
}

// fillRows makes the table of slots, of what each aircraft drew in them, and of that spent in slots.
func (f *flight) fillRows(r *report.Flight, drawn, spent []map[int]battery.Spent, bySlot map[int]telemetry.Status) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	spentJ, known := 0.0, telemetry.Status{}
	drawnJ := make([]float64, len(drawn))
	for m := range drawn {
		drawnJ[m] = drawn[m][-1].J() // the climb
	}
	bodies := f.bodiesBySlot(len(r.Rows))
	for slot := range r.Rows {
		row := &r.Rows[slot]
		due := f.users.ReportCounts(slot)
		*row = report.Row{Slot: slot, ReportsExpected: due.Expected, ReportsLost: due.Lost, Tasks: due.Tasks}
		_, opened := f.bodiesAtBeacon[slot]
		row.Missed = !opened
		for m := range spent {
			drawnJ[m] += drawn[m][slot].J()
			row.DrawnJ = append(row.DrawnJ, drawnJ[m])
			j := spent[m][slot]
			row.FlightJ, row.EdgeJ = append(row.FlightJ, j.FlightJ), append(row.EdgeJ, j.EdgeJ)
			spentJ += j.J()
			body := bodies[slot][m]
			row.Position, row.SpeedMPS = append(row.Position, positionOf(body)), append(row.SpeedMPS, body.SpeedMPS())
		}
		row.SpentJ = spentJ
		if s, ok := bySlot[slot]; ok {
			known = s
			row.ReportsReceived, row.DecisionMS = s.UsersHeard, s.DecisionMS
		}
		row.LeaderSpentJ, row.LeaderTransitJ, row.FloorJ = known.SpentJ, known.TransitJ, known.FloorJ
		row.Landed = known.Scope == telemetry.ScopeLanded
		if known.PredictedEndJ != nil {
			row.LeaderPredictedEndJ = *known.PredictedEndJ
		}
		if known.BudgetJ != nil {
			row.BudgetJ = *known.BudgetJ
		}
	}
	for _, o := range f.users.Outcomes() {
		if o.Slot >= len(r.Rows) {
			continue
		}
		addOutcome(&r.Rows[o.Slot], &o)
	}
}

// addOutcome counts how a task ended in the row of its slot.
func addOutcome(row *report.Row, o *users.Outcome) {
	row.DelayS += o.DelayS
	if o.Aircraft > 0 && o.Bits > 0 {
		row.Served = append(row.Served, report.Link{Aircraft: o.Aircraft - 1, User: o.User})
	}
	if o.DeadlineMissed {
		row.DeadlinesMissed++
		if o.LocalInTime {
			row.MissedByOffloading++
		}
	}
	switch o.By {
	case telemetry.ByDecision:
		row.ByDecision++
	case telemetry.ByOffer:
		row.ByOffer++
	default:
		row.ByLocal++
	}
}

// bodiesBySlot has every aircraft at the start of each slot; in one that no beacon opened, as it
// was when it was last known, and before the first beacon, as it was at that.
func (f *flight) bodiesBySlot(slots int) (list [][]autopilot.Body) {
	latest := make([]autopilot.Body, len(f.Aircraft))
	if opened := slices.Sorted(maps.Keys(f.bodiesAtBeacon)); len(opened) > 0 {
		latest = f.bodiesAtBeacon[opened[0]]
	}
	for slot := range slots {
		if bodies, ok := f.bodiesAtBeacon[slot]; ok {
			latest = bodies
		}
		list = append(list, latest)
	}
	return list
}

func sumRows(s *report.Summary, r *report.Flight) {
	for i := range r.Rows {
		row := &r.Rows[i]
		s.Reports.Expected += row.ReportsExpected
		s.Reports.Lost += row.ReportsLost
		s.Reports.Received += row.ReportsReceived
		s.Tasks.Total += row.Tasks
		s.Tasks.ByDecision += row.ByDecision
		s.Tasks.ByOffer += row.ByOffer
		s.Tasks.ByLocal += row.ByLocal
		s.Tasks.DeadlinesMissed += row.DeadlinesMissed
		s.Tasks.MissedByOffloading += row.MissedByOffloading
		s.DelayS += row.DelayS
		for m := range row.FlightJ {
			s.Budget.FlightJ += row.FlightJ[m]
			s.Budget.EdgeJ += row.EdgeJ[m]
		}
	}
	if n := len(r.Rows); n > 0 {
		s.Budget.SpentJ, s.Budget.LeaderSpentJ = r.Rows[n-1].SpentJ, r.Rows[n-1].LeaderSpentJ
	}
}

// judgeBudget compares what was spent with the last of the accepted budgets, in its scope. leaderSpentJ
// is the leader's count at the end.
func judgeBudget(e *report.Energy, budgets []report.Budget, aircraft []report.AircraftSummary, leaderSpentJ float64) {
	n := len(budgets)
	if n == 0 {
		return
	}
	last := &budgets[n-1]
	e.RequestedJ, e.RevisedJ, e.Landed = budgets[0].EnergyJ, last.EnergyJ, last.Landed
	for i := range aircraft {
		aircraft[i].KeptJ = last.KeptJ(aircraft[i].Number, aircraft[i].PackJ)
	}
	spentJ := e.SpentJ
	if e.Landed {
		spentJ += e.TransitJ
		e.LeaderSpentJ = leaderSpentJ
	}
	if e.RevisedJ > 0 {
		e.Error = (spentJ - e.RevisedJ) / e.RevisedJ
	}
}
