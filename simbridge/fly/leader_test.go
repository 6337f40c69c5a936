package fly

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bluenviron/gomavlib/v3"
	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"

	"prefdt/simbridge/report"
	"prefdt/telemetry/datagram"
)

// buildFolder is where programs go; TestMain makes and removes it.
var buildFolder string

func TestMain(m *testing.M) {
	if os.Getenv(shareEnv) != "" {
		printShare()
		return
	}
	var err error
	if buildFolder, err = os.MkdirTemp("", "fly-test"); err != nil {
		panic(err)
	}
	flag.Parse()
	flag.Set("test.parallel", "6") // flights mostly wait
	code := m.Run()
	os.RemoveAll(buildFolder)
	os.Exit(code)
}

// buildPrograms builds the leader and the crew's tool, once for all tests.
var buildPrograms = sync.OnceValues(func() (string, error) {
	for name, path := range map[string]string{"leader": "prefdt/firmware", "ground": "prefdt/telemetry/ground"} {
		if out, err := exec.Command("go", "build", "-o", filepath.Join(buildFolder, name), path).CombinedOutput(); err != nil {
			return "", fmt.Errorf("build %s: %w: %s", name, err, out)
		}
	}
	return buildFolder, nil
})

// shareEnv has a process of these tests print its share of a CPU, and nothing else.
const shareEnv = "PREFDT_CPU_SHARE"

// printShare prints the part of a CPU's time that this process gets, beside all others.
func printShare() {
	const spins = 200 * time.Millisecond
	usedS := func() float64 {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			panic(err)
		}
		return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
	}
	began, before := time.Now(), usedS()
	for time.Since(began) < spins {
	}
	fmt.Println((usedS() - before) / time.Since(began).Seconds())
}

var measuring sync.Mutex

// cpuShare is the part of a CPU's time that a program gets on this machine now. One measures at a time:
// several would find each other.
func cpuShare(t *testing.T) (share float64) {
	t.Helper()
	measuring.Lock()
	defer measuring.Unlock()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), shareEnv+"=1", "GOMAXPROCS=1")
	out, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscan(string(out), &share); err != nil {
		t.Fatalf("%q: %v", out, err)
	}
	return share
}

// slowed is how many times slower a flight is to be than on an idle machine: on a busy one its programs
// would be late for each other.
func slowed(t *testing.T) float64 {
	t.Helper()
	const busy, times = 0.3, 5
	share := cpuShare(t)
	if share >= busy {
		return 1
	}
	t.Logf("a program gets %.2f of a CPU: this flies at a fifth of the speed", share)
	return times
}

// realConfig is a flight of the real leader with the shipped checkpoint. Climb
// and descent are fast, to be short.
func realConfig(t *testing.T, slots int, speed float64, endpoints []string) Config {
	t.Helper()
	times := slowed(t)
	speed = max(speed/times, 1)
	folder, err := buildPrograms()
	if err != nil {
		t.Fatal(err)
	}
	checkpoint, err := filepath.Abs("../../configs/checkpoint")
	if err != nil {
		t.Fatal(err)
	}
	c := Default()
	c.Fleet, c.Out, c.Speed, c.TimeoutS = "test", t.TempDir(), speed, 120*times
	c.Broker.Listen = freeAddress(t)
	c.Parameters = map[string]float64{
		"MPC_XY_VEL_MAX": 30, "MPC_XY_CRUISE": 12, "MPC_Z_VEL_MAX_UP": 20, "MPC_TKO_SPEED": 20, "MPC_Z_V_AUTO_DN": 20,
		"MPC_Z_VEL_MAX_DN": 20, "MPC_LAND_SPEED": 5, "COM_OF_LOSS_T": 10,
	}
	c.Ground = []string{filepath.Join(folder, "ground")}
	c.Commands = []Command{{-1, []string{"budget", "-energy", fmt.Sprint(380 * slots)}}, {-1, []string{"mission", "start"}}}
	text := fmt.Sprintf("checkpoint: %s\nslots: %d\nslot_ms: %v\nreport_by_ms: %v\ndecide_by_ms: %v\nexit_when_done: true\n"+
		"origin: {latitude_deg: %v, longitude_deg: %v, amsl_m: %v}\naircraft:\n",
		checkpoint, slots, 1000/speed, 400/speed, 700/speed, c.Origin.LatDeg, c.Origin.LonDeg, c.Origin.AltM)
	for i, e := range endpoints {
		text += fmt.Sprintf("  - {system_id: %d, endpoint: %q}\n", i+1, e)
	}
	path := filepath.Join(c.Out, "template.yaml")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	c.Leader = LeaderConfig{Command: []string{filepath.Join(folder, "leader")}, Config: path}
	return c
}

func flySummary(t *testing.T, c Config) report.Summary {
	t.Helper()
	var out bytes.Buffer
	if err := Run(context.Background(), c, &out); err != nil {
		log, _ := os.ReadFile(filepath.Join(c.Out, "leader.log"))
		t.Fatalf("%v\n%s\n%s", err, out.String(), log)
	}
	raw, err := os.ReadFile(filepath.Join(c.Out, "summary.json"))
	if err != nil {
		t.Fatal(err)
	}
	var s report.Summary
	if err := json.Unmarshal(raw, &s); err != nil {
		t.Fatal(err)
	}
	return s
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

func newBatteryMeter(t *testing.T, address string) *batteryMeter {
	m := &batteryMeter{node: &gomavlib.Node{
		Endpoints: []gomavlib.EndpointConf{datagram.Endpoint(nil, address)},
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
	t.Parallel()
	const (
		slots  = 14
		countJ = 100
		boundJ = 30 // a slot begins when its beacon arrives: some 15 ms of two aircraft's power at speed 5, at both ends
	)
	links := []string{freeAddress(t), freeAddress(t)}
	c := realConfig(t, slots, 5, []string{"udp-listen:" + links[0], "udp-listen:" + links[1]})
	c.World.Shock.FromSlot, c.World.Shock.Factor = slots/2, 1.5
	c.Commands[0] = Command{-1, []string{"budget", "-energy", fmt.Sprint(480 * slots)}} // which that leaves within reach
	var meters []*batteryMeter
	for i, link := range links {
		a := AircraftConfig{SystemID: i + 1, Listen: "127.0.0.1:0", Partner: link, Monitor: freeAddress(t)}
		meters = append(meters, newBatteryMeter(t, a.Monitor))
		c.Aircraft = append(c.Aircraft, a)
	}
	s := flySummary(t, c)
	if s.Slots+s.MissedSlots != slots || s.MissedSlots > slots/4 || !s.Landed || s.EnergySource != "energy_consumed" {
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
}

// After the crew's return the world counts as the leader does: the slot in which it
// came is the last, and what follows is transit.
func TestReturnIsTransit(t *testing.T) {
	t.Parallel()
	const (
		slots, returnIn = 40, 8
		boundJ          = 130 // of an aircraft: its hectojoule, and the slots' two ends
		slotJ           = 170 // of an aircraft; when the return begins is observed up to two slots late on a busy machine
	)
	links := []string{freeAddress(t), freeAddress(t)}
	c := realConfig(t, slots, 5, []string{"udp-listen:" + links[0], "udp-listen:" + links[1]})
	c.Commands = append(c.Commands, Command{returnIn, []string{"mission", "return"}})
	for i, link := range links {
		c.Aircraft = append(c.Aircraft, AircraftConfig{SystemID: i + 1, Listen: "127.0.0.1:0", Partner: link})
	}
	s := flySummary(t, c)
	// In which slot it arrives depends on how long the crew's program takes. It takes
	// effect from that slot on, or from the next one where that is decided.
	last := s.Commands[len(s.Commands)-1]
	if !last.Accepted || last.EffectiveSlot == nil || *last.EffectiveSlot < returnIn || *last.EffectiveSlot >= slots {
		t.Fatalf("the return was answered by %+v", last)
	}
	if n, from := s.Slots+s.MissedSlots, *last.EffectiveSlot; s.PlannedSlots != slots || n < from || n > from+1 || s.MissedSlots > slots/4 {
		t.Errorf("flew %d slots and missed %d of %d, and returned from slot %d on", s.Slots, s.MissedSlots, s.PlannedSlots, from)
	}
	inSlotsJ, inTransitJ := s.Budget.LeaderSpentJ-s.Budget.SpentJ, s.Budget.LeaderTransitJ-s.Budget.TransitJ
	if math.Abs(inSlotsJ) > 2*(boundJ+2*slotJ) {
		t.Errorf("the leader counts %v J in the slots, the world %v", s.Budget.LeaderSpentJ, s.Budget.SpentJ)
	}
	if math.Abs(inSlotsJ+inTransitJ) > 3*boundJ {
		t.Errorf("the leader counts %v J in transit, the world %v", s.Budget.LeaderTransitJ, s.Budget.TransitJ)
	}
	t.Logf("slots: leader %+.1f J of %.0f; transit %+.1f J of %.0f", s.Budget.LeaderSpentJ-s.Budget.SpentJ, s.Budget.SpentJ,
		s.Budget.LeaderTransitJ-s.Budget.TransitJ, s.Budget.TransitJ)
}

// The world of a crew that commands by itself goes on after a stop, until what that left in
// the air has come home.
func TestReturnAfterStop(t *testing.T) {
	t.Parallel()
	links := []string{freeAddress(t), freeAddress(t)}
	c := realConfig(t, 400, 5, []string{"udp-listen:" + links[0], "udp-listen:" + links[1]})
	c.Commands = nil
	for i, link := range links {
		c.Aircraft = append(c.Aircraft, AircraftConfig{SystemID: i + 1, Listen: "127.0.0.1:0", Partner: link})
	}
	var out bytes.Buffer
	ended := make(chan error, 1)
	go func() { ended <- Run(t.Context(), c, &out) }()
	send := func(action string) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(200 * time.Millisecond) {
			text, err := exec.Command(c.Ground[0], "mission", action, "-fleet", c.Fleet, "-broker",
				"tcp://"+c.Broker.Listen).CombinedOutput()
			if err == nil {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: %s", action, text)
			}
		}
	}
	for _, action := range []string{"start", "hold", "stop"} {
		send(action)
	}
	select {
	case err := <-ended:
		t.Fatalf("it ended with the stop: %v\n%s", err, &out)
	case <-time.After(2 * time.Second):
	}
	send("return")
	if err := <-ended; err != nil {
		t.Errorf("%v\n%s", err, &out)
	}
}
