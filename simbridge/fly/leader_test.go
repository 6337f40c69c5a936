package fly

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/bluenviron/gomavlib/v3"
	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"

	"prefdt/configs/built"
	"prefdt/simbridge/report"
	"prefdt/simbridge/simnet"
	"prefdt/telemetry"
	"prefdt/telemetry/command"
	"prefdt/telemetry/datagram"
)

// leaderConfig is a flight of our leader with the shipped checkpoint, of no aircraft yet. Climb and descent are
// fast, to be short.
func leaderConfig(t *testing.T) Config {
	c := Default()
	c.Fleet, c.Out, c.Speed, c.TimeoutS, c.noPictures = "test", t.TempDir(), 1, 3600, true
	c.Parameters = map[string]float64{
		"MPC_XY_VEL_MAX": 30, "MPC_XY_CRUISE": 12, "MPC_Z_VEL_MAX_UP": 12, "MPC_TKO_SPEED": 12, "MPC_Z_V_AUTO_DN": 10,
		"MPC_Z_VEL_MAX_DN": 10, "MPC_LAND_SPEED": 5, "MPC_LAND_ALT1": 20,
	}
	return c
}

// leadBy has our leader fly so many slots by the endpoints of its aircraft, with a budget within reach.
func (c *Config) leadBy(t *testing.T, slots int, endpoints []string) {
	t.Helper()
	checkpoint, err := filepath.Abs("../../configs/checkpoint")
	if err != nil {
		t.Fatal(err)
	}
	c.Commands = []Command{{Slot: -1, Args: []string{"budget", "-energy", fmt.Sprint(380 * slots)}},
		{Slot: -1, Args: []string{"mission", "start"}}}
	text := fmt.Sprintf("checkpoint: %s\nslots: %d\nslot_ms: %v\nreport_by_ms: %v\ndecide_by_ms: %v\nexit_when_done: true\n"+
		"origin: {latitude_deg: %v, longitude_deg: %v, amsl_m: %v}\naircraft:\n",
		checkpoint, slots, 1000/c.Speed, 400/c.Speed, 700/c.Speed, c.Origin.LatDeg, c.Origin.LonDeg, c.Origin.AltM)
	for i, e := range endpoints {
		text += fmt.Sprintf("  - {system_id: %d, endpoint: %q}\n", i+1, e)
	}
	path := filepath.Join(c.Out, "template.yaml")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	c.Leader.Command, c.Leader.Config = []string{"leader"}, path
}

// udpAircraft adds aircraft on UDP, and returns the endpoints of their leader.
func (c *Config) udpAircraft(t *testing.T, n int) (endpoints []string) {
	t.Helper()
	for range n {
		var link string
		if c.network != nil {
			link = c.network.FreeAddress()
		} else {
			link = freeAddress(t)
		}
		c.Aircraft = append(c.Aircraft, AircraftConfig{SystemID: len(c.Aircraft) + 1, Listen: "127.0.0.1:0", Partner: link})
		endpoints = append(endpoints, "udp-listen:"+link)
	}
	return endpoints
}

// flightInMemory is a flight of our leader with two aircraft, in a [simnet.Test].
func flightInMemory(t *testing.T, slots int) Config {
	t.Helper()
	c := leaderConfig(t)
	c.inMemory()
	c.leadBy(t, slots, c.udpAircraft(t, 2))
	return c
}

// program builds a program of this module.
func program(t *testing.T, of string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), filepath.Base(of))
	if err := built.Program(file, "prefdt/"+of); err != nil {
		t.Fatal(err)
	}
	return file
}

func flySummary(t *testing.T, c Config) report.Summary {
	t.Helper()
	var out bytes.Buffer
	if err := Run(context.Background(), c, &out); err != nil {
		log, _ := os.ReadFile(filepath.Join(c.Out, "leader.log"))
		t.Fatalf("%v\n%s\n%s", err, out.String(), log)
	}
	return readSummary(t, c)
}

// batteryMeter is an independent reader of BATTERY_STATUS on a monitor's link.
type batteryMeter struct {
	node  *gomavlib.Node
	mutex sync.Mutex
	// Joules by the counter, and by current x voltage over the time since the message before, by the autopilot's clock.
	countedJ, integratedJ float64
	bootS, batteryS       float64 // of the last position, and of the last BATTERY_STATUS
	messages              int
}

func newBatteryMeter(t *testing.T, n *simnet.Network, address string) *batteryMeter {
	m := &batteryMeter{node: &gomavlib.Node{
		Endpoints: []gomavlib.EndpointConf{datagram.Endpoint(n.Program("monitor").Socket, address)},
		Dialect:   common.Dialect, OutVersion: gomavlib.V2, OutSystemID: 255, HeartbeatDisable: true,
	}}
	if err := m.node.Initialize(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for e := range m.node.Events() {
			f, ok := e.(*gomavlib.EventFrame)
			if !ok {
				continue
			}
			m.mutex.Lock()
			switch b := f.Message().(type) {
			case *common.MessageGlobalPositionInt:
				m.bootS = float64(b.TimeBootMs) / 1000
			case *common.MessageBatteryStatus:
				m.messages++
				m.countedJ = 100 * float64(b.EnergyConsumed)
				m.integratedJ += float64(b.CurrentBattery) / 100 * float64(b.Voltages[0]) / 1000 * (m.bootS - m.batteryS)
				m.batteryS = m.bootS
			}
			m.mutex.Unlock()
		}
	}()
	t.Cleanup(func() { m.node.Close(); <-done })
	return m
}

// Joules are conserved from the world, by BATTERY_STATUS, to the account of the
// real leader: within that message's hectojoule for each aircraft.
func TestJoulesAreConserved(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		const (
			slots  = 14
			countJ = 100
			boundJ = 1 // of an aircraft: a slot begins when its beacon arrives
		)
		c := flightInMemory(t, slots)
		c.World.Shock.FromSlot, c.World.Shock.Factor = slots/2, 1.5
		c.Commands[0] = Command{Slot: -1, Args: []string{"budget", "-energy", fmt.Sprint(480 * slots)}} // which that leaves within reach
		var meters []*batteryMeter
		for i := range c.Aircraft {
			c.Aircraft[i].Monitor = c.network.FreeAddress()
			meters = append(meters, newBatteryMeter(t, c.network, c.Aircraft[i].Monitor))
		}
		s := flySummary(t, c)
		if s.Slots != slots || s.MissedSlots > 0 || !s.Landed || s.EnergySource != "energy_consumed" {
			t.Errorf("flew %d slots, missed %d, landed %v, by %s", s.Slots, s.MissedSlots, s.Landed, s.EnergySource)
		}
		if s.Budget.FlightJ < slots*2*130 || s.Budget.EdgeJ <= 0 {
			t.Errorf("flight %v J, edge %v J", s.Budget.FlightJ, s.Budget.EdgeJ)
		}
		for i, m := range meters {
			a := s.Aircraft[i]
			truth := a.FlightJ + a.EdgeJ + a.TransitJ
			m.mutex.Lock()
			if d := truth - m.countedJ; d < 0 || d > countJ {
				t.Errorf("aircraft %d: energy_consumed says %v J of %v", i+1, m.countedJ, truth)
			}
			if d := math.Abs(truth - m.integratedJ); d > 0.01*truth+countJ { // which positions tell to a tenth of a second
				t.Errorf("aircraft %d: current x voltage says %v J of %v", i+1, m.integratedJ, truth)
			}
			t.Logf("aircraft %d: counter %+.1f J, current x voltage %+.1f J of %.0f", i+1, m.countedJ-truth, m.integratedJ-truth, truth)
			if m.messages < 4*slots {
				t.Errorf("aircraft %d: %d messages", i+1, m.messages)
			}
			m.mutex.Unlock()
		}
		n := float64(len(meters))
		if d := s.Budget.LeaderSpentJ - s.Budget.SpentJ; math.Abs(d) > n*(countJ+boundJ) {
			t.Errorf("the leader counts %v J in the slots, the world %v", s.Budget.LeaderSpentJ, s.Budget.SpentJ)
		}
		all, truth := s.Budget.LeaderSpentJ+s.Budget.LeaderTransitJ, s.Budget.SpentJ+s.Budget.TransitJ
		if d := all - truth; math.Abs(d) > n*countJ {
			t.Errorf("the leader counts %v J in all, the world %v", all, truth)
		}
		t.Logf("slots: leader %+.1f J of %.0f; in all %+.1f J of %.0f", s.Budget.LeaderSpentJ-s.Budget.SpentJ, s.Budget.SpentJ, all-truth,
			truth)
	})
}

// After the crew's return the world counts as the leader does: the slot in which it
// came is the last, and what follows is transit.
func TestReturnIsTransit(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		const (
			slots, returnIn = 40, 8
			boundJ          = 100 + 1 // of an aircraft: its hectojoule, and the slots' two ends
		)
		c := flightInMemory(t, slots)
		c.Commands = append(c.Commands, Command{Slot: returnIn, Args: []string{"mission", "return"}})
		s := flySummary(t, c)
		last := s.Commands[len(s.Commands)-1]
		if !last.Accepted || last.EffectiveSlot == nil || *last.EffectiveSlot != returnIn {
			t.Fatalf("the return was answered by %+v", last)
		}
		if s.PlannedSlots != slots || s.Slots != returnIn+1 || s.MissedSlots > 0 {
			t.Errorf("flew %d slots and missed %d of %d, and returned in slot %d", s.Slots, s.MissedSlots, s.PlannedSlots, returnIn)
		}
		inSlotsJ, inTransitJ := s.Budget.LeaderSpentJ-s.Budget.SpentJ, s.Budget.LeaderTransitJ-s.Budget.TransitJ
		if math.Abs(inSlotsJ) > 2*boundJ {
			t.Errorf("the leader counts %v J in the slots, the world %v", s.Budget.LeaderSpentJ, s.Budget.SpentJ)
		}
		if math.Abs(inSlotsJ+inTransitJ) > 2*boundJ {
			t.Errorf("the leader counts %v J in transit, the world %v", s.Budget.LeaderTransitJ, s.Budget.TransitJ)
		}
		t.Logf("slots: leader %+.1f J of %.0f; transit %+.1f J of %.0f", s.Budget.LeaderSpentJ-s.Budget.SpentJ, s.Budget.SpentJ,
			s.Budget.LeaderTransitJ-s.Budget.TransitJ, s.Budget.TransitJ)
	})
}

// The world of a crew that commands by itself goes on after a stop, until what that left in
// the air has come home.
func TestReturnAfterStop(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		c := flightInMemory(t, 400)
		c.Commands = nil
		var out bytes.Buffer
		ended := make(chan error, 1)
		go func() { ended <- Run(t.Context(), c, &out) }()
		crew := c.at(telemetry.Broker{URL: "tcp://" + c.Broker.Listen}, "crew")
		send := func(action string) {
			t.Helper()
			for deadline := time.Now().Add(time.Minute); ; time.Sleep(200 * time.Millisecond) {
				_, err := sendCommand(t.Context(), crew, Command{Args: []string{"mission", action}}, command.NewID("m"))
				if err == nil {
					return
				}
				if time.Now().After(deadline) {
					t.Fatalf("%s: %v", action, err)
				}
			}
		}
		send("start")
		time.Sleep(time.Minute) // they are in the air
		send("hold")
		send("stop")
		select {
		case err := <-ended:
			t.Fatalf("it ended with the stop: %v\n%s", err, &out)
		case <-time.After(10 * time.Second):
		}
		send("return")
		if err := <-ended; err != nil {
			t.Errorf("%v\n%s", err, &out)
		}
	})
}
