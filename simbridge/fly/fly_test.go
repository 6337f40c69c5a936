package fly

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"image/png"
	"log/slog"
	"math"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"prefdt/configs"
	"prefdt/configs/freeport"
	leaderconfig "prefdt/firmware/config"
	"prefdt/inference/physics"
	"prefdt/simbridge/broker"
	"prefdt/simbridge/report"
	"prefdt/simbridge/simnet"
	"prefdt/simbridge/world"
)

func freeAddress(t *testing.T) string {
	address, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	return address
}

// testConfig is a flight of two aircraft on a network in memory, and the addresses that its leader binds.
func testConfig(t *testing.T) (Config, []string) {
	c := Default()
	c.Fleet, c.Out, c.Speed = "test", t.TempDir(), 1
	c.inMemory()
	c.World.Shock = world.Shock{FromSlot: 6, Factor: 1.5}
	links := []string{c.network.FreeAddress(), c.network.FreeAddress()}
	for i, link := range links {
		c.Aircraft = append(c.Aircraft, AircraftConfig{SystemID: i + 1, Listen: "127.0.0.1:0", Partner: link})
	}
	c.Parameters = map[string]float64{"MPC_XY_VEL_MAX": 30, "MPC_XY_CRUISE": 30, "MPC_Z_V_AUTO_DN": 5, "MPC_Z_VEL_MAX_DN": 5,
		"MPC_LAND_SPEED": 4}
	return c, links
}

// runStandIn flies a mission that a stand-in leads, and returns what was printed.
func runStandIn(c Config, leader *standInLeader) (out string, err error) {
	c.unjudged = true
	leader.program, leader.url = c.network.Program("leader"), "tcp://"+c.Broker.Listen
	if leader.slotMS == 0 {
		leader.slotMS = 1000
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { leader.run(ctx); close(done) }()
	var printed bytes.Buffer
	err = Run(context.Background(), c, &printed)
	cancel()
	<-done
	return printed.String(), err
}

// flyStandIn is runStandIn of one that ends well, and returns its summary too.
func flyStandIn(t *testing.T, c Config, leader *standInLeader) (s report.Summary, out string) {
	t.Helper()
	leader.T = t
	out, err := runStandIn(c, leader)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return readSummary(t, c), out
}

func readSummary(t *testing.T, c Config) (s report.Summary) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(c.Out, "summary.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// A mission of twelve slots with a leader that stands in for ours.
func TestMission(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		c, links := testConfig(t)
		c.noPictures = false
		c.Commands = []Command{
			{Slot: -1, Args: []string{"budget", "-energy", "5000"}},
			{Slot: -1, Args: []string{"mission", "start"}},
			{Slot: 4, Args: []string{"budget", "-energy", "4500"}},
		}
		const slots = 12
		leader := &standInLeader{linkAddresses: links, slots: slots}
		s, out := flyStandIn(t, c, leader)
		tasks := 0
		truth := world.NewScenario(&c.World, c.Seed)
		for n := range slots {
			for _, a := range truth.Active(n, nil) {
				if a.Task.Bits > 0 {
					tasks++
				}
			}
		}
		if s.Slots != slots || s.State != "done" || !s.Landed {
			t.Errorf("flew %d slots, %s, landed %v", s.Slots, s.State, s.Landed)
		}
		if s.Tasks.Total != tasks || s.Tasks.ByDecision+s.Tasks.ByOffer+s.Tasks.ByLocal != tasks {
			t.Errorf("tasks %+v, the world has %d", s.Tasks, tasks)
		}
		if s.Reports.Received != s.Reports.Expected-s.Reports.Lost || s.Reports.Lost == 0 {
			t.Errorf("reports %+v", s.Reports)
		}
		if s.Decisions != leader.decisions || s.Tasks.ByDecision > s.Decisions || s.Tasks.ByOffer == 0 {
			t.Errorf("%d decisions seen of %d, tasks %+v", s.Decisions, leader.decisions, s.Tasks)
		}
		if s.Budget.RequestedJ != 5000 || s.Budget.RevisedJ != 4500 || math.Abs(s.Budget.Error-(s.Budget.SpentJ-4500)/4500) > 1e-12 {
			t.Errorf("budget %+v", s.Budget)
		}
		if len(s.Commands) != 3 || !s.Commands[2].Accepted || *s.Commands[2].EffectiveSlot < 5 || *s.Commands[2].EffectiveSlot >= slots {
			t.Errorf("commands %+v", s.Commands)
		}
		if s.DecisionMS.P50 != 6 || s.DecisionMS.P95 != 12 { // the stand-in reports slot + 1
			t.Errorf("decision %+v", s.DecisionMS)
		}
		if s.Setpoints < 2*slots*5 || s.Traffic.ControlBytes < 10_000 || s.Traffic.OffloadedBits < 1e6 {
			t.Errorf("setpoints %d, traffic %+v", s.Setpoints, s.Traffic)
		}
		if s.MaxSpeedMPS < 4 || s.MaxSpeedMPS > 10 || *s.MinSeparationM < 300 || *s.MinSeparationM > 350 {
			t.Errorf("flew at up to %v m/s, %v m apart", s.MaxSpeedMPS, *s.MinSeparationM)
		}
		// 12 slots of two aircraft near 150 W, half of them at 1.5 times that, and the edge.
		if s.Budget.FlightJ < 12*2*150*1.1 || s.Budget.FlightJ > 12*2*170*1.4 || s.Budget.EdgeJ <= 0 {
			t.Errorf("budget %+v", s.Budget)
		}

		// Joules: table, totals, and the ledger that the leader kept from
		// BATTERY_STATUS all agree, the last within the message's resolution: a
		// hectojoule by the counter, and by current x voltage what is drawn in the
		// quarter of a second that a message may be away from its moment.
		table := readTable(t, filepath.Join(c.Out, "slots.csv"))
		if len(table) != slots {
			t.Fatalf("%d rows", len(table))
		}
		sum := 0.0
		for _, row := range table {
			for _, name := range []string{"flight_j_1", "flight_j_2", "edge_j_1", "edge_j_2"} {
				sum += row[name]
			}
			if math.Abs(row["spent_j"]-sum) > 1e-6 {
				t.Errorf("slot %v: spent %v, sum %v", row["slot"], row["spent_j"], sum)
			}
		}
		if math.Abs(sum-s.Budget.SpentJ) > 1e-6 || math.Abs(s.Budget.FlightJ+s.Budget.EdgeJ-sum) > 1e-6 {
			t.Errorf("spent %v, flight and edge %v, table %v", s.Budget.SpentJ, s.Budget.FlightJ+s.Budget.EdgeJ, sum)
		}
		for m, link := range leader.aircraftLinks {
			a := s.Aircraft[m]
			total := a.FlightJ + a.EdgeJ + a.TransitJ
			if d := total - link.countedJ; d < 0 || d > 100+1 {
				t.Errorf("aircraft %d: energy_consumed %v J of %v", m+1, link.countedJ, total)
			}
			if d := math.Abs(total - link.integratedJ); d > 0.02*total+60 {
				t.Errorf("aircraft %d: current x voltage %v J of %v", m+1, link.integratedJ, total)
			}
		}
		for _, name := range []string{"energy.png", "map.png"} {
			f, err := os.Open(filepath.Join(c.Out, name))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := png.Decode(f); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			f.Close()
		}
		for _, want := range []string{"slot   0 of 12", "slot  10 of 12", "budget of 4.5 kJ (target) accepted"} {
			if !strings.Contains(out, want) {
				t.Errorf("no %q in\n%s", want, out)
			}
		}
	})
}

// A mission that ends early and whose budget a preference cleared: what is flown
// after the last slot is transit, what was never to be flown is not missed, and the
// summary names no budget that is not in force.
func TestEndedEarly(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		c, links := testConfig(t)
		c.World.Shock = world.Shock{}
		c.Commands = []Command{
			{Slot: -1, Args: []string{"budget", "-energy", "5000"}},
			{Slot: -1, Args: []string{"mission", "start"}},
			{Slot: 1, Args: []string{"preference", "-setting", "0.5"}},
		}
		const flown = 6
		s, out := flyStandIn(t, c, &standInLeader{linkAddresses: links, slots: 12, returnAfter: flown - 1})
		if s.Slots != flown || s.MissedSlots != 0 || s.PlannedSlots != 12 || !s.Landed {
			t.Errorf("flew %d slots, missed %d of %d, landed %v", s.Slots, s.MissedSlots, s.PlannedSlots, s.Landed)
		}
		if s.Budget.FlightJ < flown*2*130 || s.Budget.FlightJ > (flown+1)*2*170 || s.Budget.TransitJ < 8*2*130 {
			t.Errorf("budget %+v", s.Budget)
		}
		if s.Budget.RequestedJ != 5000 || s.Budget.RevisedJ != 0 || s.Budget.Error != 0 {
			t.Errorf("the budget was cleared, and is %+v", s.Budget)
		}
		if n := len(readTable(t, filepath.Join(c.Out, "slots.csv"))); n != flown {
			t.Errorf("%d rows", n)
		}
		for _, want := range []string{"6 opened, 0 missed; the mission ended after 6 of 12\n",
			"the budget of 5.00 was cleared by a preference; the leader counts"} {
			if !strings.Contains(out, want) {
				t.Errorf("no %q in\n%s", want, out)
			}
		}
	})
}

func readTable(t *testing.T, path string) (rows []map[string]float64) {
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	records, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, record := range records[1:] {
		row := map[string]float64{}
		for i, name := range records[0] {
			if row[name], err = strconv.ParseFloat(record[i], 64); err != nil {
				t.Fatal(err)
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// A leader that was configured for another world is an error that says how they differ.
func TestAnotherWorld(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*Config, *standInLeader)
		want   string
	}{
		"speed": {func(c *Config, l *standInLeader) { l.slotMS = 500 }, "the leader flies at speed 2 and this world at 1"},
		"aircraft": {func(c *Config, l *standInLeader) { l.linkAddresses = l.linkAddresses[:1] },
			"the leader has 1 aircraft, this world 2"},
		"systems": {func(c *Config, l *standInLeader) { c.Aircraft[1].SystemID = 9 }, "aircraft 2 is system 2, this world's is 9"},
		"origin":  {func(c *Config, l *standInLeader) { l.eastM = 400 }, "has aircraft 1 at (400, 500) m, it is at (333, 500)"},
	} {
		t.Run(name, func(t *testing.T) {
			simnet.Test(t, func(t *testing.T) {
				conf, links := testConfig(t)
				conf.Commands = []Command{{Slot: -1, Args: []string{"mission", "start"}}}
				leader := &standInLeader{T: t, linkAddresses: links, slots: 12}
				c.change(&conf, leader)
				if _, err := runStandIn(conf, leader); err == nil || !strings.Contains(err.Error(), c.want) ||
					strings.Contains(err.Error(), "\n") {
					t.Errorf("error %v, want one line with %q", err, c.want)
				}
			})
		})
	}
}

// Whatever goes wrong is one clear line.
func TestFailures(t *testing.T) {
	t.Parallel()
	server := &broker.Broker{Address: "127.0.0.1:0"}
	if err := server.Initialize(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	udp, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { udp.Close() })
	for name, c := range map[string]struct {
		real   bool // on this machine's sockets, and with a process for a leader
		change func(*Config)
		want   string
	}{
		"broker's port in use": {true, func(c *Config) { c.File, c.Broker.Listen = "a.yaml", server.Address }, "broker address " +
			server.Address + " is in use by another program, `ss -tulpn` shows which: stop it, or choose another: broker.listen in a.yaml"},
		"autopilot's port in use": {true, func(c *Config) { c.File, c.Aircraft[1].Listen = "a.yaml", udp.LocalAddr().String() },
			"aircraft 2: autopilot address " + udp.LocalAddr().String() + " is in use by another program, `ss -tulpn` shows which: " +
				"stop it, or choose another: aircraft.listen in a.yaml"},
		"no such leader": {true, func(c *Config) { c.Leader.Command = []string{"./no-such-leader"} }, "start ./no-such-leader"},
		"leader fails": {true, func(c *Config) { c.Leader.Command = []string{"sh", "-c", "echo checkpoint missing >&2; exit 3"} },
			"exit status 3: checkpoint missing"},
		"leader gives up": {true, func(c *Config) { c.Leader.Command = []string{"true"} }, "ended before the mission did"},
		"no configuration": {false, func(c *Config) { c.Leader = LeaderConfig{Command: []string{"true"}, Config: "no-such.yaml"} },
			"the leader's file: read configuration: open no-such.yaml"},
		"no leader": {false, func(c *Config) { c.TimeoutS = 1 }, "not done after timeout_s = 1"},
		"broker unreachable": {false, func(c *Config) {
			c.TimeoutS, c.Broker.Listen, c.Broker.URL = 1, "",
				"tcp://"+c.network.FreeAddress()
		},
			"timeout_s"},
		"unknown parameter":      {false, func(c *Config) { c.Parameters = map[string]float64{"MPC_TYPO": 1} }, "MPC_TYPO"},
		"kills without a leader": {false, func(c *Config) { c.Leader.KillSlots = []int{3} }, "leader.kill_slots is [3]"},
		"no aircraft":            {false, func(c *Config) { c.Aircraft = nil }, "aircraft: none"},
		"loss out of range":      {false, func(c *Config) { c.Users.ReportLoss = 1.5 }, "users.loss is 1.5, want 0 to 1"},
		"commands out of order": {false, func(c *Config) {
			c.Ground = []string{"x"}
			c.Commands = []Command{{Slot: 5, Args: []string{"a"}}, {Slot: 3, Args: []string{"b"}}}
		}, "in order"},
	} {
		t.Run(name, func(t *testing.T) {
			if !c.real {
				simnet.Test(t, func(t *testing.T) { failFlight(t, c.change, c.want) })
				return
			}
			t.Parallel()
			failFlight(t, func(conf *Config) {
				conf.network, conf.Broker.Listen = nil, freeAddress(t)
				c.change(conf)
			}, c.want)
		})
	}
}

// failFlight flies what fails in one line, and leaves the report of an earlier flight.
func failFlight(t *testing.T, change func(*Config), want string) {
	conf, _ := testConfig(t)
	change(&conf)
	summary := filepath.Join(conf.Out, "summary.json") // of an earlier flight
	if err := errors.Join(os.MkdirAll(conf.Out, 0o755), os.WriteFile(summary, []byte("{}"), 0o644)); err != nil {
		t.Fatal(err)
	}
	err := Run(context.Background(), conf, &bytes.Buffer{})
	if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
		t.Errorf("error %v, want one line with %q", err, want)
	}
	if raw, err := os.ReadFile(summary); string(raw) != "{}" {
		t.Errorf("the earlier flight's summary is %.40q, %v", raw, err)
	}
}

// Nobody signs in practice, so what is shipped for it is reached from this machine alone.
func TestPracticeIsOnLoopback(t *testing.T) {
	for _, name := range []string{"fly", "fly-field", "fly-packs", "fly-tasks", "practice"} {
		c := Default()
		if err := configs.Load("../../configs/"+name+".yaml", &c); err != nil {
			t.Fatal(err)
		}
		leader, err := leaderconfig.Load("../../" + c.Leader.Config)
		if err != nil {
			t.Fatal(err)
		}
		at := []string{c.Broker.Listen}
		for _, a := range c.Aircraft {
			at = append(at, a.Listen)
		}
		for _, a := range leader.Aircraft {
			_, address, _ := strings.Cut(a.Endpoint, ":")
			at = append(at, address)
		}
		for _, address := range at {
			host, _, err := net.SplitHostPort(address)
			if ip := net.ParseIP(host); err != nil || !ip.IsLoopback() {
				t.Errorf("%s.yaml, or its leader: listens at %q", name, address)
			}
		}
	}
}

func TestLeaderConfiguration(t *testing.T) {
	folder := t.TempDir()
	template := filepath.Join(folder, "leader.yaml")
	text := "fleet: x # comment\nslots: 7\nbroker:\n  url: tcp://elsewhere\n  username: me\naircraft:\n  - {system_id: 1, endpoint: " +
		"\"udp-listen:127.0.0.1:14540\"}\n"
	if err := os.WriteFile(template, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(folder, "out")
	if err := os.MkdirAll(filepath.Join(out, "leader", "old"), 0o755); err != nil {
		t.Fatal(err)
	}
	l := LeaderConfig{Command: []string{"bin/leader"}, Config: template}
	args, err := l.arguments(out, "demo", "m-1", "tcp://here:1")
	if err != nil || len(args) != 3 || args[1] != "-config" {
		t.Fatalf("%q, %v", args, err)
	}
	var got struct {
		Fleet, Mission string
		State          string `yaml:"state_dir"`
		Slots          int
		Broker         struct{ URL, Username string }
		Aircraft       []struct {
			System   int `yaml:"system_id"`
			Endpoint string
		}
	}
	if err := configs.Load(args[2], &got); err != nil {
		t.Fatal(err)
	}
	if got.Fleet != "demo" || got.Mission != "m-1" || got.State != filepath.Join(out, "leader") || got.Slots != 7 ||
		got.Broker.URL != "tcp://here:1" || got.Broker.Username != "me" || len(got.Aircraft) != 1 ||
		got.Aircraft[0].Endpoint != "udp-listen:127.0.0.1:14540" {
		t.Errorf("%+v", got)
	}
	if _, err := os.Stat(got.State); err == nil {
		t.Error("the old ledger is still there")
	}
	// It is read as strictly as the leader reads its own, since the copy hides what was written.
	for text, want := range map[string]string{"slots: 0400\n": "begin with 0", "\ufeffslots: 7\n": "",
		"a: 1\n---\nslots: 7\n": "second document"} {
		if err := os.WriteFile(template, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if values, err := l.configuration(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) ||
			err == nil && values["slots"] == nil {
			t.Errorf("%q: %v, %v", text, values, err)
		}
	}
	if err := os.WriteFile(template, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	// A checkpoint of the published form is flown by its heads, and no other is.
	for manifest, want := range map[string]any{"{}": nil, `{"published": {}}`: "heads", "\ufeff{\"published\": {}}": "heads"} {
		if err := os.WriteFile(filepath.Join(folder, "manifest.json"), []byte(manifest), 0o644); err != nil {
			t.Fatal(err)
		}
		l.Checkpoint = folder
		values, err := l.configuration()
		if err != nil || values["checkpoint"] != folder || values["decoder"] != want {
			t.Errorf("%s: %v, %v", manifest, values, err)
		}
	}
}

// A flight in a world of its own starts its leader with a policy for it and for
// as many slots, and says where the policy is for another world.
func TestWorldFile(t *testing.T) {
	folder := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	c, _ := testConfig(t)
	c.World.Shock = world.Shock{FromSlot: 5, Factor: 1.5}
	if err := c.LoadWorld(write("world.yaml", "slots: 12\nphysics: {altitude_m: 60}\n")); err != nil {
		t.Fatal(err)
	}
	if c.World.Slots != 12 || c.World.Physics.AltitudeM != 60 || c.World.Shock.FromSlot != 5 {
		t.Errorf("world %+v", c.World)
	}
	c.Leader = LeaderConfig{Command: []string{"leader"}, Config: write("leader.yaml", "slots: 7\ncheckpoint: elsewhere\n"),
		Checkpoint: "../../configs/checkpoint", slots: c.Leader.slots}
	values, err := c.Leader.configuration()
	if err != nil || values["slots"] != 12 || values["checkpoint"] != "../../configs/checkpoint" {
		t.Errorf("the leader is started with %v, %v", values, err)
	}
	var log, out bytes.Buffer
	f := &flight{Config: c, view: newView(&out), log: slog.New(slog.NewTextHandler(&log, nil))}
	f.warnOfCheckpoint()
	for _, text := range []string{out.String(), log.String()} {
		if !strings.Contains(text, "physics.altitude_m 100, here 60") {
			t.Errorf("the warning is %q", text)
		}
	}
	out.Reset()
	f.World.Physics.AltitudeM = 100
	if f.warnOfCheckpoint(); out.Len() > 0 {
		t.Errorf("a warning about the checkpoint's own world: %q", out.String())
	}
	for name, x := range map[string]struct {
		change func(w *world.Config)
		want   string // of the warning; empty: none
	}{
		"that of TASKS=real": {func(w *world.Config) {
			w.Users, w.ActiveMin, w.ActiveMax, w.DeadlineMinS, w.DeadlineMaxS = 6, 3, 6, 1, 1
		}, ""},
		"more users":     {func(w *world.Config) { w.Users, w.ActiveMax = 40, 30 }, "active_max 8, here 30; users 10, here 40"},
		"more at a time": {func(w *world.Config) { w.ActiveMax = 10 }, "active_max 8, here 10"},
		"less time":      {func(w *world.Config) { w.DeadlineMinS = 0.2 }, "deadline_min_s 0.5, here 0.2"},
		"more time":      {func(w *world.Config) { w.DeadlineMaxS = 3 }, "deadline_max_s 1.5, here 3"},
	} {
		out.Reset()
		f.World = world.Standard()
		x.change(&f.World)
		if f.warnOfCheckpoint(); !strings.Contains(out.String(), x.want) || (out.Len() > 0) != (x.want != "") {
			t.Errorf("%s: the warning is %q", name, out.String())
		}
	}
	// Budgets of the flight's file are for its own world: half the slots have half the floor.
	own := Config{World: world.Standard(), Aircraft: make([]AircraftConfig, 2),
		Commands: []Command{{Slot: -1, Args: []string{"budget", "-energy", "45kJ", "-below-floor"}},
			{Slot: -1, Args: []string{"mission", "start"}}}}
	own.World.Shock = world.Shock{FromSlot: 50, Factor: 1.5}
	if err := own.LoadWorld(write("short.yaml", "slots: 50\n")); err != nil || own.Commands[0].Args[2] != "18kJ" ||
		own.Commands[1].Args[1] != "start" {
		t.Errorf("45 kJ of 100 slots, 50 of them at x1.5, are in 50 calm ones %v, %v", own.Commands, err)
	}
	if len(own.scaled) != 1 || !strings.Contains(own.scaled[0], "budget of 45kJ at slot 0 is 18kJ here") {
		t.Errorf("what is said of the scaled budget: %q", own.scaled)
	}
	// Who adds the links of a third aircraft has written no other joules: they are for as many as world.aircraft says.
	for fileFleet, want := range map[int]string{2: "67.5kJ", 3: "45kJ"} {
		three := Config{World: world.Standard(), Aircraft: make([]AircraftConfig, 3),
			Commands: []Command{{Slot: -1, Args: []string{"budget", "-energy", "45kJ"}}}}
		three.World.Aircraft = fileFleet
		if err := three.LoadWorld(write("fleet.yaml", "aircraft: 3\n")); err != nil || three.Commands[0].Args[2] != want ||
			fileFleet == 2 && !strings.Contains(three.scaled[0], "times 1.5, ") || fileFleet == 2 &&
			!strings.Contains(three.scaled[0], "world.aircraft of the file: 2, here 3") {
			t.Errorf("45 kJ of %d aircraft are for 3 %v, said is %q, %v", fileFleet, three.Commands, three.scaled, err)
		}
	}
	if err := c.LoadWorld(write("three.yaml", "aircraft: 3\n")); err == nil ||
		!strings.Contains(err.Error(), "has 3 aircraft, and the flight has links for") {
		t.Errorf("more aircraft than links: %v", err)
	}
	if err := c.LoadWorld(write("wrong.yaml", "altitude: 3\n")); err == nil || !strings.Contains(err.Error(), "wrong.yaml") {
		t.Errorf("an unknown key: %v", err)
	}
}

// Wind and payload change what flight takes, and nothing else of a flight: at the same
// velocity its joules are those of a rollout of the same seed.
func TestWindReachesTheBattery(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		const slots = 36 // of which the last may end late
		c, links := testConfig(t)
		if err := c.LoadWorld("gusts"); err != nil {
			t.Fatal(err)
		}
		c.Seed, c.World.Shock = 1_000_003, world.Shock{}
		c.Commands = []Command{{Slot: -1, Args: []string{"mission", "start"}}}
		inWind, calm := 0.0, 0.0
		for flightJ, w := range map[*float64]world.Config{&inWind: c.World, &calm: world.Standard()} {
			for w := world.New(w, c.Seed); w.Slot < slots; {
				n := len(w.Arrivals)
				east := physics.Position{EastM: 8} // as the stand-in leader flies
				for _, j := range w.Step(world.Action{Server: make([]int, n), Offload: make([]float64, n),
					Move: []physics.Position{east, east}}).FlightJ {
					*flightJ += j
				}
			}
		}
		if math.Abs(inWind/calm-1) < 0.1 {
			t.Fatalf("seed %d: flight takes %.0f J in wind and %.0f J in the calm, want one in which they differ", c.Seed, inWind, calm)
		}
		s, _ := flyStandIn(t, c, &standInLeader{linkAddresses: links, slots: slots})
		// Slots begin a little late in wall time, and the aircraft begin at rest.
		if math.Abs(s.Budget.FlightJ/inWind-1) > 0.04 {
			t.Errorf("flight took %.0f J, in the rollout %.0f J in wind and %.0f J in the calm", s.Budget.FlightJ, inWind, calm)
		}
	})
}

// The leader of a flight in a field world is told its hidden state and the constants of
// its radio, in keys that it knows, and there is nothing to warn of.
func TestLeaderIsToldItsSurroundings(t *testing.T) {
	template := filepath.Join(t.TempDir(), "leader.yaml")
	if err := os.WriteFile(template, []byte("checkpoint: ../../configs/checkpoint\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]leaderconfig.Surroundings{
		"standard": {},
		"gusts":    {Wind: true, Payload: true},
		"phones":   {SlowCPU: 0.45, Contention: true},
		"field":    {Wind: true, Payload: true, Sounding: true, SlowCPU: 0.45, Contention: true},
	} {
		c, _ := testConfig(t)
		c.World.Shock = world.Shock{}
		if err := c.LoadWorld(name); err != nil {
			t.Fatal(err)
		}
		c.Leader.Command, c.Leader.Config = []string{"leader"}, template
		values, err := c.Leader.configuration()
		if err != nil {
			t.Fatal(err)
		}
		text, err := yaml.Marshal(values)
		if err != nil {
			t.Fatal(err)
		}
		got := leaderconfig.Defaults()
		if err := configs.Decode(text, &got); err != nil {
			t.Fatal(err)
		}
		told := got.Surroundings.Physics(physics.DefaultConstants())
		if got.Surroundings.Radio = nil; !reflect.DeepEqual(got.Surroundings, want) || told != c.World.Physics {
			t.Errorf("%s: the leader is told %+v, and has %+v", name, got.Surroundings, told)
		}
		var out bytes.Buffer
		f := &flight{Config: c, view: newView(&out), log: slog.New(slog.DiscardHandler)}
		if f.warnOfCheckpoint(); out.Len() > 0 {
			t.Errorf("%s: %s", name, out.String())
		}
	}
}
