package leader

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"prefdt/firmware/account"
	"prefdt/firmware/config"
	"prefdt/firmware/link"
	"prefdt/inference"
	"prefdt/inference/goal"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
	"prefdt/simbridge/world"
	"prefdt/telemetry"
)

// newInField is a leader in flight without links, with the policy of a configuration.
func newInField(t *testing.T, c *config.Config) *inPhase {
	t.Helper()
	p, _, err := LoadPolicy(c)
	if err != nil {
		t.Fatal(err)
	}
	l := newInPhase(t, telemetry.StateFlying, p.Scheduler, p.Physics, p.Scales)
	p.Scheduler = &forDelay{p.Scheduler.(*inference.Policy), -1}
	l.Policy = p
	l.configure()
	l.account.Begin(l.Config.Slots, l.views)
	return l
}

// inField flies a simulated world in injected time, with its users' messages and its
// aircraft's state as the only inputs of a leader, or of two.
type inField struct {
	*testing.T
	world      *world.World
	truth      slot.Snapshot
	firstHeard int // results of slots before it arrive at nobody
}

// decide has a leader decide the present slot on what its users report.
func (f *inField) decide(l *inPhase) {
	n := f.world.Slot
	l.users.OpenSlot(n)
	l.current.decided = false
	for _, list := range [][]slot.User{f.truth.Users, f.truth.IdleUsers} {
		for i := range list {
			r := reportOf(n, &list[i])
			l.handleUserMessage(link.UserMessage{User: fmt.Sprintf("u%d", list[i].ID), Report: &r}, true)
		}
	}
	expireResults(n, &l.account, &l.users)
	l.decide(n, l.buildSnapshot(n, l.views), l.views)
	l.commandFleet(l.views)
}

// step applies the first leader's decision to the world, or none, and has the leaders
// receive the results and measure the flight.
func (f *inField) step(leaders ...*inPhase) {
	a := world.Action{Server: make([]int, len(f.truth.Users)), Offload: make([]float64, len(f.truth.Users)),
		Move: make([]physics.Position, len(f.world.Aircraft))}
	if len(leaders) > 0 {
		d, s := &leaders[0].current.decision, &leaders[0].current.snapshot
		copy(a.Move, d.Move)
		for i := range f.truth.Users {
			k := slices.IndexFunc(s.Users, func(u slot.User) bool {
				return u.Position == f.truth.Users[i].Position && u.Task == f.truth.Users[i].Task
			})
			a.Server[i], a.Offload[i] = d.Users[k].Server, d.Users[k].Offload
		}
	}
	o := f.world.Step(a)
	if f.world.Done() {
		return
	}
	f.world.Snapshot(&f.truth)
	for _, l := range leaders {
		for i := range l.views {
			v := &l.views[i]
			v.AtS, v.Position, v.SpeedMPS = float64(f.world.Slot), f.world.Aircraft[i].Position, f.world.Aircraft[i].SpeedMPS
			v.TotalJ, v.ModelJ = v.TotalJ+o.FlightJ[i]+o.EdgeJ[i], v.ModelJ+o.FlightJ[i]
			v.ReadS, v.ReceivedS, v.ReadJ = v.AtS, v.AtS, v.TotalJ
		}
		for i := range f.truth.Results {
			if r := &f.truth.Results[i]; r.Slot >= f.firstHeard {
				result := resultOf(r)
				l.handleUserMessage(link.UserMessage{User: fmt.Sprintf("u%d", r.User), Result: &result}, true)
			}
		}
	}
}

func settleSlot(l *inPhase, n int) []account.Row {
	rows := l.account.Settle(n, l.views, l.users.OfferUsersEdgeJ)
	l.schedule.Advance(n, l.schedule.StartOf(n+1))
	return rows
}

// forDelay is a policy that is asked for little delay, so that users upload, broker or
// not. It is not shown how the aircraft flew before one slot.
type forDelay struct {
	*inference.Policy
	withoutFlown int
}

func (p *forDelay) Decide(s *slot.Snapshot, o goal.Objective, d *slot.Decision) goal.Observation {
	if err := o.SetPreference(0.2); err != nil {
		panic(err)
	}
	for m := range s.Aircraft {
		if s.Slot == p.withoutFlown {
			s.Aircraft[m].Flown = slot.Flown{}
		}
	}
	return p.Policy.Decide(s, o, d)
}

// A leader is killed after a settlement, and starts again a slot later. Another one flies
// on, but for stalling in that slot. Both believe the same to the last bit from then on:
// of links, phones and wind. After a kill within the memory's length they also decide the
// same; after a later one the mean task, which decides where to fly, is that of the
// memory alone.
func TestRestartKeepsBeliefs(t *testing.T) {
	for _, killed := range []int{18, 61} {
		t.Run(fmt.Sprint("slot ", killed), func(t *testing.T) {
			conf, c := fieldConfig(t, "field")
			f := &inField{T: t, world: world.New(c, 11)}
			f.world.Snapshot(&f.truth)
			l, dir := newInField(t, &conf), t.TempDir()
			l.openLedger(t, dir)
			for i := range l.views {
				v := &l.views[i]
				v.Position, v.Measured = f.world.Aircraft[i].Position, true
			}
			l.account.SettleTransit(l.views)
			if err := l.ledgerWriter.ledger.WriteCommands(l.ledgerState(), nil); err != nil {
				t.Fatal(err)
			}
			for n := range killed + 1 {
				f.decide(l)
				f.step(l)
				if err := l.ledgerWriter.ledger.WriteRows(l.ledgerState(), settleSlot(l, n)); err != nil {
					t.Fatal(err)
				}
			}
			l.ledgerWriter.ledger.Close()

			again := newInField(t, &conf)
			again.openLedger(t, dir)
			defer again.ledgerWriter.ledger.Close()
			saved, found, err := again.ledgerWriter.ledger.Load()
			if err == nil {
				err = again.beginOrContinue(saved, found)
			}
			if err != nil {
				t.Fatal(err)
			}
			f.firstHeard = killed + 2
			f.step() // nobody decides
			for i := range l.views {
				l.views[i].Position, l.views[i].AtS = f.world.Aircraft[i].Position, float64(f.world.Slot)
				again.views[i] = l.views[i]
			}
			// After a restart two settlements measure no flight, after a stall one.
			flying, restarted := l.Policy.Scheduler.(*forDelay), again.Policy.Scheduler.(*forDelay)
			flying.withoutFlown = killed + 4
			winds, uploads := 0, 0
			for !f.world.Done() {
				n := f.world.Slot
				f.decide(l)
				f.decide(again)
				if x, y := flying.Belief(), restarted.Belief(); !reflect.DeepEqual(x, y) {
					t.Fatalf("slot %d: the leader that flew on believes %+v, the restarted one %+v", n, x, y)
				}
				if d, e := &l.current.decision, &again.current.decision; killed < again.Policy.RecallSlots && !d.Equal(e) {
					t.Fatalf("slot %d: the leader that flew on decides %+v, the restarted one %+v", n, d, e)
				}
				if len(restarted.Belief().Air.Winds) > 0 && again.current.snapshot.Aircraft[0].Flown.FlightJ > 0 {
					winds++
				}
				for _, r := range again.current.snapshot.Results {
					if r.Upload.S > 0 {
						uploads++
					}
				}
				f.step(l, again)
				for _, x := range []*inPhase{l, again} {
					settleSlot(x, n)
				}
			}
			if winds < 20 || uploads < 50 {
				t.Errorf("%d slots with a measured flight and %d uploads were compared", winds, uploads)
			}
			row, err := again.ledgerWriter.ledger.LastRows(1)
			if err != nil || len(row) != 1 || row[0].Seen == nil {
				t.Fatalf("%+v, %v", row, err)
			}
		})
	}
}
