package chaos

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Of a result that was cut off, as by a loss of power, the mission is flown again, once.
func TestResultCutOff(t *testing.T) {
	c := testRun(t, 2)
	flyOnce(t, &c)
	flyAll(t, &c, 2)
	path := filepath.Join(c.Out, resultsFile)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, info.Size()-20); err != nil {
		t.Fatal(err)
	}
	c.Resume = true
	for range 2 {
		if all := flyAll(t, &c, 2); len(all) != 2 || all[0].Mission != 0 || all[1].Mission != 1 {
			t.Errorf("%+v", all)
		}
	}
}

// A leader that does not start is a failed mission, with its reason.
func TestNoLeader(t *testing.T) {
	c := testRun(t, 1)
	c.Processes, c.Leader = true, script(t, "echo no licence >&2; exit 1")
	r, err := Run(t.Context(), c, &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Failures) != 1 || !strings.Contains(r.Failures[0].Reason, "no licence") || r.Resumed+r.EndedSafely != 0 {
		t.Errorf("%+v, %+v", r.Failures, r.Outcomes)
	}
}

// A run that is interrupted ends the programs that fly its missions, also one that does not heed it,
// before it ends itself. None of these is a result.
func TestRunInterrupted(t *testing.T) {
	c := testRun(t, 4)
	pids := t.TempDir()
	// The second one is asked in vain.
	c.Flyer = script(t, fmt.Sprintf("case $2 in *-1) trap '' QUIT;; esac; echo $$ >%s/new.$$; mv %s/new.$$ %s/$$; exec sleep 1000", pids,
		pids, pids))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	over := make(chan error, 1)
	go func() {
		_, err := Run(ctx, c, &bytes.Buffer{})
		over <- err
	}()
	started := func() (all []string) {
		all, err := filepath.Glob(filepath.Join(pids, "[0-9]*"))
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	for len(started()) < c.Jobs {
		time.Sleep(10 * time.Millisecond)
	}
	cancel()
	if err := <-over; err == nil || !strings.Contains(err.Error(), "interrupted") {
		t.Errorf("it ends with %v", err)
	}
	for _, path := range started() {
		pid, err := strconv.Atoi(filepath.Base(path))
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(pid, 0); err != syscall.ESRCH {
			t.Errorf("program %d still runs: %v", pid, err)
			syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	if n := len(started()); n != c.Jobs {
		t.Errorf("%d missions were begun, %d at a time", n, c.Jobs)
	}
	if all := results(t, &c); len(all) > 0 {
		t.Errorf("results of missions that were not flown: %+v", all)
	}
}
