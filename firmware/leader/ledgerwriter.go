package leader

import (
	"log/slog"
	"time"

	"prefdt/firmware/account"
	"prefdt/firmware/clock"
	"prefdt/firmware/config"
	"prefdt/firmware/fleet"
	"prefdt/firmware/ledger"
)

// ledgerWriter writes settlements to the ledger while the next slot's reports come
// in: a disk may take longer than a fast slot can spare.
type ledgerWriter struct {
	ledger      *ledger.Ledger
	clock       clock.Clock
	pending     chan error // a transaction on its way to the disk, or nil
	beganAt     time.Duration
	lastWriteMS float64 // the last one, to tell a slow disk from a slow machine
}

func (j *ledgerWriter) open(c *config.Config, now clock.Clock, log *slog.Logger) (err error) {
	if j.ledger, err = ledger.Open(c.StateDir); err != nil {
		return err
	}
	j.clock = now
	j.ledger.SetMaxRowBytes(c.LedgerMB * 1e6)
	if j.ledger.TornReason != "" {
		log.Error("the ledger's last transaction was torn; going on from the one before", "reason", j.ledger.TornReason)
	}
	return nil
}

func (j *ledgerWriter) close() {
	if j.pending != nil {
		<-j.pending
	}
	j.ledger.Close()
}

func (j *ledgerWriter) write(s ledger.State, rows []account.Row) {
	pending := make(chan error, 1)
	j.pending, j.beganAt = pending, j.clock.Now()
	go func() { pending <- j.ledger.WriteRows(s, rows) }()
}

// startCommit has the present state written.
func (l *Leader) startCommit(rows []account.Row) {
	l.waitForCommit()
	l.ledgerWriter.write(l.ledgerState(), rows)
}

// waitForCommit waits until what was recorded is on the disk. No setpoint of a slot
// goes out, and no command is applied, before the last settlement is.
func (l *Leader) waitForCommit() {
	if l.ledgerWriter.pending != nil {
		l.handleCommit(<-l.ledgerWriter.pending)
	}
}

// handleCommit publishes what a settlement led to. A disk that fails in flight ends
// the mission: the aircraft return, led from memory.
func (l *Leader) handleCommit(err error) {
	l.ledgerWriter.pending = nil
	l.ledgerWriter.lastWriteMS = float64(l.Clock.Now()-l.ledgerWriter.beganAt) / float64(time.Millisecond)
	if err != nil {
		l.Log.Error("settlement not on the disk", "reason", err)
		from := l.mission.Phase()
		l.performEffect(from, l.mission.DiskFailed())
	}
	l.publishStatus()
}

// ledgerState is what a restart needs, as it is now.
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
