package chaos

import (
	"bytes"
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
// the leader's threads. And a thread of this process that sleeps for a millisecond at a
// time, the canary, detects delays of the simulator, and stops of the whole machine,
// which a kernel in a virtual machine cannot measure. Neither counts the time in which a
// program computes.
type hostMonitor struct {
	mutex  sync.Mutex
	canary delayLog
	stop   chan struct{}
	done   sync.WaitGroup
}

// delayLog is a list of measured delays by the time of their end.
type delayLog struct {
	delays []delay
	total  time.Duration
}

type delay struct {
	endedAt  time.Time
	duration time.Duration
}

// delayRetention is how long a delay is kept.
const delayRetention = 2 * time.Minute

func (r *delayLog) add(at time.Time, d time.Duration) {
	if d <= 0 {
		return
	}
	r.total += d
	if len(r.delays) > 0 && at.Sub(r.delays[0].endedAt) > 2*delayRetention { // rarely
		r.delays = slices.DeleteFunc(r.delays, func(d delay) bool { return at.Sub(d.endedAt) > delayRetention })
	}
	r.delays = append(r.delays, delay{at, d})
}

// within returns the parts of the delays within a span.
func (r *delayLog) within(from, to time.Time) (spans []span) {
	for i := len(r.delays) - 1; i >= 0; i-- {
		x := r.delays[i]
		if !x.endedAt.After(from) {
			break
		}
		if begin := x.endedAt.Add(-x.duration); begin.Before(to) {
			spans = append(spans, span{maxTime(begin, from), minTime(x.endedAt, to)})
		}
	}
	return spans
}

type span struct{ from, to time.Time }

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
	samplePeriod = 5 * time.Millisecond
)

func newHostMonitor() *hostMonitor {
	h := &hostMonitor{stop: make(chan struct{})}
	h.done.Go(h.run)
	return h
}

func (h *hostMonitor) close() {
	close(h.stop)
	h.done.Wait()
}

// run is the canary, on a thread of its own.
func (h *hostMonitor) run() {
	runtime.LockOSThread()
	for {
		select {
		case <-h.stop:
			return
		default:
		}
		slept := time.Now()
		time.Sleep(canaryTick)
		now := time.Now()
		h.mutex.Lock()
		h.canary.add(now, now.Sub(slept)-canaryTick-canarySlack)
		h.mutex.Unlock()
	}
}

// delayBetween is for how much of a span of wall time the machine delayed the leader or
// this process, which a setpoint passes one after the other.
func (h *hostMonitor) delayBetween(leader *threadDelays, from, to time.Time) time.Duration {
	spans := leader.within(from, to)
	h.mutex.Lock()
	defer h.mutex.Unlock()
	return unionDuration(append(spans, h.canary.within(from, to)...))
}

// totalDelay is the delay of this process in all.
func (h *hostMonitor) totalDelay() time.Duration {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	return h.canary.total
}

// threadDelays are the waits of a process's threads for a core. nil has none.
type threadDelays struct {
	pid int

	mutex    sync.Mutex
	listedAt time.Time
	waitedNS map[string]uint64 // nanoseconds so far, by the thread's file
	delays   delayLog
}

// sample adds the increments since the sample before. The longest wait of any thread
// counts: a message that passes through several threads waits for one after the other,
// which several samples show.
func (t *threadDelays) sample() {
	if t == nil {
		return
	}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	now := time.Now()
	if now.Sub(t.listedAt) > 20*samplePeriod {
		t.listedAt = now
		found, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", t.pid))
		fresh := make(map[string]uint64, len(found))
		for _, name := range found {
			if was, ok := t.waitedNS[name]; ok {
				fresh[name] = was
			} else if n, ok := runDelayNS(name); ok {
				fresh[name] = n
			}
		}
		t.waitedNS = fresh
	}
	longest := uint64(0)
	for name, was := range t.waitedNS {
		if n, ok := runDelayNS(name); ok && n >= was {
			longest, t.waitedNS[name] = max(longest, n-was), n
		}
	}
	t.delays.add(now, time.Duration(longest))
}

// within returns when the threads waited within a span, up to now.
func (t *threadDelays) within(from, to time.Time) []span {
	if t == nil {
		return nil
	}
	t.sample()
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return t.delays.within(from, to)
}

func (t *threadDelays) total() time.Duration {
	if t == nil {
		return 0
	}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return t.delays.total
}

func runDelayNS(name string) (uint64, bool) {
	raw, err := os.ReadFile(name)
	if err != nil {
		return 0, false
	}
	fields := bytes.Fields(raw)
	if len(fields) < 2 {
		return 0, false
	}
	n, err := strconv.ParseUint(string(fields[1]), 10, 64)
	return n, err == nil
}
