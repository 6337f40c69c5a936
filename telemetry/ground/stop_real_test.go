//go:build real

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"prefdt/configs/built"
	"prefdt/simbridge/broker"
)

// STOP of the built program is answered while its disk is full, another program holds locks on what lies there, and all
// of that and of [TestStopAlways] at once. How soon is the machine's matter.
func TestStopOfTheProgram(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "ground")
	if err := built.Program(binary, "prefdt/telemetry/ground"); err != nil {
		t.Fatal(err)
	}
	for _, situation := range []string{"a full disk", "locks held", "all at once"} {
		t.Run(situation, func(t *testing.T) {
			all := situation == "all at once"
			b := &broker.Broker{Address: "127.0.0.1:0"}
			if err := b.Initialize(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(b.Close)
			site := &testSite{url: b.URL()}
			path := startFlight(t, site, all)
			station, limit, pages := site.url, "", 1
			if all {
				station, pages = "tcp://"+lossyLink(t, b.Address), 8
			}
			if situation != "locks held" { // no file may grow at all
				limit = "ulimit -f 0; "
			}
			if situation != "a full disk" {
				for _, name := range []string{path, path + ".counter.lock"} {
					f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
					if err == nil {
						err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
					}
					if err != nil {
						t.Fatal(err)
					}
					defer f.Close()
				}
			}
			run := func(words ...string) *exec.Cmd {
				args := append([]string{"-c", limit + `exec "$0" "$@"`, binary}, words...)
				c := exec.CommandContext(t.Context(), "sh", append(args, "-fleet", "f1", "-broker", station, "-key", path, "-timeout",
					"1h")...)
				c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
				return c
			}
			serve, out := run("serve", "-listen", "127.0.0.1:0"), make(lineWriter, 1000)
			serve.Stdout, serve.Stderr = out, out
			if err := serve.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() { serve.Cancel(); serve.Wait() }()
			c := &crew{key: path, command: func(words ...string) (string, error) {
				text, err := run(words...).CombinedOutput()
				return string(text), err
			}}
			c.join(t, out, nil, pages)
			if all {
				c.leaveUnanswered()
				flood(t, site)
			}
			c.stop()
		})
	}
}

// The built program, once, from its command line to its exit status.
func TestBinary(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "ground")
	if err := built.Program(binary, "prefdt/telemetry/ground"); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(binary, "budget", "-energy", "-1").CombinedOutput()
	if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != 2 || string(out) != "ground budget: -energy \"-1\" is not above 0\n" {
		t.Errorf("%v %s", err, out)
	}
}
