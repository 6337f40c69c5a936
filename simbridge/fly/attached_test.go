package fly

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"prefdt/simbridge/autopilot"
	"prefdt/simbridge/battery"
	"prefdt/simbridge/report"
	"prefdt/simbridge/world"
)

// startAttached starts autopilots that measure nothing themselves and stand for PX4's
// own simulation, with clocks at the given rates, and a flight around them. die
// ends one as a crash of its process does.
func startAttached(t *testing.T, slots int, rates ...float64) (c Config, flown []*autopilot.Autopilot, die func(i int)) {
	t.Helper()
	var links, endpoints []string
	for range rates {
		links = append(links, freeAddress(t))
		endpoints = append(endpoints, "udp-listen:"+links[len(links)-1])
	}
	station := freeAddress(t)
	c = realConfig(t, slots, 5, endpoints)
	once := make([]sync.Once, len(rates))
	die = func(i int) { once[i].Do(flown[i].Close) }
	for i, rate := range rates {
		c.Aircraft = append(c.Aircraft, AircraftConfig{SystemID: i + 1, Listen: "127.0.0.1:0"})
		conf := c.autopilotConfig(i, world.NewScenario(&c.World, c.Seed))
		conf.Partner, conf.SecondLink, conf.Battery = links[i], station, battery.Fields{}
		conf.Speed *= rate
		a := &autopilot.Autopilot{Config: conf}
		if err := a.Initialize(); err != nil {
			t.Fatal(err)
		}
		flown = append(flown, a)
		t.Cleanup(func() { die(i) })
		c.Aircraft[i].Listen, c.Aircraft[i].Attach = "", station
	}
	return c, flown, die
}

// The bridge follows what the autopilots send, and the leader flies on the
// battery that it injects. The clock of one runs slow, as PX4's simulation did
// beside a busy machine: its joules are counted by it, here and in the leader.
func TestAttachedAutopilots(t *testing.T) {
	t.Parallel()
	const slots = 12
	rates := []float64{0.985, 1}
	c, flown, _ := startAttached(t, slots, rates...)
	s := flySummary(t, c)
	if s.Slots+s.MissedSlots != slots || s.MissedSlots > slots/4 || s.RepeatedSlots > 0 || s.LeaderMissedSlots != s.MissedSlots || !s.Landed {
		t.Errorf("flew %d slots, missed %d (the leader says %d), repeated %d, landed %v", s.Slots, s.MissedSlots, s.LeaderMissedSlots, s.RepeatedSlots, s.Landed)
	}
	if s.EnergySource != "current_voltage" {
		t.Errorf("the leader counts by %s, want current_voltage: PX4 passes no energy_consumed on", s.EnergySource)
	}
	// The bridge's battery, from what it receives at 20 Hz, is the vehicle's own. By
	// the wall's clock it would be 1.5 % more.
	truth := 0.0
	for i, a := range flown {
		own := a.State().Spent.FlightJ
		bridge := s.Aircraft[i].FlightJ + s.Aircraft[i].TransitJ
		truth += bridge + s.Aircraft[i].EdgeJ
		t.Logf("aircraft %d drew %.0f J, the bridge says %.0f; its clock runs at %.4f", i+1, own, bridge, s.Aircraft[i].ClockRate)
		if math.Abs(own-bridge) > 0.005*own {
			t.Errorf("aircraft %d drew %v J, the bridge says %v", i+1, own, bridge)
		}
	}
	all := s.Budget.LeaderSpentJ + s.Budget.LeaderTransitJ
	t.Logf("leader %.0f J, bridge %.0f J", all, truth)
	if math.Abs(all-truth) > 0.01*truth {
		t.Errorf("the leader counts %v J of %v", all, truth)
	}
}

// An instance that dies in flight is named; the others fly the mission to its
// end, and it is reported.
func TestDeadInstanceIsNamedAndReported(t *testing.T) {
	t.Parallel()
	const slots = 30
	c, flown, die := startAttached(t, slots, 1, 1)
	ended := make(chan struct{})
	go func() {
		for flown[1].State().Mode != autopilot.ModeOffboard {
			select {
			case <-ended:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
		die(1)
	}()
	var out bytes.Buffer
	err := Run(context.Background(), c, &out)
	close(ended)
	const who = "aircraft 2 (PX4 system 2)"
	if err == nil || !strings.Contains(err.Error(), who) || strings.Contains(err.Error(), "aircraft 1") {
		t.Errorf("error %v, want one that names %s alone\n%s", err, who, out.String())
	}
	raw, err := os.ReadFile(filepath.Join(c.Out, "summary.json"))
	if err != nil {
		t.Fatal(err)
	}
	var s report.Summary
	if err := json.Unmarshal(raw, &s); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(s.Failure, who) || s.Aircraft[0].Lost || !s.Aircraft[1].Lost {
		t.Errorf("failure %q, aircraft %+v", s.Failure, s.Aircraft)
	}
	if s.State != "done" || s.Slots+s.MissedSlots != slots || s.MissedSlots > slots/4 {
		t.Errorf("%s after %d slots, %d missed", s.State, s.Slots, s.MissedSlots)
	}
}

// One that dies before the mission ends the flight at once.
func TestDeadInstanceBeforeTheStart(t *testing.T) {
	t.Parallel()
	c, _, die := startAttached(t, 12, 1, 1)
	c.Leader.Command = []string{"sh", "-c", "exec sleep 60"} // never ready
	waits := &triggerWriter{text: "waiting for the leader", then: func() { die(0) }}
	err := Run(context.Background(), c, waits)
	if err == nil || !strings.Contains(err.Error(), "aircraft 1 (PX4 system 1)") {
		t.Errorf("error %v, want one that names the dead aircraft", err)
	}
	if _, err := os.Stat(filepath.Join(c.Out, "summary.json")); err == nil {
		t.Error("a mission that never began has a summary")
	}
}

// triggerWriter acts once a text is written to it.
type triggerWriter struct {
	text string
	then func()
	once sync.Once
}

func (s *triggerWriter) Write(p []byte) (int, error) {
	if strings.Contains(string(p), s.text) {
		s.once.Do(func() { go s.then() })
	}
	return len(p), nil
}

// Where all have died there is nothing left to wait for.
func TestAllInstancesDead(t *testing.T) {
	t.Parallel()
	c, flown, die := startAttached(t, 300, 1)
	ended := make(chan struct{})
	go func() {
		for flown[0].State().Mode != autopilot.ModeOffboard {
			select {
			case <-ended:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
		time.Sleep(2 * time.Second) // in the slots
		die(0)
	}()
	err := Run(context.Background(), c, &bytes.Buffer{})
	close(ended)
	if err == nil || !strings.Contains(err.Error(), "aircraft 1 (PX4 system 1)") {
		t.Errorf("error %v, want one that names the dead aircraft", err)
	}
}
