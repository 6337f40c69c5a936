package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestMain has this program fly a mission where it is started for one, as simbridge does.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == MissionCommand {
		if err := FlyFolder(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	code := m.Run()
	if folder, err := keptFlights(); err == nil {
		os.RemoveAll(folder)
	}
	os.Exit(code)
}

// keptFlights is a folder with the missions that this program has flown for the tests.
var keptFlights = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "prefdt-chaos") })

// flyOnce has the program of a run fly a mission once, for all tests: flown again, it is what came of it then. What is
// tested with it is what a run does with missions.
func flyOnce(t *testing.T, c *Config) {
	t.Helper()
	kept, err := keptFlights()
	if err != nil {
		t.Fatal(err)
	}
	c.Flyer = script(t, fmt.Sprintf(`kept=%s/$(basename "$2")
test -d $kept || { %s "$@" && cp -r "$2" $kept; } || exit
cp -r $kept/. "$2"`, kept, c.Flyer))
}

// testRun is a run of short missions that this program flies.
func testRun(t *testing.T, missions int) Config {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	checkpoint, err := filepath.Abs("../../configs/checkpoint")
	if err != nil {
		t.Fatal(err)
	}
	return Config{Missions: missions, Seed: 3, Slots: minSlots, Aircraft: 2, Jobs: 2, Flyer: program, Checkpoint: checkpoint,
		Out: t.TempDir()}
}

// script writes a program.
func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// flyAll runs missions of which none may fail, and returns the results of all runs until then.
func flyAll(t *testing.T, c *Config, missions int) []Flown {
	t.Helper()
	var progress bytes.Buffer
	r, err := Run(t.Context(), *c, &progress)
	if err != nil {
		t.Fatal(err)
	}
	if r.Missions != missions || r.Resumed+r.EndedSafely != missions || r.Failed() != "" {
		t.Errorf("%d missions, %s: %+v\n%s", r.Missions, r.Failed(), r.Failures, &progress)
	}
	for _, o := range r.Outcomes {
		if f := drawPlan(c, o.Mission).Faults[0]; r.FaultsByState[f.Kind][f.State] == 0 {
			t.Errorf("mission %d never met %s in %s", o.Mission, f.Kind, f.State)
		}
	}
	if r.MaxLedgerErrorJ <= 0 {
		t.Error("the ledger equals the battery exactly, which a counter of hectojoules does not allow")
	}
	return results(t, c)
}

// results are the lines of a run's results, in the order of missions.
func results(t *testing.T, c *Config) (all []Flown) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(c.Out, resultsFile))
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(raw) {
		var f Flown
		if err := json.Unmarshal(line, &f); err != nil {
			t.Errorf("%v: %s", err, line)
		}
		all = append(all, f)
	}
	slices.SortStableFunc(all, func(a, b Flown) int { return a.Mission - b.Mission })
	return all
}

// Two missions meet their planned faults, and a run that goes on flies only what it has no result of.
func TestMissions(t *testing.T) {
	c := testRun(t, 2)
	flyOnce(t, &c)
	first := flyAll(t, &c, 2)
	if len(first) != 2 || first[0].Mission != 0 || first[1].Mission != 1 || first[0].MissionS < float64(c.Slots) {
		t.Errorf("%+v", first)
	}
	if left, _ := os.ReadDir(c.Out); len(left) != 1 {
		t.Errorf("%v are left of missions that did not fail", left)
	}
	c.Resume = true
	if again := flyAll(t, &c, 2); !reflect.DeepEqual(again, first) {
		t.Errorf("missions were flown again: %+v", again)
	}

	raw, err := os.ReadFile(c.Flyer)
	if err != nil {
		t.Fatal(err)
	}
	c.Flyer = filepath.Join(t.TempDir(), "another")
	if err := os.WriteFile(c.Flyer, append(raw, "# it does the same\n"...), 0o755); err != nil {
		t.Fatal(err)
	}
	c.Only = []int{1}
	if other := flyAll(t, &c, 1); len(other) != 3 || other[1].Program == other[2].Program {
		t.Errorf("another program's mission was not flown: %+v", other)
	}
	c.Resume, c.Only = false, []int{0}
	if anew := flyAll(t, &c, 1); len(anew) != 1 {
		t.Errorf("a run that does not go on has results of others: %+v", anew)
	}
}

// Without a checkpoint every mission would fail by its leader: none is flown.
func TestNoCheckpoint(t *testing.T) {
	c := testRun(t, 1)
	c.Checkpoint = t.TempDir()
	if _, err := Run(t.Context(), c, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "-checkpoint: ") {
		t.Errorf("%v, want an error that names -checkpoint", err)
	}
}

// A program that ends without a word of its mission is a failed mission, with the first line that it
// printed, and its output is kept.
func TestFlyerEnds(t *testing.T) {
	for text, want := range map[string]string{
		"echo; echo panic: no time; echo goroutine 1; exit 2": "exit status 2: panic: no time (see ",
		"kill -9 $$": "signal: killed: without a word (see ",
		"exit 0":     "no such file or directory: without a word (see ",
	} {
		c := testRun(t, 1)
		c.Flyer = script(t, text)
		r, err := Run(t.Context(), c, &bytes.Buffer{})
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Failures) != 1 || !strings.Contains(r.Failures[0].Reason, want) || r.Resumed+r.EndedSafely != 0 || r.Failed() == "" {
			t.Errorf("%q: %+v, want %q", text, r, want)
		}
		if _, err := os.Stat(filepath.Join(c.folder(0), outputFile)); err != nil {
			t.Error(err)
		}
	}
}

// A build that is interrupted is not waited for.
func TestBuildInterrupted(t *testing.T) {
	folder, path := t.TempDir(), os.Getenv("PATH")
	begun := filepath.Join(folder, "begun")
	text := fmt.Sprintf("case $1 in build) sleep 1000 & echo $! >%[1]s.new; mv %[1]s.new %[1]s; wait;; esac\nPATH=%[2]s exec go \"$@\"",
		begun, path)
	if err := os.Rename(script(t, text), filepath.Join(folder, "go")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", folder+string(os.PathListSeparator)+path)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for ctx.Err() == nil {
			if _, err := os.Stat(begun); err == nil {
				cancel()
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	if err := BuildFlyer(ctx, filepath.Join(folder, "simbridge"), nil); err == nil {
		t.Error("it was built")
	}
	cancel()
	raw, err := os.ReadFile(begun)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil {
		t.Fatal(err)
	}
	syscall.Kill(pid, syscall.SIGKILL)
}
