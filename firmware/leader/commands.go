package leader

import (
	"errors"
	"fmt"
	"slices"

	"prefdt/firmware/config"
	"prefdt/firmware/crew"
	"prefdt/firmware/fleet"
	"prefdt/firmware/ledger"
	"prefdt/firmware/mission"
	"prefdt/inference/goal"
	"prefdt/inference/physics"
	"prefdt/telemetry"
)

// commandExecutor applies the crew's commands to the mission.
type commandExecutor struct{ *Leader }

func (e commandExecutor) State() ledger.State { return e.ledgerState() }

func (e commandExecutor) RequestSavepoint() (undo func()) {
	before := e.account.Objective().State()
	return func() { e.account.RestoreObjective(before) }
}

// Apply changes the mission, or returns why not. A command that is refused changes
// nothing.
func (e commandExecutor) Apply(c *crew.Command, ack *telemetry.Ack) error {
	effective := e.effectiveSlot()
	ack.EffectiveSlot = &effective
	objective := e.account.Objective()
	switch {
	case c.Mission != nil:
		ack.Action = c.Mission.Action
		err := e.handleMissionCommand(c.Mission)
		effective = e.effectiveSlot() // 0 after `new`
		return err
	case e.mission.Ending():
		return fmt.Errorf("the mission is %s; a request is for the next one, which `new` begins", e.mission.Phase())
	case effective >= e.Config.Slots:
		return fmt.Errorf("slot %d, the last, is decided; a request is for the next mission, which `new` begins", e.Config.Slots-1)
	case c.Preference != nil:
		ack.Setting = &c.Preference.Setting
		return e.account.SetPreference(c.Preference.Setting)
	}
	b := c.Budget
	switch most := e.Policy.Physics.BatteryCapacityJ * float64(len(e.Config.Aircraft)); {
	case !(b.EnergyJ > 0 && b.EnergyJ <= most):
		return fmt.Errorf("energy_j is %v, want above 0 and at most %v, the fleet's capacity", b.EnergyJ, most)
	case b.ReplacesJ != nil && !objective.Budgeted():
		return fmt.Errorf("replaces_j is %v, but no budget is in force; leave it out", *b.ReplacesJ)
	case b.ReplacesJ != nil && objective.BudgetJ() != *b.ReplacesJ:
		return fmt.Errorf("replaces_j is %v, but %v J are in force; replace those, if that is still meant", *b.ReplacesJ, objective.BudgetJ())
	}
	if err := e.account.SetBudget(b.EnergyJ, goal.Mode(b.Mode)); err != nil {
		return err
	}
	objective = e.account.Objective()
	ack.EnergyJ, ack.Mode, ack.Saturated, ack.FloorJ = &b.EnergyJ, b.Mode, new(objective.Saturated()), new(objective.FloorJ())
	return nil
}

// effectiveSlot is the first slot that a command applied now can change.
func (l *Leader) effectiveSlot() int {
	if l.current.decided {
		return min(l.schedule.Current()+1, l.Config.Slots)
	}
	return l.schedule.Current()
}

// handleMissionCommand executes a mission command: conditions beyond the mission's
// state are checked first.
func (l *Leader) handleMissionCommand(m *telemetry.Mission) error {
	l.refreshViews()
	from := l.mission.Phase()
	for _, number := range m.Aircraft {
		if number > len(l.views) {
			return fmt.Errorf("cannot %s aircraft %d: this fleet has %d", m.Action, number, len(l.views))
		}
	}
	action := missionActions[m.Action]
	if action.prepare != nil {
		if action.checkStateFirst {
			if err := l.mission.Allows(m.Action); err != nil {
				return err
			}
		}
		if err := action.prepare(l, m); err != nil {
			return fmt.Errorf("cannot %s: %w", m.Action, err)
		}
	}
	if action.aircraftOnly || m.Action == telemetry.ActionResume && from != telemetry.StateHolding {
		return nil // the mission's state stays
	}
	effect, err := l.mission.Command(m.Action)
	if err != nil {
		return err
	}
	if effect == mission.Reset {
		if err := l.beginMission(m.Mission); err != nil {
			l.Log.Error("the configuration's request does not hold", "reason", err) // checked at start
		}
	}
	l.performEffect(from, effect)
	return nil
}

// missionActions has the conditions of each action beyond the mission's state, and
// what it does to single aircraft.
var missionActions = map[string]struct {
	prepare         func(*Leader, *telemetry.Mission) error
	checkStateFirst bool // prepare is called only in a state that allows the action
	aircraftOnly    bool // the action changes aircraft, not the mission's state
}{
	telemetry.ActionStart:  {prepare: (*Leader).checkStart, checkStateFirst: true},
	telemetry.ActionReturn: {prepare: (*Leader).returnStopped, checkStateFirst: true},
	telemetry.ActionNew:    {prepare: (*Leader).checkNewMission, checkStateFirst: true},
	telemetry.ActionResume: {prepare: (*Leader).resumeAircraft},
	telemetry.ActionLaunch: {prepare: (*Leader).launchAircraft, aircraftOnly: true},
	telemetry.ActionClear:  {prepare: (*Leader).clearLostAircraft, aircraftOnly: true},
}

func (l *Leader) checkStart(*telemetry.Mission) error {
	var numbers []int
	for _, v := range l.views {
		numbers = append(numbers, v.Number)
		if err := l.checkReady(&v); err != nil {
			return err
		}
		start := l.Config.StartPosition(v.Number, l.Policy.Physics.AreaSideM)
		if off := v.Position.Sub(start).Norm(); off > l.Config.Flight.StartWithinM {
			return fmt.Errorf("aircraft %d is %.0f m from its start, want at most flight.start_within_m, %v; carry it there", v.Number, off, l.Config.Flight.StartWithinM)
		}
	}
	if err := CheckSeparation(&l.Config, &l.Policy.Physics, l.views); err != nil {
		return err
	}
	return l.fleet.CheckLaunch(numbers...) // with a later look than the views'
}

// returnStopped sends home the aircraft that a stop has left in the air.
func (l *Leader) returnStopped(*telemetry.Mission) error {
	if l.mission.Phase() != telemetry.StateStopped {
		return nil
	}
	var stopped []*fleet.View
	stopping := false // one is still on its way into Hold, and obeys the order to return
	why := errors.New("no aircraft is in the air in its Hold mode; one in another mode is its pilot's")
	for _, v := range l.views {
		switch {
		case v.InAir && v.Phase == fleet.PhaseStopping:
			stopping = true
		case !v.Fresh: // after a restart it is not known yet whether it is in the air
			why = fmt.Errorf("nothing recent was received from aircraft %d; send it again once its messages are back", v.Number)
		case !v.InAir || v.Mode != fleet.ModeHold:
		default:
			stopped = append(stopped, &v)
		}
	}
	if len(stopped) == 0 && !stopping {
		return why
	}
	return l.resumeControl(stopped, func(*fleet.View) fleet.Order { return fleet.OrderHome })
}

func (l *Leader) checkNewMission(m *telemetry.Mission) error {
	for _, v := range l.views {
		switch {
		case !v.Received:
			return fmt.Errorf("nothing was received from aircraft %d yet, which may be in the air; switch it on", v.Number)
		case v.InAir:
			return fmt.Errorf("aircraft %d is in the air; `return`, `resume` or its pilot brings it down", v.Number)
		}
	}
	used, err := l.ledgerWriter.ledger.MissionUsed(m.Mission)
	switch {
	case err != nil:
		return err
	case used:
		return fmt.Errorf("mission id %s was used before; choose another", m.Mission)
	}
	return nil
}

// resumeAircraft ends pilots' control of aircraft in the air: of those named, or of
// all. It never arms an aircraft.
func (l *Leader) resumeAircraft(m *telemetry.Mission) error {
	if !l.mission.Accepts(m.Action) {
		return l.mission.Refusal()
	}
	order := fleet.OrderFly
	if l.mission.Ending() {
		order = fleet.OrderHome
	}
	var resumed []*fleet.View
	for _, v := range l.views {
		named := slices.Contains(m.Aircraft, v.Number)
		switch {
		case !named && len(m.Aircraft) > 0:
		case v.WithPilot() && v.Fresh && v.InAir:
			resumed = append(resumed, &v)
		case named && !v.InAir && !v.Lost:
			return fmt.Errorf("aircraft %d is on the ground; launch takes off", v.Number)
		case named && !v.WithPilot():
			return fmt.Errorf("aircraft %d is not with its pilot, and needs no resume", v.Number)
		case named:
			return fmt.Errorf("aircraft %d: no position or no HEARTBEAT for %.1f s; send it again once its messages are back", v.Number, v.StaleS)
		}
	}
	if len(resumed) == 0 && l.mission.Phase() != telemetry.StateHolding {
		return fmt.Errorf("the mission is %s, and no aircraft in the air is with its pilot: nothing is to be resumed", l.mission.Phase())
	}
	return l.resumeControl(resumed, func(v *fleet.View) fleet.Order {
		if l.account.SpareJ(v) < 0 {
			return fleet.OrderHome
		}
		return order
	})
}

// resumeControl puts aircraft in the air under this leader's control again. It fails
// only if it does for all of them: one that changed since it was last received must
// not keep the others from resuming.
func (l *Leader) resumeControl(views []*fleet.View, order func(*fleet.View) fleet.Order) (err error) {
	resumed := 0
	for _, v := range views {
		if e := l.fleet.Resume(v.Number, order(v)); e != nil {
			l.Log.Error("control was not resumed", "aircraft", v.Number, "reason", e)
			err = e
			continue
		}
		resumed++
	}
	if resumed > 0 || len(views) == 0 {
		return nil
	}
	return err
}

// launchAircraft orders the named aircraft to take off from inside the area.
func (l *Leader) launchAircraft(m *telemetry.Mission) error {
	if !l.mission.Accepts(m.Action) {
		return l.mission.Refusal()
	}
	for _, number := range m.Aircraft {
		v := &l.views[number-1]
		if err := l.checkReady(v); err != nil {
			return err
		}
		if p, area := v.Position, l.Policy.Physics.AreaSideM; min(p.EastM, p.NorthM) < 0 || max(p.EastM, p.NorthM) > area {
			return fmt.Errorf("aircraft %d is at %.0f m east, %.0f m north, outside the area of %v m; carry it inside", number, p.EastM, p.NorthM, area)
		}
	}
	return l.fleet.Launch(m.Aircraft...)
}

// clearLostAircraft removes lost aircraft from the obstacles, on the crew's responsibility.
func (l *Leader) clearLostAircraft(m *telemetry.Mission) error {
	for _, number := range m.Aircraft {
		if v := &l.views[number-1]; !v.Lost && v.Received {
			return fmt.Errorf("aircraft %d is not lost: received %.1f s ago; while its messages come the others keep clear of it", number, v.AgeS)
		}
	}
	if err := l.fleet.Clear(m.Aircraft...); err != nil {
		return err
	}
	l.Log.Warn("cleared: no obstacles to the others until they are received again", "aircraft", m.Aircraft)
	return nil
}

// CheckSeparation returns an error that names two aircraft too close to take off
// together, or whose starts are too close. A metre allows for position errors.
func CheckSeparation(c *config.Config, p *physics.Constants, views []fleet.View) error {
	least := p.SeparationM
	for i := range views {
		for j := range i {
			a, b := &views[j], &views[i]
			if d := a.Position.Sub(b.Position).Norm(); d < least-1 {
				return fmt.Errorf("aircraft %d and %d are %.1f m apart, want at least %v; carry one away", a.Number, b.Number, d, least)
			}
			if d := c.StartPosition(a.Number, p.AreaSideM).Sub(c.StartPosition(b.Number, p.AreaSideM)).Norm(); d < least {
				return fmt.Errorf("start_m of aircraft %d and %d are %.1f m apart, want at least %v", a.Number, b.Number, d, least)
			}
		}
	}
	return nil
}

func (l *Leader) checkReady(v *fleet.View) error {
	if err := v.Ready(); err != nil {
		return fmt.Errorf("aircraft %d: %w", v.Number, err)
	}
	unsafe := v.Params.UnsafeReason()
	switch {
	case unsafe != "" && l.Config.Flight.Failsafe == "refuse":
		return fmt.Errorf("aircraft %d has an unsafe failsafe: %s", v.Number, unsafe)
	case l.account.SpareJ(v) < 0:
		return fmt.Errorf("aircraft %d has %.0f J left, which its reserve and the way home take; change its battery", v.Number, l.account.ResidualJ(v))
	case unsafe != "":
		l.Log.Error("unsafe failsafe", "aircraft", v.Number, "reason", unsafe)
	}
	for _, reason := range v.Params.Warnings(l.Policy.Physics.BatteryCapacityJ) {
		l.Log.Warn("doubtful parameter", "aircraft", v.Number, "reason", reason)
	}
	return nil
}
