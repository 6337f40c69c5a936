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

// journal writes settlements to the ledger while the next slot's reports come
// in: a disk may take longer than a fast slot can spare.
type journal struct {
	ledger  *ledger.Ledger
	clock   clock.Clock
	pending chan error // a transaction on its way to the disk, or nil
	began   time.Duration
	tookMS  float64 // the last one, to tell a slow disk from a slow machine
}

func (j *journal) open(c *config.Config, now clock.Clock, log *slog.Logger) (err error) {
	if j.ledger, err = ledger.Open(c.StateDir); err != nil {
		return err
	}
	j.clock = now
	j.ledger.Keep(c.LedgerMB * 1e6)
	if j.ledger.Torn != "" {
		log.Error("the ledger's last transaction was torn; going on from the one before", "reason", j.ledger.Torn)
	}
	return nil
}

func (j *journal) close() {
	if j.pending != nil {
		<-j.pending
	}
	j.ledger.Close()
}

func (j *journal) write(s ledger.State, rows []account.Row) {
	pending := make(chan error, 1)
	j.pending, j.began = pending, j.clock.Now()
	go func() { pending <- j.ledger.Settle(s, rows) }()
}

// record has the present state written.
func (l *Leader) record(rows []account.Row) {
	l.committed()
	l.journal.write(l.state(), rows)
}

// committed waits until what was recorded is on the disk. No setpoint of a slot
// goes out, and no command is applied, before the last settlement is.
func (l *Leader) committed() {
	if l.journal.pending != nil {
		l.recorded(<-l.journal.pending)
	}
}

// recorded publishes what a settlement led to. A disk that fails in flight ends
// the mission: the aircraft return, led from memory.
func (l *Leader) recorded(err error) {
	l.journal.pending = nil
	l.journal.tookMS = float64(l.Clock.Now()-l.journal.began) / float64(time.Millisecond)
	if err != nil {
		l.Log.Error("settlement not on the disk", "reason", err)
		from := l.mission.Phase()
		l.perform(from, l.mission.DiskFailed())
	}
	l.publishStatus()
}

// state is what a restart needs, as it is now.
func (l *Leader) state() ledger.State {
	return ledger.State{
		State: l.mission.State(), Configured: l.Config.Mission, Seq: l.now.seq, Schedule: l.schedule.State(),
		Account: l.account.State(), Users: l.users.State(), Fleet: l.savedFleet(), LastCommand: l.crew.Last(),
	}
}

// savedFleet is the fleet's state. Aircraft that wait for their first message
// after a restart are saved as they were.
func (l *Leader) savedFleet() []fleet.Saved {
	saved := l.fleet.State()
	for _, w := range l.now.rejoining {
		s := &saved[w.Number-1]
		s.Ours, s.Homing, s.Pilot, s.Reason = w.Ours, w.Homing, w.Pilot, w.Reason
	}
	return saved
}
