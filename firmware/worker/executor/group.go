package executor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Groups makes a control group (cgroup v2) for each process of a program: what a process starts is stopped, killed and counted with it,
// whatever it calls, and memory.max and pids.max hold it where the kernel gives the controllers. CPU time is not the groups' to share: a
// task is to have what it was granted and no more, and as many kernels as not have no cpu controller to show it with.
type Groups struct {
	folder string
	made   atomic.Int64
}

// mostThreads is pids.max of a process with all that it starts. The worker's own threads come from what its unit has beyond.
const mostThreads = 64

// NewGroups divides this program's own group, which must be delegated to its user (systemd: Delegate=yes). It moves the program into a
// group below, since one with controllers for others may have no process itself.
func NewGroups() (*Groups, error) {
	folder, err := ownGroup()
	if err != nil {
		return nil, err
	}
	if os.Getuid() == 0 { // it may write to any group, delegated or not
		return nil, errors.New("root's own group may be anybody's")
	}
	g, err := newGroups(folder)
	if err != nil {
		return nil, err
	}
	self := filepath.Join(folder, "self")
	if err := os.Mkdir(self, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(self, "cgroup.procs"), []byte("0"), 0); err != nil {
		return nil, err
	}
	for _, controller := range []string{"+memory", "+pids"} { // one that is not there is missing in the groups
		os.WriteFile(filepath.Join(folder, "cgroup.subtree_control"), []byte(controller), 0)
	}
	return g, nil
}

// newGroups tries whether a folder's groups can be made, and killed.
func newGroups(folder string) (*Groups, error) {
	g := &Groups{folder: folder}
	try, err := g.new(0)
	if err != nil {
		return nil, err
	}
	defer try.remove()
	if _, err := os.Stat(filepath.Join(try.folder, "cgroup.kill")); err != nil {
		return nil, fmt.Errorf("the kernel is older than 5.14: %w", err)
	}
	return g, nil
}

// ownGroup is the folder of this process's group.
func ownGroup() (string, error) {
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return "", err
	}
	_, path, ok := strings.Cut("\n"+string(groups), "\n0::")
	if path, _, _ = strings.Cut(path, "\n"); ok {
		for line := range strings.Lines(string(mounts)) {
			if fields := strings.Fields(line); len(fields) > 2 && fields[2] == "cgroup2" {
				return filepath.Join(fields[1], path), nil
			}
		}
	}
	return "", errors.New("no cgroup v2 is mounted")
}

// Holds is what the groups hold processes to, in words.
func (g *Groups) Holds() string {
	controllers, _ := os.ReadFile(filepath.Join(g.folder, "cgroup.subtree_control"))
	return fmt.Sprintf("groups in %s: what a function starts ends with it; controllers: %s", g.folder,
		strings.Join(strings.Fields(string(controllers)), ", "))
}

// group is that of one process; nil: it has none.
type group struct {
	folder string
	dir    *os.File
}

// new makes a group with so much memory at most; 0: no limit of its own.
func (g *Groups) new(memoryBytes uint64) (*group, error) {
	x := &group{folder: filepath.Join(g.folder, fmt.Sprintf("executor-%d-%d", os.Getpid(), g.made.Add(1)))}
	err := os.Mkdir(x.folder, 0o755)
	if err == nil {
		x.dir, err = os.Open(x.folder)
	}
	if err != nil {
		return nil, fmt.Errorf("make a function's group: %w", err)
	}
	limits := map[string]string{"pids.max": strconv.Itoa(mostThreads), "memory.swap.max": "0", "memory.oom.group": "1"}
	if memoryBytes > 0 {
		limits["memory.max"] = strconv.FormatUint(memoryBytes, 10)
	}
	for file, limit := range limits {
		if err := x.write(file, limit); err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, os.ErrPermission) {
			x.remove()
			return nil, fmt.Errorf("limit a function's group: %w", err)
		}
	}
	return x, nil
}

func (x *group) write(file, text string) error {
	f, err := os.OpenFile(filepath.Join(x.folder, file), os.O_WRONLY, 0) // no such file: no such controller
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString(text)
	return err
}

// cpu is the CPU time of all that was in the group.
func (x *group) cpu() (time.Duration, bool) {
	stat, _ := os.ReadFile(filepath.Join(x.folder, "cpu.stat"))
	for line := range strings.Lines(string(stat)) {
		if us, ok := strings.CutPrefix(line, "usage_usec "); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(us), 10, 64)
			return time.Duration(n) * time.Microsecond, err == nil
		}
	}
	return 0, false
}

// remove removes the group once what was killed in it is gone.
func (x *group) remove() {
	if x == nil {
		return
	}
	x.dir.Close()
	for wait := time.Millisecond; os.Remove(x.folder) != nil && wait < 10*time.Second; wait *= 2 {
		time.Sleep(wait)
	}
}
