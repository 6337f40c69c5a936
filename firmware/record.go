package main

import (
	"time"

	"prefdt/firmware/ledger"
	"prefdt/telemetry"
)

// record has the present state written while the next slot's reports come in:
// a disk may take longer than a fast slot can spare.
func (l *Leader) record(rows []ledger.Row) {
	l.durable()
	s, pending := l.ledgerState(), make(chan error, 1)
	l.pending, l.pendingAt = pending, l.Clock.Now()
	go func() { pending <- l.ledger.Settle(s, rows) }()
}

// durable waits until what was recorded is on the disk. No setpoint of a slot
// goes out, and no command is obeyed, before the last settlement is.
func (l *Leader) durable() {
	if l.pending != nil {
		l.recorded(<-l.pending)
	}
}

// recorded tells the fleet of a settlement. A disk that fails in flight ends
// the mission: the aircraft return, led from memory.
func (l *Leader) recorded(err error) {
	l.pending = nil
	l.ledgerMS = float64(l.Clock.Now()-l.pendingAt) / float64(time.Millisecond)
	if err != nil {
		l.Log.Error("settlement not on the disk", "reason", err)
		switch l.state {
		case telemetry.StateClimbing, telemetry.StateFlying, telemetry.StateHolding:
			l.goHome(telemetry.StateReturning)
		}
	}
	l.publishStatus()
}
