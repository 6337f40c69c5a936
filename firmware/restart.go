package main

import (
	"context"
	"fmt"
	"math"
	"time"

	"prefdt/firmware/fleet"
	"prefdt/firmware/ledger"
	"prefdt/inference/goal"
	"prefdt/inference/physics"
	"prefdt/telemetry"
)

// ledgerState is what a restart needs, as it is now.
func (l *Leader) ledgerState() ledger.State {
	s := ledger.State{
		Mission: l.Config.Mission, Phase: l.state, Next: l.open, Missed: l.missed, Seq: l.seq,
		Goal: l.goal.State, Price: l.price, LocalS: l.localS,
	}
	for i := range l.craft {
		c := &l.craft[i]
		s.TransitJ += c.transitJ
		a := ledger.Aircraft{
			Number: i + 1, SystemID: l.Config.Aircraft[i].SystemID, Meter: l.fleet.Meter(i + 1),
			BookedJ: c.bookedJ, SpentJ: c.spentJ, StartErrorJ: c.startErrorJ, TransitJ: c.transitJ, BootMS: c.bootMS, MSPerSlot: c.msPerS,
		}
		if i < len(l.views) {
			v := &l.views[i]
			a.Ours = v.Order == fleet.OrderFly && v.Phase != fleet.PhaseTaken
			a.Homing = v.Order == fleet.OrderHome && v.Phase != fleet.PhaseTaken
			a.Taken, a.Lost = v.Phase == fleet.PhaseTaken, v.Lost
			if v.Home != nil {
				a.Home = &[2]float64{v.Home.EastM, v.Home.NorthM}
			}
		}
		for _, p := range l.fleet.Whereabouts(i + 1) {
			a.Way = append(a.Way, [2]float64{p.EastM, p.NorthM})
		}
		s.Aircraft = append(s.Aircraft, a)
	}
	return s
}

// anchor ties the open slot's start to the autopilots' time since boot, the
// one clock that survives a restart of the leader.
func (l *Leader) anchor() { l.anchorAt(l.startOf(l.open)) }

func (l *Leader) anchorAt(start time.Duration) {
	l.look()
	sinceS := (l.Clock.Now() - start).Seconds() * l.Config.Speed()
	for i := range l.views {
		v := &l.views[i]
		if v.Located {
			l.craft[i].bootMS, l.craft[i].msPerS = v.BootMS-sinceS*v.MSPerS, v.MSPerS
		}
	}
}

// restore begins the configured mission, or continues it where the ledger has it.
func (l *Leader) restore(s ledger.State, found bool) error {
	if found && s.Mission != l.Config.Mission {
		switch s.Phase {
		case telemetry.StateIdle, telemetry.StateDone, telemetry.StateStopped:
			found = false
		default:
			return fmt.Errorf("the ledger in %s has mission %s, which is %s; finish it, or use another state_dir", l.Config.StateDir, s.Mission, s.Phase)
		}
	}
	if !found {
		l.state = telemetry.StateIdle
		l.goal = goal.New(l.Scales, &l.Physics, l.Config.Slots, len(l.Config.Aircraft))
		if err := l.request(); err != nil {
			return err
		}
		return l.ledger.Begin(l.ledgerState())
	}
	if err := l.checkMission(s); err != nil {
		return err
	}
	l.seq = s.Seq + 1000 // more than were said after the last transaction
	l.goal = goal.Resume(l.Scales, &l.Physics, s.Goal)
	l.setting = l.goal.Setting()
	l.state, l.open, l.missed, l.price, l.localS = s.Phase, s.Next, s.Missed, s.Price, s.LocalS
	for i, a := range s.Aircraft {
		c := &l.craft[i]
		c.bookedJ, c.spentJ, c.startErrorJ, c.transitJ, c.bootMS, c.msPerS = a.BookedJ, a.SpentJ, a.StartErrorJ, a.TransitJ, a.BootMS, a.MSPerSlot
		var home *physics.Position
		if a.Home != nil {
			home = &physics.Position{EastM: a.Home[0], NorthM: a.Home[1]}
		}
		var way []physics.Position
		for _, p := range a.Way {
			way = append(way, physics.Position{EastM: p[0], NorthM: p[1]})
		}
		l.fleet.Restore(a.Number, a.Meter, home, way)
		if a.Taken {
			l.fleet.Leave(a.Number, "it was with its pilot before the restart")
		}
	}
	return nil
}

// request applies the configuration's default.
func (l *Leader) request() error {
	if r := l.Config.Request; r.BudgetJ > 0 {
		return l.goal.Budget(r.BudgetJ, goal.Mode(r.Mode))
	}
	return l.goal.Prefer(l.Config.Request.Setting)
}

// rejoin numbers the slots after a restart in flight by the autopilots' clocks,
// and takes the aircraft that flew for us back. PX4 would return to OFFBOARD by
// itself as soon as a stream resumes after its Hold failsafe; so none is
// streamed to before this has decided on it.
func (l *Leader) rejoin(ctx context.Context, s ledger.State) {
	l.Log.Warn("restarted in flight", "mission", s.Mission, "state", s.Phase, "next_slot", s.Next)
	if !l.waitFor(ctx, s) {
		return
	}
	slots := l.state == telemetry.StateFlying || l.state == telemetry.StateHolding
	elapsed, known := l.elapsedSlots(s)
	if slots {
		missed := elapsed
		if !known {
			l.Log.Error("every autopilot was rebooted: how many slots were missed is unknown")
			missed = 0
		}
		l.epoch = l.Clock.Now() - l.Config.Wall(float64(s.Next)+missed)
		l.open = s.Next + int(math.Floor(missed)) + 1
	}
	for i, a := range s.Aircraft {
		v := &l.views[i]
		l.fleet.Away(a.Number, a.Meter, elapsed)
		order := fleet.OrderFly
		if a.Homing {
			order = fleet.OrderHome
		}
		switch {
		case !a.Ours && !a.Homing:
		case !l.Config.Flight.Resume:
			l.fleet.Leave(a.Number, "resume_after_restart is false")
		case v.Fresh && a.MSPerSlot > 0 && v.BootMS < a.BootMS:
			l.fleet.Leave(a.Number, "rebooted while the leader was away")
		default:
			l.fleet.Rejoin(a.Number, order) // or it is its pilot's, which the fleet says
		}
	}
	if slots && l.open >= l.Config.Slots {
		l.close(l.Config.Slots - 1) // it ended while we were away
	}
}

// waitFor waits until every aircraft that flew for us was heard, or at least
// one for ten seconds. It is false when the leader is asked to end.
func (l *Leader) waitFor(ctx context.Context, s ledger.State) bool {
	const looks = 50 // a slot
	for waited := 0; ; waited++ {
		l.collect(ctx, l.Clock.Now()+l.slotWall()/looks)
		if ctx.Err() != nil {
			return false
		}
		l.look()
		heard, expected, ours := 0, 0, false
		for i, a := range s.Aircraft {
			if a.Ours || a.Homing {
				expected, ours = expected+1, ours || a.Ours
				if l.views[i].Fresh && l.views[i].Landed != nil {
					heard++
				}
			}
		}
		if heard == expected || (heard > 0 || !ours) && waited >= 10*looks || l.yield != nil {
			return true
		}
		if waited%(10*looks) == 10*looks-1 {
			l.Log.Error("no aircraft heard; waiting", "waited_s", (waited+1)/looks)
		}
		if waited%(looks/10) == 0 {
			l.monitor.feed()
		}
	}
}

// elapsedSlots is how many slots passed since slot s.Next began, by the first
// autopilot whose clock ran on.
func (l *Leader) elapsedSlots(s ledger.State) (elapsed float64, known bool) {
	for i, a := range s.Aircraft {
		v := &l.views[i]
		if v.Fresh && a.MSPerSlot > 0 && v.BootMS >= a.BootMS {
			return (v.BootMS - a.BootMS) / a.MSPerSlot, true
		}
	}
	return math.NaN(), false
}
