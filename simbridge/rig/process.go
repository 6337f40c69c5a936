package rig

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/goccy/go-yaml"

	"prefdt/simbridge/process"
)

// checkpointDir is the shipped checkpoint, wherever in the module the test runs.
func (r *Rig) checkpointDir() string {
	dir, err := os.Getwd()
	for ; err == nil; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return filepath.Join(dir, "configs", "checkpoint")
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	r.test.Fatalf("no module above %s: %v", dir, err)
	return ""
}

// buildLeader builds the leader once for each test binary.
var buildLeader = sync.OnceValues(func() (string, error) {
	path, err := filepath.Abs(filepath.Join(filepath.Dir(os.Args[0]), "leader-under-test")) // go test removes it
	if err != nil {
		return "", err
	}
	if out, err := exec.Command("go", "build", "-ldflags=-s -w", "-o", path, "prefdt/firmware").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the leader: %w: %s", err, out)
	}
	return path, nil
})

// BuildJumping builds a program whose wall clock jumps by a day forward and back every 700 ms, by a
// changed time.Now in its copy of the standard library. There is no other way to give a Go
// process a wrong clock: Go reads it without a system call. The monotonic part of a time is
// unchanged.
func BuildJumping(t testing.TB, program, of string) {
	t.Helper()
	const read = "sec, nsec, mono := runtimeNow()"
	root, err := exec.Command("go", "env", "GOROOT").Output() // a test built with -trimpath does not know it
	if err != nil {
		t.Fatal(err)
	}
	original := filepath.Join(strings.TrimSpace(string(root)), "src", "time", "time.go")
	text, err := os.ReadFile(original)
	if n := strings.Count(string(text), read); err != nil || n != 1 {
		t.Fatalf("%s: %v; %q %d times, want once", original, err, read, n)
	}
	dir := t.TempDir()
	changed, list := filepath.Join(dir, "time.go"), filepath.Join(dir, "overlay.json")
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {original: changed}})
	if err := errors.Join(err, os.WriteFile(list, overlay, 0o600), os.WriteFile(changed,
		[]byte(strings.Replace(string(text), read, read+"\n\tif mono/700e6%2 == 1 {\n\t\tsec += 86400\n\t}", 1)), 0o600)); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-ldflags=-s -w", "-overlay", list, "-o", program, of)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v: %s", of, err, out)
	}
}

// ProgramArgs writes the configuration for the leader's own program, built once, and
// returns its command line.
func (r *Rig) ProgramArgs() (args []string) {
	r.test.Helper()
	path, err := buildLeader()
	if err != nil {
		r.test.Fatal(err)
	}
	r.Config.Checkpoint = r.checkpointDir()
	text, err := yaml.Marshal(r.Config)
	if err != nil {
		r.test.Fatal(err)
	}
	config := filepath.Join(r.test.TempDir(), "leader.yaml")
	if err := os.WriteFile(config, text, 0o600); err != nil {
		r.test.Fatal(err)
	}
	return []string{path, "-config", config}
}

func (r *Rig) StartProgram(args []string) *process.Process {
	r.test.Helper()
	p, err := process.Start(args, filepath.Join(r.test.TempDir(), "leader.log"))
	if err != nil {
		r.test.Fatal(err)
	}
	r.test.Cleanup(p.Stop)
	return p
}

// WriteConfig writes the configuration in the form that people write, with lines that
// replace its own, and returns its path.
func (r *Rig) WriteConfig(more string) string {
	r.test.Helper()
	c := &r.Config
	text := fmt.Sprintf("fleet: test\nmission: m1\nstate_dir: %s\ncheckpoint: %s\nslots: %d\nslot_ms: %g\nreport_by_ms: "+
		"%g\ndecide_by_ms: %g\nbroker: {url: %q}\naircraft:\n",
		c.StateDir, r.checkpointDir(), c.Slots, c.SlotMS, c.ReportByMS, c.DecideByMS, c.Broker.URL)
	for _, a := range c.Aircraft {
		text += fmt.Sprintf("  - {system_id: %d, endpoint: %q, worker: %q}\n", a.SystemID, a.Endpoint, a.Worker)
	}
	for _, line := range strings.Split(more, "\n") {
		if key, _, ok := strings.Cut(line, ":"); ok {
			own := regexp.MustCompile("(?m)^" + key + ":.*\n(  - .*\n)*")
			text = own.ReplaceAllString(text, "") + line + "\n"
		}
	}
	path := filepath.Join(r.test.TempDir(), "leader.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		r.test.Fatal(err)
	}
	return path
}
