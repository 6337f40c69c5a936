package leader

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"prefdt/firmware/account"
	"prefdt/firmware/crew"
	"prefdt/firmware/fleet"
	"prefdt/firmware/ledger"
	"prefdt/firmware/link"
	"prefdt/firmware/mission"
	"prefdt/telemetry"
)

// newWithLedger is a leader in a phase, with a ledger of its own.
func newWithLedger(t *testing.T, phase string) *inPhase {
	t.Helper()
	frozen := loadCheckpoint(t)
	l := newInPhase(t, phase, nil, frozen.Physics, &frozen.GoalConstants)
	l.openLedger(t, t.TempDir())
	t.Cleanup(func() { l.ledgerWriter.ledger.Close() })
	return l
}

// command is a control message with an unsigned command.
func command(t *testing.T, l *inPhase, kind telemetry.Kind, topic, body string) link.ControlMessage {
	t.Helper()
	c, err := crew.Keys{AcceptUnsigned: true}.DecodeCommand(kind, telemetry.Message{Topic: topic, Payload: []byte(body)})
	if err != nil {
		t.Fatal(err)
	}
	return link.ControlMessage{Command: c}
}

// While the disk does not answer, what holds or ends the flight is executed, and anything
// else waits for it.
func TestWhileTheDiskHangs(t *testing.T) {
	for _, c := range []struct{ action, state string }{
		{telemetry.ActionStop, telemetry.StateStopped}, {telemetry.ActionReturn, telemetry.StateReturning},
		{telemetry.ActionHold, telemetry.StateHolding},
	} {
		l := newWithLedger(t, telemetry.StateFlying)
		var acks []telemetry.Ack
		l.crew.Publish = func(a telemetry.Ack) { acks = append(acks, a) }
		setting := l.account.Objective().Setting()
		l.ledgerWriter.pending = make(chan error)
		l.ledgerWriter.fleet = l.fleet.SavedState()
		l.mqtt.ControlMessages = make(chan link.ControlMessage)
		done := make(chan struct{})
		go func() {
			l.waitForCommit()
			close(done)
		}()
		l.mqtt.ControlMessages <- command(t, l, telemetry.KindPreference, l.mqtt.Topics.Preference(), `{"id":"p","setting":0.9}`)
		l.mqtt.ControlMessages <- command(t, l, telemetry.KindMission, l.mqtt.Topics.Mission(),
			fmt.Sprintf(`{"id":"m","action":%q}`, c.action))
		l.mqtt.ControlMessages <- link.ControlMessage{} // the one before was handled
		if got := l.mission.Phase(); got != c.state {
			t.Errorf("after %s the mission is %s while the disk hangs", c.action, got)
		}
		if len(acks) > 0 || l.account.Objective().Setting() != setting {
			t.Errorf("acknowledged %+v, setting %v: nothing of it is durable", acks, l.account.Objective().Setting())
		}
		l.ledgerWriter.pending <- nil
		<-done
		l.commitCommands()
		if len(acks) != 1 || !acks[0].Accepted || acks[0].Action != c.action || len(l.current.deferred) != 1 {
			t.Errorf("once it is durable: %+v, %d commands wait", acks, len(l.current.deferred))
		}
	}
}

// The status of a settlement that waited for the disk says nothing that is over by then.
func TestSettledStatusIsNotOld(t *testing.T) {
	const slot = 77
	l := newWithLedger(t, telemetry.StateFlying)
	settled := &telemetry.Status{State: telemetry.StateFlying, Slot: slot}
	if got := l.statusAfter(settled); got.Slot != slot {
		t.Errorf("a status that did not wait is of slot %d", got.Slot)
	}
	l.ledgerWriter.settled = settled
	if l.keepWithoutLedger(1); l.ledgerWriter.settled != nil {
		t.Error("it is published after a newer one")
	}
	l.mission.DiskFailed()
	if got := l.statusAfter(settled); got.Slot == slot || got.State != telemetry.StateReturning {
		t.Errorf("on the way home the status is %s, of slot %d", got.State, got.Slot)
	}
}

// A command that waits for the disk is not stale once one with a higher counter, which
// did not wait, was executed.
func TestOvertakenCounter(t *testing.T) {
	l := newWithLedger(t, telemetry.StateFlying)
	var acks []telemetry.Ack
	l.crew.Publish = func(a telemetry.Ack) { acks = append(acks, a) }
	l.ledgerWriter.pending = make(chan error)
	l.ledgerWriter.fleet = l.fleet.SavedState()
	l.mqtt.ControlMessages = make(chan link.ControlMessage)
	done := make(chan struct{})
	go func() {
		l.waitForCommit()
		close(done)
	}()
	challenge := l.crew.Challenge()
	for i, c := range []link.ControlMessage{
		command(t, l, telemetry.KindPreference, l.mqtt.Topics.Preference(), `{"id":"p","setting":0.9}`),
		command(t, l, telemetry.KindMission, l.mqtt.Topics.Mission(), `{"id":"h","action":"hold"}`),
	} {
		c.Command.Signer = crew.Signer{KeyName: "crew-1", PublicKey: "k", Counter: uint64(i + 1), Challenge: challenge}
		l.mqtt.ControlMessages <- c
	}
	l.mqtt.ControlMessages <- link.ControlMessage{}
	l.ledgerWriter.pending <- nil
	<-done
	l.commitDeferred()
	if len(acks) != 2 || !acks[0].Accepted || !acks[1].Accepted {
		t.Errorf("answered: %+v", acks)
	}
}

// commitDeferred handles what waited while a transaction was being written, and commits it.
func (l *Leader) commitDeferred() {
	for {
		c, ok := l.current.nextControl(l.mqtt.ControlMessages)
		if !ok {
			break
		}
		l.handleControl(c)
	}
	l.commitCommands()
}

func orderNone(*checks, *telemetry.Mission) ([]fleet.Ordered, error) { return nil, nil }

// A command that ends or holds what another one begins, and comes while that one is being
// written, follows it: before, it was refused by the state of before, and the other acted.
func TestStopWhileAStartIsWritten(t *testing.T) {
	start := missionActions[telemetry.ActionStart]
	defer func() { missionActions[telemetry.ActionStart] = start }()
	ready := start
	ready.decide, ready.order = orderNone, nil // no aircraft is here
	missionActions[telemetry.ActionStart] = ready
	for _, c := range []struct{ state, begins, ends, want, overtaken string }{
		{telemetry.StateIdle, telemetry.ActionStart, telemetry.ActionStop, telemetry.StateStopped, ""},
		{telemetry.StateIdle, telemetry.ActionStart, telemetry.ActionReturn, telemetry.StateReturning, ""},
		{telemetry.StateHolding, telemetry.ActionResume, telemetry.ActionHold, telemetry.StateHolding, "overtaken by `hold`"},
	} {
		l := newWithLedger(t, telemetry.StateIdle)
		l.mission.Restore(mission.State{Mission: "m", Phase: c.state, HeldBy: mission.HeldByCrew})
		var acks []telemetry.Ack
		l.crew.Publish = func(a telemetry.Ack) { acks = append(acks, a) }
		l.ledgerWriter.pending = make(chan error)
		l.ledgerWriter.fleet = l.fleet.SavedState()
		l.mqtt.ControlMessages = make(chan link.ControlMessage)
		done := make(chan struct{})
		go func() {
			l.handleControl(command(t, l, telemetry.KindMission, l.mqtt.Topics.Mission(), fmt.Sprintf(`{"id":"b","action":%q}`, c.begins)))
			close(done)
		}()
		l.mqtt.ControlMessages <- command(t, l, telemetry.KindMission, l.mqtt.Topics.Mission(),
			fmt.Sprintf(`{"id":"e","action":%q}`, c.ends))
		l.mqtt.ControlMessages <- link.ControlMessage{}
		l.ledgerWriter.pending <- nil
		<-done
		l.commitDeferred()
		got := l.mission.Phase()
		if got != c.want || len(acks) != 2 || acks[0].Accepted != (c.overtaken == "") || !strings.HasPrefix(acks[0].Reason, c.overtaken) ||
			!acks[1].Accepted {
			t.Errorf("%s, then %s: the mission is %s, want %s; answered %+v", c.begins, c.ends, got, c.want, acks)
		}
	}
}

// A hold that comes while the order of an aircraft is being written does not undo it: the order
// is answered as accepted, and holds in a hold as well.
func TestHoldWhileAnAircraftIsOrderedHome(t *testing.T) {
	row := missionActions[returnAircraft]
	defer func() { missionActions[returnAircraft] = row }()
	flies := row
	flies.decide = func(*checks, *telemetry.Mission) ([]fleet.Ordered, error) {
		return []fleet.Ordered{{Number: 1, Homeward: true}}, nil
	}
	missionActions[returnAircraft] = flies
	for then, want := range map[string]bool{telemetry.ActionHold: true, telemetry.ActionStop: false, telemetry.ActionReturn: false} {
		l := newWithLedger(t, telemetry.StateFlying)
		for _, body := range []string{`{"id":"r","action":"return","aircraft":[1]}`, fmt.Sprintf(`{"id":"h","action":%q}`, then)} {
			l.handleCommand(command(t, l, telemetry.KindMission, l.mqtt.Topics.Mission(), body).Command)
		}
		l.commitCommands()
		if got := l.account.State().Aircraft[0].Returned; got != want {
			t.Errorf("sent home, and then %s: it returns %v, want %v", then, got, want)
		}
	}
}

// What cannot be written changes nothing: neither the mission's id, nor its slots, nor its state.
func TestWhatIsNotWrittenIsNotAdopted(t *testing.T) {
	for _, action := range []string{telemetry.ActionStart, telemetry.ActionNew} {
		row := missionActions[action]
		defer func() { missionActions[action] = row }()
		ready := row
		ready.decide, ready.order = orderNone, nil // no aircraft is here
		missionActions[action] = ready
	}
	for body, state := range map[string]string{
		`{"id":"n","action":"new","mission":"m-2"}`: telemetry.StateDone, `{"id":"s","action":"start"}`: telemetry.StateIdle,
		`{"id":"r","action":"resume"}`: telemetry.StateHolding,
	} {
		l := newWithLedger(t, state)
		acks := 0
		l.crew.Publish = func(telemetry.Ack) { acks++ }
		l.WallClock = time.Now
		for n := range 3 {
			l.startCommit(l.settle(n))
		}
		l.waitForCommit()
		before := l.ledgerState()
		c := command(t, l, telemetry.KindMission, l.mqtt.Topics.Mission(), body)
		if !l.crew.Admit(c.Command) {
			t.Fatal("not admitted")
		}
		ack := telemetry.Ack{Accepted: true}
		if err := l.decideCommand(c.Command, &ack); err != nil {
			t.Fatal(err)
		}
		l.crew.Answer(c.Command, ack)
		l.ledgerWriter.ledger.Close()
		l.commitCommands()
		if after := l.ledgerState(); acks > 0 || after.Mission != before.Mission || after.Phase != before.Phase ||
			after.Account.Objective != before.Account.Objective || after.Schedule.Next != before.Schedule.Next || after.LastCommand != nil {
			t.Errorf("%s on a disk that fails: %d answers, the mission was %s, %s, and is %s, %s, in slot %d", body, acks, before.Mission,
				before.Phase, after.Mission, after.Phase, after.Account.Objective.Slot)
		}
	}
}

// A disk that does not answer sends the fleet home, as one that fails does.
func TestDiskThatDoesNotAnswer(t *testing.T) {
	frozen := loadCheckpoint(t)
	l := newInPhase(t, telemetry.StateFlying, nil, frozen.Physics, &frozen.GoalConstants)
	const hangsS = 30.0
	for s := 1.0; s <= hangsS; s++ {
		if got := l.mission.Phase(); got != telemetry.StateFlying {
			t.Fatalf("after %v s it is %s", s, got)
		}
		l.keepWithoutLedger(s)
	}
	if got := l.mission.Phase(); got != telemetry.StateReturning {
		t.Errorf("after %v s it is %s", hangsS, got)
	}
}

// A change that a failed disk or a command that acts at once has overtaken is not made, and its command is refused: before it is
// written, or while it is.
func TestOvertaken(t *testing.T) {
	for name, during := range map[string]bool{"before it is written": false, "while it is written": true} {
		l := newWithLedger(t, telemetry.StateHolding)
		acks := map[string]telemetry.Ack{}
		l.crew.Publish = func(a telemetry.Ack) { acks[a.ID] = a }
		resume := command(t, l, telemetry.KindMission, l.mqtt.Topics.Mission(), `{"id":"r","action":"resume"}`).Command
		home := command(t, l, telemetry.KindMission, l.mqtt.Topics.Mission(), `{"id":"h","action":"return"}`).Command
		l.handleCommand(resume)
		if during {
			change := &l.current.changes[0]
			write := change.write
			change.write = func(s *ledger.State) { write(s); l.handleCommand(home) }
		} else {
			l.handleCommand(home)
		}
		l.commitCommands()
		l.commitCommands()
		if got := l.mission.Phase(); got != telemetry.StateReturning {
			t.Errorf("%s: a resume that waited for the disk made the mission %s after a return", name, got)
		}
		if a := acks["r"]; a.Accepted || !strings.Contains(a.Reason, "overtaken") || !acks["h"].Accepted {
			t.Errorf("%s: the resume that was not made is answered by %+v, the return by %+v", name, a, acks["h"])
		}
		kept, known, err := l.ledgerWriter.ledger.Command("r")
		if err != nil || !known || !strings.Contains(string(kept.Ack), "overtaken") {
			t.Errorf("%s: the ledger has the answer %s (%v)", name, kept.Ack, err)
		}
		if last := l.crew.LastCommand(); last == nil || last.ID != "h" {
			t.Errorf("%s: the last command is %+v", name, last)
		}
	}
}

// What the ledger has of a command that is to be executed is the state after it, with the
// place that each aircraft leaves.
func TestWrittenBeforeItIsOrdered(t *testing.T) {
	frozen := loadCheckpoint(t)
	l := newInPhase(t, telemetry.StateIdle, nil, frozen.Physics, &frozen.GoalConstants)
	s := l.ledgerState()
	s.Fleet[1].Order(fleet.Ordered{Number: 2, Home: &l.views[1].Position})
	if a := s.Fleet[1]; !a.UnderCommand || a.Engaged || a.Home == nil || a.Home[0] != l.views[1].Position.EastM {
		t.Errorf("ordered to take off: %+v", a)
	}
	s.Fleet[0].Order(fleet.Ordered{Number: 1, Homeward: true, Engages: true})
	if a := s.Fleet[0]; a.UnderCommand || !a.Homing || !a.Engaged || a.WithPilot {
		t.Errorf("ordered home: %+v", a)
	}
	l = newWithLedger(t, telemetry.StateDone)
	for i := range l.views {
		l.views[i] = fleet.View{Number: i + 1, Received: true, Fresh: true}
	}
	if err := l.decideMission(&telemetry.Mission{Action: telemetry.ActionNew, Mission: "m-2"}, l.checks(l.views)); err != nil {
		t.Fatal(err)
	}
	s.Users.NextID, s.Fleet[0].SentHome = 7, "battery low"
	l.current.changes[0].write(&s)
	if s.Mission != "m-2" || s.Phase != telemetry.StateIdle || s.Account.Objective.Slot != 0 || len(s.Account.Aircraft) != 2 ||
		s.Users.NextID != 0 || s.Fleet[0].SentHome != "" {
		t.Errorf("of a new mission: %+v", s)
	}
}

// `new` is refused while an aircraft that is lost may still be in the air.
func TestNewWhileALostOneMayFly(t *testing.T) {
	l := newWithLedger(t, telemetry.StateDone)
	for i := range l.views {
		l.views[i] = fleet.View{Number: i + 1, Received: true, Fresh: true}
	}
	m := &telemetry.Mission{Action: telemetry.ActionNew, Mission: "m-9"}
	if _, err := l.checks(l.views).newMission(m); err != nil {
		t.Fatal(err)
	}
	l.views[1].Lost, l.views[1].Obstacle = true, true
	if _, err := l.checks(l.views).newMission(m); err == nil || !strings.Contains(err.Error(), "aircraft 2 is lost") ||
		!strings.Contains(err.Error(), "clear") {
		t.Errorf("with one lost in the air: %v", err)
	}
}

// `new` is refused with an aircraft in the air, and what brings it down is what the state accepts.
func TestNewNamesWhatBringsItDown(t *testing.T) {
	m := &telemetry.Mission{Action: telemetry.ActionNew, Mission: "m-9"}
	for name, c := range map[string]struct {
		phase    string
		homeward bool
		want     string
	}{
		"left in the air":        {telemetry.StateStopped, false, "aircraft 2 is in the air; `return` or its pilot brings it down"},
		"with its pilot":         {telemetry.StateDone, false, "aircraft 2 is in the air; `resume` or its pilot brings it down"},
		"landing":                {telemetry.StateDone, true, "aircraft 2 is in the air; it is on its way down: wait until it has landed"},
		"flown before the start": {telemetry.StateIdle, false, "aircraft 2 is in the air; its pilot brings it down"},
	} {
		l := newWithLedger(t, c.phase)
		for i := range l.views {
			l.views[i] = fleet.View{Number: i + 1, Received: true, Fresh: true, InAir: i == 1, Homeward: c.homeward}
			if c.phase == telemetry.StateStopped {
				l.views[i].Role = fleet.RoleHold
			}
		}
		if _, err := l.checks(l.views).newMission(m); err == nil || err.Error() != c.want {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}

// This leader's last beacon may come back once its mission has left the slots.
func TestOwnLastBeacon(t *testing.T) {
	frozen := loadCheckpoint(t)
	l := newInPhase(t, telemetry.StateReturning, nil, frozen.Physics, &frozen.GoalConstants)
	l.current.lastBeacon = 7
	l.handleControl(link.ControlMessage{Beacon: &telemetry.Slot{Slot: 7, SlotMS: l.Config.SlotMS}})
	if n := l.mqtt.Rejects.Total(); n != 0 {
		t.Error("its own last beacon counts as another leader's")
	}
}

// A slot that is opened before this process has reached the broker had no beacon: no user
// was asked in it, and it counts as missed.
func TestSlotBeforeTheBrokerIsMissed(t *testing.T) {
	frozen := loadCheckpoint(t)
	l := newInPhase(t, telemetry.StateFlying, nil, frozen.Physics, &frozen.GoalConstants)
	l.settle(0)
	before := l.schedule.Missed
	l.account.AddDecision(account.SlotDecision{Slot: 1, Snapshot: &l.current.snapshot, Decision: &l.current.decision})
	l.settle(1)
	if got := l.schedule.Missed - before; got != 1 {
		t.Errorf("without a broker %d is counted, want 1", got)
	}
	l.current.reachedBroker = true
	l.account.AddDecision(account.SlotDecision{Slot: 2, Snapshot: &l.current.snapshot, Decision: &l.current.decision})
	l.settle(2)
	if got := l.schedule.Missed - before; got != 1 {
		t.Errorf("with the broker %d are counted, want 1", got)
	}
}

// Rows whose write failed are written with the next transaction that succeeds.
func TestRowsOfAFailedWrite(t *testing.T) {
	l := newWithLedger(t, telemetry.StateFlying)
	l.WallClock = time.Now
	l.startCommit(l.settle(0))
	<-l.ledgerWriter.pending // it succeeded, and is taken for a failure
	l.handleCommit(errors.New("no space left on device"))
	if len(l.ledgerWriter.rows) != 1 {
		t.Fatalf("%d rows wait for the disk, want that of the failed write", len(l.ledgerWriter.rows))
	}
	l.startCommit(l.settle(1))
	if len(l.ledgerWriter.rows) != 2 {
		t.Fatalf("the next transaction has %d rows, want that of the failed write as well", len(l.ledgerWriter.rows))
	}
	l.waitForCommit()
	rows, err := l.ledgerWriter.ledger.LastRows(5)
	if err != nil || len(rows) != 2 || rows[0].Slot != 0 || len(l.ledgerWriter.rows) != 0 {
		t.Errorf("%d rows: %v; %d wait", len(rows), err, len(l.ledgerWriter.rows))
	}
}
