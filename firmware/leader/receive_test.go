package leader

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"testing"
	"time"

	"prefdt/firmware/crew"
	"prefdt/firmware/ledger"
	"prefdt/firmware/link"
	"prefdt/inference/physics"
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

// slowDecoder decodes a report each time that the loop waits.
type slowDecoder struct {
	manualClock
	to       chan link.UserMessage
	messages []link.UserMessage // not decoded yet
}

func (d *slowDecoder) waiting() bool { return len(d.messages) > 0 }

func (d *slowDecoder) After(wait time.Duration) <-chan time.Time {
	d.now += wait
	d.to <- d.messages[0]
	d.messages = d.messages[1:]
	passed := make(chan time.Time)
	close(passed)
	return passed
}

// Reports that arrived in the window and are not decoded when it closes count, as long as a
// tenth of a slot lasts; the first message that came after it ends the wait.
func TestReportsThatWaitToBeDecoded(t *testing.T) {
	p := physics.DefaultConstants()
	for _, c := range []struct {
		name              string
		inTime, late      int
		reported, decoded int
	}{
		{"in time", 40, 0, 40, 40},
		{"others arrive without end", 40, 200, 40, 41},
		{"more than there is time for", 150, 0, 100, 101}, // of a second's tenth, a millisecond each
	} {
		l := newInPhase(t, telemetry.StateFlying, nil, p, &loadCheckpoint(t).GoalConstants)
		d := &slowDecoder{manualClock: manualClock{now: time.Second}, to: make(chan link.UserMessage, 1)}
		l.Clock, l.mqtt.UserMessages = d, d.to
		for i := range c.inTime + c.late {
			report := &telemetry.Report{PositionM: [2]float64{300, 500}, CPUHz: 1e9}
			m := link.UserMessage{User: fmt.Sprintf("u%d", i), Report: report, Received: d.now}
			if i >= c.inTime {
				m.Received++
			}
			d.messages = append(d.messages, m)
		}
		l.users.OpenSlot(0)
		l.drain(d.now, d.waiting)
		if got := c.inTime + c.late - len(d.messages); l.users.Reported() != c.reported || got != c.decoded {
			t.Errorf("%s: %d reports count of %d decoded, want %d of %d", c.name, l.users.Reported(), got, c.reported, c.decoded)
		}
	}
}
