//go:build real

package chaos

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"prefdt/configs/built"
)

// A mission with processes is flown by the leader's program, over sockets.
func TestProcesses(t *testing.T) {
	c := testRun(t, 1)
	folder := t.TempDir()
	leader, started := filepath.Join(folder, "leader"), filepath.Join(folder, "started")
	if err := built.Program(leader, "prefdt/firmware"); err != nil {
		t.Fatal(err)
	}
	c.Processes, c.Leader = true, script(t, fmt.Sprintf("echo >>%s; exec %s \"$@\"", started, leader))
	var progress bytes.Buffer
	r, err := Run(t.Context(), c, &progress)
	if err != nil {
		t.Fatal(err)
	}
	if r.Missions != 1 || len(r.Failures) > 0 {
		t.Errorf("%+v\n%s", r.Failures, &progress)
	}
	if _, err := os.Stat(started); err != nil {
		t.Errorf("the leader's program was not started: %v", err)
	}
}
