package monitor_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"prefdt/configs/freeport"
	"prefdt/firmware/clock"
	"prefdt/firmware/config"
	"prefdt/firmware/leader"
	"prefdt/firmware/monitor"
	"prefdt/inference/goal"
	"prefdt/inference/slot"
	"prefdt/simbridge/rig"
)

// stallable is a scheduler that can be made to hang, and the loop with it.
type stallable struct {
	leader.Scheduler
	gate    chan struct{} // closed: no stall; open: hangs until closed
	at      int           // in this slot
	stalled func()        // called when it hangs
}

func (s *stallable) Decide(sn *slot.Snapshot, o goal.Objective, d *slot.Decision) goal.Observation {
	if sn.Slot >= s.at {
		s.stalled()
		<-s.gate
	}
	return s.Scheduler.Decide(sn, o, d)
}

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
		return map[string]string{"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "1000000"}[key]
	}
}

// waitForLine waits for a line of a notification.
func (m systemdSocket) waitForLine(line string, most time.Duration) bool {
	b := make([]byte, 4096)
	m.conn.SetReadDeadline(time.Now().Add(most))
	for {
		n, err := m.conn.Read(b)
		if err != nil {
			return false
		}
		if strings.Contains("\n"+string(b[:n])+"\n", "\n"+line) {
			return true
		}
	}
}

// While the loop stalls no watchdog notification is sent and health is 503; both come
// back with it.
func TestMonitor(t *testing.T) {
	r := rig.New(t, 1, 100000)
	manager, getenv := newSystemdSocket(t)
	hangs := make(chan struct{})
	s := &stallable{&rig.AllowanceScheduler{Physics: r.Physics}, make(chan struct{}), 12, sync.OnceFunc(func() { close(hangs) })}
	r.Policy = s
	port := freePort(t)
	r.Config.MetricsPort = port
	m, err := monitor.New(&r.Config, r.Clock, getenv)
	if err != nil {
		t.Fatal(err)
	}
	r.OnIteration = m.OnIteration
	if code, text := get(t, port, "/healthz"); code != 503 || !strings.Contains(text, "starting") {
		t.Errorf("before the loop: %d %s", code, text)
	}
	if _, page := get(t, port, "/metrics"); sampleValue(t, page, `prefdt_up{fleet="test",mission="mission-1"}`) != 0 {
		t.Error(page)
	}
	f := r.StartLeader()
	if !manager.waitForLine("READY=1", rig.Timeout) || !manager.waitForLine("WATCHDOG=1", rig.Timeout) {
		t.Fatal("not ready")
	}
	r.TakeOff()
	r.Await("slot 5", rig.SlotSettled(5))
	if code, text := get(t, port, "/healthz"); code != 200 || !strings.Contains(text, "flying, slot") {
		t.Errorf("in flight: %d %s", code, text)
	}
	select {
	case <-hangs:
	case <-time.After(rig.Timeout):
		t.Fatal("it never came to slot 12")
	}
	for manager.waitForLine("WATCHDOG=1", 200*time.Millisecond) { // sent before it stalled in slot 12, or a later one
	}
	if manager.waitForLine("WATCHDOG=1", time.Second) {
		t.Error("a stalled loop fed its watchdog")
	}
	if !rig.Eventually(func() bool { code, _ := get(t, port, "/healthz"); return code == 503 }) {
		t.Error("stalled, it is reported as healthy")
	}
	_, page := get(t, port, "/metrics")
	stalled, missed := sampleValue(t, page, "prefdt_slot"), sampleValue(t, page, "prefdt_missed_slots")
	if stalled < 12 || missed > stalled-2 {
		t.Errorf("it stalls in slot %v, %v missed", stalled, missed)
	}
	for name, want := range map[string]float64{
		"prefdt_slots": 100000, `prefdt_state{state="flying"}`: 1, `prefdt_state{state="idle"}`: 0,
		"prefdt_broker_connected":                          1,
		`prefdt_envelope_interventions_total{kind="held"}`: 0, `prefdt_mqtt_dropped_total{queue="reports"}`: 0,
	} {
		if got := sampleValue(t, page, name); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	// A busy machine decides some of the slots that it opened too late for any report.
	if got := sampleValue(t, page, "prefdt_decision_ms_count"); got < 4 || got > stalled-missed {
		t.Errorf("%v decisions in %v slots", got, stalled-missed)
	}
	if got := sampleValue(t, page, "prefdt_reports_heard_total"); got < 4 || got > 4*(stalled-missed) {
		t.Errorf("%v reports were received in %v slots", got, stalled-missed)
	}
	for _, name := range []string{
		"prefdt_spent_joules", "prefdt_floor_joules", "prefdt_setpoints_total", "prefdt_decision_ms_sum",
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
	close(s.gate)
	if !manager.waitForLine("WATCHDOG=1", rig.Timeout) {
		t.Error("no notification after the stall")
	}
	f.Kill()
	m.Close()
	if !manager.waitForLine("STOPPING=1", rig.Timeout) {
		t.Error("it did not report that it stops")
	}
}

// A boot does not wait for the broker: the service is started once its configuration is read,
// and has no watchdog before its loop begins.
func TestReadyBeforeTheBroker(t *testing.T) {
	manager, getenv := newSystemdSocket(t)
	c := config.Defaults()
	c.SlotMS, c.MetricsPort = 100, 0
	m, err := monitor.New(&c, clock.New(), getenv)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if !manager.waitForLine("READY=1\nWATCHDOG_USEC=0", 30*time.Second) {
		t.Error("it is not started before it has a broker")
	}
}

// A restarted leader that waits for the first message of its aircraft feeds its
// watchdog.
func TestWatchdogIsFedWhileRejoining(t *testing.T) {
	r := rig.New(t, 2, 100000)
	f := r.FlyToSlot(3)
	r.AwaitSaved()
	f.Kill()
	r.CloseAutopilot(0)
	r.CloseAutopilot(1)
	manager, getenv := newSystemdSocket(t)
	m, err := monitor.New(&r.Config, r.Clock, getenv)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	r.OnIteration = m.OnIteration
	f = r.StartLeader()
	for fed := range 20 {
		if !manager.waitForLine("WATCHDOG=1", rig.Timeout) {
			t.Fatalf("silent after %d signs of life", fed)
		}
	}
	f.Kill()
}

func TestMonitorRefuses(t *testing.T) {
	_, getenv := newSystemdSocket(t)
	c := config.Defaults()
	if _, err := monitor.New(&c, clock.New(), func(key string) string {
		if key == "WATCHDOG_USEC" {
			return "2000000"
		}
		return getenv(key)
	}); err == nil || !strings.Contains(err.Error(), "at least three slots, 3s") {
		t.Errorf("a watchdog of two slots: %v", err)
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	c.MetricsPort = taken.Addr().(*net.TCPAddr).Port
	if _, err := monitor.New(&c, clock.New(), func(string) string { return "" }); err == nil ||
		!strings.Contains(err.Error(), fmt.Sprint(c.MetricsPort)) {
		t.Errorf("a port in use: %v", err)
	}
}
