package fly

import (
	"context"
	"encoding/csv"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"prefdt/simbridge/simnet"
	"prefdt/telemetry"
)

// Two autopilots on serial lines, whose bytes are cut anywhere, and two on UDP fly the same mission to the same decisions,
// at the same time.
func TestSerialFliesAsUDP(t *testing.T) {
	t.Parallel()
	const slots = 12
	var tables [2][]map[string]float64
	var decided [2]map[string]telemetry.Decision
	t.Run("flights", func(t *testing.T) {
		for k, kind := range []string{"UDP", "serial"} {
			t.Run(kind, func(t *testing.T) {
				simnet.Test(t, func(t *testing.T) { tables[k], decided[k] = flyOver(t, kind == "serial", slots) })
			})
		}
	})
	if t.Failed() {
		return
	}
	farthestM, differ, offloadDiff := 0.0, 0, 0.0
	for n := range tables[0] {
		for _, i := range []string{"1", "2"} {
			u, s := tables[0][n], tables[1][n]
			farthestM = max(farthestM, math.Hypot(u["east_m_"+i]-s["east_m_"+i], u["north_m_"+i]-s["north_m_"+i]))
		}
	}
	for key, u := range decided[0] {
		s, ok := decided[1][key]
		if !ok || u.Aircraft != s.Aircraft {
			differ++
			continue
		}
		offloadDiff = max(offloadDiff, math.Abs(u.Offload-s.Offload))
	}
	t.Logf("%d decisions, of which %d differ; offload differs by %.5f at most, positions by %.2f m", len(decided[0]), differ,
		offloadDiff, farthestM)
	if len(decided[0]) != len(decided[1]) || len(decided[0]) < slots*4 || 20*differ > len(decided[0]) || offloadDiff > 0.02 ||
		farthestM > 2 {
		t.Error("want the same decisions but for one near a tie in twenty, and positions within two metres")
	}
}

// flyOver flies a mission over UDP or serial ports, and returns its slots and decisions.
func flyOver(t *testing.T, serial bool, slots int) (table []map[string]float64, decided map[string]telemetry.Decision) {
	t.Helper()
	c := flightInMemory(t, slots)
	if serial {
		var endpoints []string
		for i := range c.Aircraft {
			line := fmt.Sprintf("line-%d", i+1)
			c.network.Cable(line, fmt.Sprintf("autopilot-%d", i+1), "leader")
			c.Aircraft[i] = AircraftConfig{SystemID: i + 1, Serial: line + ":921600"}
			endpoints = append(endpoints, "serial:"+line+":921600")
		}
		c.leadBy(t, slots, endpoints)
	}
	c.Users.ReportLoss = 0
	c.Commands[0].Args = []string{"preference", "-setting", "0.6"} // a budget would feed each flight's noise back
	decisions := collectDecisions(t, c)
	s := flySummary(t, c)
	decided = decisions()
	table = readTable(t, filepath.Join(c.Out, "slots.csv"))
	if s.Slots != slots || s.MissedSlots > 0 || s.Tasks.ByDecision != s.Tasks.Total {
		t.Errorf("serial %v: %d slots, %d missed, tasks %+v", serial, s.Slots, s.MissedSlots, s.Tasks)
	}
	for _, a := range s.Aircraft {
		if a.MalformedFrames != 0 || a.SetpointsRefused != 0 || a.Setpoints < 10*slots {
			t.Errorf("serial %v: %+v", serial, a)
		}
	}
	checkLatency(t, c, s.Latency.DecisionMS.P50, slots)
	return table, decided
}

// collectDecisions collects the decisions of a flight, by slot and user, which its function returns when the flight is over.
func collectDecisions(t *testing.T, c Config) func() map[string]telemetry.Decision {
	var mutex sync.Mutex
	decisions := map[string]telemetry.Decision{}
	end := listen(t, c, func(user string, d telemetry.Decision) {
		mutex.Lock()
		defer mutex.Unlock()
		decisions[fmt.Sprintf("%d %s", d.Slot, user)] = d
	})
	return func() map[string]telemetry.Decision {
		end()
		return decisions
	}
}

// listen calls a function with each decision of a flight, until its own is called.
func listen(t *testing.T, c Config, handle func(user string, d telemetry.Decision)) (end func()) {
	topics, err := telemetry.NewTopics(c.Fleet)
	if err != nil {
		t.Fatal(err)
	}
	client := &telemetry.Client{
		Broker: c.at(telemetry.Broker{URL: "tcp://" + c.Broker.Listen}, "listener"), Name: "listener", Retry: 20 * time.Millisecond,
		Log: slog.New(slog.DiscardHandler), Subscriptions: []telemetry.Subscription{{Filter: topics.AllDecisions(), QoS: 1}},
		Handle: func(m telemetry.Message) {
			_, user, _ := topics.Parse(m.Topic)
			if d, err := telemetry.DecodeDecision(m.Payload); err == nil {
				handle(user, d)
			}
		},
	}
	ready := make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	go func() { ready <- client.Initialize(ctx) }()
	return func() {
		cancel()
		if <-ready == nil {
			client.Close()
		}
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
	const jitterMS = 1 // of the network
	if p50 < 400-jitterMS || p50 > 400+5 {
		t.Errorf("decisions come %v ms after their beacon", p50)
	}
}
