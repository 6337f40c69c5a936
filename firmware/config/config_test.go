package config

import (
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"prefdt/configs"
)

func TestShippedConfiguration(t *testing.T) {
	c, err := Load("../../configs/leader.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if c.SpeedFactor() != 10 || len(c.Aircraft) != 2 || !c.AcceptsUnsigned() {
		t.Errorf("%+v", c)
	}
	if want := Defaults().Flight; c.Flight != want { // each key is there with its default
		t.Errorf("flight is %+v, its defaults %+v", c.Flight, want)
	}
}

// The leader of a flight with running instances: real time, and commands that simbridge sitl
// sends unsigned.
func TestShippedSITLConfigurations(t *testing.T) {
	for _, autopilot := range []string{"px4", "ardupilot"} {
		c, err := Load("../../configs/leader-" + autopilot + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		if c.SpeedFactor() != 1 || len(c.Aircraft) != 2 || !c.AcceptsUnsigned() || c.MAVLink.RealAircraft ||
			c.Flight.Failsafe != "refuse" || c.Flight.ClimbS < 120 {
			t.Errorf("%s: %+v", autopilot, c)
		}
	}
}

// TestUnsigned is whose commands are obeyed without a signature: nobody's where
// keys are configured or autopilots are real.
func TestUnsigned(t *testing.T) {
	key := map[string]string{"crew-1": "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="}
	for _, c := range []struct {
		name, unsigned, broker string
		keys                   map[string]string
		real, want             bool
	}{
		{"a loopback broker", "loopback", "tcp://127.0.0.1:1883", nil, false, true},
		{"by name", "loopback", "tcp://localhost:1883", nil, false, true},
		{"another broker", "loopback", "tcp://192.0.2.7:1883", nil, false, false},
		{"another broker, as configured", "yes", "tcp://192.0.2.7:1883", nil, false, true},
		{"never, as configured", "no", "tcp://127.0.0.1:1883", nil, false, false},
		{"keys beside a loopback broker", "loopback", "tcp://127.0.0.1:1883", key, false, false},
		{"keys, whatever else is configured", "yes", "tcp://127.0.0.1:1883", key, false, false},
		{"real aircraft beside a loopback broker", "loopback", "tcp://127.0.0.1:1883", nil, true, false},
		{"real aircraft, whatever else is configured", "yes", "tcp://127.0.0.1:1883", nil, true, false},
	} {
		x := Defaults()
		x.Commands.Unsigned, x.Commands.Keys, x.Broker.URL, x.MAVLink.RealAircraft = c.unsigned, c.keys, c.broker, c.real
		if got := x.AcceptsUnsigned(); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
		says := ""
		switch {
		case c.want || c.keys != nil:
		case c.real:
			says = "mavlink.real, which is true, forbids unsigned ones"
		case c.unsigned == "no":
			says = "commands.unsigned is no"
		default:
			says = "commands.unsigned is loopback, and the broker, tcp://192.0.2.7:1883, is not on this machine"
		}
		if got := x.NoCommands(); (got == "") != (says == "") || !strings.Contains(got, says) {
			t.Errorf("%s: %q, want %q", c.name, got, says)
		}
	}
}

// A start outside the area is refused by name: as far as the file alone tells, when it is
// read, else once the checkpoint's area is known.
func TestStartsInsideTheArea(t *testing.T) {
	for start, want := range map[[2]float64]string{
		{0, 1000}: "", {500, 10}: "",
		{-1, 500}:         "start_m of aircraft 2 is [-1 500], want each 0 or more, inside the area",
		{500, math.NaN()}: "start_m of aircraft 2 is [500 NaN]",
		{500, 1030}:       "start_m of aircraft 2 is [500, 1030], want each 0 to 1000, inside the area",
		{math.Inf(1), 0}:  "start_m of aircraft 2 is [+Inf, 0]",
	} {
		c := Defaults()
		c.Aircraft = []Aircraft{{SystemID: 1, Endpoint: "udp:127.0.0.1:1"}, {SystemID: 2, Endpoint: "udp:127.0.0.1:1", StartM: &start}}
		err := c.Check()
		if err == nil {
			err = c.CheckStarts(1000)
		}
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", start, err, want)
		}
	}
}

// A decision as late as the slot's end is of no use to it.
func TestDecisionsEndBeforeTheirSlot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leader.yaml")
	text := "slot_ms: 1000\ndecide_by_ms: 1000\naircraft: [{system_id: 1, endpoint: 'udp:127.0.0.1:14540'}]\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path); err == nil || !strings.Contains(err.Error(), "decide_by_ms is 1000, want 2 to 999") {
		t.Errorf("%v", err)
	}
}

// The files of reports from the field, as they were sent.
func TestCaseFiles(t *testing.T) {
	for name, want := range map[string]string{
		"10-zeros-before-ids": `[1:8] fleet is "007", want text: put it in quotes`, "11-byte-order-mark": "",
		"13-merge-key": "[4:6] aircraft[1] has a merge key, <<, which is not read; write its keys out",
	} {
		c, err := Load(filepath.Join("testdata", "cases", name+".yaml"))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
		if want == "" && (c.Fleet != "north" || len(c.Aircraft) != 1) {
			t.Errorf("%s: %+v", name, c)
		}
	}
	for key, text := range map[string]string{
		"mission": "mission: 010\n", "users.allow[1]": "users: {allow: [a, 010]}\n", "commands.keys": "commands: {keys: {007: AAAA}}\n",
		"slots": "slots: 0400\n",
	} {
		c := Defaults()
		err := configs.Decode([]byte(text), &c)
		if err == nil || !strings.Contains(err.Error(), key) || !strings.Contains(err.Error(), "want") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// FuzzConfig reads any text as the leader's configuration. A mistake is one
// line; what passes is what the leader can work with.
func FuzzConfig(f *testing.F) {
	whole, err := os.ReadFile("../../configs/leader.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(regexp.MustCompile(`(?m)^#.*\n| *# .*`).ReplaceAll(whole, nil))
	for _, text := range []string{
		"", "slots: 1e9\n", "slot_ms: .nan\n", "slots: 0x10\naircraft: [{system_id: 1, endpoint: 'serial:/dev/x:57600'}]\n",
		"a: &a [*a]\n", "users: {allow: [a, b, 'c d']}\n", "commands: {keys: {crew-1: AAAA}}\n",
		"aircraft:\n- {system_id: 1, start_m: [1]}\n",
		"fleet: !!binary aGk=\n", "? {}\n: 1\n", "broker: {url: tls://[::1]:70000}\n", "---\n---\nslots: 1\n", "<<: {slots: 1}\n",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		c := Defaults()
		err := configs.Decode(raw, &c)
		if err == nil {
			err = c.Check()
		}
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\r") {
				t.Fatalf("%q is more than a line", err)
			}
			return
		}
		if w := c.WallTime(1); w < time.Millisecond || len(c.Aircraft) < 1 {
			t.Fatalf("a slot of %v with %d aircraft was accepted", w, len(c.Aircraft))
		}
		for i := range c.Aircraft {
			if p := c.StartPosition(i+1, 1000); math.IsNaN(p.EastM+p.NorthM) || math.Abs(p.EastM)+math.Abs(p.NorthM) > 1e9 {
				t.Fatalf("aircraft %d starts at %v", i+1, p)
			}
		}
	})
}
