package leader

import (
	"context"
	"fmt"

	"prefdt/firmware/fleet"
	"prefdt/firmware/ledger"
	"prefdt/firmware/schedule"
	"prefdt/inference/goal"
	"prefdt/telemetry"
)

// beginOrContinue begins the configured mission, or continues the ledger's.
func (l *Leader) beginOrContinue(s ledger.State, found bool) error {
	resume, err := l.continuesMission(s, found)
	if err != nil {
		return err
	}
	l.refreshViews()
	if !resume {
		l.current.statusSeq = s.StatusSeq
		if err := l.beginMission(l.Config.Mission); err != nil {
			return err
		}
		return l.ledgerWriter.ledger.WriteCommands(l.ledgerState(), nil)
	}
	if err := l.checkConfigMatches(s); err != nil {
		return err
	}
	l.current.statusSeq = s.StatusSeq + 1000 // more than were published after the last transaction
	l.mission.Restore(s.State)
	l.schedule.Restore(s.Schedule)
	l.account.Restore(s.Account)
	l.users.Restore(s.Users)
	l.current.setting = l.account.Objective().Setting()
	l.fleet.Restore(s.Fleet)
	return l.recall()
}

// recall has the scheduler remember the slots before the restart.
func (l *Leader) recall() error {
	p, ok := l.Policy.Scheduler.(believer)
	if !ok || l.Policy.RecallSlots == 0 {
		return nil
	}
	rows, err := l.ledgerWriter.ledger.LastRows(l.Policy.RecallSlots)
	if err != nil {
		return err
	}
	for i := range rows {
		if x := rows[i].Seen; x != nil {
			x.Users(func(name string, id int) { l.users.Recall(name, id, rows[i].Slot) })
			p.Recall(&x.Snapshot)
		}
	}
	return nil
}

// continuesMission is whether the ledger's mission is continued. It is, unless the
// configuration has an id that was never used: then that mission begins, if no
// other is under way.
func (l *Leader) continuesMission(s ledger.State, found bool) (bool, error) {
	if !found || s.Mission == l.Config.Mission {
		return found, nil
	}
	used, err := l.ledgerWriter.ledger.MissionUsed(l.Config.Mission)
	if err != nil || used {
		return true, err
	}
	if !telemetry.UnderWay(s.Phase) {
		return false, nil
	}
	return false, fmt.Errorf("the ledger in %s has mission %s, which is %s; finish it, or use another state_dir", l.Config.StateDir, s.Mission, s.Phase)
}

// putBack is what to do about a configuration that is not the mission's.
const putBack = "put that back to finish the mission, or give another mission (once this one has ended) or state_dir"

// checkConfigMatches says why the ledger's mission cannot be flown by this configuration.
func (l *Leader) checkConfigMatches(s ledger.State) error {
	switch {
	case s.Account.Objective.Slots != l.Config.Slots:
		return fmt.Errorf("mission %s was begun with %d slots, the configuration has %d; "+putBack, s.Mission, s.Account.Objective.Slots, l.Config.Slots)
	case len(s.Fleet) != len(l.Config.Aircraft) || len(s.Account.Aircraft) != len(s.Fleet):
		return fmt.Errorf("mission %s was begun with %d aircraft, the configuration has %d; "+putBack, s.Mission, len(s.Fleet), len(l.Config.Aircraft))
	}
	for i, a := range s.Fleet {
		if a.SystemID != l.Config.Aircraft[i].SystemID {
			return fmt.Errorf("mission %s was begun with system %d as aircraft %d, the configuration has %d; "+putBack, s.Mission, a.SystemID, i+1, l.Config.Aircraft[i].SystemID)
		}
	}
	return nil
}

// beginMission begins a mission, idle, with the configuration's request, and resets
// the state of the one before. The next transaction writes it.
func (l *Leader) beginMission(id string) error {
	l.mission.Begin(id)
	if l.account.Recorder != nil {
		l.endRecord()
	}
	l.current.decided = false
	l.schedule.Restore(schedule.State{})
	l.account.Begin(l.Config.Slots, l.views)
	l.users.Initialize()
	if r, ok := l.Policy.Scheduler.(interface{ Reset() }); ok {
		r.Reset()
	}
	r := l.Config.Request
	err := l.account.SetPreference(r.Setting)
	if r.BudgetJ > 0 {
		err = l.account.SetBudget(r.BudgetJ, goal.Mode(r.Mode))
	}
	o := l.account.Objective()
	l.current.setting, l.current.lastRow.Reported, l.current.lastRow.DecisionMS = o.Setting(), 0, 0
	return err
}

// rejoinFleet numbers the slots after a restart in flight by the autopilots' clocks,
// and continues the orders of the aircraft that were under command. PX4 returns to
// OFFBOARD by itself as soon as a stream resumes after its Hold failsafe; so no
// aircraft is streamed to before this has decided on it.
func (l *Leader) rejoinFleet(ctx context.Context, s ledger.State) {
	l.Log.Warn("restarted in flight", "mission", s.Mission, "state", s.Phase, "next_slot", s.Schedule.Next)
	if !l.waitForFleet(ctx, s) {
		return
	}
	elapsed, known := l.schedule.ElapsedSlots(l.clockReadings())
	downtime := elapsed
	if !known {
		l.Log.Error("every autopilot was rebooted: the number of missed slots is unknown")
		downtime = 0
	}
	l.mission.AddDowntime(downtime, downtime/l.Config.SpeedFactor())
	for i := range s.Fleet {
		l.fleet.RestoreMeter(i+1, s.Fleet[i].Meter, elapsed)
		l.rejoinAircraft(&s.Fleet[i])
	}
	if !l.mission.InSlots() {
		return
	}
	l.schedule.Resume(l.Clock.Now(), downtime)
	if l.schedule.Over() {
		l.startCommit(l.settle(l.Config.Slots - 1)) // it ended while the leader was down
	}
}

// rejoinIterations is how many iterations after a restart an aircraft that was under
// command may be received for the first time and still be commanded without the crew.
const rejoinIterations = 10

func (l *Leader) rejoinAircraft(a *fleet.SavedAircraft) {
	if !a.UnderCommand && !a.Homing {
		return
	}
	v := l.view(a.Number)
	switch {
	case !l.Config.Flight.ResumeAfterRestart:
		l.fleet.HandToPilot(a.Number, "resume_after_restart is false")
	case !v.Fresh:
		l.current.awaitingRejoin = append(l.current.awaitingRejoin, *a)
	case l.schedule.Rebooted(a.Number-1, l.clockReading(v)):
		l.fleet.HandToPilot(a.Number, "rebooted while the leader was down")
	case l.mission.Phase() == telemetry.StateStopped: // by a command since the restart
		l.fleet.HandToPilot(a.Number, "stopped")
	case a.Homing || l.mission.Ending():
		l.fleet.Rejoin(a.Number, fleet.OrderHome) // on an error it is left to its pilot, which is logged
	default:
		l.fleet.Rejoin(a.Number, fleet.OrderFly)
	}
}

// rejoinLateAircraft decides on the aircraft that were not received at the restart.
func (l *Leader) rejoinLateAircraft() {
	waiting := l.current.awaitingRejoin
	l.current.awaitingRejoin = nil
	for _, a := range waiting {
		if !l.view(a.Number).Fresh && l.current.iterations > rejoinIterations {
			l.fleet.HandToPilot(a.Number, "not received since the restart")
		} else {
			l.rejoinAircraft(&a)
		}
	}
}

// waitForFleet waits until every aircraft that was under command is received and the
// broker is connected, but once one aircraft is received for no more than two slots:
// aircraft that hold in the air come first. While none is received it goes on
// waiting. It returns false when ctx ends.
func (l *Leader) waitForFleet(ctx context.Context, s ledger.State) bool {
	const checksPerSlot = 50
	for waited := 0; ; waited++ {
		l.receiveUntil(ctx, l.Clock.Now()+l.Config.WallTime(1.0/checksPerSlot))
		if ctx.Err() != nil {
			return false
		}
		l.refreshViews()
		received, expected := 0, 0
		for i, a := range s.Fleet {
			if a.UnderCommand || a.Homing {
				expected++
				if l.views[i].Fresh && l.views[i].Landed != nil {
					received++
				}
			}
		}
		// A slot opened before the broker is connected would have no beacon.
		reached := l.mqtt.Connected() || waited >= 16*checksPerSlot/10
		if received == expected && reached || received > 0 && waited >= 2*checksPerSlot || l.current.yieldReason != nil {
			return true
		}
		if waited%(10*checksPerSlot) == 10*checksPerSlot-1 {
			l.Log.Error("no aircraft received; waiting", "waited_s", (waited+1)/checksPerSlot)
		}
		if waited%(checksPerSlot/10) == 0 {
			l.reportIteration()
		}
	}
}

func (l *Leader) clockReadings() (r []schedule.ClockReading) {
	l.refreshViews()
	for i := range l.views {
		r = append(r, l.clockReading(&l.views[i]))
	}
	return r
}

func (l *Leader) clockReading(v *fleet.View) schedule.ClockReading {
	if !v.Located {
		return schedule.ClockReading{}
	}
	return schedule.ClockReading{Fresh: v.Fresh, BootMS: v.BootMS, MSPerSlot: v.ClockMSPerS}
}
