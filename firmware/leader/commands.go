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

// decisions are those on commands: what waits for the ledger, and what did not.
type decisions struct {
	changes     []change
	requested   *account.Account // after those changes, with the request in it; nil: none of them is one
	actedAtOnce int              // commands so far that held or ended the flight
	actedLast   string           // the last of those
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
	changes := l.current.dropOvertaken(l.current.changes, &l.mission, &l.crew)
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
		for _, c := range l.current.dropOvertaken(changes, &l.mission, &l.crew) {
			c.adopt()
		}
		l.fleet.SetDurable(state.Fleet)
	}
	l.crew.Written(err)
}

// dropOvertaken returns the changes that may be made, and refuses the others' commands: one that holds or ends the flight, or a
// failed disk, came before them.
func (d *decisions) dropOvertaken(changes []change, m *mission.Mission, answers *crew.Handler) (left []change) {
	var overtaken []string
	for _, c := range changes {
		holds := c.of == telemetry.ActionClear || m.AcceptsAircraft(c.of) && !m.Ending()
		if c.from != "" && (c.from != m.Phase() || c.after != d.actedAtOnce) && !holds {
			overtaken = append(overtaken, c.id)
		} else {
			left = append(left, c)
		}
	}
	if len(overtaken) > 0 {
		by := ""
		if changes[0].after != d.actedAtOnce {
			by = fmt.Sprintf(" by `%s`", d.actedLast)
		}
		answers.Overtaken(overtaken, fmt.Sprintf("overtaken%s: the mission is %s by now; send it again if it is wanted", by,
			m.Phase()))
	}
	return left
}

// decideCommand completes the acknowledgement of a command, or returns why it is refused.
func (l *Leader) decideCommand(m *crew.Command, ack *telemetry.Ack) error {
	c := l.checks(l.fleet.Views())
	ack.EffectiveSlot = &c.effective
	if m.Mission == nil {
		return l.decideRequest(m, c, ack)
	}
	if ack.Action = m.Mission.Action; ack.Action == telemetry.ActionNew {
		ack.EffectiveSlot = new(0)
	}
	return l.decideMission(m.Mission, c)
}

// decideRequest tries a budget or a preference on an account as the requests that wait will have it.
func (l *Leader) decideRequest(m *crew.Command, c *checks, ack *telemetry.Ack) error {
	if err := c.takesRequests(); err != nil {
		return err
	}
	a := l.account
	if l.current.requested != nil {
		a = *l.current.requested
	}
	a.Recorder = nil
	bounds, err := c.bounds(m.Budget, &a)
	if err == nil {
		err = request(&a, m, bounds)
	}
	if err != nil {
		return err
	}
	switch o := a.Objective(); {
	case m.Budget == nil:
		ack.Setting = &m.Preference.Setting
	case bounds == nil:
		ack.EnergyJ, ack.Mode, ack.Saturated, ack.FloorJ = &m.Budget.EnergyJ, m.Budget.Mode, new(o.Saturated()), new(o.FloorJ())
	default:
		plan := dutyPlan{planner: l.duty.planner}
		l.planFor(&plan, &a, c.views)
		l.duty.planner = plan.planner
		plan.answer(bounds, ack)
	}
	l.current.requested = &a
	state := a.Objective().State()
	l.current.changes = append(l.current.changes, change{
		write: func(s *ledger.State) { s.Account.Objective, s.Account.Bounds = state, bounds },
		adopt: func() {
			request(&l.account, m, bounds) // cannot fail: it was tried
			l.planDuty(l.fleet.Views())
		},
	})
	return nil
}

// request makes a request of an account.
func request(a *account.Account, m *crew.Command, bounds *account.Bounds) error {
	if m.Preference != nil {
		return a.SetPreference(m.Preference.Setting)
	}
	if a.SetBounds(bounds); bounds != nil {
		return nil
	}
	return a.SetBudget(m.Budget.EnergyJ, goal.Mode(m.Budget.Mode))
}

// packsJ is what the fleet's packs hold when full, the most that a budget may be.
func packsJ(views []fleet.View) (sum float64) {
	for i := range views {
		sum += views[i].CapacityJ
	}
	return sum
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

// command returns why a mission command is refused, or what it will do; nothing changes.
func (c *checks) command(m *telemetry.Mission) (x checkedMission, err error) {
	action := missionActions[rowOf(m)]
	x = checkedMission{action: &action, next: *c.mission,
		changesState: !action.aircraftOnly && !(m.Action == telemetry.ActionResume && !c.mission.Held())}
	for _, number := range m.Aircraft {
		if number > len(c.views) {
			return x, fmt.Errorf("cannot %s aircraft %d: this fleet has %d", m.Action, number, len(c.views))
		}
	}
	if x.changesState {
		x.effect, err = x.next.Command(m.Action)
	} else if !c.mission.AcceptsAircraft(m.Action) {
		err = fmt.Errorf("cannot %s: %w", m.Action, c.mission.Refusal())
	}
	if err == nil {
		if x.ordered, err = action.decide(c, m); err != nil {
			err = fmt.Errorf("cannot %s: %w", m.Action, err)
		}
	}
	return x, err
}

// decideMission decides a mission command: everything is checked before anything changes.
func (l *Leader) decideMission(m *telemetry.Mission, c *checks) error {
	x, err := c.command(m)
	if err != nil {
		return err
	}
	logDoubts(l.Log, c.views, x.action, x.ordered)
	from, isReturn := l.mission.Phase(), x.action.order == &fleet.Return
	var begun beginning
	if x.effect == mission.Reset {
		x.next.Begin(m.Mission)
		if begun, err = l.begin(m.Mission, c.views); err != nil {
			l.Log.Error("the configuration's request does not hold", "reason", err) // checked at start
		}
	}
	adopt := func() {
		if x.action.order != nil {
			if err := l.fleet.Order(*x.action.order, x.ordered); err != nil { // they could be ordered so when it was decided
				l.Log.Error("an aircraft does not obey", "order", m.Action, "reason", err)
			}
		}
		for _, o := range x.ordered {
			if isReturn {
				l.account.SetReturned(o.Number)
			}
		}
		if !x.changesState {
			return
		}
		l.mission.Command(m.Action) // cannot fail: the state is that in which it was decided
		if x.effect == mission.Reset {
			l.beginMission(begun)
		}
		l.performEffect(from, x.effect, l.fleet.Views())
	}
	if x.action.atOnce {
		l.current.actedAtOnce, l.current.actedLast = l.current.actedAtOnce+1, m.Action
		adopt()
		return nil
	}
	of := m.Action
	if x.changesState {
		of = ""
	}
	write := func(s *ledger.State) {
		if x.changesState {
			s.State = x.next.State()
		}
		if x.effect == mission.Reset {
			begun.write(s)
		}
		for _, o := range x.ordered {
			if isReturn {
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
