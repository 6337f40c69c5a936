package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/foxglove/mcap/go/mcap"

	"prefdt/firmware/account"
	"prefdt/firmware/ledger"
	missions "prefdt/firmware/mission"
	"prefdt/telemetry"
	"prefdt/telemetry/flightlog"
)

// exportedMissions writes an export of two missions, as the leader does.
func exportedMissions(t *testing.T) (path string) {
	t.Helper()
	var flights []ledger.Flight
	for i, mission := range []string{"m-1", "m-2", "not-flown"} {
		f := ledger.Flight{State: ledger.State{State: missions.State{Mission: mission, Phase: "done"}}}
		for n := range 5 * (2 - i) {
			f.Rows = append(f.Rows, account.Row{Slot: n, UnixMS: 1795399428057 + int64(1000*n),
				Aircraft: []account.AircraftRow{{Number: 1, SpentJ: 100 * float64(n+1), EastM: 10, BootMS: 5000}}})
		}
		if i == 1 {
			f.Commands = []ledger.Command{{ID: "s1", What: "start",
				Ack: json.RawMessage(`{"id":"s1","accepted":true,"effective_slot":0,"key":"crew-1"}`)}}
		}
		if i == 0 { // a pack was bounded, to touchdown
			f.State.Account.Aircraft = []account.AircraftAccount{{SpentJ: 1000, TransitJ: 20400}}
			s := exampleStatus(9)
			s.Scope, s.Aircraft[0].ReserveJ, s.Aircraft[0].LeftAtTouchdownJ = telemetry.ScopeLanded, new(12e3), new(12.7e3)
			s.Aircraft[0].SpentJ, s.Aircraft[0].UsableJ = 13e3, new(21e3) // 8.4 kJ were drawn since
			f.Rows[9].Status = &s
			leaving := exampleStatus(4)
			leaving.Aircraft[0].Duty, leaving.Aircraft[0].Reason = telemetry.DutyLeaving, "sent home: for its reserve"
			leaving.State, leaving.Reason = telemetry.StateHolding, "the broker was gone for 30 s of the mission"
			f.State.Reason = "the broker was gone for 120 s of the mission"
			leaving.Dangers = []telemetry.Danger{
				{Gravity: 6, Aircraft: 2, Text: "left OFFBOARD for POSCTL while flying, with its pilot", Do: "resume aircraft 2"},
				{Gravity: 4, Aircraft: 1, Text: "leaves for home in 20 s, by the plan"}}
			leaving.MissedSlots = 3
			still := leaving
			still.Slot = 5
			f.Rows[4].Status, f.Rows[5].Status = &leaving, &still
		}
		flights = append(flights, f)
	}
	raw, err := json.Marshal(flights)
	path = filepath.Join(t.TempDir(), "missions.json")
	if err == nil {
		err = os.WriteFile(path, raw, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// What a link in the folder points at is not overwritten: a file is written under a name of
// its own, and then renamed.
func TestLogFollowsNoLink(t *testing.T) {
	path, dir := exportedMissions(t), t.TempDir()
	victim, out := filepath.Join(dir, "victim"), filepath.Join(dir, "m.csv")
	if err := os.WriteFile(victim, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, link := range []string{out + ".part", out} {
		if err := os.Symlink(victim, link); err != nil {
			t.Fatal(err)
		}
	}
	var text bytes.Buffer
	if code := program(host{}).Run(t.Context(), []string{"log", path, "-csv", out}, &text, &text); code != 0 {
		t.Errorf("status %d: %s", code, &text)
	}
	if raw, err := os.ReadFile(victim); string(raw) != "precious" {
		t.Errorf("the link's file has %.20q, %v", raw, err)
	}
	if raw, err := os.ReadFile(out); !strings.HasPrefix(string(raw), "mission,") {
		t.Errorf("the output has %.20q, %v", raw, err)
	}
}

func TestLog(t *testing.T) {
	path, dir := exportedMissions(t), t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := os.WriteFile(at("ledger.db"), []byte(strings.Repeat("\x00", 16)+"\xed\xda\x0c\xed"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{path, 0, "m-1: done, slots 0 to 9, from 2026-11-23T02:03:48Z, 1 aircraft, 1 kJ in slots and 20.4 kJ in transit: 21.4 kJ to " +
			"touchdown, 0 commands\n   budget of 42 kJ to touchdown\n" +
			"   holding from slot 5 on: the broker was gone for 30 s of the mission\n" +
			"   returned after slot 9: the broker was gone for 120 s of the mission\n" +
			"   slot 4: 3 missed until then\n" +
			"   slots 4 to 5: aircraft 2: left OFFBOARD for POSCTL while flying, with its pilot\n" +
			"   aircraft 1: 1 kJ in slots and 20.4 kJ in transit: 21.4 kJ to " +
			"touchdown; left for home from slot 5 on, sent home: for its reserve; a reserve of 12 kJ, landed with 12.6 kJ\n" +
			"m-2: done, slots 0 to 4, from 2026-11-23T02:03:48Z, 1 aircraft, 0.5 kJ in slots, 1 commands\n   aircraft 1: 0.5 kJ in " +
			"slots\n   start accepted from slot 0 (id s1, key crew-1)\n"},
		{path + " -mission m-2 -mcap " + at("m.mcap"), 0, "wrote " + at("m.mcap")},
		{path + " -csv " + at("m.csv") + " -json " + at("m.json"), 0, "wrote " + at("m.json")},
		{path + " -mcap " + at("both.mcap"), 2, "has 2 missions; name one by -mission"},
		{path + " -mission not-flown", 2, "has no slot of a mission \"not-flown\"; it has m-1, m-2\n"},
		{"", 2, "want a mission's file"},
		{dir, 2, dir + " is a folder; a mission that is over is a file in `missions` of the leader's state_dir, any other is in its " +
			"ledger.db\n"},
		{at("ledger.db"), 2, "`leader log export -json -file " + at("ledger.db") + " -out missions.json`"},
		{at("none.json"), 2, "no such file"},
		{at("m.csv"), 2, "not a mission's file"},
		{path + " -csv " + at("no/folder.csv"), 1, "no such file"},
	} {
		var out bytes.Buffer
		if code := program(host{}).Run(t.Context(), append([]string{"log"}, strings.Fields(c.args)...), &out, &out); code != c.code ||
			!strings.Contains(out.String(), c.want) {
			t.Errorf("log %s: status %d, %s", c.args, code, &out)
		}
	}
	raw, err := os.ReadFile(at("m.mcap"))
	if err != nil {
		t.Fatal(err)
	}
	reader, err := mcap.NewReader(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if info, err := reader.Info(); err != nil || info.Statistics.MessageCount != 5*3+1 {
		t.Errorf("%+v, %v", info, err)
	}
	if csv, err := os.ReadFile(at("m.csv")); err != nil || bytes.Count(csv, []byte("\n")) != 1+10+5 {
		t.Errorf("%s, %v", csv, err)
	}
	if _, err := os.Stat(at("both.mcap")); err == nil {
		t.Error("what was refused was written")
	}
}

// A replay is refused before it listens where it could not be shown, and takes no flag of a
// station that sends. The broker of the environment is not one of its flags.
func TestReplayArguments(t *testing.T) {
	t.Setenv("GROUND_BROKER", "tcp://127.0.0.1:1")
	path := exportedMissions(t)
	for _, c := range []struct{ args, want string }{
		{"-replay " + path + " -key crew-1.key", "-key with -replay: a replay sends and receives nothing"},
		{"-replay " + path + " -broker tcp://127.0.0.1:1", "-broker with -replay"},
		{"-replay " + path + " -mission m-9", "has no slot of a mission"},
		{"-replay " + path, "m-2: its slots have no status"},
		{"-replay " + path + " -listen 0.0.0.0:0", "needs -tls-cert"},
		{"-replay none.json", "none.json: no such file"},
	} {
		var out bytes.Buffer
		if code := program(host{}).Run(t.Context(), append([]string{"serve"}, strings.Fields(c.args)...), &out, &out); code != 2 ||
			!strings.Contains(out.String(), c.want) || strings.Count(out.String(), "\n") != 1 {
			t.Errorf("serve %s: status %d, %s", c.args, code, &out)
		}
	}
}

// Of an aircraft that may still be in the air the plan is told.
func TestLandedWith(t *testing.T) {
	flight := func() *flightlog.Flight {
		a := flightlog.Aircraft{Number: 1, DrawnJ: new(20e3), UsableJ: new(30e3)}
		return &flightlog.Flight{State: telemetry.StateDone, Drawn: []flightlog.Drawn{{SlotsJ: 15e3, TransitJ: 9e3}},
			Slots: []flightlog.Slot{{Scope: telemetry.ScopeLanded, Aircraft: []flightlog.Aircraft{a}}}}
	}
	if left, ok := landedWith(flight(), 0); !ok || left != 26e3 {
		t.Errorf("landed with %v, %v, want 26 kJ", left, ok)
	}
	for name, change := range map[string]func(f *flightlog.Flight){
		"on its way":         func(f *flightlog.Flight) { f.Drawn[0].Way = []byte("{}") },
		"not over":           func(f *flightlog.Flight) { f.State = telemetry.StateReturning },
		"stopped in the air": func(f *flightlog.Flight) { f.State = telemetry.StateStopped },
		"with its pilot":     func(f *flightlog.Flight) { f.Slots[0].Aircraft[0].Reason = "lost" },
		"joules of slots":    func(f *flightlog.Flight) { f.Slots[0].Scope = telemetry.ScopeSlots },
		"no pack":            func(f *flightlog.Flight) { f.Slots[0].Aircraft[0].UsableJ = nil },
		"not recorded":       func(f *flightlog.Flight) { f.Drawn = nil },
	} {
		f := flight()
		change(f)
		if left, ok := landedWith(f, 0); ok {
			t.Errorf("%s: landed with %v", name, left)
		}
	}
}
