package main

import (
	"context"
	"math/rand/v2"
	"time"

	"prefdt/firmware/fleet"
	"prefdt/telemetry"
)

// slot is one slot of a mission, from its beacon to its status. This is the
// whole product; everything else serves one of these lines.
func (l *Leader) slot(ctx context.Context) error {
	n := l.begin(ctx)
	if n < 0 {
		return nil // asked to end, or the mission left its slots while waiting
	}
	began := l.Clock.Now()
	l.beacon(n)
	l.collect(ctx, began+l.wallMS(l.Config.ReportByMS))
	l.closeBooks(n)
	l.durable()
	l.look()
	l.see(n)
	l.decide(n)
	l.fly()
	l.tell(n)
	l.collect(ctx, l.startOf(n+1))
	if ctx.Err() != nil {
		return nil // unsettled: the next leader finds it so
	}
	l.close(n)
	l.guardBroker(1)
	return nil
}

// close settles slot n, and with it the slots missed before it, and has it
// written. The status follows once it is on the disk.
func (l *Leader) close(n int) {
	l.look()
	rows := l.settle(n)
	l.open = l.next(n)
	l.anchor()
	if n >= l.Config.Slots-1 {
		l.finish()
	}
	l.record(rows)
}

// begin waits for the open slot's start and returns its number. A slot whose
// time has run too far is missed, and its number is gone.
func (l *Leader) begin(ctx context.Context) int {
	l.decided = false
	l.collect(ctx, l.startOf(min(l.open, l.Config.Slots)))
	if ctx.Err() != nil || l.state != telemetry.StateFlying && l.state != telemetry.StateHolding {
		return -1
	}
	if n := l.next(l.open - 1); n != l.open || n >= l.Config.Slots {
		late := l.Clock.Now() - l.startOf(l.open)
		l.Log.Warn("slots missed", "first", l.open, "next", n, "late", late, "ledger_ms", l.ledgerMS)
		if n >= l.Config.Slots {
			l.close(l.Config.Slots - 1) // the last slots were missed
			return -1
		}
		l.open = n
		return l.begin(ctx)
	}
	return l.open
}

// next is the slot to open after slot n: n+1, or a later one if there is no
// time left in that one to report and decide.
func (l *Leader) next(n int) int {
	late := l.Clock.Now() - l.startOf(n+1)
	slack := l.slotWall() - l.wallMS(l.Config.DecideByMS)
	if late <= slack {
		return n + 1
	}
	return n + 1 + int((late-slack)/l.slotWall()) + 1
}

func (l *Leader) wallMS(ms float64) time.Duration {
	return time.Duration(ms * float64(time.Millisecond))
}

// beacon opens the slot, with the standing offer.
func (l *Leader) beacon(n int) {
	l.users.openSlot(n)
	l.look()
	b := telemetry.Slot{
		Slot: n, SlotMS: l.Config.SlotMS, Speed: l.Config.Speed(),
		ReportByMS: l.Config.ReportByMS, DecideByMS: l.Config.DecideByMS,
		Offer: l.offer(n),
	}
	publish(l.broker, l.broker.topics.Slot(), 0, false, b)
}

// offer is the slot's standing offer.
func (l *Leader) offer(n int) telemetry.Offer {
	l.onOffer = l.serving(l.onOffer[:0])
	o := l.forecast.Offer(&l.Physics, l.onOffer, l.price, rand.New(rand.NewPCG(uint64(n), 0)))
	out := telemetry.Offer{PriceSPerJ: o.PriceSPerJ, Aircraft: []telemetry.OfferAircraft{}}
	for _, a := range o.Aircraft {
		out.Aircraft = append(out.Aircraft, telemetry.OfferAircraft{
			Number: a.Number, PositionM: [2]float64{a.Position.EastM, a.Position.NorthM}, CPUHz: a.CPUHz, ExpectedUsers: a.ExpectedUsers,
		})
	}
	return out
}

// collect takes in what arrives until a moment, and what arrived before it.
func (l *Leader) collect(ctx context.Context, until time.Duration) {
	defer l.acknowledge()
	timer := l.Clock.After(until - l.Clock.Now())
	for {
		select {
		case e := <-l.broker.inbox:
			l.take(e, true)
		case err := <-l.pending:
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
	for l.Clock.Now() <= until+l.slotWall()/10 {
		select {
		case e := <-l.broker.inbox:
			l.take(e, e.received <= until)
		default:
			return
		}
	}
}

// decide runs the policy's step on the snapshot.
func (l *Leader) decide(n int) {
	began := l.Clock.Now()
	o := l.goal
	if !l.broker.connected() {
		o.Prefer(1) // nobody can be told: on at v*, the least energy
	}
	l.goal.Observe(l.Scheduler.Decide(&l.snapshot, o, &l.decision))
	for m := range l.decision.EdgeJ { // a CPU draws no more in a slot, whatever a task asks for
		hz := l.snapshot.Aircraft[m].CPUHz
		l.decision.EdgeJ[m] = min(l.decision.EdgeJ[m], l.Physics.Kappa*hz*hz*hz)
	}
	l.decisionMS = float64(l.Clock.Now()-began) / float64(time.Millisecond)
	l.decided = true
	l.price = l.decision.PriceSPerJ
	l.book(n)
}

// fly hands the displacements to the fleet, which checks each setpoint against
// the envelope just before it goes out.
func (l *Leader) fly() {
	for m := range l.snapshot.Aircraft {
		number := l.snapshot.Aircraft[m].Number
		l.fleet.Book(number, l.decision.EdgeJ[m], l.goal.Factor())
		if l.state == telemetry.StateFlying {
			l.fleet.Leg(number, l.decision.Move[m])
		}
	}
	for i := range l.views {
		v := &l.views[i]
		if l.state == telemetry.StateHolding || v.Phase == fleet.PhaseEngaging {
			l.fleet.Hold(v.Number)
		}
		if v.Flying && v.Order == fleet.OrderFly && l.low(v) {
			l.Log.Error("battery low; aircraft returns", "aircraft", v.Number)
			l.fleet.Command(v.Number, fleet.OrderHome)
		}
	}
}

// finish ends the slots: aircraft return.
func (l *Leader) finish() {
	l.open = l.Config.Slots
	if l.state == telemetry.StateStopped {
		return // stopped in the last slot: nobody is led any more
	}
	l.goHome(telemetry.StateDone)
}
