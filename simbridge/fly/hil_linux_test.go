package fly

import (
	"context"
	"encoding/csv"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"prefdt/telemetry"
)

// nullModem is two serial ports with a cable between them: two ptys whose
// masters are joined. It returns the ports' devices. As on a cable, what nobody reads at one end is
// lost: the other end would block in a write for ever otherwise, and could not be closed.
func nullModem(t *testing.T) (a, b string) {
	t.Helper()
	var masters []int
	var cables sync.WaitGroup
	done := make(chan struct{})
	var slaves []string
	for range 2 {
		master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
		if err != nil {
			t.Skipf("no pseudo terminals here: %v", err)
		}
		fd := int(master.Fd())
		n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
			t.Fatal(err)
		}
		name := fmt.Sprintf("/dev/pts/%d", n)
		// Raw, and held open: without a reader a slave's line discipline echoes,
		// and a master whose slave is closed reads an error.
		slave, err := os.OpenFile(name, os.O_RDWR|unix.O_NOCTTY, 0)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS)
		if err != nil {
			t.Fatal(err)
		}
		raw.Iflag, raw.Oflag, raw.Lflag = 0, 0, 0
		if err := unix.IoctlSetTermios(int(slave.Fd()), unix.TCSETS, raw); err != nil {
			t.Fatal(err)
		}
		if err := unix.SetNonblock(fd, true); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { slave.Close(); master.Close() })
		masters, slaves = append(masters, fd), append(slaves, name)
	}
	cable := func(from, to int) {
		buffer := make([]byte, 4096)
		for {
			select {
			case <-done:
				return
			default:
			}
			unix.Poll([]unix.PollFd{{Fd: int32(from), Events: unix.POLLIN}}, 100)
			if n, err := unix.Read(from, buffer); err == nil && n > 0 {
				unix.Write(to, buffer[:n])
			}
		}
	}
	cables.Go(func() { cable(masters[0], masters[1]) })
	cables.Go(func() { cable(masters[1], masters[0]) })
	t.Cleanup(func() { close(done); cables.Wait() }) // before the ports are closed
	return slaves[0], slaves[1]
}

// A port whose other end nobody reads takes all that is written to it, and is closed at once.
func TestNullModemLosesWhatNobodyReads(t *testing.T) {
	a, _ := nullModem(t)
	port, err := os.OpenFile(a, os.O_WRONLY|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer port.Close()
	written := make(chan error, 1)
	go func() {
		_, err := port.Write(make([]byte, 1<<20))
		written <- err
	}()
	select {
	case err := <-written:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the write blocks")
	}
}

// Two autopilots on serial ports and two on UDP fly the same mission to the
// same decisions, at the same time. The flights are real in time, so positions differ by
// centimetres to a metre, and a choice near a tie may fall otherwise.
func TestSerialFliesAsUDP(t *testing.T) { // not beside the others: two flights on time are compared
	const slots, slotM = 12, 12.0 // and how far an aircraft flies in one
	var tables [2][]map[string]float64
	var decided [2]map[string]telemetry.Decision
	t.Run("flights", func(t *testing.T) {
		for k, kind := range []string{"UDP", "serial"} {
			t.Run(kind, func(t *testing.T) {
				t.Parallel()
				tables[k], decided[k] = flyOver(t, kind == "serial", slots)
			})
		}
	})
	if t.Failed() {
		return
	}
	// The median counts: a slot whose beginning a busy machine observes late is one of many. Who missed a slot lags
	// behind by it from then on.
	var apartM []float64
	missed := 0
	for n := range tables[0] {
		if tables[0][n]["missed"] != tables[1][n]["missed"] {
			missed++
		}
		for _, i := range []string{"1", "2"} {
			u, s := tables[0][n], tables[1][n]
			if u["missed"] == 1 || s["missed"] == 1 {
				continue // missed: its beginning was not observed
			}
			apartM = append(apartM, math.Hypot(u["east_m_"+i]-s["east_m_"+i], u["north_m_"+i]-s["north_m_"+i]))
		}
	}
	same, both, offloadDiff := 0, 0, 0.0
	for key, u := range decided[0] {
		if s, ok := decided[1][key]; ok {
			both++
			if u.Aircraft == s.Aircraft {
				same++
				offloadDiff += math.Abs(u.Offload - s.Offload)
			}
		}
	}
	slices.Sort(apartM)
	medianM, wantM := apartM[len(apartM)/2], 3+slotM*float64(missed)
	t.Logf("%d of %d decisions for the same aircraft, offload differs by %.5f in the mean, positions by %.1f m in the median, %.1f at most",
		same, both, offloadDiff/float64(same), medianM, apartM[len(apartM)-1])
	if both < slots*4 || float64(same) < 0.93*float64(both) || offloadDiff > 0.02*float64(same) || medianM > wantM {
		t.Errorf("want 93 %% for the same aircraft, 0.02 and %v m", wantM)
	}
}

// flyOver flies a mission over UDP or serial ports, and returns its slots and decisions.
func flyOver(t *testing.T, serial bool, slots int) (table []map[string]float64, decided map[string]telemetry.Decision) {
	t.Helper()
	var aircraft []AircraftConfig
	var endpoints []string
	for i := range 2 {
		if serial {
			near, far := nullModem(t)
			aircraft = append(aircraft, AircraftConfig{SystemID: i + 1, Serial: near + ":921600"})
			endpoints = append(endpoints, "serial:"+far+":921600")
			continue
		}
		link := freeAddress(t)
		aircraft = append(aircraft, AircraftConfig{SystemID: i + 1, Listen: "127.0.0.1:0", Partner: link})
		endpoints = append(endpoints, "udp-listen:"+link)
	}
	c := realConfig(t, slots, 5, endpoints)
	c.Aircraft, c.Users.ReportLoss = aircraft, 0
	c.Commands[0].Args = []string{"preference", "-setting", "0.6"} // a budget would feed each flight's noise back
	decisions := collectDecisions(t, c)
	s := flySummary(t, c)
	decided = decisions()
	table = readTable(t, filepath.Join(c.Out, "slots.csv"))
	tasks := 0.0 // that could be decided, in slots that a beacon has opened
	for _, row := range table {
		if row["missed"] == 0 {
			tasks += row["tasks"]
		}
	}
	if s.Slots+s.MissedSlots != slots || s.MissedSlots > slots/4 || float64(s.Tasks.ByDecision) < 0.8*tasks {
		t.Fatalf("serial %v: %d slots, %d missed, tasks %+v", serial, s.Slots, s.MissedSlots, s.Tasks)
	}
	for _, a := range s.Aircraft {
		if a.MalformedFrames != 0 || a.SetpointsRefused != 0 || a.Setpoints < 8*slots {
			t.Errorf("serial %v: %+v", serial, a)
		}
	}
	checkLatency(t, c, s.Latency.DecisionMS.P50, slots-s.MissedSlots)
	return table, decided
}

// collectDecisions collects the decisions of a flight, by slot and user.
func collectDecisions(t *testing.T, c Config) func() map[string]telemetry.Decision {
	topics, err := telemetry.NewTopics(c.Fleet)
	if err != nil {
		t.Fatal(err)
	}
	var mutex sync.Mutex
	decisions := map[string]telemetry.Decision{}
	client := &telemetry.Client{
		Broker: telemetry.Broker{URL: "tcp://" + c.Broker.Listen}, Name: "listener", Retry: 20 * time.Millisecond,
		Log: slog.New(slog.DiscardHandler), Subscriptions: []telemetry.Subscription{{Filter: topics.AllDecisions(), QoS: 1}},
		Handle: func(m telemetry.Message) {
			_, user, _ := topics.Parse(m.Topic)
			if d, err := telemetry.DecodeDecision(m.Payload); err == nil {
				mutex.Lock()
				decisions[fmt.Sprintf("%d %s", d.Slot, user)] = d
				mutex.Unlock()
			}
		},
	}
	ready := make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	go func() { ready <- client.Initialize(ctx) }()
	return func() map[string]telemetry.Decision {
		cancel()
		if <-ready == nil {
			client.Close()
		}
		mutex.Lock()
		defer mutex.Unlock()
		return decisions
	}
}

// checkLatency holds latency.csv against the summary.
func checkLatency(t *testing.T, c Config, p50 float64, slots int) {
	t.Helper()
	f, err := os.Open(filepath.Join(c.Out, "latency.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil || len(rows) != slots+1 {
		t.Fatalf("%d rows of latencies, %v", len(rows), err)
	}
	// A decision cannot come before the report window closes.
	if p50 < 0.95*400/c.Speed || p50 > 1000/c.Speed {
		t.Errorf("decisions come %v ms after their beacon", p50)
	}
}
