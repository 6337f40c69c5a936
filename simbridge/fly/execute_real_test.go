//go:build real

package fly

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"prefdt/simbridge/rig"
	"prefdt/telemetry"
)

// A worker that hangs and one that is killed, each in the middle of a slot: no task is lost, its output is the
// whole's, and its user computes the aircraft's part. Once it goes on, or is started again, users are sent to it. The
// one that is started again has a clock that is set by a day, forward and back, every 700 ms and so in the middle of
// tasks: it computes them, and their times are right. The flight goes on until all that was seen, however long this
// machine takes, and is interrupted.
func TestWorkersThatFail(t *testing.T) {
	t.Parallel()
	const (
		gone   = 4 // slots: longer than the 3 s after which a worker counts as silent
		served = 6 // parts that the one with the clock then computes
	)
	c := realFlight(t, 400, 1, func(c *Config) []string { return c.udpAircraft(t, 2) })
	c.Commands = []Command{{Slot: -1, Args: []string{"preference", "-setting", "0.2"}}, {Slot: -1, Args: []string{"mission", "start"}}}
	c.Seed, c.Execute, c.World.Users, c.World.ActiveMin, c.World.ActiveMax = 100001, true, 4, 4, 4
	c.World.DeadlineMinS, c.World.DeadlineMaxS = 1, 1
	c.calibrateTasks = 3 // no time is compared with a model's here
	c.Worker = []string{program(t, "firmware/worker")}
	c.User, c.Blobs = []string{program(t, "firmware/user")}, []string{program(t, "firmware/worker/blobs")}
	jumping := filepath.Join(t.TempDir(), "worker-jump")
	rig.BuildJumping(t, jumping, "prefdt/firmware/worker")
	folder := filepath.Join(c.Out, "tasks")
	configuration := func(aircraft int) string { return filepath.Join(folder, "worker-"+strconv.Itoa(aircraft)+".yaml") }

	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	// until waits for a condition of the users' outcomes, and returns the last slot of them.
	until := func(ok func(all []outcome, last int) bool) (last int) {
		for ctx.Err() == nil {
			all := outcomes(folder)
			last = -1
			for _, o := range all {
				last = max(last, o.Slot)
			}
			if ok(all, last) {
				return last
			}
			time.Sleep(200 * time.Millisecond) // to read them takes the workers' time
		}
		return last
	}
	var sentIn [3]atomic.Int64 // the last slot in which a user was sent to each aircraft
	defer listen(t, c, func(_ string, d telemetry.Decision) {
		if d.Aircraft > 0 {
			sentIn[d.Aircraft].Store(int64(d.Slot))
		}
	})()
	// meet has a worker fail just when a user is sent to it, until one meets that, which on a busy machine five may not, and returns
	// the slot from which it is back.
	meet := func(aircraft int, fail, mend func()) (back int) {
		met := false
		for tries := 0; !met && tries < 5 && ctx.Err() == nil; mend() {
			tries++
			until(func(all []outcome, _ int) bool {
				computed := computedSince(all, back)
				return computed[aircraft] > 0
			})
			before := sentIn[aircraft].Load()
			for ctx.Err() == nil && sentIn[aircraft].Load() == before {
				time.Sleep(time.Millisecond)
			}
			failed := int(sentIn[aircraft].Load())
			t.Logf("in slot %d the worker of aircraft %d fails", failed, aircraft)
			fail()
			back = 1 + until(func(all []outcome, last int) bool {
				met = slices.ContainsFunc(all, func(o outcome) bool {
					return o.Chosen == aircraft && o.Slot >= failed && o.Problem != ""
				})
				return last >= failed+gone
			})
		}
		return back
	}
	var back [3]int // by aircraft
	var acting sync.WaitGroup
	acting.Go(func() {
		back[1] = meet(1, func() { signal(t, configuration(1), syscall.SIGSTOP) }, func() { signal(t, configuration(1), syscall.SIGCONT) })
	})
	acting.Go(func() {
		back[2] = meet(2, func() { signal(t, configuration(2), syscall.SIGKILL) }, func() {
			again := exec.Command(jumping, "-config", configuration(2))
			if err := again.Start(); err != nil {
				t.Error(err)
				interrupt()
				return
			}
			t.Cleanup(func() { again.Process.Kill(); again.Wait() })
		})
	})
	acted := make(chan struct{})
	go func() {
		defer close(acted)
		defer interrupt()
		acting.Wait()
		until(func(all []outcome, _ int) bool {
			return computedSince(all, back[1])[1] > 0 && computedSince(all, back[2])[2] >= served
		})
	}()
	var out bytes.Buffer
	err := Run(ctx, c, &out)
	interrupt()
	<-acted
	if err == nil || err.Error() != "interrupted" {
		t.Fatalf("%v\n%s", err, &out)
	}
	if x := readSummary(t, c).Executed; x.Tasks < 2*served || x.Identical != x.Tasks {
		t.Errorf("%d of %d outputs are the whole's", x.Identical, x.Tasks)
	}
	all := outcomes(folder)
	for _, o := range all {
		if o.EdgeS != nil && (*o.EdgeS < 0 || *o.EdgeS > 3600) { // a day is the fault that is looked for
			t.Errorf("slot %d: aircraft %d says that it computed for %v s", o.Slot, o.Aircraft, *o.EdgeS)
		}
	}
}

// computedSince counts, by aircraft, the parts that were sent to it since a slot and that it computed.
func computedSince(all []outcome, slot int) (computed [3]int) {
	for _, o := range all {
		if o.Slot >= slot && o.Chosen > 0 && o.Aircraft == o.Chosen {
			computed[o.Chosen]++
		}
	}
	return computed
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

// realFlight has a flight's broker, leader and crew's tool on this machine, in real time. Aircraft wait for their leader
// as long as it permits: the machine may be busy.
func realFlight(t *testing.T, slots int, speed float64, aircraft func(c *Config) (endpoints []string)) Config {
	t.Helper()
	c := leaderConfig(t)
	c.Speed, c.StartRetryS, c.Parameters["COM_OF_LOSS_T"] = speed, 3600, 10
	c.Broker.Listen, c.Ground = freeAddress(t), []string{program(t, "telemetry/ground")}
	c.leadBy(t, slots, aircraft(&c))
	c.Leader.Command = []string{program(t, "firmware")}
	return c
}
