package fly

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A worker that hangs and one that is killed, each in the middle of a slot: no task is lost, its output is the
// whole's, and its user computes the aircraft's part. Once it goes on, or is started again, users are sent to it. The
// one that is started again has a clock that is set by a day, forward and back, every 700 ms and so in the middle of
// tasks: that changes nothing, and their times are right.
func TestWorkersThatFail(t *testing.T) {
	t.Parallel()
	const (
		slots               = 22
		hungFrom, hungTo    = 3, 8 // longer than the 3 s after which a worker counts as silent
		killedAt, startedAt = 10, 14
	)
	links := []string{freeAddress(t), freeAddress(t)}
	c := realConfig(t, slots, 1, []string{"udp-listen:" + links[0], "udp-listen:" + links[1]})
	for i, link := range links {
		c.Aircraft = append(c.Aircraft, AircraftConfig{SystemID: i + 1, Listen: "127.0.0.1:0", Partner: link})
	}
	c.Commands = []Command{{-1, []string{"preference", "-setting", "0.2"}}, {-1, []string{"mission", "start"}}}
	c.Seed, c.Execute, c.World.Users, c.World.ActiveMin, c.World.ActiveMax = 100001, true, 4, 4, 4
	c.TimeoutS = 300 // all in real time, and landed aircraft are waited for
	c.World.DeadlineMinS, c.World.DeadlineMaxS = 1, 1
	c.calibrateTasks = 3 // no time is compared with a model's here
	for name, program := range map[string]*[]string{"worker": &c.Worker, "user": &c.User, "worker/blobs": &c.Blobs} {
		path := filepath.Join(buildFolder, filepath.Base(name))
		if out, err := exec.Command("go", "build", "-o", path, "prefdt/firmware/"+name).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		*program = []string{path}
	}
	jumping := filepath.Join(buildFolder, "worker-jump")
	buildJumping(t, jumping, "prefdt/firmware/worker")
	folder := filepath.Join(c.Out, "tasks")
	configuration := func(aircraft int) string { return filepath.Join(folder, "worker-"+strconv.Itoa(aircraft)+".yaml") }
	act := map[int]func(){
		hungFrom: func() { signal(t, configuration(1), syscall.SIGSTOP) },
		hungTo:   func() { signal(t, configuration(1), syscall.SIGCONT) },
		killedAt: func() { signal(t, configuration(2), syscall.SIGKILL) },
		startedAt: func() {
			again := exec.Command(jumping, "-config", configuration(2))
			if err := again.Start(); err != nil {
				t.Error(err)
			}
			t.Cleanup(func() { again.Process.Kill(); again.Wait() })
		},
	}
	flown := make(chan struct{})
	acted := make(chan int)
	go func() { // what slot it is the users' first outcomes say
		n := 0
		defer func() { acted <- n }()
		for {
			select {
			case <-flown:
				return
			case <-time.After(20 * time.Millisecond):
			}
			last := -1
			for _, o := range outcomes(folder) {
				last = max(last, o.Slot)
			}
			for slot, do := range act {
				if last+1 >= slot {
					do()
					delete(act, slot)
					n++
				}
			}
		}
	}()
	s := flySummary(t, c)
	close(flown)
	if n := <-acted; n != 4 {
		t.Fatalf("%d of four acts", n)
	}
	if x := s.Executed; x.Tasks < slots || x.Identical != x.Tasks {
		t.Errorf("%d of %d outputs are the whole's", x.Identical, x.Tasks)
	}
	const offeredIn = 3 // slots after which a worker that was started again is offered
	var problems, sent, served int
	computed := map[int][]int{} // slots in which an aircraft computed a part
	for _, o := range outcomes(folder) {
		if o.Problem != "" {
			problems++
		}
		if o.Chosen == 2 && o.Slot >= startedAt+offeredIn {
			if sent++; o.Aircraft == 2 {
				served++
			}
		}
		if o.EdgeS != nil && (*o.EdgeS < 0 || *o.EdgeS > 60) {
			t.Errorf("slot %d: aircraft %d says that it computed for %v s", o.Slot, o.Aircraft, *o.EdgeS)
		}
		computed[o.Aircraft] = append(computed[o.Aircraft], o.Slot)
	}
	if problems == 0 {
		t.Error("no user met a worker that failed")
	}
	t.Logf("with a clock that is set, %d parts of %d were computed on the aircraft", served, sent)
	if sent == 0 || 2*served < sent { // the others' users were faster themselves
		t.Errorf("with a clock that is set, %d parts of %d were computed on the aircraft", served, sent)
	}
	for aircraft, from := range map[int]int{1: hungTo, 2: startedAt} {
		if len(computed[aircraft]) == 0 || slices.Max(computed[aircraft]) < from {
			t.Errorf("aircraft %d computed in slots %v, want some after slot %d", aircraft, computed[aircraft], from)
		}
	}
}

// buildJumping builds a program whose wall clock jumps by a day forward and back every 700 ms, as
// chaos.BuildJump does, which cannot be imported here. The monotonic part of a time is unchanged.
func buildJumping(t *testing.T, program, of string) {
	t.Helper()
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	original := filepath.Join(strings.TrimSpace(string(root)), "src", "time", "time.go")
	text, err := os.ReadFile(original)
	if err != nil {
		t.Fatal(err)
	}
	const read = "sec, nsec, mono := runtimeNow()"
	if n := bytes.Count(text, []byte(read)); n != 1 {
		t.Fatalf("%s has %q %d times, want once", original, read, n)
	}
	changed, list := program+".go", program+".json"
	text = bytes.Replace(text, []byte(read), []byte(read+"\n\tif mono/700e6%2 == 1 {\n\t\tsec += 86400\n\t}"), 1)
	raw, err := json.Marshal(map[string]any{"Replace": map[string]string{original: changed}})
	if err != nil {
		t.Fatal(err)
	}
	for path, content := range map[string][]byte{changed: text, list: raw} {
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command("go", "build", "-overlay", list, "-o", program, of).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// outcomes are the lines that users have printed.
func outcomes(folder string) (all []outcome) {
	paths, _ := filepath.Glob(filepath.Join(folder, "u*.json"))
	for _, path := range paths {
		raw, _ := os.ReadFile(path)
		for line := range bytes.Lines(raw) {
			var o outcome
			if json.Unmarshal(line, &o) == nil {
				all = append(all, o)
			}
		}
	}
	return all
}

// signal signals the process that has an argument.
func signal(t *testing.T, argument string, what syscall.Signal) {
	paths, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range paths {
		raw, _ := os.ReadFile(path)
		if n, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil && strings.Contains(string(raw), argument+"\x00") {
			syscall.Kill(n, what)
			return
		}
	}
	t.Errorf("no process has the argument %s", argument)
}
