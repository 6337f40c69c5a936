package fly

import (
	"bytes"
	"context"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"prefdt/simbridge/autopilot"
	"prefdt/simbridge/battery"
	"prefdt/simbridge/simnet"
	"prefdt/simbridge/world"
)

// instance is an autopilot in place of a running one: PX4's own simulation, which measures
// nothing itself, or ArduCopter's, which measures its own battery. rate is its clock's.
type instance struct {
	rate   float64
	copter bool
}

// startAttached starts instances, and a flight around them. die ends one as a crash of its
// process does.
func startAttached(t *testing.T, slots int, instances ...instance) (c Config, flown []*autopilot.Autopilot, die func(i int)) {
	t.Helper()
	c = leaderConfig(t)
	c.inMemory()
	c.leadBy(t, slots, c.udpAircraft(t, len(instances)))
	station := c.network.FreeAddress()
	once := make([]sync.Once, len(instances))
	die = func(i int) { once[i].Do(flown[i].Close) }
	for i, in := range instances {
		conf := c.autopilotConfig(i, world.NewScenario(&c.World, c.Seed))
		conf.SecondLink, conf.Copter = station, in.copter
		relay := [2]string{c.network.FreeAddress(), conf.Partner}
		conf.Partner = relay[0]
		if !in.copter {
			conf.Battery = battery.Fields{}
		}
		conf.Speed *= in.rate
		a := &autopilot.Autopilot{Config: conf}
		if err := a.Initialize(); err != nil {
			t.Fatal(err)
		}
		flown = append(flown, a)
		t.Cleanup(func() { die(i) })
		c.Aircraft[i] = AircraftConfig{SystemID: i + 1, Attach: station, Relay: relay}
	}
	return c, flown, die
}

// The bridge follows what the autopilots send. PX4 flies on the battery that it injects,
// ArduCopter on its own. The clock of one runs slow, as PX4's simulation did beside a busy
// machine: its joules are counted by it, here and in the leader.
func TestAttachedAutopilots(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		instances []instance
		source    string // the fleet's worst
	}{
		"px4":       {[]instance{{rate: 0.985}, {rate: 1}}, "current_voltage"}, // PX4 passes no energy_consumed on
		"ardupilot": {[]instance{{0.985, true}, {1, true}}, "energy_consumed"},
		"mixed":     {[]instance{{rate: 1}, {1, true}}, "current_voltage"},
	} {
		t.Run(name, func(t *testing.T) {
			simnet.Test(t, func(t *testing.T) { flyAttached(t, c.source, c.instances...) })
		})
	}
}

func flyAttached(t *testing.T, source string, instances ...instance) {
	const slots = 12
	c, flown, _ := startAttached(t, slots, instances...)
	s := flySummary(t, c)
	if s.Slots+s.MissedSlots != slots || s.MissedSlots > slots/4 || s.RepeatedSlots > 0 || s.LeaderMissedSlots != s.MissedSlots ||
		!s.Landed {
		t.Errorf("flew %d slots, missed %d (the leader says %d), repeated %d, landed %v",
			s.Slots, s.MissedSlots, s.LeaderMissedSlots, s.RepeatedSlots, s.Landed)
	}
	if s.EnergySource != source {
		t.Errorf("the leader counts by %s, want %s", s.EnergySource, source)
	}
	// The bridge's joules, from what it receives at 20 Hz, are the vehicle's own. By
	// the wall's clock they would be 1.5 % more.
	truth, resolution := 0.0, 0.0
	for i, a := range flown {
		own, x := a.State().Spent.FlightJ, s.Aircraft[i]
		bridge := x.FlightJ + x.TransitJ
		truth += bridge + x.EdgeJ
		t.Logf("aircraft %d drew %.0f J, the bridge says %.0f; %.0f J of computing are in them, %.0f not; its clock runs at %.4f",
			i+1, own, bridge, x.EdgeJ, x.UndrawnEdgeJ, x.ClockRate)
		if math.Abs(own-bridge) > 0.005*own {
			t.Errorf("aircraft %d drew %v J, the bridge says %v", i+1, own, bridge)
		}
		if x.OwnBattery != instances[i].copter || (x.EdgeJ > 0) == x.OwnBattery || (x.UndrawnEdgeJ > 0) != x.OwnBattery {
			t.Errorf("aircraft %d, an ArduCopter: %v, is reported as %+v", i+1, instances[i].copter, x)
		}
		if drawn := x.PackJ - x.LeftJ; !instances[i].copter && (x.PackJ == 0 || math.Abs(drawn-bridge-x.EdgeJ) > 1) {
			t.Errorf("aircraft %d has %v J of %v left, and drew %v", i+1, x.LeftJ, x.PackJ, bridge+x.EdgeJ)
		}
		if instances[i].copter {
			resolution += 100 // of energy_consumed, J
		}
	}
	all := s.Budget.LeaderSpentJ + s.Budget.LeaderTransitJ
	t.Logf("leader %.0f J, bridge %.0f J", all, truth)
	if math.Abs(all-truth) > 0.01*truth+resolution {
		t.Errorf("the leader counts %v J of %v", all, truth)
	}
}

// An instance that dies in flight is named; the others fly the mission to its
// end, and it is reported.
func TestDeadInstanceIsNamedAndReported(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		const slots = 30
		c, flown, die := startAttached(t, slots, instance{rate: 1}, instance{rate: 1})
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
		s := readSummary(t, c)
		if !strings.Contains(s.Failure, who) || s.Aircraft[0].Lost || !s.Aircraft[1].Lost {
			t.Errorf("failure %q, aircraft %+v", s.Failure, s.Aircraft)
		}
		if s.State != "done" || s.Slots+s.MissedSlots != slots || s.MissedSlots > slots/4 {
			t.Errorf("%s after %d slots, %d missed", s.State, s.Slots, s.MissedSlots)
		}
	})
}

// One that dies before the mission ends the flight at once.
func TestDeadInstanceBeforeTheStart(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		c, _, die := startAttached(t, 12, instance{rate: 1}, instance{rate: 1})
		c.Leader = LeaderConfig{} // none ever comes
		waits := &triggerWriter{text: "waiting for the leader", then: func() { die(0) }}
		err := Run(context.Background(), c, waits)
		if err == nil || !strings.Contains(err.Error(), "aircraft 1 (PX4 system 1)") {
			t.Errorf("error %v, want one that names the dead aircraft", err)
		}
		if _, err := os.Stat(filepath.Join(c.Out, "summary.json")); err == nil {
			t.Error("a mission that never began has a summary")
		}
	})
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
	simnet.Test(t, func(t *testing.T) {
		c, flown, die := startAttached(t, 300, instance{rate: 1})
		ended := make(chan struct{})
		go func() {
			for flown[0].State().Mode != autopilot.ModeOffboard {
				select {
				case <-ended:
					return
				case <-time.After(20 * time.Millisecond):
				}
			}
			time.Sleep(10 * time.Second) // in the slots
			die(0)
		}()
		err := Run(context.Background(), c, &bytes.Buffer{})
		close(ended)
		if err == nil || !strings.Contains(err.Error(), "aircraft 1 (PX4 system 1)") {
			t.Errorf("error %v, want one that names the dead aircraft", err)
		}
	})
}
