package leader

import (
	"log/slog"
	"time"

	"prefdt/firmware/account"
	"prefdt/firmware/config"
	"prefdt/firmware/fleet"
	"prefdt/firmware/ledger"
)

// ledgerWriter writes settlements to the ledger while the next slot's reports are
// collected: a disk may take longer than a fast slot can spare.
type ledgerWriter struct {
	ledger      *ledger.Ledger
	pending     chan error // result of the transaction being written, or nil
	beganAt     time.Duration
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

func (w *ledgerWriter) close() {
	if w.pending != nil {
		<-w.pending
	}
	w.ledger.Close()
}

func (l *Leader) startCommit(rows []account.Row) {
	l.waitForCommit()
	w, state, pending := &l.ledgerWriter, l.ledgerState(), make(chan error, 1)
	w.pending, w.beganAt = pending, l.Clock.Now()
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
	if err != nil {
		l.Log.Error("settlement could not be written", "reason", err)
		from := l.mission.Phase()
		l.performEffect(from, l.mission.DiskFailed())
	}
	l.publishStatus()
}

// ledgerState is the present state, as a restart needs it.
func (l *Leader) ledgerState() ledger.State {
	return ledger.State{
		State: l.mission.State(), ConfiguredMission: l.Config.Mission, StatusSeq: l.current.statusSeq, Schedule: l.schedule.State(),
		Account: l.account.State(), Users: l.users.State(), Fleet: l.savedFleet(), LastCommand: l.crew.LastCommand(),
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
