package leader

import (
	"context"
	"encoding/binary"
	"log/slog"
	"math"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"prefdt/firmware/clock"
	"prefdt/simbridge/chaos"
	"prefdt/telemetry"

	mqttbroker "prefdt/simbridge/broker"
)

// moved waits until both aircraft got setpoints to move, sent after a moment.
func (r *rig) moved(since time.Time) bool {
	return r.eventually(func() bool { return r.legs[0].Load() > since.UnixNano() && r.legs[1].Load() > since.UnixNano() })
}

// The broker is gone and the leader dies: the next one flies on without it, and
// when the broker is back everything is there.
func TestRestartWithoutABroker(t *testing.T) {
	r := newRig(t, 2, 100000)
	r.config.Flight.BrokerHoldS, r.config.Flight.BrokerReturnS = 500, 1000
	f := r.launch()
	r.takeOff()
	if ack := r.command(r.topics.Budget(), `{"id":"b1","energy_j":90000,"mode":"target"}`, "b1"); !ack.Accepted {
		t.Fatalf("%+v", ack)
	}
	before := r.await("slot 5", at(5))
	r.closeBroker()
	f = r.again(f, func() {})
	began := time.Now()
	if !r.moved(began) {
		t.Fatalf("without a broker nobody moves: %+v, %+v", r.craft[0].State(), r.craft[1].State())
	}
	t.Logf("both moved %.1f slots after the start", time.Since(began).Seconds()*r.config.Speed())
	back := &mqttbroker.Broker{Address: strings.TrimPrefix(r.config.Broker.URL, "tcp://")}
	if !r.eventually(func() bool { return back.Initialize() == nil }) {
		t.Fatal("the broker does not come back")
	}
	t.Cleanup(back.Close)
	after := r.await("a slot with the broker", func(s telemetry.Status) bool { return flying(s) && s.UsersHeard > 0 && s.Slot > before.Slot+5 })
	if after.BudgetJ == nil || *after.BudgetJ != 90000 || after.SpentJ <= before.SpentJ {
		t.Errorf("before %+v, after %+v", before, after)
	}
	if again := r.command(r.topics.Budget(), `{"id":"b1","energy_j":30000,"mode":"ceiling"}`, "b1"); again.EffectiveSlot == nil || *again.EffectiveSlot > before.Slot {
		t.Errorf("the repeated command got %+v", again)
	}
	f.kill(t)
}

// tear makes the ledger's last transaction one whose pages did not all reach
// the disk: its meta page leads to a root that was never written.
func tear(t *testing.T, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const header, rootAt, txAt = 16, 16, 48
	page := int64(os.Getpagesize())
	var newest, root uint64
	for _, at := range []int64{0, page} {
		raw := make([]byte, header+64)
		if _, err := f.ReadAt(raw, at); err != nil {
			t.Fatal(err)
		}
		if tx := binary.LittleEndian.Uint64(raw[header+txAt:]); tx >= newest {
			newest, root = tx, binary.LittleEndian.Uint64(raw[header+rootAt:])
		}
	}
	if _, err := f.WriteAt(make([]byte, page), int64(root)*page); err != nil {
		t.Fatal(err)
	}
}

// Power is lost in a transaction, on a disk that does not keep the order of
// what it writes: the next leader flies on from the transaction before.
func TestTornTransaction(t *testing.T) {
	r := newRig(t, 2, 100000)
	f := r.launch()
	r.takeOff()
	r.command(r.topics.Budget(), `{"id":"b1","energy_j":90000,"mode":"target"}`, "b1")
	before := r.await("slot 8", at(8))
	path := filepath.Join(r.config.StateDir, "ledger.db")
	f = r.again(f, func() { tear(t, path) })
	after := r.await("a slot after it", func(s telemetry.Status) bool { return flying(s) && s.Slot > before.Slot })
	if after.BudgetJ == nil || *after.BudgetJ != 90000 || after.SpentJ < before.SpentJ-1e-6 {
		t.Errorf("before %+v, after %+v", before, after)
	}
	if off := after.SpentJ + after.TransitJ - r.trueJ(); math.Abs(off) > 600 { // it flies on meanwhile
		t.Errorf("booked %+.0f J more than the batteries lost", off)
	}
	r.mutex.Lock()
	for i := 1; i < len(r.slots); i++ {
		if r.slots[i] <= r.slots[i-1] {
			t.Errorf("slot %d after slot %d", r.slots[i], r.slots[i-1])
		}
	}
	r.mutex.Unlock()
	f.kill(t)

	// What is worse than that is said in a line, and nothing is flown on a guess.
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, raw[:len(raw)/4], 0o600); err != nil {
		t.Fatal(err)
	}
	err = <-r.launch().done
	if err == nil || !strings.Contains(err.Error(), "is damaged") || !strings.Contains(err.Error(), "leader log recover") || strings.Contains(err.Error(), "\n") {
		t.Errorf("a ledger cut short: %v", err)
	}
}

// The leader's wall clock jumps a day forth and back, several times in a flight:
// no slot is missed or late for it, and nothing is counted wrong.
func TestClockJumps(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a leader with a clock of its own")
	}
	r := newRigAt(t, 2, 50, 100)
	r.config.Request.BudgetJ = 14000
	args := r.program()
	if err := chaos.BuildJump(args[0]); err != nil {
		t.Fatal(err)
	}
	p := r.start(args)
	r.takeOff()
	s := r.await("done", done)
	if s.Slot != 49 || s.MissedSlots > 5 {
		t.Errorf("%+v", s)
	}
	r.await("landed", func(telemetry.Status) bool { return r.landedAt(0) && r.landedAt(1) })
	n := r.await("a status", anyStatus).Seq
	s = r.await("three more", func(s telemetry.Status) bool { return s.Seq > n+3 })
	if off := s.SpentJ + s.TransitJ - r.trueJ(); math.Abs(off) > 200 {
		t.Errorf("booked %+.0f J more than the batteries lost", off)
	}
	for i := 1; i < len(r.slots); i++ {
		if r.slots[i] <= r.slots[i-1] {
			t.Errorf("slot %d after slot %d", r.slots[i], r.slots[i-1])
		}
	}
	if err := p.End(); err != nil {
		t.Error(err)
	}
}

// A restarted leader that waits for the first word of its aircraft is alive, and
// its watchdog knows.
func TestWatchdogIsFedWhileRejoining(t *testing.T) {
	r := newRig(t, 2, 100000)
	f := r.launch()
	r.takeOff()
	r.await("slot 3", at(3))
	f.kill(t)
	r.lose[0]()
	r.lose[1]()
	path := filepath.Join(t.TempDir(), "notify")
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer manager.Close()
	l := &Leader{Config: r.config, Physics: r.physics, Scales: testScales(), Scheduler: &atAllowance{c: r.physics}, Clock: clock.New(), Log: slog.New(slog.DiscardHandler)}
	if l.monitor, err = newMonitor(l, func(key string) string {
		return map[string]string{"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "1000000"}[key]
	}); err != nil {
		t.Fatal(err)
	}
	defer l.monitor.close()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	b := make([]byte, 4096)
	for fed, began := 0, time.Now(); fed < 50; {
		manager.SetReadDeadline(time.Now().Add(time.Second))
		n, err := manager.Read(b)
		if err != nil {
			t.Fatalf("silent for a second after %d signs of life: %v", fed, err)
		}
		if strings.Contains(string(b[:n]), "WATCHDOG=1") {
			fed++
		}
		if time.Since(began) > 20*time.Second {
			t.Fatalf("only %d signs of life", fed)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A decision that overruns the end of the mission ends it: no slot beyond the
// last is opened, and the missed ones are settled.
func TestLateAtTheEnd(t *testing.T) {
	r := newRig(t, 1, 12)
	r.launch()
	r.takeOff()
	r.await("slot 6", at(6))
	r.slow.Store(int64(10 * 40 * time.Millisecond))
	s := r.await("done", done)
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if last := r.slots[len(r.slots)-1]; s.Slot != 11 || s.MissedSlots < 2 || last > 11 {
		t.Errorf("ended with slot %d, %d missed, the last beacon is of slot %d", s.Slot, s.MissedSlots, last)
	}
}
