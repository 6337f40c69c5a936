package chaos

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"prefdt/simbridge/autopilot"
	"prefdt/telemetry"
)

// fly runs the mission to its end. What the crew does is a straight line here;
// the faults begin beside it, see watch.
func (m *mission) fly(ctx context.Context) (o outcome, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration((float64(m.plan.Slots)+500)/m.Speed*float64(time.Second))+40*time.Second)
	defer cancel()
	if err := m.start(ctx); err != nil {
		return o, err
	}
	m.pending = slices.Clone(m.plan.Faults)
	m.entered, m.failed = map[State]time.Time{}, make(chan error, len(m.pending)+1)
	watching, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		m.watch(watching)
	}()
	defer func() {
		stop()
		<-done
	}()
	if err = m.begin(ctx); err == nil {
		err = m.slots(ctx)
	}
	flying := m.flying()
	m.endedAt = m.clock()
	m.mutex.Lock()
	m.lastInSlots = m.lastEnd
	if m.active > 0 {
		m.lastInSlots = m.endedAt
	}
	m.mutex.Unlock()
	if err == nil {
		o, err = m.end(ctx)
	}
	o.resumed = flying == m.Aircraft
	if err != nil && m.ended() {
		err = m.process().Failure()
	}
	return o, err
}

// flying counts the aircraft that fly for the leader.
func (m *mission) flying() (n int) {
	for _, a := range m.autopilots {
		if s := a.State(); s.Mode == autopilot.ModeOffboard && !s.Landed {
			n++
		}
	}
	return n
}

// Wall times of a mission in which the crew's radio is lost: the least that the
// leader takes, and how long it must have reached the broker before it counts.
const (
	crewHoldS    = 1.0
	crewReturnS  = 1.2
	crewGraceS   = 5.0
	crewBeatS    = 0.1 // a heartbeat's period there; else a second
	startAgain   = 5   // slots
	recoverAgain = 4   // slots
	standsStill  = 16  // slots after start, as for a leader that was restarted before the take-off
)

// begin asks for a budget and for the start, as often as it takes until the
// leader knows its aircraft, and waits for the first slot.
func (m *mission) begin(ctx context.Context) error {
	if !m.crew.wait(ctx, func() bool { return m.crew.online && m.crew.statuses > 0 }) {
		return errors.New("the leader does not come online")
	}
	if m.plan.radioLost() {
		m.wall(ctx, crewGraceS+0.5)
	}
	if !m.crew.await(ctx, m.crew.newAsk(m.random, "budget")) {
		return errors.New("the first budget was refused")
	}
	m.enter(Idle)
	if err := m.loop(ctx, "the faults in idle are not over", func() bool { return !m.awaits(Idle) }); err != nil {
		return err
	}
	for began := time.Now(); ; {
		a := m.order(telemetry.ActionStart, m.all(), true)
		if m.crew.await(ctx, a) {
			break
		}
		if ctx.Err() != nil || time.Since(began) > waitAtMost {
			return fmt.Errorf("the leader does not start: %s", a.reason)
		}
		m.sleep(ctx, startAgain)
	}
	return m.loop(ctx, "no slot was opened", func() bool { return m.now() >= 0 || m.ending() })
}

// slots is the mission, until its last slot is over or it is ended before.
func (m *mission) slots(ctx context.Context) error {
	next := 3 + m.random.IntN(8)
	held, resumed, endAsked := m.plan.HoldSlots == 0, m.plan.HoldSlots == 0, false
	return m.loop(ctx, "the slots do not end", func() bool {
		now := m.now()
		state := m.state()
		if now >= float64(m.plan.Slots) || m.ending() {
			return true
		}
		switch left := float64(m.plan.Slots) - now; {
		case m.crew.off():
		case !held && state == Flying && now >= float64(m.plan.HoldSlot):
			held = true
			m.crew.send(m.order(telemetry.ActionHold, nil, false))
		case held && !resumed && state == Holding && (left < quiet-4 || now >= float64(m.plan.HoldSlot+m.plan.HoldSlots) && !m.awaits(Holding)):
			resumed = true
			m.crew.send(m.order(telemetry.ActionResume, m.inAir(), false))
		case !endAsked && m.plan.End != endSlots && now >= float64(m.plan.EndSlot):
			endAsked = true
			m.crew.send(m.order(string(m.plan.End), nil, false))
		case int(now) >= next && left > 5:
			next += 4 + m.random.IntN(8)
			m.crew.send(m.crew.newAsk(m.random, []string{"budget", "preference"}[m.random.IntN(2)]))
		}
		return false
	})
}

// end waits for every aircraft to stand, and draws the balance.
func (m *mission) end(ctx context.Context) (o outcome, err error) {
	over := func() bool { s := m.state(); return s == Done || s == Stopped || s == Returning }
	if err := m.loop(ctx, "the mission is not over", over); err != nil {
		return o, err
	}
	if m.state() == Stopped {
		m.sleep(ctx, 3)
		if err := m.loop(ctx, "the faults in stopped are not over", func() bool { return !m.awaits(Stopped) }); err != nil {
			return o, err
		}
		if m.plan.ReturnAfterStop && len(m.inAir()) > 0 {
			if a := m.order(telemetry.ActionReturn, nil, false); !m.crew.await(ctx, a) && len(m.inAir()) > 0 {
				return o, fmt.Errorf("the leader does not bring a stopped fleet home: %s", a.reason)
			}
		}
	}
	began := time.Now()
	home := func() bool {
		if time.Since(began) > 3*m.slotWall() {
			m.pilotsLand()
		}
		return len(m.inAir()) == 0 && !m.awaits(m.state()) && m.disarmed()
	}
	if err := m.loop(ctx, "not all aircraft came down", home); err != nil {
		for i, a := range m.autopilots {
			s := a.State()
			err = fmt.Errorf("%w; %d in %s at %.0f m, armed %v, its pilot's %v", err, i+1, s.Mode, s.Position.UpM, s.Armed, m.judge.theirs(i))
		}
		return o, err
	}
	rest := func() bool { s := m.state(); return s == Done || s == Stopped }
	if err := m.loop(ctx, "all aircraft stand, and the mission does not end", rest); err != nil {
		return o, err
	}
	_, n := m.crew.now()
	if !m.crew.wait(ctx, func() bool { return m.crew.statuses > n+3 && !m.crew.pending() }) {
		return o, errors.New("the leader stopped reporting")
	}
	m.balance(&o)
	if err := m.process().End(); err != nil {
		return o, err
	}
	return o, nil
}

// pilotsLand lets the pilots bring down what is theirs and what the leader, who
// has had time to lead it, left in Hold.
func (m *mission) pilotsLand() {
	if m.busy() {
		m.heldSince = time.Time{}
		return
	}
	left := false
	for i, a := range m.autopilots {
		s := a.State()
		if s.Landed || !s.Armed || s.Mode == autopilot.ModeLand {
			continue
		}
		theirs := m.judge.theirs(i) && !m.plan.Launch || m.judge.theirs(i) && m.state() == Stopped
		if s.Mode == autopilot.ModeHold || m.judge.theirs(i) {
			left = true
			theirs = theirs || !m.heldSince.IsZero() && time.Since(m.heldSince) > 20*m.slotWall()
		}
		if theirs {
			m.judge.taken(i, m.timeOf(i), func(h autopilot.Heartbeat) bool { return h.Mode == autopilot.ModeLand })
			a.Pilot(autopilot.ModeLand)
		}
	}
	switch {
	case !left:
		m.heldSince = time.Time{}
	case m.heldSince.IsZero():
		m.heldSince = time.Now()
	}
}

// loop does what a crew does all the time until a condition holds.
func (m *mission) loop(ctx context.Context, otherwise string, until func() bool) error {
	began := time.Now()
	tick := time.NewTicker(max(2*time.Millisecond, m.slotWall()/4))
	defer tick.Stop()
	for !until() {
		m.recover()
		m.crew.tend()
		select {
		case <-tick.C:
		case <-m.leaderGone():
			if m.ended() {
				return errors.New("the leader ended")
			}
		case err := <-m.failed:
			return err
		case <-ctx.Done():
			return fmt.Errorf("%s: interrupted or out of time, %s", otherwise, m.state())
		}
		if time.Since(began) > waitAtMost+time.Duration(m.plan.Slots)*m.slotWall() {
			return fmt.Errorf("%s: the mission is %s", otherwise, m.state())
		}
	}
	return nil
}

// recover gives the leader back, once their trouble is over, what of the aircraft
// does not fly for it: by resume in the air, by launch on the ground. A crew that
// errs resumes what stands, too, which must not arm.
func (m *mission) recover() {
	state, now := m.state(), m.clock()
	m.mutex.Lock()
	wait := m.active > 0 || now < m.lastEnd+3 || now < m.lastRecover+recoverAgain
	m.mutex.Unlock()
	if wait || m.crew.off() || m.now() > float64(m.plan.Slots-4) && state == Flying {
		return
	}
	var air, ground []int
	for i, a := range m.autopilots {
		s := a.State()
		switch theirs := m.judge.theirs(i); {
		case s.Armed && !s.Landed:
			left := theirs || s.Mode == autopilot.ModeHold // a failsafe's
			if left && (state == Flying || state == Climbing) || theirs && m.plan.Launch && (state == Returning || state == Done) && s.Mode != autopilot.ModeLand {
				air = append(air, i)
			}
		case s.Landed && !s.Armed && (state == Flying || state == Climbing) && (theirs || m.since(Climbing) > standsStill):
			ground = append(ground, i)
		}
	}
	if len(air) == 0 && len(ground) == 0 {
		return
	}
	m.mutex.Lock()
	m.lastRecover = now
	m.mutex.Unlock()
	if m.plan.Wrong && !m.erred && len(ground) > 0 {
		m.erred = true
		m.crew.send(m.crew.naming(m.random, telemetry.ActionResume, ground)) // nobody is given
	} else if m.plan.Launch && len(ground) > 0 {
		m.crew.send(m.order(telemetry.ActionLaunch, ground, true))
	}
	if len(air) > 0 {
		m.crew.send(m.order(telemetry.ActionResume, air, false))
	}
}

// order is a mission command for aircraft, of which the judge is told. start,
// hold, return and stop name none, and neither does a resume of all in the air.
func (m *mission) order(action string, aircraft []int, arm bool) *ask {
	var a *ask
	if action == telemetry.ActionLaunch || action == telemetry.ActionResume && m.state() != Holding && len(aircraft) > 0 &&
		(len(aircraft) < len(m.inAir()) || m.random.IntN(2) == 0) {
		a = m.crew.naming(m.random, action, aircraft)
	} else {
		a = m.crew.newAsk(m.random, action)
	}
	if len(aircraft) > 0 {
		a.undo = m.judge.given(aircraft, arm)
	}
	if arm {
		m.mutex.Lock()
		for _, i := range aircraft {
			m.streamed[i] = false
		}
		m.mutex.Unlock()
	}
	return a
}

// answered takes in what became of a mission command.
func (m *mission) answered(a *ask) {
	switch {
	case !a.accepted && a.undo != nil:
		a.undo()
	case a.accepted && (a.mission == telemetry.ActionReturn || a.mission == telemetry.ActionStop):
		m.judge.ordersEnd(m.times())
	}
}

func (m *mission) all() (all []int) {
	for i := range m.autopilots {
		all = append(all, i)
	}
	return all
}

// inAir are the aircraft that fly with their motors on.
func (m *mission) inAir() (numbers []int) {
	for i, a := range m.autopilots {
		if s := a.State(); s.Armed && !s.Landed {
			numbers = append(numbers, i)
		}
	}
	return numbers
}

// disarmed tells whether every aircraft stands with its motors off.
func (m *mission) disarmed() bool {
	for _, a := range m.autopilots {
		if s := a.State(); s.Armed || !s.Landed {
			return false
		}
	}
	return true
}

// state is the mission's, as the crew has it.
func (m *mission) state() State {
	m.crew.mutex.Lock()
	defer m.crew.mutex.Unlock()
	return m.crew.state
}

// ending tells whether no slots are flown any more.
func (m *mission) ending() bool {
	s := m.state()
	return s == Returning || s == Done || s == Stopped
}

// since is for how many slots a state has been entered, 0 before.
func (m *mission) since(s State) float64 {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	at, ok := m.entered[s]
	if !ok {
		return 0
	}
	return float64(time.Since(at)) / float64(m.slotWall())
}

// clock is the mission time since the simulation began, in slots.
func (m *mission) clock() float64 { return float64(time.Since(m.began)) / float64(m.slotWall()) }

// wall waits for seconds of wall time.
func (m *mission) wall(ctx context.Context, seconds float64) {
	m.sleep(ctx, seconds*m.Speed)
}
