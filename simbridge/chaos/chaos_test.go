package chaos

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Two concurrent missions of the real leader meet their planned faults.
func TestMissions(t *testing.T) {
	leader := filepath.Join(t.TempDir(), "leader")
	if out, err := exec.Command("go", "build", "-o", leader, "prefdt/firmware").CombinedOutput(); err != nil {
		t.Fatalf("build leader: %v\n%s", err, out)
	}
	checkpoint, err := filepath.Abs("../../configs/checkpoint")
	if err != nil {
		t.Fatal(err)
	}
	c := Config{
		Missions: 2, Seed: 3, Slots: 24, Speed: 12, Aircraft: 2, Jobs: 2,
		Leader: leader, Checkpoint: checkpoint, Out: t.TempDir(),
	}
	var progress bytes.Buffer
	r, err := Run(context.Background(), c, &progress)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", progress.String())
	if r.Missions != 2 || r.Resumed+r.EndedSafely != 2 || r.Failed() != "" {
		t.Errorf("%s: %+v", r.Failed(), r)
	}
	for k := range c.Missions {
		if f := drawPlan(&c, k).Faults[0]; r.FaultsByState[f.Kind][f.State] == 0 {
			t.Errorf("mission %d never met %s in %s", k, f.Kind, f.State)
		}
	}
	if r.MaxLedgerErrorJ <= 0 {
		t.Error("the ledger equals the battery exactly, which a counter of hectojoules does not allow")
	}
	if left, _ := os.ReadDir(c.Out); len(left) != 0 {
		t.Errorf("%d folders of missions that did not fail are left", len(left))
	}
}

// Without a checkpoint every mission would fail by its leader: none is flown.
func TestNoCheckpoint(t *testing.T) {
	c := Config{Missions: 1, Seed: 1, Slots: 24, Speed: 40, Aircraft: 1, Jobs: 1, Leader: os.Args[0], Checkpoint: t.TempDir(),
		Out: t.TempDir()}
	if _, err := Run(context.Background(), c, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "-checkpoint: ") {
		t.Errorf("%v, want an error that names -checkpoint", err)
	}
}

// A leader that does not start is a failed mission, with its reason.
func TestNoLeader(t *testing.T) {
	program := filepath.Join(t.TempDir(), "leader")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho no checkpoint >&2; exit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	c := Config{Missions: 1, Seed: 1, Slots: 24, Speed: 40, Aircraft: 1, Jobs: 1, Leader: program, Checkpoint: "../../configs/checkpoint",
		Out: t.TempDir()}
	r, err := Run(context.Background(), c, &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Failures) != 1 || !strings.Contains(r.Failures[0].Reason, "no checkpoint") || r.Resumed+r.EndedSafely != 0 {
		t.Errorf("%+v", r)
	}
}
