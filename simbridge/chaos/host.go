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

// hostMonitor measures how long the machine, not a program, held programs up, so that
// a judge of lateness can add what was measured, and nothing else, to what the
// contract allows. There are two measures. The kernel counts for each thread how
// long it could have run and had no core (run_delay, the second number of
// /proc/PID/task/TID/schedstat): the leader's, whose setpoints are judged. And a
// thread of our own that sleeps for a millisecond at a time finds what our side
// waits for, and when the whole machine stood still, which the kernel inside it
// cannot know. A program that computes for long is delayed by neither.
type hostMonitor struct {
	mutex  sync.Mutex
	canary delayLog
	stop   chan struct{}
	done   sync.WaitGroup
}

// delayLog is what was measured, by the moment at which it was.
type delayLog struct {
	delays []delay
	total  time.Duration
}

type delay struct {
	endedAt  time.Time // it ended
	duration time.Duration
}

// delayRetention is how far back a delay can be asked for.
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

// within returns the delays that fell into a span, cut to it.
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

// unionDuration is how long the spans last together: what two of them cover counts once.
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
	canarySlack  = 500 * time.Microsecond // a timer's own
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

// delayBetween is for how much of a span of wall time the machine held up the leader
// or us, whom a setpoint passes one after the other.
func (h *hostMonitor) delayBetween(leader *threadDelays, from, to time.Time) time.Duration {
	spans := leader.within(from, to)
	h.mutex.Lock()
	defer h.mutex.Unlock()
	return unionDuration(append(spans, h.canary.within(from, to)...))
}

// totalDelay is for how long we were held up.
func (h *hostMonitor) totalDelay() time.Duration {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	return h.canary.total
}

// threadDelays are a process's, and how long each waited for a core. A nil one has none.
type threadDelays struct {
	pid int

	mutex    sync.Mutex
	listedAt time.Time
	waitedNS map[string]uint64 // nanoseconds so far, by the thread's file
	delays   delayLog
}

// sample takes the increments since the sample before. The longest wait of any
// thread counts, for what passes through several waits for one after the other
// and shows in one sample after the other.
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

// within is when the threads waited in a span, until now if need be.
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
