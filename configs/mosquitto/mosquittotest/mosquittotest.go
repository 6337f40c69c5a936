// Package mosquittotest runs the real mosquitto for tests.
//
// Inputs: a configuration, with ports that are free. Outputs: a broker that runs until the
// test is over. Where mosquitto is not installed the test is skipped; .ci/run installs it,
// and fails where it is missing all the same.
package mosquittotest

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"prefdt/configs/freeport"
)

// Program returns the path of one of mosquitto's programs, or skips the test.
func Program(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil { // a user's PATH may leave out the folder where Debian has the broker
		path, err = exec.LookPath(filepath.Join("/usr/sbin", name))
	}
	if err != nil {
		t.Skipf("%s is not installed; .ci/run installs Debian's", name)
	}
	return path
}

// Dir returns a folder that is removed after the test, and that the user whom mosquitto runs
// as can read.
func Dir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "prefdt-mosquitto-")
	if err == nil {
		t.Cleanup(func() { os.RemoveAll(dir) })
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// Broker is a mosquitto that runs.
type Broker struct {
	Process *os.Process
	Log     string // the file that it writes
	Stop    func() // kills it, before the end of the test
}

// Start runs mosquitto in a folder, and returns once it listens. The text of its
// configuration is asked for again where another program took one of the ports first.
func Start(t testing.TB, dir string, configuration func(port func() string) string) *Broker {
	t.Helper()
	program := Program(t, "mosquitto")
	port := func() string {
		n, err := freeport.Port()
		if err != nil {
			t.Fatal(err)
		}
		return strconv.Itoa(n)
	}
	for range 10 {
		path := filepath.Join(dir, "mosquitto.conf")
		if err := os.WriteFile(path, []byte(configuration(port)), 0o644); err != nil {
			t.Fatal(err)
		}
		if b := start(t, exec.Command(program, "-c", path), filepath.Join(dir, "log")); b != nil {
			return b
		}
	}
	raw, _ := os.ReadFile(filepath.Join(dir, "log"))
	t.Fatalf("mosquitto ended at its start, each time: %s", raw)
	return nil
}

// start returns nil if the command ends before it listens.
func start(t testing.TB, c *exec.Cmd, path string) *Broker {
	t.Helper()
	log, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	c.Stdout, c.Stderr = log, log
	err = c.Start()
	log.Close()
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { c.Wait(); close(ended) }()
	stop := sync.OnceFunc(func() { c.Process.Kill(); <-ended })
	t.Cleanup(func() {
		stop()
		if raw, _ := os.ReadFile(path); t.Failed() {
			t.Logf("%s: %s", path, raw[max(0, len(raw)-4000):])
		}
	})
	for deadline := time.After(time.Minute); ; {
		if raw, _ := os.ReadFile(path); bytes.Contains(raw, []byte(" running\n")) {
			return &Broker{c.Process, path, stop}
		}
		select {
		case <-ended:
			return nil
		case <-deadline:
			t.Fatal("mosquitto does not listen")
		case <-time.After(10 * time.Millisecond):
		}
	}
}
