package monitor_test

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"prefdt/configs/freeport"
	"prefdt/firmware/clock"
	"prefdt/firmware/config"
	"prefdt/firmware/leader"
	"prefdt/firmware/monitor"
	"prefdt/inference/slot"
	"prefdt/simbridge/rig"
	"prefdt/simbridge/simnet"
)

func freePort(t *testing.T) int {
	t.Helper()
	port, err := freeport.Port()
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// get requests a page of the leader's server.
func get(t *testing.T, port int, path string) (int, string) {
	t.Helper()
	r, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d%s", port, path))
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

// sampleValue returns one sample of a page.
func sampleValue(t *testing.T, page, name string) float64 {
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

// systemdSocket is systemd's side of the notification socket.
type systemdSocket struct{ conn *net.UnixConn }

func newSystemdSocket(t *testing.T) (m systemdSocket, getenv func(string) string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return systemdSocket{conn}, func(key string) string {
		return map[string]string{"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "3000000"}[key]
	}
}

// received returns what was sent and not read yet; it does not wait.
func (m systemdSocket) received(t *testing.T) (messages []string) {
	t.Helper()
	raw, err := m.conn.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	for b := make([]byte, 4096); ; {
		n := 0
		if failed := raw.Control(func(fd uintptr) { n, _, err = syscall.Recvfrom(int(fd), b, syscall.MSG_DONTWAIT) }); failed != nil {
			t.Fatal(failed)
		}
		if err != nil {
			return messages
		}
		messages = append(messages, string(b[:n]))
	}
}

// holds is whether a line is in one of the messages.
func holds(messages []string, line string) bool {
	return slices.ContainsFunc(messages, func(m string) bool { return strings.Contains("\n"+m+"\n", "\n"+line+"\n") })
}

// A flight's decisions take decisionMS, and its loop hangs for stallS in slot stallsAt.
const decisionMS, stallsAt, stallS = 2, 12, 60

// flightReports are the reports of a flight's loop, which hangs once.
func flightReports(t *testing.T) (c config.Config, reports []leader.LoopReport) {
	t.Helper()
	simnet.Bubble(t, func(t *testing.T) {
		r := rig.New(t, 1, 100000)
		r.OverrideDecision = func(s *slot.Snapshot, _ *slot.Decision) {
			if time.Sleep(decisionMS * time.Millisecond); s.Slot == stallsAt {
				time.Sleep(stallS * time.Second)
			}
		}
		r.OnIteration = func(report leader.LoopReport) { reports = append(reports, report) }
		f := r.FlyToSlot(stallsAt + 10)
		f.Kill()
		c = r.Config
	})
	return c, reports
}

// While the loop stalls it reports nothing, no watchdog notification is sent and health is 503;
// both come back with it.
func TestMonitor(t *testing.T) {
	c, reports := flightReports(t)
	manager, getenv := newSystemdSocket(t)
	c.MetricsPort = freePort(t)
	var now clock.Manual
	m, err := monitor.New(&c, &now, getenv, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if code, text := get(t, c.MetricsPort, "/healthz"); code != 503 || !strings.Contains(text, "starting") {
		t.Errorf("before the loop: %d %s", code, text)
	}
	if _, page := get(t, c.MetricsPort, "/metrics"); sampleValue(t, page, `prefdt_up{fleet="test",mission="mission-1"}`) != 0 {
		t.Error(page)
	}
	manager.received(t)
	var sent []string
	feed := func(r leader.LoopReport) {
		now.Advance(r.At - now.Now())
		for range 100 { // a process that is preempted in it sends none
			m.OnIteration(r)
			messages := manager.received(t)
			if sent = append(sent, messages...); holds(messages, "WATCHDOG=1") {
				return
			}
		}
		t.Fatal("no watchdog notification for a report")
	}
	stalled := 0
	for stalled+1 < len(reports) && reports[stalled+1].At-reports[stalled].At < (stallS-1)*time.Second {
		stalled++
	}
	if stalled+1 == len(reports) {
		t.Fatal("the loop reported while it hung")
	}
	for _, r := range reports[:stalled+1] {
		feed(r)
	}
	if !holds(sent, "READY=1") || !holds(sent, "WATCHDOG_USEC=3000000") {
		t.Errorf("%q, of a loop that runs", sent[0])
	}
	if code, text := get(t, c.MetricsPort, "/healthz"); code != 200 || !strings.Contains(text, "flying, slot") {
		t.Errorf("in flight: %d %s", code, text)
	}
	now.Advance(4 * time.Second)
	time.Sleep(300 * time.Millisecond) // for who would send all the same
	if messages := manager.received(t); len(messages) > 0 {
		t.Errorf("of a loop that stalls: %q", messages)
	}
	if code, _ := get(t, c.MetricsPort, "/healthz"); code != 503 {
		t.Errorf("stalled, it is reported with %d", code)
	}
	_, page := get(t, c.MetricsPort, "/metrics")
	for name, want := range map[string]float64{
		"prefdt_slots": 100000, `prefdt_state{state="flying"}`: 1, `prefdt_state{state="idle"}`: 0, "prefdt_missed_slots": 0,
		"prefdt_broker_connected":                          1,
		`prefdt_envelope_interventions_total{kind="held"}`: 0, `prefdt_mqtt_dropped_total{queue="reports"}`: 0,
		"prefdt_slot": stallsAt, "prefdt_reports_heard_total": 4 * stallsAt, "prefdt_decision_ms_count": stallsAt,
		"prefdt_decision_ms_sum": decisionMS * stallsAt,
	} {
		if got := sampleValue(t, page, name); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	for _, name := range []string{
		"prefdt_spent_joules", "prefdt_floor_joules", "prefdt_setpoints_total",
		`prefdt_aircraft_battery{aircraft="1"}`,
		`prefdt_aircraft_spent_joules{aircraft="1",source="energy_consumed"}`,
	} {
		if sampleValue(t, page, name) <= 0 {
			t.Errorf("%s is not above 0", name)
		}
	}
	if !strings.Contains(page, "prefdt_budget_joules NaN") {
		t.Error("a budget that was not requested")
	}
	feed(reports[stalled+1])
	if code, text := get(t, c.MetricsPort, "/healthz"); code != 200 {
		t.Errorf("after the stall: %d %s", code, text)
	}
	m.Close()
	if messages := manager.received(t); !holds(messages, "STOPPING=1") {
		t.Errorf("it stops, and sent %q", messages)
	}
}

// A boot does not wait for the broker: the service is started once its configuration is read,
// and has no watchdog before its loop begins.
func TestReadyBeforeTheBroker(t *testing.T) {
	manager, getenv := newSystemdSocket(t)
	c := config.Defaults()
	c.SlotMS, c.MetricsPort = 100, 0
	m, err := monitor.New(&c, clock.New(), getenv, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if messages := manager.received(t); !holds(messages, "READY=1") || !holds(messages, "WATCHDOG_USEC=0") {
		t.Errorf("it is not started before it has a broker: %q", messages)
	}
}

func TestMonitorRefuses(t *testing.T) {
	_, getenv := newSystemdSocket(t)
	c := config.Defaults()
	if _, err := monitor.New(&c, clock.New(), func(key string) string {
		if key == "WATCHDOG_USEC" {
			return "2000000"
		}
		return getenv(key)
	}, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "at least three slots, 3s") {
		t.Errorf("a watchdog of two slots: %v", err)
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	c.MetricsPort = taken.Addr().(*net.TCPAddr).Port
	var log strings.Builder
	m, err := monitor.New(&c, clock.New(), func(string) string { return "" }, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil || !strings.Contains(log.String(), fmt.Sprint(c.MetricsPort)) {
		t.Fatalf("a port in use keeps the leader from flying, or is not told: %v, %s", err, &log)
	}
	m.Close()
}
