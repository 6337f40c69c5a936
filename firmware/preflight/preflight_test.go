package preflight

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"prefdt/firmware/ledger"
	"prefdt/telemetry"
)

// file writes the rig's configuration as YAML, with lines that replace its own.
func (r *rig) file(t *testing.T, more string) string {
	t.Helper()
	c := &r.config
	text := fmt.Sprintf("fleet: test\nmission: m1\nstate_dir: %s\ncheckpoint: ../configs/checkpoint\nslots: %d\nslot_ms: %g\nreport_by_ms: %g\ndecide_by_ms: %g\nbroker: {url: %q}\naircraft:\n",
		c.StateDir, c.Slots, c.SlotMS, c.ReportByMS, c.DecideByMS, c.Broker.URL)
	for _, a := range c.Aircraft {
		text += fmt.Sprintf("  - {system_id: %d, endpoint: %q}\n", a.SystemID, a.Endpoint)
	}
	for _, line := range strings.Split(more, "\n") {
		if key, _, ok := strings.Cut(line, ":"); ok {
			var kept []string
			for _, l := range strings.Split(text, "\n") {
				if !strings.HasPrefix(l, key+":") && !(key == "aircraft" && strings.HasPrefix(l, "  - ")) {
					kept = append(kept, l)
				}
			}
			text = strings.Join(kept, "\n") + line + "\n"
		}
	}
	path := filepath.Join(t.TempDir(), "leader.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// preflightList runs leader check and returns its findings by item, with the worst
// result of each.
func preflightList(t *testing.T, path, wait string) (code int, results, details map[string]string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code, _ = subcommand([]string{"check", "-config", path, "-wait", wait, "-json"}, &stdout, &stderr)
	var list struct {
		Checks []finding
		Failed int
	}
	if err := json.Unmarshal(stdout.Bytes(), &list); err != nil {
		t.Fatalf("%v: %s%s", err, &stdout, &stderr)
	}
	if (code != 0) != (list.Failed > 0) {
		t.Errorf("status %d with %d failed", code, list.Failed)
	}
	results, details = map[string]string{}, map[string]string{}
	for _, f := range list.Checks {
		if old := results[f.Item]; old != resultFail && !(old == resultWarn && f.Result == resultOK) {
			results[f.Item] = f.Result
		}
		details[f.Item] += f.Detail + "\n"
	}
	return code, results, details
}

func TestCheckPasses(t *testing.T) {
	r := newRig(t, 2, 100)
	code, results, details := preflightList(t, r.file(t, "decide_by_ms: 39"), "10s")
	for _, item := range []string{"configuration", "checkpoint", "state", "ledger", "commands", "broker", "other leader", "aircraft 1", "aircraft 2"} {
		if results[item] == "" || results[item] == resultFail {
			t.Errorf("%s: %q %s", item, results[item], details[item])
		}
	}
	if code != 0 {
		t.Errorf("status %d: %v %v", code, results, details)
	}
	if d := details["aircraft 1"]; !strings.Contains(d, "joules from energy_consumed (energy_consumed, current, voltage, remaining)") || !strings.Contains(d, "MPC_XY_VEL_MAX 30") {
		t.Errorf("aircraft 1: %s", d)
	}
	if _, err := os.Stat(ledger.Path(r.config.StateDir)); err == nil {
		t.Error("the check made a ledger")
	}
	// As lines, for people.
	var stdout bytes.Buffer
	if code, _ := subcommand([]string{"check", "-config", r.file(t, "decide_by_ms: 39")}, &stdout, &stdout); code != 0 || !strings.Contains(stdout.String(), "ok    checkpoint") {
		t.Errorf("status %d: %s", code, &stdout)
	}
}

// Each thing that is wrong on the ground is a line of its own.
func TestCheckFails(t *testing.T) {
	r := newRig(t, 1, 100)
	readOnly := filepath.Join(t.TempDir(), "file")
	os.WriteFile(readOnly, nil, 0o400)
	damaged := t.TempDir()
	os.WriteFile(ledger.Path(damaged), bytes.Repeat([]byte("x"), 65536), 0o600)
	for _, c := range []struct {
		name, more, item, result, detail string
	}{
		{"configuration", "slot_ms: 3", "configuration", resultFail, "slot_ms is 3"},
		{"checkpoint", "checkpoint: /nowhere", "checkpoint", resultFail, "/nowhere"},
		{"state directory", "state_dir: " + readOnly + "/x", "state", resultFail, readOnly},
		{"damaged ledger", "state_dir: " + damaged, "ledger", resultFail, "damaged"},
		{"broker away", "broker: {url: \"tcp://127.0.0.1:1\"}", "broker", resultFail, "refused"},
		{"nobody may command", "commands: {unsigned: \"no\"}", "commands", resultFail, "nobody is obeyed"},
		{"anybody may command", "commands: {unsigned: \"yes\"}", "commands", resultWarn, "anyone"},
		{"autopilot away", "aircraft: [{system_id: 9, endpoint: \"udp-listen:" + freeUDP(t) + "\"}]", "aircraft 1", resultFail, "not heard"},
		{"disk full", "ledger_mb: 2048", "state", resultOK, "MB free"},
	} {
		_, results, details := preflightList(t, r.file(t, c.more), "300ms")
		if results[c.item] != c.result || !strings.Contains(details[c.item], c.detail) {
			t.Errorf("%s: %s %q: %s", c.name, c.item, results[c.item], details[c.item])
		}
	}
}

func TestCheckFindsUnsafeAutopilots(t *testing.T) {
	r := newRig(t, 3, 100)
	for i, p := range []map[string]float64{{"COM_OBL_RC_ACT": 0}, {"COM_OF_LOSS_T": 60}, {}} {
		r.replace(i, p)
	}
	_, results, details := preflightList(t, r.file(t, "decide_by_ms: 39"), "10s")
	for item, want := range map[string]string{"aircraft 1": "COM_OBL_RC_ACT is 0", "aircraft 2": "COM_OF_LOSS_T is 60"} {
		if results[item] != resultFail || !strings.Contains(details[item], want) {
			t.Errorf("%s: %q: %s", item, results[item], details[item])
		}
	}
	if results["aircraft 3"] != resultOK {
		t.Errorf("aircraft 3: %s", details["aircraft 3"])
	}
}

// The links are tried with the signing key, and not at all with one that is
// unusable.
func TestCheckOfTheSigningKey(t *testing.T) {
	r := newRig(t, 1, 100)
	file := func(text string, mode os.FileMode) string {
		path := filepath.Join(t.TempDir(), "mavlink.key")
		os.WriteFile(path, []byte(text), 0o600)
		os.Chmod(path, mode)
		return path
	}
	good := strings.Repeat("a5", 32)
	for _, c := range []struct {
		name, line, result, detail, aircraft string
	}{
		{"none", "slots: 100", "", "", resultOK},
		{"none, and real aircraft", "mavlink: {real: true}\nslot_ms: 1000", resultWarn, "whoever reaches a link", "any"},
		{"unusable", "mavlink: {key_file: " + file("abcd\n", 0o600) + "}", resultFail, "64 hexadecimal digits", ""},
		{"missing", "mavlink: {key_file: /nowhere/key}", resultFail, "/nowhere/key", ""},
		{"for all to read", "mavlink: {key_file: " + file(good, 0o604) + "}", resultWarn, "chmod 640", resultFail},
		// This autopilot does not sign: it is not heard.
		{"good", "mavlink: {key_file: " + file(good, 0o640) + "}", resultOK, "signed", resultFail},
	} {
		_, results, details := preflightList(t, r.file(t, c.line), "500ms")
		if results["signing"] != c.result || !strings.Contains(details["signing"], c.detail) {
			t.Errorf("%s: %q %s", c.name, results["signing"], details["signing"])
		}
		if results["aircraft 1"] != c.aircraft && c.aircraft != "any" {
			t.Errorf("%s: the aircraft: %q %s", c.name, results["aircraft 1"], details["aircraft 1"])
		}
	}
}

// A mission's log is checked and exported afterwards, and recovered when the
// file is cut.
func TestLogOfAFlight(t *testing.T) {
	r := newRig(t, 1, 8)
	r.config.Mission = "m1"
	f := r.launch()
	r.takeOff()
	r.await("done", done)
	flying := r.file(t, "")
	var b bytes.Buffer
	if code, _ := subcommand([]string{"log", "-config", flying, "check"}, &b, &b); code != 1 || !strings.Contains(b.String(), "in use") {
		t.Errorf("while a leader runs: %d, %s", code, &b)
	}
	f.kill(t)
	spent := r.await("the end", func(telemetry.Status) bool { return true }).SpentJ
	path := ledger.Path(r.config.StateDir)
	log := func(want int, args ...string) string {
		t.Helper()
		b.Reset()
		if code, _ := subcommand(append([]string{"log"}, args...), &b, &b); code != want {
			t.Errorf("%q: status %d, %s", args, code, &b)
		}
		return b.String()
	}
	if text := log(0, "check", "-config", flying); !strings.Contains(text, "m1: done, 8 slots settled, rows of slots 0 to 7, "+fmt.Sprintf("%.0f J", spent)) {
		t.Errorf("check: %s, status said %v J", text, spent)
	}
	lines, err := csv.NewReader(strings.NewReader(log(0, "-file", path, "export", "-csv"))).ReadAll()
	if err != nil || len(lines) != 9 || len(lines[0]) != 15 {
		t.Errorf("%v, %v", lines, err)
	}
	out := filepath.Join(t.TempDir(), "m1.json")
	log(0, "-file", path, "export", "-json", "-mission", "m1", "-out", out)
	var flights []ledger.Flight
	if raw, err := os.ReadFile(out); err != nil || json.Unmarshal(raw, &flights) != nil || len(flights) != 1 || len(flights[0].Rows) != 8 {
		t.Errorf("JSON: %v, %d flights", err, len(flights))
	}
	log(1, "-file", path, "export", "-mission", "m9")

	whole, _ := os.ReadFile(path)
	cut := filepath.Join(t.TempDir(), "cut.db")
	os.WriteFile(cut, whole[:5*4096], 0o600)
	if text := log(1, "-file", cut, "check"); !strings.Contains(text, "damaged") || strings.Count(text, "\n") != 1 {
		t.Errorf("a cut file: %s", text)
	}
	again := filepath.Join(t.TempDir(), "new")
	if text := log(0, "-file", cut, "recover", "-out", again); !strings.Contains(text, "m1: ") {
		t.Errorf("recover: %s", text)
	}
	log(0, "-file", ledger.Path(again), "export")

	for _, args := range [][]string{
		{}, {"check"}, {"-config", flying}, {"-config", flying, "-file", path, "check"}, {"-file", path, "dance"},
		{"-file", path, "export", "-csv", "-json"}, {"-file", path, "check", "it"}, {"-nonsense"},
	} {
		log(2, args...)
	}
	if !strings.Contains(log(0, "-h"), "recover") || log(1, "-file", path, "recover") == "" {
		t.Error("help, or a recovery to nowhere")
	}
}
