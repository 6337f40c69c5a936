package chaos

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"
)

// hostMonitor measures how long the machine, rather than a program, delayed programs, so
// that the judge can add the measured delay, and nothing else, to its limits of time.
// There are two measures. The kernel counts for each thread how long it was ready and
// had no core (run_delay, the second number of /proc/PID/task/TID/schedstat), here for
// the leader's threads and for those of this process, with its simulators and its broker.
// And a thread of this process that sleeps for a millisecond at a
// time, the canary, detects delays of the simulator, and stops of the whole machine,
// which a kernel in a virtual machine cannot measure. Neither counts the time in which a
// program computes.
type hostMonitor struct {
	canary delayLog
	own    threadDelays // of this process
}

// delayLog is a list of measured delays by the time of their end. It is safe for
// concurrent use.
type delayLog struct {
	mutex  sync.Mutex
	delays []span
	sum    time.Duration
}

type span struct{ from, to time.Time }

// delayRetention is how long a delay is kept.
const delayRetention = 2 * time.Minute

func (r *delayLog) add(at time.Time, d time.Duration) {
	if d <= 0 {
		return
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.sum += d
	if len(r.delays) > 0 && at.Sub(r.delays[0].to) > 2*delayRetention { // rarely
		r.delays = slices.DeleteFunc(r.delays, func(s span) bool { return at.Sub(s.to) > delayRetention })
	}
	r.delays = append(r.delays, span{at.Add(-d), at})
}

// within returns the parts of the delays within a span.
func (r *delayLog) within(from, to time.Time) (spans []span) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for _, s := range slices.Backward(r.delays) {
		if !s.to.After(from) {
			break
		}
		if s.from.Before(to) {
			spans = append(spans, span{maxTime(s.from, from), minTime(s.to, to)})
		}
	}
	return spans
}

func (r *delayLog) total() time.Duration {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.sum
}

// unionDuration is the duration of the union of the spans.
func unionDuration(spans []span) (sum time.Duration) {
	slices.SortFunc(spans, func(a, b span) int { return a.from.Compare(b.from) })
	var until time.Time
	for _, s := range spans {
		if from := maxTime(s.from, until); s.to.After(from) {
			sum += s.to.Sub(from)
			until = s.to
		}
	}
	return sum
}

func minTime(t ...time.Time) time.Time { return slices.MinFunc(t, time.Time.Compare) }
func maxTime(t ...time.Time) time.Time { return slices.MaxFunc(t, time.Time.Compare) }

const (
	canaryTick   = time.Millisecond
	canarySlack  = 500 * time.Microsecond // inaccuracy of a timer
	samplePeriod = 10 * time.Millisecond
	listPeriod   = 250 * time.Millisecond
)

// run is the canary, on a thread of its own, until the context ends.
func (h *hostMonitor) run(ctx context.Context) {
	runtime.LockOSThread()
	h.own.pid, h.own.slack = os.Getpid(), 3*time.Millisecond
	go h.watch(ctx, func() *threadDelays { return &h.own })
	for ctx.Err() == nil {
		slept := time.Now()
		time.Sleep(canaryTick)
		now := time.Now()
		h.canary.add(now, now.Sub(slept)-canaryTick-canarySlack)
	}
}

// slowdown is by how much a mission that begins now flies slower than planned, so that a
// busy machine keeps up with it: 1, 2 or 4, by the share of the last seconds for which the
// canary was held up.
func (h *hostMonitor) slowdown() float64 {
	const window = 2 * time.Second
	now := time.Now()
	switch share := float64(unionDuration(h.canary.within(now.Add(-window), now))) / float64(window); {
	case share > 0.5:
		return 4
	case share > 0.25:
		return 2
	}
	return 1
}

// watch samples a leader's delays until the context ends.
func (h *hostMonitor) watch(ctx context.Context, leader func() *threadDelays) {
	tick := time.NewTicker(samplePeriod)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			leader().sample()
		case <-ctx.Done():
			return
		}
	}
}

// delayBetween is for how much of a span of wall time the machine delayed the leader or
// this process, which a setpoint passes one after the other.
func (h *hostMonitor) delayBetween(leader *threadDelays, from, to time.Time) time.Duration {
	leader.sample() // up to now
	h.own.sample()
	return unionDuration(slices.Concat(leader.delays.within(from, to), h.own.delays.within(from, to), h.canary.within(from, to)))
}

// threadDelays are the waits of a process's threads for a core. The zero value has none.
type threadDelays struct {
	pid   int
	slack time.Duration // waits in a sample that delay nothing: of many threads one always waits a little

	mutex    sync.Mutex
	listedAt time.Time
	threads  map[string]*threadWaits // by the thread's file
	delays   delayLog
}

// threadWaits is how long a thread has waited so far, read from its open file.
type threadWaits struct {
	file *os.File
	ns   uint64
}

// sample adds the increments since the sample before. The longest wait of any thread
// counts: a message that passes through several threads waits for one after the other,
// which several samples show.
func (t *threadDelays) sample() {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	now := time.Now()
	if now.Sub(t.listedAt) > listPeriod {
		t.listedAt = now
		t.list()
	}
	longest := uint64(0)
	for _, w := range t.threads {
		if n, ok := runDelayNS(w.file); ok && n >= w.ns {
			longest, w.ns = max(longest, n-w.ns), n
		}
	}
	t.delays.add(now, time.Duration(longest)-t.slack)
}

// list opens the files of new threads, and closes those of threads that have ended.
func (t *threadDelays) list() {
	found, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", t.pid))
	for name, w := range t.threads {
		if !slices.Contains(found, name) {
			w.file.Close()
			delete(t.threads, name)
		}
	}
	for _, name := range found {
		if t.threads[name] != nil {
			continue
		}
		file, err := os.Open(name)
		if err != nil {
			continue // it has just ended
		}
		n, _ := runDelayNS(file)
		if t.threads == nil {
			t.threads = map[string]*threadWaits{}
		}
		t.threads[name] = &threadWaits{file, n}
	}
}

// runDelayNS reads the second number of a schedstat file.
func runDelayNS(file *os.File) (n uint64, ok bool) {
	var raw [96]byte
	read, _ := file.ReadAt(raw[:], 0)
	fields := bytes.Fields(raw[:read])
	if len(fields) < 2 {
		return 0, false
	}
	n, err := strconv.ParseUint(string(fields[1]), 10, 64)
	return n, err == nil
}
