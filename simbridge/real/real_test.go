package real

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"prefdt/configs"
	leaderconfig "prefdt/firmware/config"
	"prefdt/simbridge/fly"
	"prefdt/simbridge/record"
	"prefdt/simbridge/report"
)

// builds makes a folder of builds whose links a copy has turned into files.
func builds(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	for name, text := range map[string]string{"px4/bin/px4": "program", "px4/bin/px4-param": "px4", "px4/bin/px4-alias.sh": "alias",
		"px4/etc/rcS": "", "arducopter/arducopter": "", "arducopter/copter.parm": ""} {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// Every flight of the table flies configurations that its programs accept, by the recipe of the docs.
func TestTable(t *testing.T) {
	t.Chdir("../..")
	all, err := Flights()
	if err != nil {
		t.Fatal(err)
	}
	p := &place{out: t.TempDir(), builds: builds(t)}
	if err := p.locate(); err != nil {
		t.Fatal(err)
	}
	acts, recipes := 0, 0
	for _, f := range all {
		folder := filepath.Join(p.out, f.Name)
		script, err := p.prepare(folder, &f)
		if err != nil {
			t.Fatalf("%s: %v", f.Name, err)
		}
		if sources, err := filepath.Glob(folder + "/*/*.go"); err != nil || len(sources) > 0 {
			t.Errorf("%s: %q would be tested with the repository, %v", f.Name, sources, err)
		}
		copters := map[string]int{"px4": 0, "ardupilot": 2, "mixed": 1}[f.Pair]
		if n, m := strings.Count(script, "exec $PX4/bin/px4"), strings.Count(script, "exec $COPTER"); n != 2-copters || m != copters {
			t.Errorf("%s: %d PX4 and %d ArduCopters in\n%s", f.Name, n, m, script)
		}
		pair := strings.Replace(f.Pair, mixed, "ardupilot", 1)
		flight := fly.Default()
		if err := configs.Load(filepath.Join(folder, "configs", pair+".yaml"), &flight); err != nil {
			t.Fatalf("%s: %v", f.Name, err)
		}
		if err := flight.Check(); err != nil {
			t.Errorf("%s: %v", f.Name, err)
		}
		leader, err := leaderconfig.Load(filepath.Join(folder, flight.Leader.Config))
		if err != nil {
			t.Errorf("%s: %v", f.Name, err)
		}
		if f.Recipe {
			recipes++
			continue
		}
		acts++
		signed := leader.MAVLink.KeyFile != ""
		if len(flight.Commands) != len(f.Commands)+2 || f.Slots > 0 && leader.Slots != f.Slots || f.Signed != signed {
			t.Errorf("%s: %+v, and a leader of %d slots", f.Name, flight.Commands, leader.Slots)
		}
		raw, err := os.ReadFile(filepath.Join(folder, "configs/px4/px4-rc.params"))
		if err != nil || strings.Contains(string(raw), "param set MPC_Z_V_AUTO_UP 5\n") != f.Fast {
			t.Errorf("%s: PX4's parameters are\n%s", f.Name, raw)
		}
	}
	if recipes != 3 || acts < 4 || acts > 6 {
		t.Errorf("%d flights of the recipe and %d others", recipes, acts)
	}
}

// PX4's commands are links to its program again, beside a copy of it.
func TestLinkBuilds(t *testing.T) {
	p, to := &place{builds: builds(t)}, t.TempDir()
	if err := p.linkBuilds(to+"/px4", to+"/ardupilot"); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"px4/bin/px4-param": "program", "px4/bin/px4-alias.sh": "alias",
		"ardupilot/build/sitl/bin/arducopter": ""} {
		if raw, err := os.ReadFile(filepath.Join(to, name)); err != nil || string(raw) != want {
			t.Errorf("%s is %q, %v", name, raw, err)
		}
	}
}

// A folder without builds is said to be none, before anything is flown; what is interrupted says so.
func TestRun(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, name := range append(programs, "docs/integrator.md") {
		os.MkdirAll(filepath.Dir(name), 0o755)
		if err := os.WriteFile(name, []byte("```sh check=sitl\n```sh check=px4\n```sh check=ardupilot\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := Config{Repeat: 1, Jobs: 1, Out: "out/real", Builds: "nowhere"}
	if missing := (NoBuilds{}); !errors.As(Run(t.Context(), c, io.Discard), &missing) {
		t.Error("nothing is missing")
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	c.Builds = builds(t)
	if err := Run(over, c, io.Discard); err == nil || !strings.Contains(err.Error(), "interrupted") {
		t.Errorf("%v", err)
	}
}

// What fails a flight, and what does not.
func TestJudge(t *testing.T) {
	good := report.Summary{Landed: true, Slots: 100, Aircraft: []report.AircraftSummary{
		{Number: 1, PackJ: 1e5, LeftJ: 21e3, KeptJ: 20e3, FlightJ: 30e3, TransitJ: 49e3, ClockRate: 1},
		{Number: 2, FlightJ: 21e3, ClockRate: 1}}}
	good.Budget.LeaderSpentJ, good.Budget.LeaderTransitJ = 51e3, 49.1e3
	for name, c := range map[string]struct {
		change func(*report.Summary)
		states []record.Line
		flight Flight
		want   string // in what broke; empty: nothing
	}{
		"kept":       {func(*report.Summary) {}, nil, Flight{}, ""},
		"not landed": {func(s *report.Summary) { s.Landed = false }, nil, Flight{}, "not all have landed"},
		"failed":     {func(s *report.Summary) { s.Failure = "lost" }, nil, Flight{}, "lost"},
		"a rule":     {func(s *report.Summary) { s.RulesBroken = []string{"home, 1 times"} }, nil, Flight{}, "home"},
		"ledger":     {func(s *report.Summary) { s.Budget.LeaderSpentJ += 500 }, nil, Flight{}, "the ledger has"},
		"slow clock": {func(s *report.Summary) {
			s.Budget.LeaderSpentJ, s.Aircraft[1].ClockRate = s.Budget.LeaderSpentJ+500, 0.93
		},
			nil, Flight{}, ""},
		"landed": {func(s *report.Summary) { s.Budget.Landed, s.Budget.LeaderSpentJ = true, 1e5 }, nil, Flight{}, ""},
		"pack":   {func(s *report.Summary) { s.Aircraft[0].LeftJ = 18e3 }, nil, Flight{}, "lands with 18.0 %"},
		"long on the ground": {func(s *report.Summary) { s.Aircraft[0].LeftJ = 18e3 }, []record.Line{
			{TimeS: 1, Aircraft: 1, State: &record.State{PositionM: [3]float64{0, 0, 100}, LeftJ: 34e3, Armed: true}},
			{TimeS: 80, Aircraft: 1, State: &record.State{PositionM: [3]float64{0, 0, 1.9}, LeftJ: 21.5e3, Armed: true}},
			{TimeS: 99, Aircraft: 1, State: &record.State{PositionM: [3]float64{0, 0, 1.2}, LeftJ: 18e3, Armed: true}}}, Flight{}, ""},
		"budget":       {func(s *report.Summary) { s.Problems = []string{"passed"} }, nil, Flight{}, ""},
		"recipe":       {func(s *report.Summary) { s.Problems = []string{"passed"} }, nil, Flight{Recipe: true}, "passed"},
		"busy machine": {func(s *report.Summary) { s.Problems, s.MissedSlots = []string{"passed"}, 9 }, nil, Flight{Recipe: true}, ""},
		"unasked failsafe": {func(*report.Summary) {}, []record.Line{{TimeS: 70, Aircraft: 1, State: &record.State{Mode: "AUTO.RTL",
			Armed: true, Failsafe: true}}}, Flight{}, "a failsafe of aircraft 1"},
		"after a cut": {func(*report.Summary) {}, []record.Line{{TimeS: 60, Aircraft: 1, Fault: &record.Fault{Kind: "link_loss"}},
			{TimeS: 70, Aircraft: 1, State: &record.State{Mode: "AUTO.RTL", Armed: true, Failsafe: true}}}, Flight{}, ""},
		"near": {func(*report.Summary) {}, []record.Line{
			{TimeS: 1, Aircraft: 1, State: &record.State{PositionM: [3]float64{0, 0, 100}, Mode: "OFFBOARD", Armed: true}},
			{TimeS: 1, Aircraft: 2, State: &record.State{PositionM: [3]float64{7, 0, 100}, Mode: "OFFBOARD", Armed: true}}}, Flight{},
			"7.0 m apart"},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			out := filepath.Join(folder, "out", "px4")
			if err := os.MkdirAll(out, 0o755); err != nil {
				t.Fatal(err)
			}
			w, err := record.Create(filepath.Join(out, fly.RecordFile),
				record.Flight{Fleet: "test", Speed: 1, Aircraft: make([]record.Aircraft, 2)})
			if err != nil {
				t.Fatal(err)
			}
			for _, l := range c.states {
				w.Write(l)
			}
			w.Close(record.End{})
			s := good
			s.Aircraft = slices.Clone(good.Aircraft)
			c.change(&s)
			raw, err := json.Marshal(s)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(out, "summary.json"), raw, 0o600); err != nil {
				t.Fatal(err)
			}
			r := Result{flight: c.flight}
			r.judge(folder)
			if text := strings.Join(r.Broken, "; "); c.want == "" && text != "" || !strings.Contains(text, c.want) {
				t.Errorf("broken %q, want %q", text, c.want)
			}
			if _, err := json.Marshal(r); err != nil {
				t.Error(err)
			}
		})
	}
}
