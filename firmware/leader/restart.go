package leader

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"prefdt/firmware/account"
	"prefdt/firmware/config"
	"prefdt/firmware/fleet"
	"prefdt/firmware/ledger"
	"prefdt/firmware/schedule"
	"prefdt/firmware/users"
	"prefdt/inference/belief/learned"
	"prefdt/inference/goal"
	"prefdt/telemetry"
)

// beginOrContinue begins the configured mission, or continues the ledger's.
func (l *Leader) beginOrContinue(s ledger.State, found bool) error {
	continues, err := Continues(&l.Config, l.Policy.Physics.AreaSideM, l.ledgerWriter.ledger, &s, found, l.Log)
	if err != nil {
		return err
	}
	if !continues {
		l.fleet.RestorePacks(s.Fleet)
		l.current.statusSeq = s.StatusSeq
		l.account.RestoreWays(s.Account.Ways)
		l.account.KeepMultiplier(s.Account.Objective)
		begun, err := l.begin(l.Config.Mission, l.fleet.Views())
		if err != nil {
			return err
		}
		l.beginMission(begun)
		return l.ledgerWriter.ledger.WriteCommands(l.ledgerState(), nil)
	}
	l.current.statusSeq = s.StatusSeq + 1000 // more than were published after the last transaction
	l.mission.Restore(s.State)
	l.schedule.Restore(s.Schedule)
	l.account.Restore(s.Account)
	l.users.Restore(s.Users)
	if s.Duty != nil {
		l.duty.planner = l.Policy.newPlanner(*s.Duty, l.recorder())
	}
	l.current.setting = l.account.Objective().Setting()
	l.fleet.Restore(s.Fleet)
	err = l.Policy.recall(l.ledgerWriter.ledger, &l.users, l.air)
	l.air.Restore(l.account.LikelyAirs)
	if b := l.Policy.belief(); b != nil {
		l.account.Air = b.Air
	}
	return err
}

// recall has the scheduler, and the filter of the air, remember the slots before the restart.
func (p *Policy) recall(kept *ledger.Ledger, u *users.Users, air *learned.MeasuredAir) error {
	b, ok := p.Scheduler.(believer)
	if !ok || p.RecallSlots == 0 {
		return nil
	}
	rows, err := kept.LastRows(p.RecallSlots)
	if err != nil {
		return err
	}
	for i := range rows {
		if x := rows[i].Seen; x != nil {
			x.Users(func(name string, id int) { u.Recall(name, id, rows[i].Slot) })
			b.Recall(&x.Snapshot)
			air.Observe(&x.Snapshot)
		}
	}
	return nil
}

// Continues is whether a leader continues the ledger's mission in an area of this side, rather than begin the configured
// one; an error says why it does not start.
func Continues(c *config.Config, areaSideM float64, kept *ledger.Ledger, s *ledger.State, found bool, log *slog.Logger) (bool, error) {
	continues, err := continuesMission(c, kept, s, found, log)
	if err != nil || !continues {
		return false, err
	}
	return true, checkConfigMatches(c, place(c, areaSideM), s)
}

// continuesMission is whether the ledger's mission is continued. It is, unless the
// configuration has an id that was never used: then that mission begins, if no other is
// under way, no aircraft still obeys one and, as for `new`, none of one is left in the air: it
// could not be sent home in the next.
func continuesMission(c *config.Config, kept *ledger.Ledger, s *ledger.State, found bool, log *slog.Logger) (bool, error) {
	if !found || s.Mission == c.Mission {
		return found, nil
	}
	used, err := kept.MissionUsed(c.Mission)
	if err != nil || used {
		return true, err
	}
	if telemetry.UnderWay(s.Phase) || s.InFlight() || s.Phase != telemetry.StateIdle && s.InTheAir() {
		log.Warn("continuing the ledger's mission, not the configuration's; after its end, `new` begins that one", "mission", s.Mission,
			"state", s.Phase, "configured", c.Mission)
		return true, nil
	}
	return false, nil
}

// putBack is what to do about a configuration that is not the mission's.
const putBack = "restore that value, choose another state_dir or, once the mission is over or new, a mission id that was never used"

// checkConfigMatches says why the ledger's mission cannot be flown by this configuration:
// its joules, slots and homes would have another meaning.
func checkConfigMatches(c *config.Config, here *ledger.Place, s *ledger.State) error {
	differs := func(was, is any) error {
		return fmt.Errorf("mission %s was begun with %v, the configuration has %v; "+putBack, s.Mission, was, is)
	}
	switch at := s.Place; {
	case s.Account.Objective.Slots != c.Slots:
		return differs(fmt.Sprintf("%d slots", s.Account.Objective.Slots), c.Slots)
	case len(s.Fleet) != len(c.Aircraft) || len(s.Account.Aircraft) != len(s.Fleet):
		return differs(fmt.Sprintf("%d aircraft", len(s.Fleet)), len(c.Aircraft))
	case at == nil: // by a leader that did not keep it
	case at.Origin != here.Origin:
		return differs(fmt.Sprintf("the origin %+v", at.Origin), fmt.Sprintf("%+v", here.Origin))
	case at.SlotMS != here.SlotMS:
		return differs(fmt.Sprintf("slot_ms %v", at.SlotMS), here.SlotMS)
	case at.AreaM != here.AreaM:
		return differs(fmt.Sprintf("an area of %v m", at.AreaM), here.AreaM)
	case at.Fleet != here.Fleet:
		return differs("the fleet "+at.Fleet, here.Fleet)
	}
	for i, a := range s.Fleet {
		if a.SystemID != c.Aircraft[i].SystemID {
			return differs(fmt.Sprintf("system %d as aircraft %d", a.SystemID, i+1), c.Aircraft[i].SystemID)
		}
	}
	return nil
}

// beginning is what a mission begins with: the configuration's request, and nothing of the mission before.
type beginning struct {
	id      string
	account account.Account
	users   users.Users
}

func (l *Leader) begin(id string, views []fleet.View) (b beginning, err error) {
	b = beginning{id, l.account, l.users}
	b.account.Recorder = nil
	b.account.Begin(l.Config.Slots, views)
	b.users.Initialize()
	return b, requestDefaults(&l.Config, &b.account)
}

// write enters it into the state that is written, beside the mission's own.
func (b *beginning) write(s *ledger.State) {
	s.Schedule, s.Account, s.Users, s.Duty = schedule.State{}, b.account.State(), b.users.State(), nil
	for i := range s.Fleet {
		s.Fleet[i].SentHome = ""
	}
}

// beginMission begins a mission, idle. The next transaction writes it.
func (l *Leader) beginMission(b beginning) {
	if l.account.Recorder != nil {
		l.endRecord()
	}
	l.mission.Begin(b.id)
	l.schedule.Restore(schedule.State{})
	l.account, l.users = b.account, b.users
	if r, ok := l.Policy.Scheduler.(interface{ Reset() }); ok {
		r.Reset()
	}
	l.duty = dutyPlan{}
	for i := range l.Config.Aircraft {
		l.fleet.ForgetSentHome(i + 1)
	}
	o := l.account.Objective()
	l.current.decided, l.current.setting, l.current.lastRow.Reported, l.current.lastRow.DecisionMS = false, o.Setting(), 0, 0
}

// requestDefaults makes the configuration's request.
func requestDefaults(c *config.Config, a *account.Account) error {
	r := c.Request
	err := a.SetPreference(r.Setting)
	if r.BudgetJ > 0 {
		err = a.SetBudget(r.BudgetJ, goal.Mode(r.Mode))
	}
	return err
}

// rejoinFleet numbers the slots after a restart in flight by the autopilots' clocks,
// and continues the orders of the aircraft that were under command. An autopilot may fly on
// by itself as soon as a stream resumes; so no aircraft is streamed to before this has decided on it.
func (l *Leader) rejoinFleet(ctx context.Context, s ledger.State) {
	l.Log.Warn("restarted in flight", "mission", s.Mission, "state", s.Phase, "next_slot", s.Schedule.Next)
	if !l.waitForFleet(ctx) {
		return
	}
	elapsed, known := l.schedule.ElapsedSlots(clockReadings(l.fleet.Views()))
	downtime := elapsed
	if !known {
		l.Log.Error("every autopilot was rebooted: the number of missed slots is unknown")
		downtime = 0
	}
	l.mission.AddDowntime(downtime, downtime/l.Config.SpeedFactor())
	for i := range s.Fleet {
		l.fleet.RestoreMeter(i+1, s.Fleet[i].Meter, elapsed)
	}
	l.rejoinAircraft(l.fleet.Views())
	if !l.mission.InSlots() {
		return
	}
	l.schedule.Resume(l.Clock.Now(), downtime)
	if l.schedule.Over() {
		l.endIteration(l.settle(l.Config.Slots - 1)) // it ended while the leader was down
		return
	}
	l.planDuty(l.fleet.Views()) // what leaves by it is on the disk with the next settlement
}

// rejoinIterations is how many iterations after a restart an aircraft that was under
// command may be received for the first time and still be commanded without the crew: with
// the slots that waitForFleet takes before them, as long as until a silent one is lost.
const rejoinIterations = fleet.LostAfterS - fleetWaitSlots

// rejoinAircraft decides on the aircraft that had an order before the restart, once each
// is received. It returns the aircraft afterwards.
func (l *Leader) rejoinAircraft(views []fleet.View) []fleet.View {
	if !slices.ContainsFunc(views, func(v fleet.View) bool { return v.Phase == fleet.PhaseRejoining }) {
		return views
	}
	for i := range views {
		switch v := &views[i]; {
		case v.Phase != fleet.PhaseRejoining:
		case !l.Config.Flight.ResumeAfterRestart:
			l.fleet.HandToPilot(v.Number, "resume_after_restart is false")
		case !v.Fresh && l.current.iterations > rejoinIterations:
			l.fleet.HandToPilot(v.Number, "not received since the restart")
		case !v.Fresh:
		case l.schedule.Rebooted(i, clockReading(v)):
			l.fleet.HandToPilot(v.Number, "rebooted while the leader was down")
		case l.mission.Phase() == telemetry.StateStopped:
			l.fleet.RejoinStopped(v.Number)
		default:
			if l.mission.Ending() {
				l.fleet.SendHome(v.Number)
			}
			l.fleet.Rejoin(v.Number) // on an error it is left to its pilot, which is logged
		}
	}
	return l.fleet.Views()
}

// fleetWaitSlots is how long waitForFleet waits for the others once one aircraft is received.
const fleetWaitSlots = 2

// waitForFleet waits until every aircraft that was under command is received and the
// broker is connected, but once one aircraft is received for no more than fleetWaitSlots:
// aircraft that hold in the air come first. A pilot's aircraft counts too: its clock numbers
// the slots as well. While none is received it goes on waiting, as long as one was under
// command or slots are to be numbered. What is received first may have waited in a buffer
// since before the restart: it waits until the autopilots' clocks have run no faster than
// time for three tenths of a slot. It returns false when ctx ends.
func (l *Leader) waitForFleet(ctx context.Context) bool {
	const checksPerSlot, bufferedMS = 50, 200
	bootMS, atS := make([]float64, len(l.Config.Aircraft)), make([]float64, len(l.Config.Aircraft))
	statusAt, newSince := l.Clock.Now(), 0
	for waited := 0; ; waited++ {
		l.receiveUntil(ctx, l.Clock.Now()+l.Config.WallTime(1.0/checksPerSlot))
		if ctx.Err() != nil {
			return false
		}
		views := l.fleet.Views()
		received, awaited, expected, old := 0, 0, 0, false // aircraft, and whether what they sent was buffered
		for i, v := range views {
			old = old || v.BootMS-bootMS[i] > 2*1000*(v.AtS-atS[i])+bufferedMS
			bootMS[i], atS[i] = v.BootMS, v.AtS
			present := v.Fresh && v.Landed != nil
			if present {
				received++
			}
			if v.Phase == fleet.PhaseRejoining {
				expected++
				if !present {
					awaited++
				}
			}
		}
		if expected == 0 && received == 0 && !l.mission.InSlots() { // none to decide on, and no slot to number
			return true
		}
		// A slot opened before the broker is connected would have no beacon.
		reached := l.mqtt.Connected() || waited >= 16*checksPerSlot/10
		if received == 0 || old {
			newSince = waited
		}
		present := waited-newSince >= 3*checksPerSlot/10 // what is received is of now
		if present && (awaited == 0 && reached || waited >= fleetWaitSlots*checksPerSlot) || l.current.yieldReason != nil {
			return true
		}
		if waited%(10*checksPerSlot) == 10*checksPerSlot-1 {
			l.Log.Error("no aircraft received; waiting", "waited_s", (waited+1)/checksPerSlot)
		}
		if waited%(checksPerSlot/10) == 0 {
			l.reportIteration()
		}
		if now := l.Clock.Now(); now-statusAt >= statusEvery {
			statusAt = now
			l.publish(l.status(views))
		}
	}
}

// setClockReferences records the autopilots' times at a moment: those clocks run on
// while the leader restarts.
func setClockReferences(s *schedule.Schedule, at time.Duration, views []fleet.View) {
	s.SetReferences(clockReadings(views), views[0].AtS-at.Seconds()/s.SlotDuration.Seconds())
}

func clockReadings(views []fleet.View) (r []schedule.ClockReading) {
	for i := range views {
		r = append(r, clockReading(&views[i]))
	}
	return r
}

func clockReading(v *fleet.View) schedule.ClockReading {
	if !v.Located {
		return schedule.ClockReading{}
	}
	return schedule.ClockReading{Fresh: v.Fresh, BootMS: v.BootMS, MSPerSlot: v.ClockMSPerS}
}
