package logtool_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"prefdt/configs/cli"
	"prefdt/firmware/ledger"
	"prefdt/firmware/logtool"
	"prefdt/simbridge/rig"
	"prefdt/simbridge/simnet"
)

func runLog(out *bytes.Buffer, args ...string) int {
	call := cli.NewCall("leader log", args, out, out)
	return call.Exit(logtool.Command(context.Background(), call))
}

// A mission's log is checked and exported afterwards, and recovered when the
// file is cut.
func TestLogOfAFlight(t *testing.T) {
	simnet.Test(t, func(t *testing.T) {
		r := rig.New(t, 1, 8)
		r.Config.Mission = "m1"
		f := r.StartLeader()
		r.TakeOff()
		r.Await("done", rig.Done)
		config := r.WriteConfig("")
		var b bytes.Buffer
		if code := runLog(&b, "-config", config, "check"); code != 1 ||
			!strings.Contains(b.String(), "in use by another leader; copy the file, and read the copy\n") {
			t.Errorf("while a leader runs: %d, %s", code, &b)
		}
		path := ledger.Path(r.Config.StateDir)
		present, _ := os.ReadFile(path)
		copied := filepath.Join(t.TempDir(), "copy.db")
		os.WriteFile(copied, present, 0o600)
		b.Reset()
		if code := runLog(&b, "-file", copied, "check"); !strings.Contains(b.String(), "m1: ") &&
			!strings.Contains(b.String(), "leader log recover still finds: mission m1") {
			t.Errorf("a copy of a ledger in use: %d, %s", code, &b)
		}
		f.Kill()
		spent := r.LastStatus().SpentJ
		log := func(want int, args ...string) string {
			t.Helper()
			b.Reset()
			if code := runLog(&b, args...); code != want {
				t.Errorf("%q: status %d, %s", args, code, &b)
			}
			return b.String()
		}
		if text := log(0, "export", "-config", config, "-users"); strings.Count(text, "\n") != 2 ||
			!strings.Contains(text, "no user's task is recorded: no mission had `surroundings`") {
			t.Errorf("the tasks of a flight without an estimator: %s", text)
		}
		if text := log(0, "check", "-config", config); !strings.Contains(text, "m1: done, 8 slots settled, rows of slots 0 to 7, "+
			fmt.Sprintf("%.0f J, ", spent)) || !strings.Contains(text, " s of delay of users that were received\n") {
			t.Errorf("check: %s, status said %v J", text, spent)
		}
		lines, err := csv.NewReader(strings.NewReader(log(0, "-file", path, "export", "-csv"))).ReadAll()
		if err != nil || len(lines) != 9 || len(lines[0]) != 21 {
			t.Errorf("%v, %v", lines, err)
		}
		out := filepath.Join(t.TempDir(), "m1.json")
		log(0, "-file", path, "export", "-json", "-mission", "m1", "-out", out)
		var flights []ledger.Flight
		if raw, err := os.ReadFile(out); err != nil || json.Unmarshal(raw, &flights) != nil || len(flights) != 1 ||
			len(flights[0].Rows) != 8 {
			t.Errorf("JSON: %v, %d flights", err, len(flights))
		}
		log(1, "-file", path, "export", "-mission", "m9")

		whole, _ := os.ReadFile(path)
		cut := filepath.Join(t.TempDir(), "cut.db")
		os.WriteFile(cut, whole[:3*len(whole)/4], 0o600)
		if text := log(1, "-file", cut, "check"); !strings.Contains(text, "damaged") ||
			!strings.Contains(text, "leader log recover still finds: mission m1") || strings.Count(text, "\n") != 1 {
			t.Errorf("a cut file: %s", text)
		}
		again := filepath.Join(t.TempDir(), "new")
		if text := log(0, "-file", cut, "recover", "-out", again); !strings.Contains(text, "m1: ") {
			t.Errorf("recover: %s", text)
		}
		log(0, "-file", ledger.Path(again), "export")

		for _, args := range [][]string{
			{}, {"check"}, {"-config", config}, {"-config", config, "-file", path, "check"}, {"-file", path, "dance"},
			{"-file", path, "export", "-csv", "-json"}, {"-file", path, "check", "it"}, {"-nonsense"},
		} {
			log(2, args...)
		}
		if !strings.Contains(log(0, "-h"), "recover") || log(2, "-file", path, "recover") == "" {
			t.Error("help, or a recovery to nowhere")
		}
	})
}
