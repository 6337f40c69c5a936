package main

import (
	"bytes"
	"fmt"
	"math"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"prefdt/configs"
	"prefdt/simbridge/fly"
	"prefdt/simbridge/geo"
)

func TestShippedConfiguration(t *testing.T) {
	c := fly.Default()
	if err := configs.Load("../configs/fly.yaml", &c); err != nil {
		t.Fatal(err)
	}
	if err := c.Check(); err != nil {
		t.Fatal(err)
	}
	if c.World.Shock.FromSlot != 50 || c.World.Shock.Factor != 1.5 || c.World.Aircraft != 2 || c.Users.ReportLoss != 0.1 ||
		len(c.Commands) != 3 {
		t.Errorf("%+v", c)
	}
}

// A flight that fails before it has anything to report prints no earlier flight's summary, and leaves it.
func TestFailedFlightReportsNothing(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	folder := t.TempDir()
	path, summary := filepath.Join(folder, "fly.yaml"), filepath.Join(folder, "summary.json")
	text := fmt.Sprintf("out: %s\nbroker: {listen: %q}\naircraft:\n  - {system_id: 1, listen: \"127.0.0.1:0\", partner: "+
		"\"127.0.0.1:9\"}\n", folder, taken.Addr())
	for name, text := range map[string]string{path: text, summary: "{}"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	earlier := time.Now().Add(-time.Hour)
	if err := os.Chtimes(summary, earlier, earlier); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	code := program.Run(t.Context(), []string{"fly", "-config", path, "-json"}, &out, &errs)
	raw, err := os.ReadFile(summary)
	if code != 1 || out.Len() > 0 || !strings.Contains(errs.String(), "broker.listen in "+path) || string(raw) != "{}" {
		t.Errorf("status %d, printed %q, %q; the earlier summary is %q, %v", code, &out, &errs, raw, err)
	}
}

func TestShippedFlights(t *testing.T) {
	for name, command := range map[string]string{"px4": "sitl", "ardupilot": "sitl", "hil": "hil"} {
		c := fly.Default()
		if err := configs.Load("../configs/"+name+".yaml", &c); err != nil {
			t.Fatal(err)
		}
		if err := c.Check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := checkCommand(command, &c); err != nil || c.Speed != 1 || (len(c.Leader.Command) != 0) != (command == "sitl") {
			t.Errorf("%s: %v, %+v", name, err, c)
		}
	}
}

// The files of a flight with running instances agree with one another: the leader's, the
// simulator's, and the homes and links on the command lines of docs/integrator.md.
func TestSITLFilesAgree(t *testing.T) {
	raw, err := os.ReadFile("../docs/integrator.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, line := range map[string]struct{ lat, lon, alt, link, attach string }{
		"px4": {`PX4_HOME_LAT=(\S+)`, `PX4_HOME_LON=(\S+) exec \S+ -i %d `, `PX4_HOME_ALT=(\S+)`, "", ""},
		"ardupilot": {`--home (\S+?),`, `-I %d .*--home [^,]+,([^,]+),`, `--home [^,]+,[^,]+,([^,]+),`,
			"--serial0 udpclient:%s ", "--serial1 udpclient:%s "},
	} {
		t.Run(name, func(t *testing.T) {
			checkSITLFiles(t, name, string(raw), line.lat, line.lon, line.alt, line.link, line.attach)
		})
	}
}

func checkSITLFiles(t *testing.T, name, page, latitude, longitude, altitude, link, attach string) {
	c := fly.Default()
	if err := configs.Load("../configs/"+name+".yaml", &c); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile("../" + c.Leader.Config)
	if err != nil {
		t.Fatal(err)
	}
	var leader struct {
		Fleet  string
		Broker struct{ URL string }
		Origin struct {
			Latitude  float64 `yaml:"latitude_deg"`
			Longitude float64 `yaml:"longitude_deg"`
			AMSL      float64 `yaml:"amsl_m"`
		}
		Aircraft []struct {
			System   int `yaml:"system_id"`
			Endpoint string
		}
	}
	if err := yaml.Unmarshal(raw, &leader); err != nil {
		t.Fatal(err)
	}
	if o := leader.Origin; leader.Fleet != c.Fleet || leader.Broker.URL != "tcp://"+c.Broker.Listen ||
		(geo.Point{LatDeg: o.Latitude, LonDeg: o.Longitude, AltM: o.AMSL}) != c.Origin {
		t.Errorf("leader's fleet, broker and origin: %+v", leader)
	}
	number := func(pattern string) float64 {
		found := regexp.MustCompile(pattern).FindStringSubmatch(page)
		if found == nil {
			t.Fatalf("docs/integrator.md has no %s", pattern)
		}
		x, err := strconv.ParseFloat(found[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	var homes []geo.Local
	for i, a := range c.Aircraft { // instance i is system i+1 and speaks to 14540+i
		at := fmt.Sprintf("127.0.0.1:%d", 14540+i)
		if l := leader.Aircraft[i]; a.SystemID != i+1 || l.System != i+1 || l.Endpoint != "udp-listen:"+at {
			t.Errorf("aircraft %d: %+v, the leader's %+v", i+1, a, l)
		}
		for form, address := range map[string]string{link: at, attach: a.Attach} {
			if form != "" && !strings.Contains(page, fmt.Sprintf(form, address)) {
				t.Errorf("docs/integrator.md has no "+form, address)
			}
		}
		home := c.Origin.ToLocal(geo.Point{LatDeg: number(latitude), AltM: number(altitude), LonDeg: number(fmt.Sprintf(longitude, i))})
		start := c.World.Start(i)
		// flight.start_within_m
		if off := math.Hypot(home.EastM-start.EastM, home.NorthM-start.NorthM); off > 200 || math.Abs(home.UpM) > 20 {
			t.Errorf("home %d is %.0f m from its start and %.0f m up", i, off, home.UpM)
		}
		for j, other := range homes {
			if apart := math.Hypot(home.EastM-other.EastM, home.NorthM-other.NorthM); apart < 11 { // D_min, and what a position may be off
				t.Errorf("homes %d and %d are %.1f m apart", j, i, apart)
			}
		}
		homes = append(homes, home)
	}
}

// A mistake is one line that says what is wrong, and exit status 2.
func TestBadInput(t *testing.T) {
	folder := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	craft := "broker: {listen: \"127.0.0.1:0\"}\naircraft: [{system_id: 1, listen: \"127.0.0.1:0\"}]\n"
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no such command": {[]string{"flap"}, `no command "flap"`},
		"no such flag":    {[]string{"fly", "-x"}, "-x"},
		"no such file":    {[]string{"fly", "-config", filepath.Join(folder, "none.yaml")}, "none.yaml"},
		"stray word":      {[]string{"fly", "now"}, `unexpected "now"`},
		"unknown key":     {[]string{"fly", "-config", file("a.yaml", craft+"speeed: 10\n")}, "speeed"},
		"wrong type":      {[]string{"fly", "-config", file("b.yaml", craft+"speed: fast\n")}, "b.yaml"},
		"out of range":    {[]string{"fly", "-config", file("c.yaml", craft+"speed: -1\n")}, "speed is -1, want 0.01 to 1000"},
		"bad world": {[]string{"fly", "-config", file("d.yaml", craft+"world: {task_probability: 2}\n")},
			"task_probability is 2, want 0 to 1"},
		"bad broker": {[]string{"fly", "-config", file("e.yaml", craft), "-broker", "http://x"}, "want tcp://host:port"},
		"bad fleet":  {[]string{"fly", "-config", file("f.yaml", craft+"fleet: a/b\n")}, "fleet"},
		"two ways": {[]string{"fly", "-config",
			file("h.yaml", "broker: {listen: \"127.0.0.1:0\"}\naircraft: [{system_id: 1, listen: x, serial: \"/dev/x:57600\"}]\n")},
			"2 of listen, serial and attach"},
		"bad serial": {[]string{"hil", "-config",
			file("i.yaml", "broker: {listen: \"127.0.0.1:0\"}\naircraft: [{system_id: 1, serial: /dev/x}]\n")}, "want device:baud"},
		"sitl without": {[]string{"sitl", "-config", file("j.yaml", craft)}, "has no attach"},
		"px4 without":  {[]string{"px4", "-config", file("j.yaml", craft)}, "has no attach"},
		"told what it is": {[]string{"sitl", "-autopilot", "ardupilot", "-config", "../configs/px4.yaml"},
			"a running instance says itself what it is"},
		"px4 hurried": {[]string{"px4", "-config", file("k.yaml", "speed: 10\nbroker: {listen: \"127.0.0.1:0\"}\naircraft: "+
			"[{system_id: 1, attach: \"127.0.0.1:1\"}]\n")}, "speed is 10, want 1"},
		"no leader":   {[]string{"chaos", "-processes", "-leader", filepath.Join(folder, "none")}, "the leader: "},
		"no missions": {[]string{"chaos", "-missions", "0"}, "-missions is 0, want 1 to"},
		"no policy":   {[]string{"chaos", "-checkpoint", folder}, "-checkpoint: "},
		"no mission":  {[]string{"mission"}, "want the folder of a mission"},
		"twice the id": {[]string{"fly", "-config", file("g.yaml", "broker: {listen: \"127.0.0.1:0\"}\naircraft: [{system_id: 1, "+
			"listen: x}, {system_id: 1, listen: y}]\n")}, "aircraft 2: system_id is 1"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errs bytes.Buffer
			code := program.Run(t.Context(), c.args, &out, &errs)
			if text := errs.String(); code != 2 || !strings.Contains(text, c.want) || strings.Count(text, "\n") != 1 {
				t.Errorf("exit %d, %q, want 2 and one line with %q", code, text, c.want)
			}
		})
	}
	var out, errs bytes.Buffer
	if code := program.Run(t.Context(), []string{"fly", "-h"}, &out, &errs); code != 0 || !strings.Contains(out.String(), "-config") {
		t.Errorf("-h: exit %d, %q", code, out.String())
	}
}
