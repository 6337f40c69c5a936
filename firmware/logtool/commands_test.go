package logtool_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"prefdt/firmware/ledger"
	"prefdt/simbridge/rig"
	"prefdt/simbridge/simnet"
	"prefdt/telemetry"
)

// What the crew asked for is in the ledger with value, mode and signer, by mission, and
// in the export of each.
func TestCommandsOfAFlight(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		r := rig.New(t, 1, 8)
		r.Config.Mission = "m1"
		r.UseKey("crew-1")
		f := r.StartLeader()
		r.Await("its aircraft", func(s telemetry.Status) bool { return s.Aircraft[0].AgeS != nil })
		send := func(topic, body, id string, accepted bool) {
			t.Helper()
			if ack := r.SendCommand(topic, body, id); ack.Accepted != accepted {
				t.Fatalf("%s: %+v", body, ack)
			}
		}
		send(r.Topics.Budget(), `{"id":"b1","energy_j":20000,"mode":"ceiling"}`, "b1", true)
		send(r.Topics.Mission(), `{"id":"h1","action":"hold"}`, "h1", false)
		send(r.Topics.Mission(), `{"id":"n1","action":"new","mission":"m2"}`, "n1", true)
		send(r.Topics.Preference(), `{"id":"p1","setting":0.35}`, "p1", true)
		send(r.Topics.Preference(), `{"id":"p2","setting":3}`, "p2", false)
		f.Kill()
		path := ledger.Path(r.Config.StateDir)
		var b bytes.Buffer
		if code := runLog(&b, "commands", "-file", path); code != 0 {
			t.Fatal(b.String())
		}
		lines, err := csv.NewReader(&b).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		want := [][]string{
			{"mission", "slot", "id", "key", "accepted", "what", "reason"},
			{"m1", "0", "b1", "crew-1", "true", "budget 20 kJ, ceiling", ""},
			{"m1", "-1", "h1", "crew-1", "false", "hold", "cannot hold: the mission is idle, which accepts start, clear, new"},
			{"m2", "0", "n1", "crew-1", "true", "new m2", ""},
			{"m2", "0", "p1", "crew-1", "true", "setting 0.35", ""},
			{"m2", "-1", "p2", "crew-1", "false", "", "preference.setting: 3 is outside [0, 1]"},
		}
		if !slices.EqualFunc(lines, want, slices.Equal[[]string]) {
			t.Errorf("%q\nwant %q", lines, want)
		}
		b.Reset()
		if code := runLog(&b, "commands", "-file", path, "-mission", "m1", "-json"); code != 0 || strings.Count(b.String(), `"id":`) != 2 {
			t.Errorf("of one mission: %s", &b)
		}
		// The export has them by mission, whole; so has a recovered ledger.
		again := filepath.Join(t.TempDir(), "new")
		b.Reset()
		if code := runLog(&b, "recover", "-file", path, "-out", again); code != 0 {
			t.Fatal(b.String())
		}
		for _, file := range []string{path, ledger.Path(again)} {
			b.Reset()
			var flights []ledger.Flight
			if code := runLog(&b, "export", "-json", "-file", file); code != 0 || json.Unmarshal(b.Bytes(), &flights) != nil {
				t.Fatal(b.String())
			}
			last := flights[len(flights)-1]
			if last.State.Mission != "m2" || len(last.Commands) != 3 {
				t.Fatalf("%s has %+v", file, last)
			}
			ack, err := telemetry.DecodeAck(last.Commands[1].Ack)
			if err != nil || ack.Key != "crew-1" || *ack.Setting != 0.35 || last.Commands[1].What != "setting 0.35" {
				t.Errorf("%+v, %v", ack, err)
			}
		}
	})
}
