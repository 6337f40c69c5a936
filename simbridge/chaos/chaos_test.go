package chaos

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// TestMain has this program fly a mission where it is started for one, as simbridge does.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == MissionCommand {
		if err := FlyFolder(os.Args[2]); err != nil {
			os.Stderr.WriteString(err.Error())
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// Two missions meet their planned faults, and are not flown again by a run that resumes.
func TestMissions(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	checkpoint, err := filepath.Abs("../../configs/checkpoint")
	if err != nil {
		t.Fatal(err)
	}
	c := Config{Missions: 2, Seed: 3, Slots: 24, Aircraft: 2, Jobs: 2, Flyer: program, Checkpoint: checkpoint, Out: t.TempDir()}
	for _, c.Resume = range []bool{false, true} {
		var progress bytes.Buffer
		r, err := Run(t.Context(), c, &progress)
		if err != nil {
			t.Fatal(err)
		}
		if r.Missions != 2 || r.Resumed+r.EndedSafely != 2 || r.Failed() != "" {
			t.Errorf("%s: %+v\n%s", r.Failed(), r, progress.String())
		}
		raw, err := os.ReadFile(filepath.Join(c.Out, resultsFile))
		if err != nil || bytes.Count(raw, []byte("\n")) != 2 {
			t.Errorf("%v, and the results have %d lines", err, bytes.Count(raw, []byte("\n")))
		}
	}
}
