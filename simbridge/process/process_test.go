package process

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// start starts a shell's command.
func start(t *testing.T, text string) (p *Process, log string) {
	t.Helper()
	log = filepath.Join(t.TempDir(), "log")
	p, err := Start([]string{"sh", "-c", text}, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Kill() })
	return p, log
}

// A program that ended says how, with its status and the last line of its standard error; its log
// has all that it printed.
func TestFailure(t *testing.T) {
	p, log := start(t, "echo out; echo first >&2; echo no licence >&2; exit 3")
	<-p.Over()
	raw, _ := os.ReadFile(log)
	if why := p.Failure().Error(); !p.Ended() || p.ExitCode() != 3 ||
		!strings.HasSuffix(why, ": exit status 3: no licence (see "+log+")") ||
		p.Shutdown() == nil {
		t.Errorf("ended %v, status %d, %q", p.Ended(), p.ExitCode(), why)
	}
	for _, line := range []string{"out\n", "first\n", "no licence\n"} {
		if !strings.Contains(string(raw), line) {
			t.Errorf("no %q in the log: %q", line, raw)
		}
	}
}

// Kill ends a program that heeds nothing, also one that is paused, and waits for its end.
func TestKill(t *testing.T) {
	p, _ := start(t, "trap '' TERM; exec sleep 1000")
	if p.Ended() {
		t.Fatal(p.Failure())
	}
	p.Pause()
	if err := p.Kill(); err != nil || !p.Ended() {
		t.Errorf("ended: %v, %v", p.Ended(), err)
	}
}

// The crew's tool gives its last line, or the reason why it failed.
func TestRun(t *testing.T) {
	if last, err := Run(t.Context(), []string{"sh", "-c", "echo first; echo accepted; echo"}); last != "accepted" || err != nil {
		t.Errorf("%q, %v", last, err)
	}
	if last, err := Run(t.Context(), []string{"sh", "-c", "echo first; echo refused >&2; exit 1"}); last != "" || err == nil ||
		err.Error() != "sh: refused" {
		t.Errorf("%q, %v", last, err)
	}
	if _, err := Run(t.Context(), []string{filepath.Join(t.TempDir(), "none")}); err == nil {
		t.Error("a program that there is not has run")
	}
}
