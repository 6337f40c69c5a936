package rig

import (
	"bytes"
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

	"prefdt/configs/built"
	"prefdt/simbridge/process"
)

// checkpointDir is the shipped checkpoint, wherever in the module the test runs.
func (r *Rig) checkpointDir() string {
	root, err := built.Root()
	if err != nil {
		r.test.Fatal(err)
	}
	return filepath.Join(root, "configs", "checkpoint")
}

// buildLeader builds the leader once for each test binary.
var buildLeader = sync.OnceValues(func() (string, error) {
	path, err := filepath.Abs(filepath.Join(filepath.Dir(os.Args[0]), "leader-under-test")) // go test removes it
	if err != nil {
		return "", err
	}
	return path, built.Program(path, "prefdt/firmware")
})

// BuildJumping builds a program whose wall clock jumps by a day forward and back every 700 ms, by a
// changed time.Now in its copy of the standard library. There is no other way to give a Go
// process a wrong clock: Go reads it without a system call. The monotonic part of a time is
// unchanged. Only package time is compiled anew, and linked with the others as they are: what it
// exports is the same, to the line, which the linker checks. go build would compile all that import it.
func BuildJumping(t testing.TB, program, of string) {
	t.Helper()
	const read = "sec, nsec, mono := runtimeNow()"
	run := func(args ...string) string {
		var stderr bytes.Buffer
		command := exec.Command("go", args...)
		command.Stderr = &stderr
		out, err := command.Output()
		if err != nil {
			t.Fatalf("%s: %v: %s", command, err, &stderr)
		}
		return strings.TrimSpace(string(out))
	}
	original := filepath.Join(run("env", "GOROOT"), "src", "time", "time.go") // a test built with -trimpath does not know it
	text, err := os.ReadFile(original)
	if n := strings.Count(string(text), read); err != nil || n != 1 {
		t.Fatalf("%s: %v; %q %d times, want once", original, err, read, n)
	}
	dir := t.TempDir()
	changed, list := filepath.Join(dir, "time.go"), filepath.Join(dir, "overlay.json")
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {original: changed}})
	if err := errors.Join(err, os.WriteFile(list, overlay, 0o600), os.WriteFile(changed,
		[]byte(strings.Replace(string(text), read, read+"; if mono/700e6%2 == 1 { sec += 86400 }", 1)), 0o600)); err != nil {
		t.Fatal(err)
	}
	archives := map[string]string{}
	for _, line := range strings.Split(run("list", "-trimpath", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}", of)+"\n"+
		run("list", "-trimpath", "-export", "-overlay", list, "-f", "{{.ImportPath}} {{.Export}}", "time"), "\n") {
		path, archive, _ := strings.Cut(line, " ")
		archives[path] = archive // package time last
	}
	config := filepath.Join(dir, "importcfg")
	var packages strings.Builder
	for path, archive := range archives {
		if archive != "" { // package unsafe has none
			fmt.Fprintf(&packages, "packagefile %s=%s\n", path, archive)
		}
	}
	if err := os.WriteFile(config, []byte(packages.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	run("tool", "link", "-s", "-w", "-importcfg", config, "-o", program, archives[of])
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
