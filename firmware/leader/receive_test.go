package leader

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"testing"

	"prefdt/firmware/crew"
	"prefdt/firmware/ledger"
	"prefdt/firmware/link"
	"prefdt/telemetry"
)

// enqueuePreference queues a preference for the loop.
func enqueuePreference(t *testing.T, l *inPhase, n int) {
	t.Helper()
	m := telemetry.Message{Topic: l.mqtt.Topics.Preference(), Payload: fmt.Appendf(nil, `{"id":"c%d","setting":0.4}`, n)}
	c, err := crew.Keys{AcceptUnsigned: true}.DecodeCommand(telemetry.KindPreference, m)
	if err != nil {
		t.Fatal(err)
	}
	l.mqtt.ControlMessages <- link.ControlMessage{Command: c}
}

// With 10,000 reports waiting, commands are executed and acknowledged at once,
// whenever they arrive.
func TestCommandsBeforeReports(t *testing.T) {
	frozen := loadCheckpoint(t)
	l := newInPhase(t, telemetry.StateFlying, nil, frozen.Physics, &frozen.GoalConstants)
	l.openLedger(t, t.TempDir())
	defer l.ledgerWriter.ledger.Close()
	const most = 10000
	l.mqtt.UserMessages, l.mqtt.ControlMessages = make(chan link.UserMessage, most), make(chan link.ControlMessage, 10)
	for i := range most {
		r := telemetry.Report{Slot: 0, PositionM: [2]float64{300, 500}, CPUHz: 1e9}
		l.mqtt.UserMessages <- link.UserMessage{User: fmt.Sprintf("u%d", i), Report: &r}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var waiting []int
	l.crew.Publish = func(a telemetry.Ack) {
		if !a.Accepted {
			t.Errorf("%+v", a)
		}
		if waiting = append(waiting, len(l.mqtt.UserMessages)); len(waiting) == 5 {
			cancel()
			return
		}
		enqueuePreference(t, l, len(waiting))
	}
	l.users.OpenSlot(0)
	enqueuePreference(t, l, 0)
	l.receiveUntil(ctx, l.Clock.Now()+l.Config.WallTime(1e6))
	for i, n := range waiting {
		if n < most-1-i {
			t.Errorf("command %d was acknowledged when %d of %d reports were left", i, n, most)
		}
	}
	if len(waiting) != 5 {
		t.Errorf("%d commands were acknowledged", len(waiting))
	}
}

// transactionCount is how many transactions a ledger has had: the greater number of
// bbolt's two meta pages.
func transactionCount(t *testing.T, dir string) int {
	t.Helper()
	raw, err := os.ReadFile(ledger.Path(dir))
	if err != nil {
		t.Fatal(err)
	}
	const txid = 64 // in the page: after its header, and the meta's eight fields
	page := os.Getpagesize()
	return int(max(binary.NativeEndian.Uint64(raw[txid:]), binary.NativeEndian.Uint64(raw[page+txid:])))
}

// Three hundred waiting commands take two transactions.
func TestWaitingCommandsShareTransactions(t *testing.T) {
	frozen := loadCheckpoint(t)
	l := newInPhase(t, telemetry.StateFlying, nil, frozen.Physics, &frozen.GoalConstants)
	dir := t.TempDir()
	l.openLedger(t, dir)
	defer l.ledgerWriter.ledger.Close()
	const most = 300
	l.mqtt.ControlMessages = make(chan link.ControlMessage, most)
	for i := range most {
		enqueuePreference(t, l, i)
	}
	ctx, cancel := context.WithCancel(t.Context())
	acked := 0
	l.crew.Publish = func(a telemetry.Ack) {
		if acked++; acked == most {
			cancel()
		}
		if !a.Accepted {
			t.Errorf("%+v", a)
		}
	}
	before := transactionCount(t, dir)
	l.receiveUntil(ctx, l.Clock.Now()+l.Config.WallTime(1e6))
	if n := transactionCount(t, dir) - before; n != 2 || acked != most {
		t.Errorf("%d commands took %d transactions, %d were acknowledged", most, n, acked)
	}
}
