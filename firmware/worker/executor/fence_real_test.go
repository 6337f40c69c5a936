//go:build real

package executor

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"prefdt/firmware/worker/sdk"
)

// The test's own program is the executor: each function is one behaviour.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "executor" {
		sdk.Serve(trespass, flee)
		os.Exit(0)
	}
	if len(os.Args) == 2 && os.Args[1] == "burn" {
		for {
		}
	}
	os.Exit(m.Run())
}

// trespass tries what its input says, and returns what came of it.
func trespass(input []byte) ([]byte, error) {
	what, of, _ := strings.Cut(string(input), " ")
	var err error
	switch what {
	case "read":
		_, err = os.ReadFile(of)
	case "write":
		err = os.WriteFile(of, []byte("x"), 0o600)
	case "connect":
		_, err = net.Dial("tcp", of)
	case "listen":
		_, err = net.Listen("tcp", of)
	case "signal":
		pid, _ := strconv.Atoi(of)
		err = syscall.Kill(pid, 0)
	case "execute":
		err = exec.Command(of).Run()
	}
	return fmt.Append(nil, err), nil
}

// flee starts a child in a session of its own, which computes without end, and returns its process id.
func flee([]byte) ([]byte, error) {
	c := exec.Command(os.Args[0], "burn")
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err := c.Start()
	if err != nil {
		return nil, err
	}
	return fmt.Append(nil, c.Process.Pid), nil
}

func start(t *testing.T, p *Program) *Process {
	t.Helper()
	p.Command = []string{os.Args[0], "executor"}
	x, err := p.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(x.Kill)
	return x
}

func run(t *testing.T, x *Process, function uint32, input string) string {
	t.Helper()
	out, _, err := x.Run(function, []byte(input), 1000)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// A function reads what is its own and the system's, writes where it may, and reaches nobody: neither through the network, nor the
// program that started it.
func TestFence(t *testing.T) {
	fd, forbids := newRuleset()
	if fd < 0 {
		t.Skip(Fence())
	}
	syscall.Close(fd)
	granted, secret := t.TempDir(), t.TempDir()
	for _, folder := range []string{granted, secret} {
		if err := os.WriteFile(filepath.Join(folder, "file"), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	none := &Program{}
	reads := &Program{Reads: []string{granted}}
	writes := &Program{Writes: []string{granted}}
	for _, c := range []struct {
		program *Program
		try     string
		allowed bool
		since   uint64 // what the kernel must know
	}{
		{none, "read " + os.Args[0], true, 1},
		{none, "read /usr/lib/os-release", true, 1},
		{none, "write /dev/null", true, 1},
		{none, "read " + filepath.Join(granted, "file"), false, 1},
		{none, "read /etc/passwd", false, 1},
		{none, "read /proc/" + strconv.Itoa(os.Getpid()) + "/environ", false, 1},
		{none, "write " + filepath.Join(filepath.Dir(os.Args[0]), "planted"), false, 1},
		{reads, "read " + filepath.Join(granted, "file"), true, 1},
		{reads, "write " + filepath.Join(granted, "file"), false, 1},
		{reads, "read " + filepath.Join(secret, "file"), false, 1},
		{writes, "write " + filepath.Join(granted, "file"), true, 1},
		{writes, "write " + filepath.Join(granted, "new"), true, 1},
		{writes, "write " + filepath.Join(secret, "new"), false, 1},
		{none, "execute /usr/bin/true", true, 1},
		{none, "execute " + filepath.Join(granted, "file"), false, 1},
		{none, "connect " + l.Addr().String(), false, 1},
		{none, "listen 127.0.0.1:0", false, 1}, // by MPTCP
		{none, "signal " + strconv.Itoa(os.Getpid()), false, forbids.Scoped},
	} {
		if c.since == 0 {
			continue
		}
		if got := run(t, start(t, c.program), 0, c.try); (got == "<nil>") != c.allowed {
			t.Errorf("%s: %s, want %v", c.try, got, c.allowed)
		}
	}
	// Who started them is as free as before.
	if _, err := os.ReadFile(filepath.Join(secret, "file")); err != nil {
		t.Error(err)
	}
	missing := &Program{Command: []string{os.Args[0], "executor"}, Reads: []string{filepath.Join(secret, "none")}}
	if _, err := missing.Start(); err == nil || !strings.Contains(err.Error(), "none") {
		t.Errorf("a folder that is not there: %v", err)
	}
}

// testGroups are groups in one of the test's own.
func testGroups(t *testing.T) *Groups {
	t.Helper()
	own, err := ownGroup()
	folder := filepath.Join(own, "prefdt-test-"+strconv.Itoa(os.Getpid()))
	if err == nil {
		err = os.Mkdir(folder, 0o755)
	}
	if err != nil {
		t.Skip("no group can be made here: ", err)
	}
	t.Cleanup(func() {
		for range 1000 { // those of processes that were just killed
			if os.Remove(folder) == nil {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
		t.Error("the group is not empty")
	})
	g, err := newGroups(folder)
	if err != nil {
		t.Skip("no group can be made here: ", err)
	}
	return g
}

// computes is whether a process has more CPU time after a while.
func computes(pid string) bool {
	ticks := func() string {
		stat, err := os.ReadFile("/proc/" + pid + "/stat")
		if err != nil {
			return ""
		}
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		if fields[0] == "Z" {
			return ""
		}
		return fields[11]
	}
	before := ticks()
	for range 100 { // a step is 10 ms; beside others it may take longer
		time.Sleep(10 * time.Millisecond)
		if after := ticks(); after != before && after != "" {
			return true
		}
	}
	return false
}

// A child that leaves its process group and session is stopped, continued, counted and killed with its executor, however that ends.
func TestChildThatFlees(t *testing.T) {
	groups := testGroups(t)
	for _, ends := range []string{"killed", "by itself"} {
		x := start(t, &Program{Groups: groups})
		run(t, x, 0, "none") // it has started
		child := run(t, x, 1, "")
		if !computes(child) {
			t.Fatal("the child does not compute")
		}
		if kernel, reported, ok := x.CPU(); !ok || kernel < reported+5*time.Millisecond {
			t.Errorf("the kernel counted %v, the executor said %v", kernel, reported)
		}
		x.Stop()
		time.Sleep(20 * time.Millisecond)
		if computes(child) {
			t.Error("it computes while it is stopped")
		}
		x.Continue()
		if !computes(child) {
			t.Error("it does not go on")
		}
		if ends == "killed" {
			x.Stop()
			x.Kill()
		} else {
			syscall.Kill(x.process.Pid, syscall.SIGTERM)
			<-x.ended
		}
		if computes(child) {
			t.Errorf("it computes after its executor ended: %s", ends)
		}
	}
}

// Groups that cannot be had are said, and cost nothing else.
func TestNoGroups(t *testing.T) {
	if _, err := newGroups(t.TempDir()); err == nil || !strings.Contains(err.Error(), "cgroup.kill") {
		t.Errorf("a folder of files: %v", err)
	}
	if _, err := newGroups(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a folder that is not there")
	}
}
