package chaos

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"prefdt/simbridge/autopilot"
	"prefdt/simbridge/record"
	"prefdt/telemetry"
)

// limit is how long the mission may fly.
func (p *plan) limit() time.Duration {
	return time.Duration((float64(p.Slots)+2*returnSlots)/p.Speed*float64(time.Second)) + 40*time.Second
}

// fly runs the mission to its end, with the crew's commands in their order; the faults
// are injected concurrently, see runFaults.
func (m *mission) fly(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, m.plan.limit())
	defer cancel()
	if err := m.setUp(ctx); err != nil {
		return err
	}
	m.pendingFaults = slices.Clone(m.plan.Faults)
	m.stateEnteredAt, m.faultErrors = map[State]time.Time{}, make(chan error, len(m.pendingFaults)+1)
	watching, stop := context.WithCancel(ctx)
	var faults sync.WaitGroup
	faults.Go(func() { m.runFaults(watching) })
	defer faults.Wait()
	defer stop()
	if err = m.startMission(ctx); err == nil {
		err = m.flySlots(ctx)
	}
	m.resumed = !slices.ContainsFunc(m.autopilots, func(a *autopilot.Autopilot) bool {
		s := a.State()
		return s.Mode != autopilot.ModeOffboard || s.Landed
	})
	m.mutex.Lock()
	if !m.epoch.IsZero() {
		m.dueSlots = min(m.slotsFrom(m.epoch), float64(m.plan.Slots))
	}
	m.mutex.Unlock()
	if err == nil {
		err = m.finish(ctx)
	}
	if err == nil {
		err = m.beginNext(ctx)
	}
	if err != nil && m.leaderEnded() {
		err = m.leader.Load().Failure()
	}
	return err
}

// Wall times of a mission in which contact with the crew is lost: the least values that
// the leader accepts, and how long it must run, and be connected, before it counts the
// silence of broker and crew; and intervals of the crew in all missions.
const (
	crewHoldS         = 1.0
	crewReturnS       = 4.0 // so that it holds before
	crewGraceS        = 5.0
	heartbeatPeriodS  = 0.1 // of the crew's heartbeats in such a mission; else 1 s
	startRetrySlots   = 5   // slots
	recoverRetrySlots = 4   // slots
	groundedSlots     = 16  // slots after start: then an aircraft on the ground missed its take-off
	returnSlots       = 450 // slots that a climb, and a return and a landing of eight beside each other, take at the stock rates
)

// startMission requests a budget and the start, again until the leader has received its
// aircraft, and waits for the first slot.
func (m *mission) startMission(ctx context.Context) error {
	if !m.crew.waitFor(ctx, func() bool { return m.crew.Online != nil && *m.crew.Online && m.crew.LiveStatuses > 0 }) {
		return errors.New("the leader does not come online")
	}
	if m.plan.losesCrewRadio() || m.plan.hasFault(BrokerGoneHold, BrokerGoneReturn) {
		m.sleepWall(ctx, crewGraceS+0.5)
	}
	for i := range m.autopilots {
		m.crew.fleetJ += m.capacityJ(i)
	}
	if !m.crew.sendAndWait(ctx, m.crew.newRequest(m.random, "budget")) {
		return errors.New("the first budget was refused")
	}
	m.noteState(Idle)
	if err := m.runUntil(ctx, "the faults in idle are not over", func() bool { return !m.awaitsFaultIn(Idle) }); err != nil {
		return err
	}
	for began := time.Now(); !m.isEnding(); {
		a := m.newMissionRequest(telemetry.ActionStart, m.allAircraft()...)
		if m.crew.sendAndWait(ctx, a) {
			break
		}
		if ctx.Err() != nil || time.Since(began) > maxWait {
			return fmt.Errorf("the leader does not start: %s", a.reason)
		}
		m.sleepSlots(ctx, startRetrySlots)
	}
	if m.plan.HoldsClimb {
		if err := m.holdClimb(ctx); err != nil {
			return err
		}
	}
	return m.runUntil(ctx, "no slot was opened", func() bool { return m.slotNow() >= 0 || m.isEnding() })
}

// flySlots flies the slots until the last one is over or the mission is ended.
func (m *mission) flySlots(ctx context.Context) error {
	next := 3 + m.random.IntN(8)
	held, resumed, ended, called := m.plan.HoldSlots == 0, m.plan.HoldSlots == 0, false, false
	return m.runUntil(ctx, "the slots do not end", func() bool {
		now := m.slotNow()
		state := m.state()
		if now >= float64(m.plan.Slots) || m.isEnding() {
			return true
		}
		switch left := float64(m.plan.Slots) - now; {
		case m.crew.radioOff.Load():
		case !held && state == Flying && now >= float64(m.plan.HoldSlot):
			held = true
			m.crew.send(m.newMissionRequest(telemetry.ActionHold))
		case held && !resumed && state == Holding && !m.touchesDown() && (left < quietSlots-4 ||
			now >= float64(m.plan.HoldSlot+m.plan.HoldSlots) && !m.awaitsFaultIn(Holding)):
			resumed = true
			m.crew.send(m.newMissionRequest(telemetry.ActionResume, m.airborne()...))
		case !called && m.plan.Site != nil && m.plan.Site.ReturnSlot > 0 && state == Flying && now >= float64(m.plan.Site.ReturnSlot):
			called = true
			m.crew.send(m.crew.newRequest(m.random, telemetry.ActionReturn, m.Aircraft-1))
		case !ended && m.plan.Ending != endSlots && now >= float64(m.plan.EndSlot):
			ended = true
			m.crew.send(m.newMissionRequest(string(m.plan.Ending)))
		case int(now) >= next && left > 5 && m.number%2 == 0 && m.crew.isDown(): // nothing may replace what is in force
		case int(now) >= next && left > 5:
			next += 4 + m.random.IntN(8)
			m.crew.sendOvertaken(m.random, m.crew.newRequest(m.random, []string{"budget", "preference"}[m.random.IntN(2)]))
		}
		return false
	})
}

// finish waits until every aircraft has landed, and compares the accounts.
func (m *mission) finish(ctx context.Context) error {
	if err := m.runUntil(ctx, "the mission is not over", m.isEnding); err != nil {
		return err
	}
	if m.plan.StopsLanding && m.state() == Returning {
		if err := m.stopLanding(ctx); err != nil {
			return err
		}
	}
	if m.plan.KeepsUp != "" {
		if err := m.keepUp(ctx); err != nil {
			return err
		}
	}
	if m.state() == Stopped {
		if err := m.leaveStopped(ctx); err != nil {
			return err
		}
	}
	began := time.Now()
	home := func() bool {
		if time.Since(began) > 3*m.slotWall() {
			m.pilotsLand()
		}
		return !m.awaitsFaultIn(m.state()) && !slices.ContainsFunc(m.autopilots, func(a *autopilot.Autopilot) bool {
			s := a.State()
			return s.Armed || !s.Landed
		})
	}
	if err := m.runUntil(ctx, "not all aircraft landed", home); err != nil {
		for i, a := range m.autopilots {
			s := a.State()
			err = fmt.Errorf("%w; %d in %s at %.0f m, armed %v, under pilot control %v", err, i+1, s.Mode, s.Position.UpM, s.Armed,
				m.watch.isPiloted(i))
		}
		return err
	}
	ended := func() bool { return m.isIn(Done, Stopped) }
	if err := m.runUntil(ctx, "all aircraft are on the ground, and the mission does not end", ended); err != nil {
		return err
	}
	n := m.crew.Latest().LiveStatuses
	if !m.crew.waitFor(ctx, func() bool { return m.crew.LiveStatuses > n+3 && !m.crew.hasUnanswered() }) {
		return errors.New("the leader stopped reporting")
	}
	return nil
}

// stopLanding has the crew stop the fleet on its way home, once an aircraft lands.
func (m *mission) stopLanding(ctx context.Context) error {
	const highM, shownM = 10, 80 // once its leader knows
	lands := func(a *autopilot.Autopilot) bool {
		s := a.State()
		return s.Mode == autopilot.ModeLand && s.HeightM > highM && s.HeightM < shownM
	}
	err := m.runUntil(ctx, "no aircraft lands", func() bool { return slices.ContainsFunc(m.autopilots, lands) || !m.isIn(Returning) })
	if err != nil || !m.isIn(Returning) {
		return err
	}
	a := m.newMissionRequest(telemetry.ActionStop)
	if !m.crew.sendAndWait(ctx, a) && m.isIn(Returning) {
		return fmt.Errorf("the leader does not stop a fleet on its way home: %s", a.reason)
	}
	return nil
}

// returnWithinSlots is how long a crew repeats a return that is refused, as it is while
// nothing recent was received from an aircraft.
const returnWithinSlots = 10

// leaveStopped waits for the faults of the stopped state, and has the crew call the
// fleet home if the plan says so.
func (m *mission) leaveStopped(ctx context.Context) error {
	m.sleepSlots(ctx, 3)
	if err := m.runUntil(ctx, "the faults in stopped are not over", func() bool { return !m.awaitsFaultIn(Stopped) }); err != nil {
		return err
	}
	// One that its pilot has is the pilot's. One that lands goes on, and so does an ArduCopter that returns by its own failsafe or its
	// pilot's order: no return gives it back to the leader.
	lands := func(i int) bool {
		mode := m.autopilots[i].State().Mode
		return mode == autopilot.ModeLand || mode == autopilot.ModeReturn && m.plan.isCopter(i) || m.watch.isPiloted(i)
	}
	var refusedAt time.Time // first
	for ; m.plan.ReturnAfterStop && m.isIn(Stopped) && len(slices.DeleteFunc(m.airborne(), lands)) > 0; m.sleepSlots(ctx, 1) {
		a := m.newMissionRequest(telemetry.ActionReturn)
		var inHold []int // which the order puts under the leader's command again
		for _, i := range m.airborne() {
			if m.autopilots[i].State().Mode == autopilot.ModeHold {
				inHold = append(inHold, i)
			}
		}
		a.undo = m.watch.giveBack(inHold, false)
		if m.crew.sendAndWait(ctx, a) {
			break
		}
		if refusedAt.IsZero() { // a leader that is being restarted has answered nothing before
			refusedAt = time.Now()
		}
		if m.slotsFrom(refusedAt) > returnWithinSlots {
			return fmt.Errorf("the leader does not return a stopped fleet: %s", a.reason)
		}
	}
	return nil
}

// pilotsLand has the pilots land the aircraft under their control, and those that the
// leader has left in Hold for long.
func (m *mission) pilotsLand() {
	if m.faultActive() {
		m.heldSince = time.Time{}
		return
	}
	uncommanded := false
	for i, a := range m.autopilots {
		s := a.State()
		if s.Landed || !s.Armed || s.Mode == autopilot.ModeLand || s.Mode == autopilot.ModeReturn && m.plan.isCopter(i) { // it lands
			continue
		}
		givenBack := s.Mode == autopilot.ModePosition || s.Mode == autopilot.ModeStabilize // unknown to its leader
		piloted := m.watch.isPiloted(i) || givenBack
		lands := piloted && (!m.plan.RelaunchesGrounded || m.state() == Stopped)
		if s.Mode == autopilot.ModeHold || piloted {
			uncommanded = true
			lands = lands || !m.heldSince.IsZero() && time.Since(m.heldSince) > m.plan.patience()*m.slotWall()
		}
		if lands {
			m.watch.take(i)
			m.noteFault(record.PilotActs, i+1, false, autopilot.ModeLand.String())
			a.SetModeByRC(autopilot.ModeLand)
		}
	}
	switch {
	case !uncommanded:
		m.heldSince = time.Time{}
	case m.heldSince.IsZero():
		m.heldSince = time.Now()
	}
}

// runUntil does the crew's recurring work until a condition holds.
func (m *mission) runUntil(ctx context.Context, otherwise string, until func() bool) error {
	began := time.Now()
	m.apart()
	tick := time.NewTicker(max(2*time.Millisecond, m.slotWall()/4))
	defer tick.Stop()
	for !until() {
		m.recoverAircraft()
		m.crew.resendUnanswered()
		select {
		case <-tick.C:
		case err := <-m.faultErrors:
			return err
		case <-ctx.Done():
			return fmt.Errorf("%s: interrupted or out of time, %s", otherwise, m.state())
		}
		if m.leaderEnded() {
			return errors.New("the leader exited")
		}
		if time.Since(began) > maxWait+time.Duration(m.plan.Slots+returnSlots)*m.slotWall() {
			return fmt.Errorf("%s: the mission is %s", otherwise, m.state())
		}
	}
	return nil
}

// recoverAircraft returns the aircraft that are not under the leader's command to it once
// the faults are over: by resume in the air, by launch on the ground. By the plan the crew
// also resumes aircraft on the ground by mistake, which must not arm them.
func (m *mission) recoverAircraft() {
	state, now := m.state(), m.elapsedSlots()
	m.mutex.Lock()
	wait := m.activeFaults > 0 || now < m.lastFaultEnd+3 || now < m.lastRecoverAt+recoverRetrySlots
	m.mutex.Unlock()
	if wait || m.touchesDown() || m.crew.radioOff.Load() || m.slotNow() > float64(m.plan.Slots-4) && state == Flying {
		return
	}
	air, ground := m.toRecover(state)
	if len(air) == 0 && len(ground) == 0 {
		return
	}
	m.lastRecoverAt = now
	if m.plan.ResumesGrounded && !m.resumedGrounded && len(ground) > 0 {
		m.resumedGrounded = true
		m.crew.send(m.crew.newRequest(m.random, telemetry.ActionResume, ground...)) // returns none to the leader
	} else if len(ground) > 0 && !m.plan.Nobody && (m.plan.RelaunchesGrounded || len(ground) == len(m.autopilots)) { // some must fly
		if ground = m.prepareGround(ground); len(ground) > 0 {
			m.crew.send(m.newMissionRequest(telemetry.ActionLaunch, ground...))
		}
	}
	if len(air) > 0 {
		req := m.newMissionRequest(telemetry.ActionResume, air...)
		req.endsHold = state == Holding
		m.crew.send(req)
	}
}

// touchesDown is whether an aircraft is landing, and so low that a resume may be refused or not.
func (m *mission) touchesDown() bool {
	const lowM = 15 // the leader's ten, and what it descends until the resume arrives
	return slices.ContainsFunc(m.autopilots, func(a *autopilot.Autopilot) bool {
		s := a.State()
		return s.Armed && !s.Landed && s.HeightM < lowM && (s.Mode == autopilot.ModeLand || s.Mode == autopilot.ModeReturn)
	})
}

// toRecover returns the aircraft that do not fly for the leader and should: those in the
// air, under pilot control or in a failsafe's Hold, and those on the ground.
func (m *mission) toRecover(state State) (air, ground []int) {
	flying, ending := state == Flying || state == Climbing || m.plan.FlownOut && state == Holding, state == Returning || state == Done
	for i, a := range m.autopilots {
		s := a.State()
		switch piloted := m.watch.isPiloted(i); {
		case s.Armed && !s.Landed:
			if flying && (piloted || s.Mode == autopilot.ModeHold) ||
				ending && piloted && m.plan.RelaunchesGrounded && s.Mode != autopilot.ModeLand {
				air = append(air, i)
			}
		case s.Landed && !s.Armed && flying && (piloted || m.slotsSince(Climbing) > groundedSlots):
			ground = append(ground, i)
		}
	}
	return air, ground
}

// newMissionRequest is a mission command for aircraft, which are their leader's from then on. start, hold,
// return and stop name no aircraft, and neither does a resume of all in the air.
func (m *mission) newMissionRequest(action string, aircraft ...int) *request {
	var named []int
	if action == telemetry.ActionLaunch || action == telemetry.ActionResume && m.state() != Holding && len(aircraft) > 0 &&
		(len(aircraft) < len(m.airborne()) || m.random.IntN(2) == 0) {
		named = aircraft
	}
	req := m.crew.newRequest(m.random, action, named...)
	if len(aircraft) > 0 {
		req.undo = m.watch.giveBack(aircraft, action != telemetry.ActionResume)
	}
	return req
}

// handleAnswer handles the answer to a mission command.
func (m *mission) handleAnswer(req *request) {
	if req.accepted && req.endsHold {
		m.crew.send(m.newMissionRequest(telemetry.ActionHold))
	}
	if !req.accepted && req.undo != nil {
		req.undo()
	}
}

func (m *mission) allAircraft() (all []int) {
	for i := range m.autopilots {
		all = append(all, i)
	}
	return all
}

// airborne are the aircraft that fly with their motors on.
func (m *mission) airborne() (numbers []int) {
	for i, a := range m.autopilots {
		if s := a.State(); s.Armed && !s.Landed {
			numbers = append(numbers, i)
		}
	}
	return numbers
}

// state is the mission's state by the crew's messages.
func (m *mission) state() State {
	m.crew.Lock()
	defer m.crew.Unlock()
	return m.crew.state
}

// isEnding reports whether no slots are flown any more.
func (m *mission) isEnding() bool { return m.isIn(Returning, Done, Stopped) }

func (m *mission) isIn(states ...State) bool { return slices.Contains(states, m.state()) }

// slotsSince is the time since a state was entered, in slots; -1 before.
func (m *mission) slotsSince(s State) float64 {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	at, ok := m.stateEnteredAt[s]
	if !ok {
		return -1
	}
	return m.slotsFrom(at)
}

// elapsedSlots is the mission time since the simulation began, in slots.
func (m *mission) elapsedSlots() float64 { return m.slotsFrom(m.began) }

func (m *mission) sleepWall(ctx context.Context, seconds float64) {
	m.sleepSlots(ctx, seconds*m.plan.Speed)
}
