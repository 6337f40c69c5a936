package monitor

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"prefdt/firmware/clock"
	"prefdt/inference/goal"
	"prefdt/inference/slot"
)

// stallable is a scheduler that can be made to hang, and the loop with it.
type stallable struct {
	scheduler
	gate chan struct{} // closed: no stall; open: hangs until closed
	at   int           // in this slot
}

func (s *stallable) Decide(sn *slot.Snapshot, g goal.Objective, d *slot.Decision) goal.Seen {
	if sn.Slot >= s.at {
		<-s.gate
	}
	return s.scheduler.Decide(sn, g, d)
}

// get asks the leader's server.
func get(t *testing.T, m *monitor, path string) (int, string) {
	t.Helper()
	r, err := http.Get("http://" + m.server.Address() + path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(body)
}

// value reads one sample off a page.
func value(t *testing.T, page, name string) float64 {
	t.Helper()
	for _, line := range strings.Split(page, "\n") {
		if text, ok := strings.CutPrefix(line, name+" "); ok {
			x, err := strconv.ParseFloat(text, 64)
			if err != nil {
				t.Errorf("%s: %v", line, err)
			}
			return x
		}
	}
	t.Errorf("no %s in\n%s", name, page)
	return 0
}

// A loop that stalls falls silent: no more signs of life, health turns to 503,
// and both come back with it.
func TestMonitor(t *testing.T) {
	r := newRig(t, 1, 100000)
	path := filepath.Join(t.TempDir(), "notify")
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer manager.Close()
	// told waits for a line of a notification.
	told := func(line string, most time.Duration) bool {
		b := make([]byte, 4096)
		manager.SetReadDeadline(time.Now().Add(most))
		for {
			n, err := manager.Read(b)
			if err != nil {
				return false
			}
			if strings.Contains("\n"+string(b[:n])+"\n", "\n"+line) {
				return true
			}
		}
	}
	r.config.MetricsPort = freePort(t)
	s := &stallable{&atAllowance{c: r.physics}, make(chan struct{}), 12}
	l := &Leader{Config: r.config, Physics: r.physics, Scales: testScales(), Scheduler: s, Clock: clock.New(), Log: slog.New(slog.DiscardHandler)}
	l.monitor, err = newMonitor(l, func(key string) string {
		return map[string]string{"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "1000000"}[key]
	})
	if err != nil {
		t.Fatal(err)
	}
	if code, text := get(t, l.monitor, "/healthz"); code != 503 || !strings.Contains(text, "starting") {
		t.Errorf("before the loop: %d %s", code, text)
	}
	if _, page := get(t, l.monitor, "/metrics"); value(t, page, `prefdt_up{fleet="test",mission="mission-1"}`) != 0 {
		t.Error(page)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	if !told("READY=1", 10*time.Second) || !told("WATCHDOG=1", time.Second) {
		t.Fatal("not ready")
	}
	r.takeOff()
	r.await("slot 5", at(5))
	if code, text := get(t, l.monitor, "/healthz"); code != 200 || !strings.Contains(text, "flying, slot") {
		t.Errorf("in flight: %d %s", code, text)
	}
	r.await("slot 11", at(11))
	for told("WATCHDOG=1", 200*time.Millisecond) { // sent before it stalled in slot 12
	}
	if told("WATCHDOG=1", time.Second) {
		t.Error("a stalled loop fed its watchdog")
	}
	if code, text := get(t, l.monitor, "/healthz"); code != 503 {
		t.Errorf("stalled: %d %s", code, text)
	}
	_, page := get(t, l.monitor, "/metrics")
	for name, want := range map[string]float64{
		"prefdt_slot": 12, "prefdt_slots": 100000, `prefdt_state{state="flying"}`: 1, `prefdt_state{state="idle"}`: 0,
		"prefdt_broker_connected": 1, "prefdt_decision_ms_count": 12, "prefdt_reports_heard_total": 48, "prefdt_users_heard": 4,
		`prefdt_envelope_interventions_total{kind="held"}`: 0, "prefdt_missed_slots": 0,
	} {
		if got := value(t, page, name); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	for _, name := range []string{
		"prefdt_spent_joules", "prefdt_floor_joules", "prefdt_setpoints_total", "prefdt_decision_ms_sum", `prefdt_aircraft_battery{aircraft="1"}`,
		`prefdt_aircraft_spent_joules{aircraft="1",source="energy_consumed"}`,
	} {
		if value(t, page, name) <= 0 {
			t.Errorf("%s is not above 0", name)
		}
	}
	if !strings.Contains(page, "prefdt_budget_joules NaN") {
		t.Error("a budget that nobody gave")
	}
	close(s.gate)
	if !told("WATCHDOG=1", 5*time.Second) {
		t.Error("no sign of life after the stall")
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	l.monitor.close()
	if !told("STOPPING=1", time.Second) {
		t.Error("it did not say that it stops")
	}
}

func TestMonitorRefuses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer manager.Close()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	l := &Leader{Config: Defaults(), Clock: clock.New()}
	if _, err := newMonitor(l, func(key string) string {
		return map[string]string{"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "2000000"}[key]
	}); err == nil || !strings.Contains(err.Error(), "at least three slots, 3s") {
		t.Errorf("a watchdog of two slots: %v", err)
	}
	l.Config.MetricsPort = taken.Addr().(*net.TCPAddr).Port
	if _, err := newMonitor(l, func(string) string { return "" }); err == nil || !strings.Contains(err.Error(), fmt.Sprint(l.Config.MetricsPort)) {
		t.Errorf("a port in use: %v", err)
	}
}

func freePort(t *testing.T) int {
	c, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return c.Addr().(*net.TCPAddr).Port
}
