package evaluate

import (
	"bytes"
	"context"
	"encoding/json"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"prefdt/configs/cli"
	"prefdt/offline/experiment"
	"prefdt/offline/offlinetest"
)

// runEvaluate returns what the command prints.
func runEvaluate(t *testing.T, args ...string) string {
	t.Helper()
	var out, progress bytes.Buffer
	call := cli.NewCall("offline evaluate", append([]string{"-checkpoint", "../../configs/checkpoint"}, args...), &out, &progress)
	offlinetest.NoError(t, Command(t.Context(), call))
	return out.String()
}

// evaluated returns the report of a front.
func evaluated(t *testing.T, args ...string) (r Report) {
	t.Helper()
	offlinetest.NoError(t, json.Unmarshal([]byte(runEvaluate(t, append(args, "-json")...)), &r))
	return r
}

// The shipped checkpoint reaches what it is shipped for; few seeds, so with room.
func TestShippedCheckpoint(t *testing.T) {
	r := evaluated(t, "-seeds", "1000000:1000002")
	if r.TeacherRatio.Hypervolume < 0.99 || r.Fidelity < 0.99 || !r.Operable || r.DistinctSettings < 20 || r.Hypervolume.N != 2 {
		t.Errorf("ratio %.4f, fidelity %.4f, operable %v, %d distinct settings", r.TeacherRatio.Hypervolume, r.Fidelity, r.Operable,
			r.DistinctSettings)
	}
	first, last := r.Front[0], r.Front[len(r.Front)-1]
	if len(r.Front) != 21 || *first.Setting != 0 || *last.Setting != 1 || first.DelayS >= last.DelayS || first.EnergyJ <= last.EnergyJ ||
		len(r.TeacherFront) != 32 || *r.TeacherFront[31].PriceSPerJ <= *r.TeacherFront[0].PriceSPerJ ||
		r.TeacherFront[31].EnergyJ >= r.TeacherFront[0].EnergyJ {
		t.Errorf("the fronts are %+v and %+v", r.Front, r.TeacherFront)
	}
}

// A report does not depend on how many work on it.
func TestWorkers(t *testing.T) {
	var reports []string
	for _, workers := range []string{"1", "3"} {
		text := runEvaluate(t, "-seeds", "1000000:1000003", "-settings", "3", "-prices", "3", "-json", "-workers", workers)
		reports = append(reports, string(experiment.WithoutRecord([]byte(text))))
	}
	if reports[0] != reports[1] || !strings.Contains(reports[0], `"hypervolume":`) {
		t.Errorf("another number of workers gave another report:\n%v\n%v", reports[0], reports[1])
	}
}

// An interrupted evaluation prints the tables that are complete, and fails.
func TestInterrupted(t *testing.T) {
	for line, want := range map[string]struct {
		begins, err string
		budgets     int // rows, of perturbations that were complete
	}{
		"teacher's seeds":          {"", "interrupted before", 0},
		"seeds, budgets 1 of 3, x": {"decoder dispatch", "interrupted; the tables printed are complete", 0},
		"seeds, budgets 2 of 3, x": {"decoder dispatch", "interrupted; the tables printed are complete", 2},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		var out bytes.Buffer
		err := Command(ctx, cli.NewCall("offline evaluate", []string{"-checkpoint", "../../configs/checkpoint", "-seeds", "1000000:1000001",
			"-settings", "3", "-prices", "3", "-budget", "-cells", "44kJ", "-perturbation", "x1.5 at", "-arms", "greedy"}, &out,
			&offlinetest.Log{Text: line, Stop: cancel}))
		if err == nil || !strings.Contains(err.Error(), want.err) || !strings.HasPrefix(out.String(), want.begins) ||
			(out.Len() > 0) != (want.begins != "") || strings.Count(out.String(), "44.0 ") != want.budgets {
			t.Errorf("%s: %v, %q", line, err, &out)
		}
	}
}

func TestBudgetAndUplinkTables(t *testing.T) {
	short := offlinetest.Write(t, "slots: 6\n", t.TempDir(), "world.yaml") // all cells by all arms, of few slots
	text := runEvaluate(t, "-config", short, "-seeds", "1000000:1000001", "-settings", "3", "-prices", "3", "-budget", "-uplink",
		"-fleet", "1,3")
	for _, want := range []string{"x1.5 at half time", "ceiling", "reports lost", "aircraft", "\nrecord: ", "; seeds 1000000:1000001; ",
		"not ranked: means of 1 seeds", "not ranked: does not bind"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// An evaluation on a trace names it; one without has no word of it.
func TestTraceIsNamed(t *testing.T) {
	folder := t.TempDir()
	tasks := offlinetest.Write(t, "time_s,user,east_m,north_m,bits,cycles_per_bit,deadline_s\n0,van,450,400,1200000,800,0.8\n"+
		"1,walker,100,200,0,0,0\n2,van,450,400,900000,800,0.8\n", folder, "tasks.csv")
	config := offlinetest.Write(t, "slots: 5\nusers: 2\ntrace: "+tasks+"\n", folder, "world.yaml")
	few := []string{"-seeds", "1000000:1000001", "-settings", "3", "-prices", "3"}
	text := runEvaluate(t, append(few, "-config", config)...)
	if want := "trace " + tasks + ": 2 users, 3 rows\n"; !strings.HasPrefix(text, want) {
		t.Errorf("want %q first in\n%s", want, text)
	}
	if text := runEvaluate(t, append(few, "-json")...); strings.Contains(text, "trace") {
		t.Errorf("without a trace: %s", text)
	}
	r := evaluated(t, append(few, "-config", config)...)
	if x := r.Trace; x == nil || x.File != tasks || len(x.SHA256) != 64 || x.Users != 2 || x.Rows != 3 {
		t.Errorf("%+v", x)
	}
	if x := r.Record; x == nil || x.Version == "" || x.Seeds["all"] != "1000000:1000001" || len(x.Made) != 1 || x.Ended == "" {
		t.Errorf("the record is %+v", x)
	}
}

// -plot draws the fronts.
func TestPlot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "front.png")
	runEvaluate(t, "-seeds", "1000000:1000001", "-settings", "3", "-prices", "3", "-plot", path)
	raw := offlinetest.Must(os.ReadFile(path))(t)
	if picture, err := png.DecodeConfig(bytes.NewReader(raw)); err != nil || picture.Width < 500 {
		t.Errorf("%+v, %v", picture, err)
	}
}
