package leader

import (
	"log/slog"
	"slices"
	"sync"
	"time"

	"prefdt/firmware/account"
	"prefdt/firmware/config"
	"prefdt/firmware/fleet"
	"prefdt/firmware/ledger"
	"prefdt/telemetry"
)

// ledgerWriter writes settlements to the ledger while the next slot's reports are
// collected: a disk may take longer than a fast slot can spare.
type ledgerWriter struct {
	ledger      *ledger.Ledger
	pending     chan error        // result of the transaction being written, or nil
	settled     *telemetry.Status // of the rows in it, published when it is durable; nil: it has none
	beganAt     time.Duration
	filing      sync.WaitGroup
	writing     string  // mission and state of the transaction being written
	durable     string  // of the last one that is durable
	filed       string  // when files were last written
	lastWriteMS float64 // of the last transaction, to tell a slow disk from a slow machine
}

func (w *ledgerWriter) open(c *config.Config, log *slog.Logger) (err error) {
	if w.ledger, err = ledger.Open(c.StateDir); err != nil {
		return err
	}
	w.ledger.SetMaxRowBytes(c.LedgerMB * 1e6)
	if w.ledger.TornReason != "" {
		log.Error("the ledger's last transaction was torn; continuing from the one before", "reason", w.ledger.TornReason)
	}
	return nil
}

// closeLedger waits for what is being written, and writes a file of a mission that is over.
func (l *Leader) closeLedger() {
	if w := &l.ledgerWriter; w.pending != nil && <-w.pending == nil {
		w.durable = w.writing
	}
	l.startFiling()
	l.ledgerWriter.filing.Wait()
	l.ledgerWriter.ledger.Close()
}

func (l *Leader) startCommit(rows []account.Row) {
	l.waitForCommit()
	l.stamp(rows)
	w, state, pending := &l.ledgerWriter, l.ledgerState(), make(chan error, 1)
	w.pending, w.beganAt, w.writing = pending, l.Clock.Now(), l.missionAndPhase()
	go func() { pending <- w.ledger.WriteRows(state, rows) }()
}

// waitForCommit waits until the transaction being written is durable. No decision of
// a slot is published, and no command is applied, before the last settlement is.
func (l *Leader) waitForCommit() {
	if l.ledgerWriter.pending != nil {
		l.handleCommit(<-l.ledgerWriter.pending)
	}
}

// handleCommit publishes the status after a settlement. A disk that fails in flight
// ends the mission: the aircraft return without the ledger.
func (l *Leader) handleCommit(err error) {
	l.ledgerWriter.pending = nil
	l.ledgerWriter.lastWriteMS = float64(l.Clock.Now()-l.ledgerWriter.beganAt) / float64(time.Millisecond)
	settled := l.ledgerWriter.settled
	l.ledgerWriter.settled = nil
	if err != nil {
		l.Log.Error("settlement could not be written", "reason", err)
		from := l.mission.Phase()
		l.performEffect(from, l.mission.DiskFailed())
		l.publishStatus()
		return
	}
	l.ledgerWriter.durable = l.ledgerWriter.writing
	l.startFiling()
	if settled != nil { // what the crew is shown is what the record has
		l.publish(*settled)
		return
	}
	l.publishStatus()
}

// stamp completes the rows of a settlement with the time and the status after it.
func (l *Leader) stamp(rows []account.Row) {
	if len(rows) == 0 {
		return
	}
	unixMS := l.WallClock().UnixMilli()
	for i := range rows {
		rows[i].UnixMS = unixMS
	}
	l.refreshViews()
	s := l.status()
	rows[len(rows)-1].Status, l.ledgerWriter.settled = &s, &s
}

// startFiling begins to write the files of missions that have none, once after each change
// to a state with nothing to fly that is durable: no slot waits for the disk then.
func (l *Leader) startFiling() {
	w, now, phase := &l.ledgerWriter, l.missionAndPhase(), l.mission.Phase()
	if w.filed == now || w.durable != now || telemetry.UnderWay(phase) || !l.allLanded() || l.leftInAir() {
		return
	}
	w.filed = now
	w.filing.Wait()
	w.filing.Go(func() {
		if err := w.ledger.WriteFiles(phase != telemetry.StateIdle); err != nil {
			l.Log.Error("the files of finished missions could not be written", "reason", err)
		}
	})
}

func (l *Leader) missionAndPhase() string { return l.mission.ID() + " " + l.mission.Phase() }

// leftInAir is whether an aircraft flies by itself or its pilot.
func (l *Leader) leftInAir() bool {
	return slices.ContainsFunc(l.views, func(v fleet.View) bool { return v.InAir && !v.OnGround })
}

// ledgerState is the present state, as a restart needs it.
func (l *Leader) ledgerState() ledger.State {
	return ledger.State{
		State: l.mission.State(), ConfiguredMission: l.Config.Mission, StatusSeq: l.current.statusSeq, Schedule: l.schedule.State(),
		Account: l.account.State(), Users: l.users.State(), Fleet: l.savedFleet(), LastCommand: l.crew.LastCommand(),
		Place: &ledger.Place{Origin: l.Config.Origin, AreaM: [2]float64{l.Policy.Physics.AreaSideM, l.Policy.Physics.AreaSideM}, SlotMS: l.Config.SlotMS, Fleet: l.Config.Fleet},
	}
}

// savedFleet is the fleet's state. Aircraft that wait for their first message
// after a restart are saved as they were.
func (l *Leader) savedFleet() []fleet.SavedAircraft {
	saved := l.fleet.SavedState()
	for _, w := range l.current.awaitingRejoin {
		s := &saved[w.Number-1]
		s.UnderCommand, s.Homing, s.WithPilot, s.Reason = w.UnderCommand, w.Homing, w.WithPilot, w.Reason
	}
	return saved
}
