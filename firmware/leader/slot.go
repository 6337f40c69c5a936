package leader

import (
	"context"
	"math"
	"time"

	"prefdt/firmware/account"
	"prefdt/firmware/fleet"
	"prefdt/firmware/link"
	"prefdt/inference/slot"
	"prefdt/telemetry"
)

// slot is one slot of a mission, from its beacon to its status. This is the
// whole product; everything else serves one of these lines.
func (l *Leader) slot(ctx context.Context) {
	n, ok := l.openSlot(ctx)
	if !ok {
		return // asked to end, or the mission left its slots while waiting
	}
	began := l.Clock.Now()
	l.beacon(n)
	l.collect(ctx, began+l.wallMS(l.Config.ReportByMS))
	l.expire(n)
	l.committed()
	l.refresh()
	names := l.build(n)
	l.decide(n, names)
	l.fly()
	l.publishDecisions(n, names)
	l.collect(ctx, l.schedule.StartOf(n+1))
	if ctx.Err() != nil {
		return // unsettled: the next leader finds it so
	}
	l.settle(n)
	l.tick()
}

// openSlot waits for the open slot's start and returns its number. A slot whose
// time has run too far is missed, and its number is gone.
func (l *Leader) openSlot(ctx context.Context) (n int, ok bool) {
	l.now.decided = false
	for {
		n = l.schedule.Open()
		l.collect(ctx, l.schedule.StartOf(n))
		if ctx.Err() != nil || !l.mission.InSlots() {
			return n, false
		}
		if l.schedule.Advance(n-1, l.Clock.Now()) == n && !l.schedule.Over() {
			return n, true
		}
		l.Log.Warn("slots missed", "first", n, "next", l.schedule.Open(), "late", l.Clock.Now()-l.schedule.StartOf(n), "ledger_ms", l.journal.tookMS)
		if l.schedule.Over() {
			l.settle(l.Config.Slots - 1) // the last slots were missed
			return n, false
		}
	}
}

// beacon opens the slot, with the standing offer.
func (l *Leader) beacon(n int) {
	l.users.Open(n)
	l.refresh()
	s := &l.now.snapshot
	s.Aircraft = l.serving(s.Aircraft[:0])
	l.now.offered = len(s.Aircraft) > 0
	l.link.Beacon(telemetry.Slot{
		Slot: n, SlotMS: l.Config.SlotMS, Speed: l.Config.Speed(),
		ReportByMS: l.Config.ReportByMS, DecideByMS: l.Config.DecideByMS,
		Offer: l.users.Offer(n, s.Aircraft),
	})
}

// serving appends the aircraft that fly for us: users are sent to no other.
func (l *Leader) serving(dst []slot.Aircraft) []slot.Aircraft {
	for i := range l.views {
		v := &l.views[i]
		if !v.Flying || v.Order != fleet.OrderFly {
			continue
		}
		dst = append(dst, slot.Aircraft{
			Number: v.Number, Position: v.Position, SpeedMPS: v.SpeedMPS,
			ResidualJ: l.account.ResidualJ(v), CPUHz: l.Policy.Physics.EdgeCPUHz, Served: l.account.Served(v.Number),
		})
	}
	return dst
}

// collect takes in what arrives until a moment, and what arrived before it.
// Commands come before reports, however many of those wait.
func (l *Leader) collect(ctx context.Context, until time.Duration) {
	defer l.crew.Commit()
	timer := l.Clock.After(until - l.Clock.Now())
	for {
		if l.Clock.Now() < until {
			select {
			case c := <-l.link.Controls:
				l.control(c)
				continue
			default:
			}
		}
		l.crew.Commit()
		select {
		case c := <-l.link.Controls:
			l.control(c)
		case r := <-l.link.Reports:
			l.report(r, true)
		case err := <-l.journal.pending:
			l.recorded(err)
		case <-ctx.Done():
			return
		case <-timer:
			l.drain(until)
			return
		}
	}
}

// drain takes in what waits, as long as a storm may hold the slot.
func (l *Leader) drain(until time.Duration) {
	for l.Clock.Now() <= until+l.Config.Wall(0.1) {
		select {
		case c := <-l.link.Controls:
			l.control(c)
		case r := <-l.link.Reports:
			l.report(r, r.Received <= until)
		default:
			return
		}
	}
}

// report lets a user's report or result count.
func (l *Leader) report(r link.Report, inTime bool) {
	switch {
	case r.Report != nil:
		l.users.Report(r.User, *r.Report, inTime && !l.now.decided)
	case l.users.Allowed(r.User):
		if err := l.account.Correct(r.User, r.Result); err != nil {
			l.link.Rejects.Add(l.link.Topics.Result(r.User), err)
		}
	}
}

// expire ends the time for the results of slot n-2.
func (l *Leader) expire(n int) {
	for _, e := range l.account.Expire(n) {
		l.users.Settle(e.Tasks, e.Unreported)
	}
}

// build fills the snapshot in, and returns its users' names.
func (l *Leader) build(n int) (names []string) {
	s := &l.now.snapshot
	s.Slot, s.Slots = n, l.Config.Slots
	s.Aircraft = l.serving(s.Aircraft[:0])
	return l.users.Snapshot(s)
}

// decide runs the policy's step on the snapshot.
func (l *Leader) decide(n int, names []string) {
	began := l.Clock.Now()
	objective, d := l.account.Objective(), &l.now.decision
	if !l.link.Connected() {
		objective.Prefer(1) // nobody can be told: on at v*, the least energy
	}
	if l.Record != nil && l.account.Record == nil {
		l.account.Record = l.Record(objective.State())
	}
	seen := l.Policy.Decide(&l.now.snapshot, objective, d)
	l.account.Record.Decided(&l.now.snapshot, objective, d)
	l.account.Observe(seen)
	l.accept()
	l.now.decided = true
	l.users.Decided(d.PriceSPerJ)
	l.account.Expect(account.Decided{
		Slot: n, Users: names, Snapshot: &l.now.snapshot, Decision: d, Heard: l.users.Reported(),
		DecisionMS: float64(l.Clock.Now()-began) / float64(time.Millisecond), MayTake: l.users.MayTake(), Offered: l.now.offered,
	})
}

// endRecord completes the record of the slots.
func (l *Leader) endRecord() {
	if err := l.account.Record.Close(); err != nil {
		l.Log.Error("record of the slots", "reason", err)
	}
	l.account.Record, l.Record = nil, nil
}

// fly hands the displacements to the fleet, which checks each setpoint against
// the envelope just before it goes out.
func (l *Leader) fly() {
	s, d := &l.now.snapshot, &l.now.decision
	flying := l.mission.Phase() == telemetry.StateFlying
	for i := range l.views {
		l.account.Commit(l.views[i].Number, 0, 0) // whoever serves nobody any more
	}
	factor := l.account.Objective().Factor()
	for m := range s.Aircraft {
		number := s.Aircraft[m].Number
		l.fleet.Book(number, d.EdgeJ[m], factor)
		l.account.Commit(number, d.EdgeJ[m], d.Served(m+1))
		if flying {
			l.fleet.Leg(number, d.Move[m])
		}
	}
	for i := range l.views {
		v := &l.views[i]
		if !flying || v.Phase == fleet.PhaseEngaging {
			l.fleet.Hold(v.Number)
		}
		if v.Flying && v.Order == fleet.OrderFly && l.account.SpareJ(v) < 0 {
			l.sendHome(v, "battery low")
		}
	}
}

// publishDecisions tells each user with a task where to compute.
func (l *Leader) publishDecisions(n int, names []string) {
	for i, name := range names {
		d := &l.now.decision.Users[i]
		out := telemetry.Decision{Slot: n}
		if d.Server > 0 && d.Offload > 0 && d.CPUHz > 0 && !math.IsNaN(d.Offload) {
			out.Aircraft = l.now.snapshot.Aircraft[d.Server-1].Number
			out.Offload, out.CPUHz = min(d.Offload, 1), d.CPUHz
		}
		l.link.Decision(name, out)
	}
}

// settle settles slot n, and with it the slots missed before it, and has it
// written. The status follows once it is on the disk.
func (l *Leader) settle(n int) {
	l.refresh()
	rows := l.account.Settle(n, l.views, l.users.TakersJ)
	for i := range rows {
		if rows[i].Missed {
			l.schedule.Missed++
		}
		l.now.lastRow = rows[i]
	}
	l.schedule.Advance(n, l.Clock.Now())
	l.refer(l.schedule.StartOf(l.schedule.Open()))
	if n >= l.Config.Slots-1 {
		l.schedule.End()
		from := l.mission.Phase()
		l.perform(from, l.mission.SlotsOver()) // not when it was stopped in the last slot: nobody is led any more
	}
	l.record(rows)
}

// refer ties a moment to the autopilots' clocks, which survive a restart.
func (l *Leader) refer(at time.Duration) {
	l.schedule.Refer(l.clocks(), float64(l.Clock.Now()-at)/float64(l.Config.Wall(1)))
}
