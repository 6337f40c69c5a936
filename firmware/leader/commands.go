package leader

import (
	"errors"
	"fmt"
	"slices"

	"prefdt/firmware/account"
	"prefdt/firmware/crew"
	"prefdt/firmware/fleet"
	"prefdt/firmware/ledger"
	"prefdt/firmware/mission"
	"prefdt/inference/goal"
	"prefdt/telemetry"
)

// change is what a decided command makes of the mission once the ledger has it. A
// command acts after that, so that none is in force that a restart would not know; only
// those that hold or end the flight act at once.
type change struct {
	id    string              // of the command
	from  string              // the mission's state in which it was decided; empty: it holds in any
	after int                 // commands that acted at once until then
	of    string              // the action, if it is of aircraft alone: it holds as long as that is accepted, and the slots go on
	write func(*ledger.State) // enters it into the state that is written
	adopt func()              // puts it in force
}

// receiveCommand decides a command, and commits it together with those that follow at
// once; but a change of the mission alone, since what follows depends on it.
func (l *Leader) receiveCommand(m *crew.Command) {
	if m.Mission != nil && m.Mission.Action == telemetry.ActionNew {
		l.commitCommands() // what was decided in the mission before belongs to it
	}
	l.handleCommand(m)
	changesMission := slices.ContainsFunc(l.current.changes, func(c change) bool { return c.from != "" })
	if changesMission || l.crew.Waiting() >= crew.MaxBatch {
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
	err, before := errors.New(m.InvalidReason), len(l.current.changes)
	if m.InvalidReason == "" {
		err = l.decideCommand(m, &ack)
	}
	if err != nil {
		ack = telemetry.Ack{Reason: err.Error()}
	}
	for i := range l.current.changes[before:] {
		l.current.changes[before+i].id = m.ID
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
		l.startCommit(nil, nil)
		l.waitForCommit()
	}
	changes := l.dropOvertaken(l.current.changes)
	l.current.changes, l.current.requested = changes, nil
	defer func() { l.current.changes = nil }()
	entries, last := l.crew.TakeDecided()
	if len(entries) == 0 { // repeats alone
		l.crew.Written(nil)
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
		for _, c := range l.dropOvertaken(changes) {
			c.adopt()
		}
		l.fleet.SetDurable(state.Fleet)
	}
	l.crew.Written(err)
}

// dropOvertaken returns the changes that may be made, and refuses the others' commands: one that holds or ends the flight, or a
// failed disk, came before them.
func (l *Leader) dropOvertaken(changes []change) (left []change) {
	var overtaken []string
	for _, c := range changes {
		holds := c.of == telemetry.ActionClear || l.mission.AcceptsAircraft(c.of) && !l.mission.Ending()
		if c.from != "" && (c.from != l.mission.Phase() || c.after != l.current.actedAtOnce) && !holds {
			overtaken = append(overtaken, c.id)
		} else {
			left = append(left, c)
		}
	}
	if len(overtaken) > 0 {
		by := ""
		if changes[0].after != l.current.actedAtOnce {
			by = fmt.Sprintf(" by `%s`", l.current.actedLast)
		}
		l.crew.Overtaken(overtaken, fmt.Sprintf("overtaken%s: the mission is %s by now; send it again if it is wanted", by,
			l.mission.Phase()))
	}
	return left
}

// decideCommand completes the acknowledgement of a command, or returns why it is refused.
func (l *Leader) decideCommand(c *crew.Command, ack *telemetry.Ack) error {
	effective := l.effectiveSlot()
	ack.EffectiveSlot = &effective
	if c.Mission != nil {
		ack.Action = c.Mission.Action
		if c.Mission.Action == telemetry.ActionNew {
			effective = 0
		}
		return l.decideMission(c.Mission)
	}
	if err := l.takesRequests(); err != nil {
		return err
	}
	requested := l.requested()
	if p := c.Preference; p != nil {
		ack.Setting = &p.Setting
		if err := requested.SetPreference(p.Setting); err != nil {
			return err
		}
	} else if err := l.decideBudget(c.Budget, requested, ack); err != nil {
		return err
	}
	l.current.requested = requested
	state, bounds := requested.Objective().State(), requested.Bounds()
	l.current.changes = append(l.current.changes, change{
		write: func(s *ledger.State) { s.Account.Objective, s.Account.Bounds = state, bounds },
		adopt: func() { l.adoptRequest(c, bounds) },
	})
	return nil
}

// takesRequests returns why no budget and no preference is accepted any more.
func (l *Leader) takesRequests() error {
	switch {
	case l.mission.Ending():
		return fmt.Errorf("the mission is %s; begin the next one with `new`, then send the request", l.mission.Phase())
	case l.effectiveSlot() >= l.Config.Slots:
		return fmt.Errorf("the last slot, %d, is decided; begin the next mission with `new`, then send the request", l.Config.Slots-1)
	}
	return nil
}

// requested is the account as the requests that wait will have it, to try another one on.
func (l *Leader) requested() *account.Account {
	a := l.account
	if l.current.requested != nil {
		a = *l.current.requested
	}
	a.Recorder = nil
	return &a
}

// adoptRequest puts a request in force that was checked when it was decided.
func (l *Leader) adoptRequest(c *crew.Command, bounds *account.Bounds) {
	switch {
	case c.Preference != nil:
		l.account.SetPreference(c.Preference.Setting)
	case bounds == nil:
		l.account.SetBounds(nil)
		l.account.SetBudget(c.Budget.EnergyJ, goal.Mode(c.Budget.Mode))
	default:
		l.account.SetBounds(bounds)
	}
	l.planDuty(l.fleet.Views())
}

// packsJ is what the fleet's packs hold when full, the most that a budget may be.
func packsJ(views []fleet.View) (sum float64) {
	for i := range views {
		sum += views[i].CapacityJ
	}
	return sum
}

// effectiveSlot is the first slot that a command decided now can change.
func (l *Leader) effectiveSlot() int {
	if l.current.decided {
		return min(l.schedule.Current()+1, l.Config.Slots)
	}
	return l.schedule.Current()
}

type missionAction struct {
	// decide returns what the fleet is ordered, or why the command is refused.
	decide       func(*checks, *telemetry.Mission) ([]fleet.Ordered, error)
	order        *fleet.Action // nil: the mission's change of state orders it
	aircraftOnly bool          // it changes aircraft, and never the mission's state
	atOnce       bool          // it holds or ends the flight: no disk is waited for
}

// missionActions has what each action of a mission command checks beyond the mission's
// state, and what it orders.
var missionActions = map[string]missionAction{
	telemetry.ActionStart:  {decide: (*checks).start, order: &fleet.Launch},
	telemetry.ActionHold:   {decide: (*checks).stay, atOnce: true},
	telemetry.ActionReturn: {decide: (*checks).returnAll, order: &fleet.Resume, atOnce: true},
	telemetry.ActionStop:   {decide: (*checks).stay, atOnce: true},
	telemetry.ActionNew:    {decide: (*checks).newMission},
	telemetry.ActionResume: {decide: (*checks).resume, order: &fleet.Resume},
	returnAircraft:         {decide: (*checks).returnNamed, order: &fleet.Return, aircraftOnly: true},
	telemetry.ActionLaunch: {decide: (*checks).launch, order: &fleet.Launch, aircraftOnly: true},
	telemetry.ActionClear:  {decide: (*checks).clear, order: &fleet.Clear, aircraftOnly: true},
}

// returnAircraft is the row of a return that names aircraft: it does not end the flight.
const returnAircraft = telemetry.ActionReturn + " aircraft"

// rowOf is a command's row in missionActions.
func rowOf(m *telemetry.Mission) string {
	if m.Action == telemetry.ActionReturn && len(m.Aircraft) > 0 {
		return returnAircraft
	}
	return m.Action
}

// actsAtOnce is whether a message is a command that holds or ends the flight.
func actsAtOnce(c *crew.Command) bool {
	return c.Mission != nil && c.InvalidReason == "" && missionActions[rowOf(c.Mission)].atOnce
}

// checkedMission is a mission command that may be adopted.
type checkedMission struct {
	action       *missionAction
	changesState bool
	next         mission.Mission // its state afterwards, if that changes
	effect       mission.Effect
	ordered      []fleet.Ordered
}

// checkMission returns why a mission command is refused, or what it will do; nothing changes.
func (l *Leader) checkMission(m *telemetry.Mission, views []fleet.View) (c checkedMission, err error) {
	action := missionActions[rowOf(m)]
	c = checkedMission{action: &action, next: l.mission,
		changesState: !action.aircraftOnly && !(m.Action == telemetry.ActionResume && !l.mission.Held())}
	for _, number := range m.Aircraft {
		if number > len(views) {
			return c, fmt.Errorf("cannot %s aircraft %d: this fleet has %d", m.Action, number, len(views))
		}
	}
	if c.changesState {
		c.effect, err = c.next.Command(m.Action)
	} else if !l.mission.AcceptsAircraft(m.Action) {
		err = fmt.Errorf("cannot %s: %w", m.Action, l.mission.Refusal())
	}
	if err == nil && action.decide != nil {
		if c.ordered, err = action.decide(l.checks(views), m); err != nil {
			err = fmt.Errorf("cannot %s: %w", m.Action, err)
		}
	}
	return c, err
}

// decideMission decides a mission command: everything is checked before anything changes.
func (l *Leader) decideMission(m *telemetry.Mission) error {
	views := l.fleet.Views()
	checked, err := l.checkMission(m, views)
	if err != nil {
		return err
	}
	action, from, changesState, effect, ordered := checked.action, l.mission.Phase(), checked.changesState, checked.effect, checked.ordered
	logDoubts(l.Log, views, action, ordered)
	adopt := func() {
		if action.order != nil {
			if err := l.fleet.Order(*action.order, ordered); err != nil { // they could be ordered so when it was decided
				l.Log.Error("an aircraft does not obey", "order", m.Action, "reason", err)
			}
			if action.order == &fleet.Return {
				for _, o := range ordered {
					l.account.SetReturned(o.Number)
				}
			}
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
		l.performEffect(from, effect, l.fleet.Views())
	}
	if action.atOnce {
		l.current.actedAtOnce, l.current.actedLast = l.current.actedAtOnce+1, m.Action
		adopt()
		return nil
	}
	of := ""
	if !changesState {
		of = m.Action
	}
	write := func(s *ledger.State) {
		if effect == mission.Reset {
			*s = l.stateOfNew(m.Mission, s)
			return
		}
		if changesState {
			s.State = checked.next.State()
		}
		for _, o := range ordered {
			if action.order == &fleet.Return {
				s.Fleet[o.Number-1].SendHome()
				s.Account.Aircraft[o.Number-1].Returned = true
			} else {
				s.Fleet[o.Number-1].Order(o)
			}
		}
	}
	l.current.changes = append(l.current.changes, change{from: from, after: l.current.actedAtOnce, of: of, adopt: adopt, write: write})
	return nil
}
