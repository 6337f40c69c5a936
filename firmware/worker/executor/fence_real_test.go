//go:build real

package executor

import (
	"context"
	"debug/elf"
	"errors"
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

	"golang.org/x/sys/unix"

	"prefdt/firmware/worker/sdk"
)

// The test's own program is the executor: each function is one behaviour.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "executor" {
		sdk.Serve(trespass, flee, multiply)
		os.Exit(0)
	}
	if len(os.Args) == 2 && os.Args[1] == "burn" {
		for n := 0; ; n++ {
		}
	}
	if len(os.Args) == 2 && os.Args[1] == "idle" {
		time.Sleep(time.Hour)
	}
	if os.Args[0] == "/init" {
		boot()
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

// multiply starts so many children of a kind, or as many as it can, and returns how many.
func multiply(input []byte) ([]byte, error) {
	kind, most, _ := strings.Cut(string(input), " ")
	wanted, _ := strconv.Atoi(most)
	for n := range wanted {
		if err := exec.Command(os.Args[0], kind).Start(); err != nil {
			return fmt.Append(nil, n), nil
		}
	}
	return []byte(most), nil
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
	silent, err := (&Program{Command: []string{"false"}}).Start()
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := silent.Run(0, nil, 1); !errors.Is(err, ErrBroken) {
		t.Errorf("a program that ends: %v", err)
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

// In a group that is delegated as systemd does it, to a user that is not root, a function's threads and memory have an end, with those of
// what it starts; its worker's are its own.
func TestDelegatedGroup(t *testing.T) {
	groups, err := NewGroups()
	if err != nil {
		t.Skip(err)
	}
	if held := groups.Holds(); !strings.Contains(held, "memory") || !strings.Contains(held, "pids") {
		t.Skip(held)
	}
	x := start(t, &Program{Groups: groups})
	if n, _ := strconv.Atoi(run(t, x, 2, "idle 1000")); n < 1 || n > mostThreads {
		t.Errorf("it started %d processes, %d threads are allowed", n, mostThreads)
	}
	y := start(t, &Program{Groups: groups, MemoryBytes: 1 << 30})
	most, err := os.ReadFile(filepath.Join(y.group.folder, "memory.max"))
	if err != nil || strings.TrimSpace(string(most)) != "1073741824" {
		t.Errorf("its memory has the limit %q, %v", most, err)
	}
	if x.Ended() {
		t.Error("another function ended")
	}
}

// The same in a machine of its own (User-Mode Linux, which boots in two seconds): few of those that test have cgroup v2 with controllers.
func TestDelegatedGroupInItsOwnMachine(t *testing.T) {
	machine, err := exec.LookPath("linux.uml")
	if err != nil {
		t.Skip("user-mode-linux is not installed")
	}
	if program, err := elf.Open(os.Args[0]); err != nil || program.Section(".interp") != nil {
		t.Skip("that machine has no libraries: test with CGO_ENABLED=0")
	}
	root := t.TempDir()
	for _, folder := range []string{"proc", "sys", "tmp", "dev"} {
		if err := os.Mkdir(filepath.Join(root, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	self, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"init", "test"} {
		if err := os.WriteFile(filepath.Join(root, name), self, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute) // it takes ten seconds, and longer beside others
	defer cancel()
	out, err := exec.CommandContext(ctx, machine, "rootfstype=hostfs", "rootflags="+root, "init=/init", "mem=768M", "con=null",
		"con0=null,fd:1", "quiet", "uml_dir="+filepath.Join(root, "tmp")).Output()
	for _, passed := range []string{"TestChildThatFlees", "TestDelegatedGroup"} {
		if !strings.Contains(string(out), "--- PASS: "+passed) {
			t.Fatalf("%s: %v\n%s", passed, err, out)
		}
	}
}

// boot is what that machine does: with a group delegated to a user it runs the tests, and ends.
func boot() {
	must := func(err error) {
		if err != nil {
			fmt.Println(err)
			unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
		}
	}
	const groups, unit, user = "/sys/fs/cgroup", "/sys/fs/cgroup/unit", 1000
	must(unix.Mount("proc", "/proc", "proc", 0, ""))
	must(unix.Mount("sys", "/sys", "sysfs", 0, ""))
	must(unix.Mount("tmp", "/tmp", "tmpfs", 0, ""))
	must(unix.Mount("groups", groups, "cgroup2", 0, ""))
	must(os.WriteFile(groups+"/cgroup.subtree_control", []byte("+memory +pids"), 0))
	must(os.Mkdir(unit, 0o755))
	for _, file := range []string{"", "/cgroup.procs", "/cgroup.subtree_control", "/cgroup.threads"} {
		must(os.Chown(unit+file, user, user))
	}
	dir, err := os.Open(unit)
	must(err)
	c := exec.Command("/test", "-test.v", "-test.run", "TestChildThatFlees|TestDelegatedGroup$")
	c.Stdout, c.Stderr = os.Stdout, os.Stdout
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}, UseCgroupFD: true, CgroupFD: int(dir.Fd())}
	must(c.Run())
	unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
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
