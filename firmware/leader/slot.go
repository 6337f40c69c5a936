package leader

import (
	"context"
	"fmt"
	"slices"
	"time"

	"prefdt/firmware/account"
	"prefdt/firmware/fleet"
	"prefdt/firmware/link"
	"prefdt/firmware/users"
	"prefdt/inference/record"
	"prefdt/inference/slot"
	"prefdt/telemetry"
)

// runSlot is one slot of a mission, from its beacon to its settlement. The status
// follows once the ledger has the settlement.
func (l *Leader) runSlot(ctx context.Context) {
	n, ok := l.openSlot(ctx)
	if !ok {
		return // ctx ended, or the mission left its slots while waiting
	}
	began := l.Clock.Now()
	l.current.decideBy = began + milliseconds(l.Config.DecideByMS)
	l.publishBeacon(n, l.fleet.Views())
	l.receiveUntil(ctx, began+milliseconds(l.Config.ReportByMS))
	if ctx.Err() != nil {
		return // with a part of the reports, and for a fleet whose links may be cut, nothing is decided
	}
	expireResults(n, &l.account, &l.users)
	l.waitForCommit()
	views := l.fleet.Views()
	names := l.pace.limit(&l.users, &l.current.snapshot, l.buildSnapshot(n, views), l.Clock.Now(), l.current.decideBy)
	names = l.decide(n, names, views)
	l.commandFleet(views)
	l.publishDecisions(n, names)
	l.receiveUntil(ctx, l.schedule.StartOf(n+1))
	if ctx.Err() != nil {
		return // the slot stays unsettled; a restart counts it as missed
	}
	l.endIteration(l.settle(n))
}

// openSlot waits for the next slot's start and returns its number. A slot that is
// reached too late to report and decide in is missed; its number is not used again.
func (l *Leader) openSlot(ctx context.Context) (n int, ok bool) {
	l.current.decided = false
	for {
		n = l.schedule.Current()
		l.receiveUntil(ctx, l.schedule.StartOf(n))
		if ctx.Err() != nil || !l.mission.InSlots() {
			return n, false
		}
		if l.schedule.Advance(n-1, l.Clock.Now()) == n && !l.schedule.Over() {
			return n, true
		}
		l.Log.Warn("slots missed", "first", n, "next", l.schedule.Current(), "late", l.Clock.Now()-l.schedule.StartOf(n), "ledger_ms",
			l.ledgerWriter.lastWriteMS)
		if l.schedule.Over() {
			l.endIteration(l.settle(l.Config.Slots - 1)) // the last slots were missed
			return n, false
		}
	}
}

func (l *Leader) publishBeacon(n int, views []fleet.View) {
	l.users.OpenSlot(n)
	s := &l.current.snapshot
	s.Aircraft = l.appendServing(s.Aircraft[:0], n, views)
	l.current.offeredAircraft = slices.ContainsFunc(s.Aircraft, func(a slot.Aircraft) bool { return a.CPUHz > 0 })
	l.current.lastBeacon, l.current.reachedBroker = n, l.current.reachedBroker || l.mqtt.Connected()
	offer := l.users.Offer(n, s.Aircraft)
	for i := range offer.Aircraft {
		offer.Aircraft[i].Worker = l.workers.Name(offer.Aircraft[i].Number)
	}
	l.mqtt.PublishBeacon(telemetry.Slot{
		Slot: n, SlotMS: l.Config.SlotMS, Speed: l.Config.SpeedFactor(),
		ReportByMS: l.Config.ReportByMS, DecideByMS: l.Config.DecideByMS,
		Offer: offer,
	})
}

// appendServing appends the aircraft that follow this leader's setpoints in slot n: only
// these are offered to users. The policy knows no larger packs than the airframe's.
func (l *Leader) appendServing(dst []slot.Aircraft, n int, views []fleet.View) []slot.Aircraft {
	for _, v := range views {
		if !v.Flying || v.Homeward || l.duty.leaving(v.Number) {
			continue
		}
		dst = append(dst, slot.Aircraft{
			Number: v.Number, Position: v.Position, SpeedMPS: v.SpeedMPS,
			RemainingJ: min(l.account.ResidualJ(&v), l.Policy.Physics.BatteryCapacityJ), CPUHz: l.workers.CPUHz(v.Number, l.Clock.Now()),
			ServedLastSlot: l.account.ServedUsers(v.Number),
			Flown:          l.account.Flown(v.Number, n-1), Order: l.duty.order(&v),
		})
	}
	return dst
}

// receiveUntil handles the messages that arrive before a moment. Control messages
// are handled before user messages, however many of those are queued.
func (l *Leader) receiveUntil(ctx context.Context, until time.Duration) {
	defer l.commitCommands()
	timer := l.Clock.After(until - l.Clock.Now())
	for {
		if l.Clock.Now() < until {
			if c, ok := l.current.nextControl(l.mqtt.ControlMessages); ok {
				l.handleControl(c)
				continue
			}
		}
		l.commitCommands()
		select {
		case c := <-l.mqtt.ControlMessages:
			l.handleControl(c)
		case r := <-l.mqtt.UserMessages:
			l.handleUserMessage(r, true)
		case err := <-l.ledgerWriter.pending:
			l.handleCommit(err)
		case <-ctx.Done():
			return
		case <-timer:
			l.drain(until, l.mqtt.Waiting)
			return
		}
	}
}

// nextControl returns the next control message that has arrived: first of those that
// waited for a write.
func (c *loopState) nextControl(arrived chan link.ControlMessage) (m link.ControlMessage, ok bool) {
	if len(c.deferred) > 0 {
		m, c.deferred = c.deferred[0], c.deferred[1:]
		return m, true
	}
	select {
	case m = <-arrived:
		return m, true
	default:
		return m, false
	}
}

// drain handles the messages that arrived by a moment, for at most a tenth of a slot: more
// would delay the decision. Some may not be decoded yet, as waiting says.
func (l *Leader) drain(until time.Duration, waiting func() bool) {
	for l.Clock.Now() <= until+l.Config.WallTime(0.1) {
		if c, ok := l.current.nextControl(l.mqtt.ControlMessages); ok {
			l.handleControl(c)
			continue
		}
		undecoded := waiting() // asked before the queue is found empty
		if len(l.mqtt.UserMessages) == 0 {
			if !undecoded {
				return
			}
			<-l.Clock.After(time.Millisecond) // what waits may be invalid, and never come
			continue
		}
		r := <-l.mqtt.UserMessages
		l.handleUserMessage(r, r.Received <= until)
		if r.Received > until {
			return // they come in the order of their arrival
		}
	}
}

func (l *Leader) handleUserMessage(r link.UserMessage, inTime bool) {
	switch {
	case r.Report != nil:
		l.users.AddReport(r.User, *r.Report, inTime && !l.current.decided)
	case l.users.Allowed(r.User):
		err := l.account.ApplyResult(r.User, r.Result, l.users.MayHaveTask(r.User, r.Result.Slot))
		if err != nil {
			l.mqtt.Rejects.Add(l.mqtt.Topics.Result(r.User), err)
		}
	}
}

// handleControl handles one message that is not a user's: of the crew, the broker, or
// another leader.
func (l *Leader) handleControl(c link.ControlMessage) {
	switch {
	case c.Command != nil:
		l.receiveCommand(c.Command)
	case c.Heartbeat != nil:
		if l.crew.AcceptHeartbeat(c.Heartbeat) {
			l.mission.Heartbeat(c.Heartbeat.Station, c.Heartbeat.Leaving, (l.Clock.Now() - l.current.lastTickAt).Seconds())
		}
	case c.Worker != nil:
		l.workers.Receive(c.Worker.Aircraft, &c.Worker.Worker, c.Worker.Received)
	case c.BrokerConnected:
		l.publish(l.status(l.fleet.Views()))
	case c.DeclaredOffline: // a newcomer's will
		l.mqtt.RepublishOnline()
	case c.Beacon != nil:
		s := c.Beacon // this leader's own is received by its own subscription
		own := s.Slot == l.current.lastBeacon || l.mission.InSlots() && s.Slot <= l.schedule.Current()
		if !own || s.SlotMS != l.Config.SlotMS {
			l.mqtt.CountReject(l.mqtt.Topics.Slot(), "slot: foreign beacon", "another leader is at slot %d", s.Slot)
			l.mqtt.RepublishOnline()
		}
	case c.Status != nil && c.Status.Seq > l.current.statusSeq: // its own has a number no higher than the last that it sent
		s := c.Status
		l.mqtt.CountReject(l.mqtt.Topics.Status(), "status: foreign", "another leader is %s, slot %d", s.State, s.Slot)
		if l.mqtt.LeaderKey != nil { // where leaders have one a status proves nothing
			l.mqtt.RequestProof()
		} else {
			l.yieldIfYounger(s.Seq, s.Slot, s.State)
		}
	case c.RivalProof != nil:
		l.yieldIfYounger(c.RivalProof.Seq, c.RivalProof.Slot, l.mission.Phase())
	case c.YieldReason != nil:
		l.current.yieldReason = c.YieldReason
	}
}

// yieldIfYounger makes the younger of two idle leaders yield: the one that has
// published fewer statuses.
func (l *Leader) yieldIfYounger(seq int64, slot int, state string) {
	if seq > l.current.statusSeq && l.mission.Phase() == telemetry.StateIdle {
		l.current.yieldReason = fmt.Errorf("%w: fleet %s is %s, slot %d", link.ErrIncumbent, l.Config.Fleet, state, slot)
	}
}

// expireResults closes the results of slot n-2; the next offer is based on them.
func expireResults(n int, a *account.Account, u *users.Users) {
	for _, e := range a.ExpireResults(n) {
		u.ObserveSlot(e.Tasks, e.Unreported)
	}
}

// buildSnapshot fills in the snapshot, and returns the names of its users with a task.
func (l *Leader) buildSnapshot(n int, views []fleet.View) (names []string) {
	s := &l.current.snapshot
	s.Slot, s.Slots = n, l.Config.Slots
	s.Aircraft = l.appendServing(s.Aircraft[:0], n, views)
	for i := range s.Aircraft {
		if a := &s.Aircraft[i]; !l.workers.Named(a.Number) {
			a.CPUHz = 0
		}
	}
	s.Results = l.account.TakeResults(s.Results[:0])
	return l.users.Snapshot(s)
}

// decide decides for these users and, where there are more, for those that the policy has no
// time for. It returns the names of all.
func (l *Leader) decide(n int, names []string, views []fleet.View) []string {
	began := l.Clock.Now()
	objective, s, d := l.account.Objective(), &l.current.snapshot, &l.current.decision
	if !l.mqtt.Connected() {
		objective.SetPreference(1) // decisions cannot be delivered: fly at the speed of least power
	}
	observation := l.Policy.Decide(s, objective, d)
	var seen *account.Seen
	if b := l.Policy.belief(); b != nil {
		seen = account.NewSeen(s, names, l.users.IdleNames(), b, &l.Policy.Physics.Channel)
		l.account.Air = b.Air
	}
	l.air.Observe(s)
	if airs := l.air.Likely(); airs != nil { // until it has measured, after a restart those before it count
		l.account.LikelyAirs = airs
	}
	l.recorder().Begin(l.account.Objective())
	l.recorder().WriteDecision(s, objective, d)
	l.account.Observe(observation)
	keepUncomputable(s, names, d, &l.Policy.Physics, &l.users, &l.workers)
	limitEdgeLoad(s, d, &l.Policy.Physics, func(number int) float64 { return l.account.SpareJ(&views[number-1]) })
	l.pace.users, l.current.decided = len(names), true
	names = l.pace.decideTheRest(&l.users, s, d, names)
	l.users.PriceSPerJ = d.PriceSPerJ
	l.account.AddDecision(account.SlotDecision{
		Slot: n, Users: names, Snapshot: s, Decision: d, Reported: l.users.Reported(),
		DecisionMS: float64(l.Clock.Now()-began) / float64(time.Millisecond), MaxOfferUsers: l.users.MaxOfferUsers(),
		OfferedAircraft: l.current.offeredAircraft, Seen: seen,
	})
	if l.pace.undecided > 0 {
		l.account.Observed(n)
	}
	return names
}

// recorder is the record's, which begins with the first plan or decision; nil: none is kept.
func (l *Leader) recorder() *record.Writer {
	if l.OpenRecord != nil && l.account.Recorder == nil {
		l.account.Recorder = l.OpenRecord()
	}
	return l.account.Recorder
}

func (l *Leader) endRecord() {
	if err := l.account.Recorder.Close(); err != nil {
		l.Log.Error("record of the slots", "reason", err)
	}
	l.account.Recorder, l.OpenRecord = nil, nil
}

// commandFleet hands the displacements to the fleet, which checks each setpoint against
// the envelope just before it is sent.
func (l *Leader) commandFleet(views []fleet.View) {
	s, d := &l.current.snapshot, &l.current.decision
	flying := l.mission.Phase() == telemetry.StateFlying
	for i := range views {
		l.account.SetCommitted(views[i].Number, 0, 0) // also of aircraft that serve no users any more
	}
	factor := l.account.Objective().PropulsionMultiplier()
	for m := range s.Aircraft {
		number := s.Aircraft[m].Number
		l.fleet.UpdateMeter(number, d.EdgeJ[m], factor)
		l.account.SetCommitted(number, d.EdgeJ[m], d.ServedBy(m+1))
		if flying {
			l.fleet.Leg(number, d.Move[m])
		}
	}
	for _, v := range views {
		if !flying || v.Phase == fleet.PhaseEngaging {
			l.fleet.Hold(v.Number)
		}
		if v.Flying && !v.Homeward && l.account.MustReturn(&v) {
			sendHome(l.fleet, l.Log, v.Number, "battery low")
		}
	}
}

// publishDecisions sends each user with a task its decision, where to compute, and returns
// how many. From decide_by_ms on a user has taken the offer, and ignores a decision: those are
// counted with the users that pace.limit took out, and the first slot that has any is warned of.
func (l *Leader) publishDecisions(n int, names []string) (sent int) {
	s := &l.current.snapshot
	finished := true
	for i, name := range names {
		if l.Clock.Now() >= l.current.decideBy {
			if finished = i >= l.pace.users; !finished {
				l.pace.observeLate(l.pace.users, l.Clock.Now())
			}
			break
		}
		sent++
		d := &l.current.decision.Users[i]
		function, digest := l.users.Function(name)
		out := telemetry.Decision{Slot: n, Refused: l.workers.Refusal(function, digest, l.Clock.Now())}
		if d.Server > 0 && d.Offload > 0 && d.CPUHz > 0 {
			out.Aircraft = s.Aircraft[d.Server-1].Number
			out.Offload, out.CPUHz = min(d.Offload, 1), d.CPUHz
			out.Grant = l.workers.Grant(l.mission.ID(), name, function, out.Aircraft, n, out.Offload*s.Users[i].Task.Bits,
				out.CPUHz, l.Clock.Now())
		}
		if i == l.pace.users-1 {
			l.pace.delivered = l.mqtt.PublishLastDecision(name, out)
			continue
		}
		l.mqtt.PublishDecision(name, out)
	}
	l.pace.undecided += max(l.pace.users-sent, 0)
	if l.pace.undecided > 0 && l.current.lastRow.Undecided == 0 {
		cause := "too many users for this board"
		more := []any{"slot", n, "undecided", l.pace.undecided, "users", l.users.Reported()}
		if !finished { // of how few users ever: a board may stall
			cause = "the decision was not finished by decide_by_ms: the board was busy, or is too slow for its users"
			more = append(more, "late", l.Clock.Now()-l.current.decideBy)
		}
		l.Log.Warn(cause+"; some compute locally or keep the offer", more...)
	}
	return sent
}

// settle settles slot n, and with it the slots missed before it, and returns the rows, and
// the aircraft afterwards. The caller writes them; the status follows once they are durable.
func (l *Leader) settle(n int) (rows []account.Row, views []fleet.View) {
	views = l.fleet.Views()
	if afterEnd := l.Clock.Now() - l.schedule.StartOf(l.Config.Slots); n == l.Config.Slots-1 && afterEnd > 0 {
		unsettled := l.Clock.Now() - l.schedule.StartOf(l.account.Objective().Slot())
		l.account.SettleAfterEnd(views, afterEnd.Seconds()/unsettled.Seconds())
	}
	rows = l.account.Settle(n, views, l.users.OfferUsersEdgeJ)
	for i := range rows {
		if rows[i].Missed || !l.current.reachedBroker {
			l.schedule.Missed++ // no user had a beacon
		}
		if rows[i].Slot == n && !rows[i].Missed {
			rows[i].Undecided = l.pace.undecided
		}
		l.current.lastRow = rows[i]
	}
	l.schedule.Advance(n, l.Clock.Now())
	setClockReferences(&l.schedule, l.schedule.StartOf(l.schedule.Current()), views)
	if n >= l.Config.Slots-1 {
		l.schedule.End()
		views = l.performEffect(l.mission.Phase(), l.mission.SlotsOver(), views) // no effect if the mission was stopped in the last slot
	}
	return rows, views
}
