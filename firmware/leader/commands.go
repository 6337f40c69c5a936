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

// change is what a decided command makes of the mission once the ledger has it. A
// command acts after that, so that none is in force that a restart would not know; only
// those that hold or end the flight act at once.
type change struct {
	from  string              // the mission's state in which alone it holds; empty: in any
	write func(*ledger.State) // enters it into the state that is written
	adopt func()              // puts it in force
}

// receiveCommand decides a command, and commits it. Requests are committed together with
// those that follow at once; a mission command is decided alone, since others depend on it.
func (l *Leader) receiveCommand(m *crew.Command) {
	if m.Mission != nil && !actsAtOnce(m) {
		l.commitCommands()
	}
	l.handleCommand(m)
	if m.Mission != nil || l.crew.Waiting() >= crew.MaxBatch {
		l.commitCommands()
	}
}

// handleCommand decides a command. Its answer waits for commitCommands.
func (l *Leader) handleCommand(m *crew.Command) {
	if !l.crew.Admit(m) {
		return
	}
	if m.KeyName != "" {
		l.mission.CommandReceived() // evidence that the crew is there
	}
	ack := telemetry.Ack{Accepted: true}
	err := errors.New(m.InvalidReason)
	if m.InvalidReason == "" {
		err = l.decideCommand(m, &ack)
	}
	if err != nil {
		ack = telemetry.Ack{Reason: err.Error()}
	}
	l.crew.Answer(m, ack)
}

// commitCommands writes the commands that were decided, puts them in force, and
// acknowledges them. If they cannot be written nothing has changed.
func (l *Leader) commitCommands() {
	if l.crew.Waiting() == 0 {
		return
	}
	l.waitForCommit() // a settlement being written is older
	if len(l.ledgerWriter.rows) > 0 {
		l.startCommit(nil)
		l.waitForCommit()
	}
	changes := slices.DeleteFunc(l.current.changes, l.overtaken)
	l.current.changes = nil
	entries, last := l.crew.TakeDecided()
	if len(entries) == 0 { // repeats alone
		l.crew.Written(last, nil)
		return
	}
	state := l.ledgerState()
	state.LastCommand = last
	for _, c := range changes {
		c.write(&state)
	}
	for i := range entries {
		entries[i].Mission = state.Mission
	}
	written := make(chan error, 1)
	go func() { written <- l.ledgerWriter.ledger.WriteCommands(state, entries) }()
	err := l.await(written)
	if err == nil {
		for _, c := range changes {
			if !l.overtaken(c) {
				c.adopt()
			}
		}
		l.fleet.SetDurable(state.Fleet)
	}
	l.crew.Written(last, err)
}

// overtaken is whether a command that holds or ends the flight, or a failed disk, has
// changed the mission since a change was decided.
func (l *Leader) overtaken(c change) bool { return c.from != "" && c.from != l.mission.Phase() }

// decideCommand completes the acknowledgement of a command, or returns why it is refused.
func (l *Leader) decideCommand(c *crew.Command, ack *telemetry.Ack) error {
	effective := l.effectiveSlot()
	ack.EffectiveSlot = &effective
	switch {
	case c.Mission != nil:
		ack.Action = c.Mission.Action
		if c.Mission.Action == telemetry.ActionNew {
			effective = 0
		}
		return l.decideMission(c.Mission)
	case l.mission.Ending():
		return fmt.Errorf("the mission is %s; a request is for the next one, which `new` begins", l.mission.Phase())
	case effective >= l.Config.Slots:
		return fmt.Errorf("slot %d, the last, is decided; a request is for the next mission, which `new` begins", l.Config.Slots-1)
	}
	objective := l.account.Objective()
	if len(l.current.changes) > 0 {
		objective = l.current.requested // by the requests that wait
	}
	var adopt func()
	if p := c.Preference; p != nil {
		ack.Setting = &p.Setting
		if err := objective.SetPreference(p.Setting); err != nil {
			return err
		}
		adopt = func() { l.account.SetPreference(p.Setting) } // cannot fail: it was checked
	} else {
		b := c.Budget
		if err := l.checkBudget(b, &objective); err != nil {
			return err
		}
		if err := objective.SetBudget(b.EnergyJ, goal.Mode(b.Mode)); err != nil {
			return err
		}
		ack.EnergyJ, ack.Mode, ack.Saturated, ack.FloorJ = &b.EnergyJ, b.Mode, new(objective.Saturated()), new(objective.FloorJ())
		adopt = func() { l.account.SetBudget(b.EnergyJ, goal.Mode(b.Mode)) }
	}
	l.current.requested = objective
	l.current.changes = append(l.current.changes, change{write: func(s *ledger.State) { s.Account.Objective = objective.State() }, adopt: adopt})
	return nil
}

// checkBudget returns why a budget cannot replace what is in force.
func (l *Leader) checkBudget(b *telemetry.Budget, objective *goal.Objective) error {
	switch most := l.Policy.Physics.BatteryCapacityJ * float64(len(l.Config.Aircraft)); {
	case !(b.EnergyJ > 0 && b.EnergyJ <= most):
		return fmt.Errorf("energy_j is %v, want above 0 and at most %v, the fleet's capacity", b.EnergyJ, most)
	case b.ReplacesJ != nil && !objective.Budgeted():
		return fmt.Errorf("replaces_j is %v, but no budget is in force; leave it out", *b.ReplacesJ)
	case b.ReplacesJ != nil && objective.BudgetJ() != *b.ReplacesJ:
		return fmt.Errorf("replaces_j is %v, but %v J are in force; replace those, if that is still meant", *b.ReplacesJ, objective.BudgetJ())
	}
	return nil
}

// effectiveSlot is the first slot that a command decided now can change.
func (l *Leader) effectiveSlot() int {
	if l.current.decided {
		return min(l.schedule.Current()+1, l.Config.Slots)
	}
	return l.schedule.Current()
}

// missionActions has what each action of a mission command checks beyond the mission's
// state, and what it orders.
var missionActions = map[string]struct {
	// decide returns what the fleet is ordered, or why the command is refused.
	decide       func(*Leader, *telemetry.Mission) ([]fleet.Ordered, error)
	order        func(*Leader, []fleet.Ordered) // orders it; nil: the mission's change of state does
	aircraftOnly bool                           // it changes aircraft, and never the mission's state
	atOnce       bool                           // it holds or ends the flight: no disk is waited for
}{
	telemetry.ActionStart:  {decide: (*Leader).checkStart},
	telemetry.ActionHold:   {atOnce: true},
	telemetry.ActionReturn: {decide: (*Leader).returnStopped, order: (*Leader).resumeControl, atOnce: true},
	telemetry.ActionStop:   {atOnce: true},
	telemetry.ActionNew:    {decide: (*Leader).checkNewMission},
	telemetry.ActionResume: {decide: (*Leader).resumeAircraft, order: (*Leader).resumeControl},
	telemetry.ActionLaunch: {decide: (*Leader).launchAircraft, order: (*Leader).launch, aircraftOnly: true},
	telemetry.ActionClear:  {decide: (*Leader).clearLostAircraft, order: (*Leader).clear, aircraftOnly: true},
}

// actsAtOnce is whether a message is a command that holds or ends the flight.
func actsAtOnce(c *crew.Command) bool {
	return c.Mission != nil && c.InvalidReason == "" && missionActions[c.Mission.Action].atOnce
}

// decideMission decides a mission command: everything is checked before anything
// changes.
func (l *Leader) decideMission(m *telemetry.Mission) error {
	l.refreshViews()
	from, action := l.mission.Phase(), missionActions[m.Action]
	for _, number := range m.Aircraft {
		if number > len(l.views) {
			return fmt.Errorf("cannot %s aircraft %d: this fleet has %d", m.Action, number, len(l.views))
		}
	}
	changesState := !action.aircraftOnly && !(m.Action == telemetry.ActionResume && from != telemetry.StateHolding)
	next := l.mission
	var effect mission.Effect
	var err error
	if changesState {
		effect, err = next.Command(m.Action)
	} else if !l.mission.Accepts(m.Action) {
		err = fmt.Errorf("cannot %s: %w", m.Action, l.mission.Refusal())
	}
	if err != nil {
		return err
	}
	var ordered []fleet.Ordered
	if action.decide != nil {
		if ordered, err = action.decide(l, m); err != nil {
			return fmt.Errorf("cannot %s: %w", m.Action, err)
		}
	}
	adopt := func() {
		if action.order != nil {
			action.order(l, ordered)
		}
		if !changesState {
			return
		}
		l.mission.Command(m.Action) // cannot fail: the state is that in which it was decided
		if effect == mission.Reset {
			if err := l.beginMission(m.Mission); err != nil {
				l.Log.Error("the configuration's request does not hold", "reason", err) // checked at start
			}
		}
		l.performEffect(from, effect)
	}
	if action.atOnce {
		adopt()
		return nil
	}
	l.current.changes = append(l.current.changes, change{from: from, adopt: adopt, write: func(s *ledger.State) {
		if effect == mission.Reset {
			*s = l.stateOfNew(m.Mission, s)
			return
		}
		if changesState {
			s.State = next.State()
		}
		for _, o := range ordered {
			s.Fleet[o.Number-1].Order(o)
		}
	}})
	return nil
}

func (l *Leader) checkStart(*telemetry.Mission) (all []fleet.Ordered, err error) {
	for _, v := range l.views {
		all = append(all, fleet.Ordered{Number: v.Number, Order: fleet.OrderFly})
		if err := l.checkReady(&v); err != nil {
			return nil, err
		}
		start := l.Config.StartPosition(v.Number, l.Policy.Physics.AreaSideM)
		if off := v.Position.Sub(start).Norm(); off > l.Config.Flight.StartWithinM {
			return nil, fmt.Errorf("aircraft %d is %.0f m from its start, want at most flight.start_within_m, %v; carry it there", v.Number, off, l.Config.Flight.StartWithinM)
		}
	}
	if err := CheckSeparation(&l.Config, &l.Policy.Physics, l.views); err != nil {
		return nil, err
	}
	return all, l.fleet.CheckLaunch(all) // with a later look than the views'
}

// returnStopped sends home the aircraft that a stop has left in the air.
func (l *Leader) returnStopped(*telemetry.Mission) (stopped []fleet.Ordered, err error) {
	if l.mission.Phase() != telemetry.StateStopped {
		return nil, nil
	}
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
			stopped = append(stopped, fleet.Ordered{Number: v.Number, Order: fleet.OrderHome, Engages: true})
		}
	}
	if len(stopped) == 0 && !stopping {
		return nil, why
	}
	return stopped, l.checkResume(stopped)
}

func (l *Leader) checkNewMission(m *telemetry.Mission) ([]fleet.Ordered, error) {
	for _, v := range l.views {
		switch {
		case !v.Received:
			return nil, fmt.Errorf("nothing was received from aircraft %d yet, which may be in the air; switch it on", v.Number)
		case v.InAir:
			return nil, fmt.Errorf("aircraft %d is in the air; `return`, `resume` or its pilot brings it down", v.Number)
		case v.Obstacle:
			return nil, fmt.Errorf("aircraft %d is lost, and was in the air when it was last received; once it is down, `clear` it", v.Number)
		}
	}
	used, err := l.ledgerWriter.ledger.MissionUsed(m.Mission)
	switch {
	case err != nil:
		return nil, err
	case used:
		return nil, fmt.Errorf("mission id %s was used before; choose another", m.Mission)
	}
	return nil, nil
}

// resumeAircraft ends pilots' control of aircraft in the air: of those named, or of
// all. It never arms an aircraft.
func (l *Leader) resumeAircraft(m *telemetry.Mission) (resumed []fleet.Ordered, err error) {
	for _, v := range l.views {
		named := slices.Contains(m.Aircraft, v.Number)
		switch {
		case !named && len(m.Aircraft) > 0:
		case v.WithPilot() && v.Fresh && v.InAir:
			o := fleet.Ordered{Number: v.Number, Order: fleet.OrderFly, Engages: true}
			if l.mission.Ending() || l.account.SpareJ(&v) < 0 {
				o.Order = fleet.OrderHome
			}
			resumed = append(resumed, o)
		case named && !v.InAir && !v.Lost:
			return nil, fmt.Errorf("aircraft %d is on the ground; launch takes off", v.Number)
		case named && !v.WithPilot():
			return nil, fmt.Errorf("aircraft %d is not with its pilot, and needs no resume", v.Number)
		case named:
			return nil, fmt.Errorf("aircraft %d: no position or no HEARTBEAT for %.1f s; send it again once its messages are back", v.Number, v.StaleS)
		}
	}
	if len(resumed) == 0 && l.mission.Phase() != telemetry.StateHolding {
		return nil, fmt.Errorf("the mission is %s, and no aircraft in the air is with its pilot: nothing is to be resumed", l.mission.Phase())
	}
	return resumed, l.checkResume(resumed)
}

// checkResume fails only if no aircraft can be resumed: one that changed since it was
// last received must not keep the others from it.
func (l *Leader) checkResume(ordered []fleet.Ordered) (err error) {
	for _, o := range ordered {
		if err = l.fleet.CheckResume(o); err == nil {
			return nil
		}
	}
	return err
}

// resumeControl puts aircraft in the air under this leader's control again.
func (l *Leader) resumeControl(ordered []fleet.Ordered) {
	for _, o := range ordered {
		if err := l.fleet.Resume(o); err != nil {
			l.Log.Error("control was not resumed", "aircraft", o.Number, "reason", err)
		}
	}
}

// launchAircraft checks aircraft that are to take off from inside the area.
func (l *Leader) launchAircraft(m *telemetry.Mission) (ordered []fleet.Ordered, err error) {
	for _, number := range m.Aircraft {
		v := &l.views[number-1]
		if err := l.checkReady(v); err != nil {
			return nil, err
		}
		if p, area := v.Position, l.Policy.Physics.AreaSideM; min(p.EastM, p.NorthM) < 0 || max(p.EastM, p.NorthM) > area {
			return nil, fmt.Errorf("aircraft %d is at %.0f m east, %.0f m north, outside the area of %v m; carry it inside", number, p.EastM, p.NorthM, area)
		}
		ordered = append(ordered, fleet.Ordered{Number: number, Order: fleet.OrderFly})
	}
	return ordered, l.fleet.CheckLaunch(ordered)
}

func (l *Leader) launch(ordered []fleet.Ordered) {
	if err := l.fleet.Launch(ordered); err != nil { // they were ready when the command was checked
		l.Log.Error("aircraft stays on the ground", "reason", err)
	}
}

// clearLostAircraft checks lost aircraft that are to be no obstacles any more, on the
// crew's responsibility.
func (l *Leader) clearLostAircraft(m *telemetry.Mission) (ordered []fleet.Ordered, err error) {
	for _, number := range m.Aircraft {
		if v := &l.views[number-1]; !v.Lost && v.Received {
			return nil, fmt.Errorf("aircraft %d is not lost: received %.1f s ago; while its messages come the others keep clear of it", number, v.AgeS)
		}
		ordered = append(ordered, fleet.Ordered{Number: number, Order: fleet.OrderNone})
	}
	return ordered, l.fleet.CheckClear(ordered)
}

func (l *Leader) clear(ordered []fleet.Ordered) {
	if err := l.fleet.Clear(ordered); err != nil {
		l.Log.Error("not cleared", "reason", err)
		return
	}
	for _, o := range ordered {
		l.Log.Warn("cleared: no obstacle to the others until it is received again", "aircraft", o.Number)
	}
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
