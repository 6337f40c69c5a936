package leader

import (
	"cmp"
	"log/slog"
	"slices"
	"sync"
	"time"

	"prefdt/firmware/account"
	"prefdt/firmware/config"
	"prefdt/firmware/fleet"
	"prefdt/firmware/ledger"
	"prefdt/firmware/mission"
	"prefdt/telemetry"
)

// ledgerWriter writes settlements to the ledger while the next slot's reports are
// collected: a disk may take longer than a fast slot can spare.
type ledgerWriter struct {
	ledger      *ledger.Ledger
	pending     chan error            // result of the transaction being written, or nil
	fleet       []fleet.SavedAircraft // in it
	rows        []account.Row         // in it and in those that failed before it
	settled     *telemetry.Status     // of the rows in it, published when it is durable; nil: it has none
	beganAt     time.Duration
	filing      sync.WaitGroup
	writing     string  // mission and state of the transaction being written
	durable     string  // of the last one that is durable
	filed       string  // when files were last written
	lastWriteMS float64 // of the last transaction, to tell a slow disk from a slow machine
}

func (w *ledgerWriter) open(c *config.Config, disk func(write func() error) error, log *slog.Logger) (err error) {
	if w.ledger, err = ledger.Open(c.StateDir); err != nil {
		return err
	}
	w.ledger.Disk = disk
	w.ledger.SetMaxRowBytes(c.LedgerMB * 1e6)
	if w.ledger.TornReason != "" {
		log.Error("the ledger's last transaction was torn; continuing from the one before", "reason", w.ledger.TornReason)
	}
	return nil
}

// close waits for what is being written, and writes a file of a mission that is over.
func (w *ledgerWriter) close(m *mission.Mission, f *fleet.Fleet, log *slog.Logger) {
	if w.pending != nil && <-w.pending == nil {
		w.durable = w.writing
	}
	w.startFiling(m, f.Views(), log)
	w.filing.Wait()
	w.ledger.Close()
}

// startCommit begins to write rows, those whose write failed before, and the state after
// them. The last row has the status after it.
func (l *Leader) startCommit(rows []account.Row, views []fleet.View) {
	l.waitForCommit()
	w, pending := &l.ledgerWriter, make(chan error, 1)
	for i := range rows {
		rows[i].UnixMS = l.WallClock().UnixMilli()
	}
	if n := len(rows); n > 0 {
		s := l.status(views)
		rows[n-1].Status, w.settled = &s, &s
	}
	state := l.ledgerState()
	w.rows = append(w.rows, rows...)
	w.pending, w.fleet, w.beganAt, w.writing = pending, state.Fleet, l.Clock.Now(), missionAndPhase(&l.mission)
	unwritten := w.rows // nothing is added before this write has ended
	go func() { pending <- w.ledger.WriteRows(state, unwritten) }()
}

// waitForCommit waits until the transaction being written is durable. No decision of
// a slot is published, and no command is applied, before the last settlement is.
func (l *Leader) waitForCommit() {
	if l.ledgerWriter.pending != nil {
		l.handleCommit(l.await(l.ledgerWriter.pending))
	}
}

// maxDeferred is how many commands wait for a write; more are as lost. A storm of them comes
// while one is written.
const maxDeferred = 1 << 14

// await returns the result of a transaction that is being written. A disk may hang in it:
// commands that hold or end the flight are executed meanwhile, others wait. One that the
// mission does not accept yet, because a change of it is being written, follows that change:
// a stop that is sent after a start stops what has started.
func (l *Leader) await(written chan error) error {
	for waitedS := 1.0; ; waitedS++ {
		second := l.Clock.After(l.Config.WallTime(1))
	receive:
		for {
			select {
			case err := <-written:
				return err
			case c := <-l.mqtt.ControlMessages:
				switch {
				case c.Command == nil:
					l.handleControl(c)
				case actsAtOnce(c.Command) && (len(l.current.changes) == 0 || l.mission.Accepts(c.Command.Mission.Action)):
					l.handleCommand(c.Command)
				case len(l.current.deferred) < maxDeferred && l.crew.Admit(c.Command): // its counter is of now
					l.current.deferred = append(l.current.deferred, c)
				}
			case <-second:
				break receive
			}
		}
		l.keepWithoutLedger(waitedS)
	}
}

// diskHangsS, mission time, is how long a write may take before the disk counts as failed.
const diskHangsS = 30.0

// keepWithoutLedger is a mission second in which the loop waits for the disk. No slot is
// decided in it, so setpoints expire; aircraft return from a disk that does not answer.
func (l *Leader) keepWithoutLedger(waitedS float64) {
	views, from := l.fleet.Views(), l.mission.Phase()
	switch {
	case waitedS == diskHangsS && l.mission.InFlight() && !l.mission.Ending():
		l.Log.Error("the disk does not answer; returning", "waited_s", waitedS)
		views = l.performEffect(from, l.mission.DiskFailed(), views)
	case from == telemetry.StateReturning:
		views = l.tick(views)
	}
	l.publish(l.status(views))
	l.ledgerWriter.settled = nil // the crew has been shown a newer one
	l.reportIteration()
}

// handleCommit publishes the status after a settlement. A disk that fails in flight
// ends the mission: the aircraft return without the ledger.
func (l *Leader) handleCommit(err error) {
	w := &l.ledgerWriter
	settled := w.settled
	w.pending, w.settled, w.lastWriteMS = nil, nil, float64(l.Clock.Now()-w.beganAt)/float64(time.Millisecond)
	if err != nil {
		l.Log.Error("settlement could not be written", "reason", err)
		l.publish(l.status(l.performEffect(l.mission.Phase(), l.mission.DiskFailed(), l.fleet.Views())))
		return
	}
	w.durable, w.rows = w.writing, nil
	l.fleet.SetDurable(w.fleet)
	l.duty.sendLeaving(w.fleet, l.fleet, l.Log)
	w.startFiling(&l.mission, l.fleet.Views(), l.Log)
	l.publish(l.statusAfter(settled))
}

// statusAfter is the status after a settlement: what the crew is shown is what the record has, unless it is over by now.
func (l *Leader) statusAfter(settled *telemetry.Status) telemetry.Status {
	if settled != nil && settled.State == l.mission.Phase() {
		return *settled
	}
	return l.status(l.fleet.Views())
}

// startFiling begins to write the files of missions that have none, once after each change
// to a state with nothing to fly that is durable: no slot waits for the disk then.
func (w *ledgerWriter) startFiling(m *mission.Mission, views []fleet.View, log *slog.Logger) {
	now := missionAndPhase(m)
	flies := func(v fleet.View) bool { return v.Homeward || v.InAir } // by itself or its pilot, too
	if w.filed == now || w.durable != now || telemetry.UnderWay(m.Phase()) || slices.ContainsFunc(views, flies) {
		return
	}
	w.filed = now
	w.filing.Wait()
	w.filing.Go(func() {
		if err := w.ledger.WriteFiles(); err != nil {
			log.Error("the files of finished missions could not be written", "reason", err)
		}
	})
}

func missionAndPhase(m *mission.Mission) string { return m.ID() + " " + m.Phase() }

// ledgerState is the present state, as a restart needs it.
func (l *Leader) ledgerState() ledger.State {
	saved := l.fleet.SavedState()
	for i := range saved {
		if l.duty.leaving(i + 1) {
			saved[i].SendHome()
			saved[i].SentHome = cmp.Or(saved[i].SentHome, whyLeaves[l.duty.leaves[i]])
		}
	}
	return ledger.State{
		State: l.mission.State(), ConfiguredMission: l.Config.Mission, StatusSeq: l.current.statusSeq, Schedule: l.schedule.State(),
		Account: l.account.State(), Users: l.users.State(), Fleet: saved, LastCommand: l.crew.LastCommand(),
		Place: place(&l.Config, l.Policy.Physics.AreaSideM),
		Duty:  l.duty.state(),
	}
}

// place is where and for whom the configuration has missions flown.
func place(c *config.Config, sideM float64) *ledger.Place {
	return &ledger.Place{Origin: c.Origin, AreaM: [2]float64{sideM, sideM}, SlotMS: c.SlotMS, Fleet: c.Fleet}
}
