// Package share divides a worker's cores among tasks: the task with the least CPU time
// over its granted share is served next, a chunk of about 3 ms at a time, and none faster
// than it was granted. Its user computes its own part meanwhile, which was made to take as
// long: an earlier output would help nobody, and draw more power than the leader has booked.
//
// Inputs: tasks with their shares, and functions with the executors that compute them.
// Outputs: each task's output, or why there is none. Called by the server of requests.
//
// The kernel's shares (cpu.weight, cpu.max of a group for each task) are not used. They want a process for each task in progress, 64 of
// them where a few serve all here, and a delegated cpu controller; without one tasks would run one at a time. Where they are alike that
// keeps to the grants as well; beside one of half the capacity a small one takes up to 2.5 times what it was granted, here 1.0 (in virtual
// time), and it draws more power than was booked.
//
// A chunk that outlasts its quantum is stopped (SIGSTOP) while others wait, and continued in
// its turn; a task that takes over four times what its input should is killed. CPU time is
// the executor's own account: reading the kernel's at each chunk would double a chunk's cost.
// It is compared with the kernel's once a second, and an executor that hides time is killed.
package share

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"prefdt/firmware/worker/executor"
)

// Errors of a task.
var (
	ErrStopped = errors.New("stopped at four times what was granted")
	ErrMemory  = errors.New("more memory than its limit")
	ErrBusy    = errors.New("too many tasks")
	ErrClosed  = errors.New("the worker ends")
)

// Executor computes one chunk at a time, in a process or a service.
type Executor interface {
	Run(function uint32, input []byte, most int) (output []byte, cpu time.Duration, err error)
	Stop()
	Continue()
	Kill()
	Ended() bool                                    // by itself or killed: it computes nothing any more
	Exceeds() bool                                  // its memory limit
	CPU() (kernel, reported time.Duration, ok bool) // of all chunks; not ok: it runs elsewhere
}

// Function is one function and what computes it.
type Function struct {
	Index     uint32 // in its program
	UnitBytes int    // of input, which are never split
	MaxOutput int    // bytes for a unit
	Start     func() (Executor, error)

	calibratedNS float64 // that a byte takes; guarded by the scheduler's mutex, as those below
	nsPerByte    float64 // as measured since: the running mean of chunks of tasks that were not stopped
	idle         []Executor
}

// Chunk and Quantum are how long a chunk should and may take.
const (
	Chunk   = 3 * time.Millisecond
	Quantum = 4 * time.Millisecond
)

const (
	maxHeld      = 8                      // stopped chunks, each of which holds a process
	overrun      = 4                      // times what was granted, when a task is killed
	leastGranted = 100 * time.Millisecond // before which no task is: the kernel counts in steps of 10 ms
	longest      = 3 * time.Second        // that a chunk may run, on the CPU or waiting: by then its grant has expired
	measureGain  = 0.1                    // of a new measurement in the running mean
	forgetting   = 3 * time.Second        // without a chunk, in which a lack of availability falls by the factor e
)

// Scheduler serves tasks on so many cores. Set the exported fields, then Start.
type Scheduler struct {
	Cores    int
	MaxTasks int

	mutex     sync.Mutex
	changed   sync.Cond
	tasks     []*task
	held      int
	closed    bool
	done      sync.WaitGroup
	afterFunc func(time.Duration, func()) *time.Timer // a test's, else time's
	live      map[Executor]struct{}
	stats     Stats

	meanCPU, meanRan float64 // of a chunk, ns, running means
	measured         time.Time
}

// Stats is what a scheduler has done since it began.
type Stats struct {
	CPU          time.Duration
	QueuedNS     float64 // CPU time that accepted tasks still need
	Availability float64 // CPU time over the time that chunks took: below 1 other programs take cores
	Killed       int
}

// task is one task in progress.
type task struct {
	function *Function
	share    float64
	input    []byte
	offset   int // of the next chunk
	outputs  [][]byte
	running  int // chunks in progress, stopped ones included
	held     []*chunk
	cpuNS    float64 // had
	began    time.Time
	startNS  float64 // over share: the least of the others' when it came, so that it owes them nothing
	limitNS  float64
	err      error
	finished chan struct{}
}

// chunk is a part of a task in progress.
type chunk struct {
	task     *task
	place    int
	input    []byte
	executor Executor
	ended    chan struct{}
	output   []byte
	cpu      time.Duration
	err      error
	charged  time.Duration // of its CPU time
	ran      time.Duration // while it was not stopped
}

// used is the measure by which tasks are chosen.
func (t *task) used() float64 { return t.startNS + t.cpuNS/t.share }

// due is when a task has had less CPU time than was granted until then.
func (t *task) due(cores int) time.Time {
	return t.began.Add(time.Duration(t.cpuNS / (t.share * float64(cores))))
}

func (t *task) waits() bool { return t.err == nil && (len(t.held) > 0 || t.offset < len(t.input)) }

// Start begins to serve.
func (s *Scheduler) Start() {
	s.changed.L = &s.mutex
	if s.afterFunc == nil {
		s.afterFunc = time.AfterFunc
	}
	s.live = map[Executor]struct{}{}
	for range s.Cores {
		s.done.Go(s.core)
	}
}

// Close kills what runs. Tasks in progress end with ErrClosed.
func (s *Scheduler) Close() {
	s.mutex.Lock()
	s.closed = true
	for _, t := range s.tasks {
		t.fail(ErrClosed)
	}
	for x := range s.live {
		go x.Kill()
	}
	s.changed.Broadcast()
	s.mutex.Unlock()
	s.done.Wait()
}

// SetNSPerByte sets what a function's input takes, as calibrated.
func (s *Scheduler) SetNSPerByte(f *Function, ns float64) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	f.calibratedNS, f.nsPerByte = ns, ns
}

// NSPerByte is the CPU time that a function's input takes, as measured.
func (s *Scheduler) NSPerByte(f *Function) float64 {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return f.nsPerByte
}

// Stats returns what was done.
func (s *Scheduler) Stats() Stats {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	out := s.stats
	out.Availability = s.availability(time.Now())
	for _, t := range s.tasks {
		out.QueuedNS += float64(len(t.input)-t.offset) * t.function.nsPerByte
	}
	return out
}

// availability is that of the last chunks. Where none comes, nobody measures it: who is sent nowhere for a lack of it would never be again.
// Called with the mutex held.
func (s *Scheduler) availability(now time.Time) float64 {
	if s.meanRan == 0 {
		return 1
	}
	return 1 - (1-min(s.meanCPU/s.meanRan, 1))*math.Exp(-float64(now.Sub(s.measured))/float64(forgetting))
}

// Run computes a task whose share, of 1, was granted, and returns its output. Once ctx is done nobody waits for it, and it is stopped.
func (s *Scheduler) Run(ctx context.Context, f *Function, share float64, input []byte) ([]byte, error) {
	if len(input)%f.UnitBytes != 0 {
		return nil, fmt.Errorf("%w: %d bytes are not whole units of %d", executor.ErrFailed, len(input), f.UnitBytes)
	}
	t := &task{function: f, share: max(share, 1e-4), began: time.Now(), input: input, finished: make(chan struct{})}
	s.mutex.Lock()
	if s.closed || len(s.tasks) >= s.MaxTasks {
		s.mutex.Unlock()
		return nil, ErrBusy
	}
	for i, other := range s.tasks {
		if used := other.used(); i == 0 || used < t.startNS {
			t.startNS = used
		}
	}
	t.limitNS = max(overrun*max(f.calibratedNS, f.nsPerByte)*float64(len(input)), float64(leastGranted))
	if f.nsPerByte == 0 { // not calibrated
		t.limitNS = math.Inf(1)
	}
	if len(input) == 0 {
		s.mutex.Unlock()
		return nil, nil
	}
	s.tasks = append(s.tasks, t)
	grantedNS := t.limitNS / (t.share * float64(s.Cores) * s.availability(time.Now())) // as long as other programs let it take
	stop := time.AfterFunc(time.Duration(min(max(grantedNS, float64(longest)), float64(time.Hour))), func() { s.stop(t, ErrStopped) })
	defer stop.Stop()
	s.changed.Broadcast()
	s.mutex.Unlock()
	defer context.AfterFunc(ctx, func() { s.stop(t, context.Cause(ctx)) })()
	<-t.finished
	if t.err != nil {
		return nil, t.err
	}
	var output []byte
	for _, o := range t.outputs {
		output = append(output, o...)
	}
	return output, nil
}

// fail ends a task; its chunks in progress are killed by who serves them.
func (t *task) fail(err error) {
	if t.err == nil {
		t.err = err
	}
}

// stop ends a task whatever it waits for: it has not ended in four times the time that was granted, or nobody waits for it.
func (s *Scheduler) stop(t *task, reason error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if t.err == nil && slices.Contains(s.tasks, t) {
		s.failStopped(t, reason)
		s.finish(t)
	}
}

// failStopped fails a task that is stopped. Called with the mutex held.
func (s *Scheduler) failStopped(t *task, reason error) {
	t.fail(reason)
	s.stats.Killed++
}

// core serves one chunk after another.
func (s *Scheduler) core() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for {
		c := s.next()
		if c == nil {
			return
		}
		s.serve(c)
		s.finish(c.task)
	}
}

// next waits for the chunk to be served next; nil: the scheduler is closed.
func (s *Scheduler) next() *chunk {
	for {
		var least *task
		var soonest time.Time // when another one is due
		now := time.Now()
		for _, t := range s.tasks {
			if !t.waits() {
				continue
			}
			if due := t.due(s.Cores); due.After(now) {
				if soonest.IsZero() || due.Before(soonest) {
					soonest = due
				}
			} else if least == nil || t.used() < least.used() {
				least = t
			}
		}
		switch {
		case least != nil && len(least.held) > 0:
			c := least.held[0]
			least.held = least.held[1:]
			s.held--
			return c
		case least != nil:
			return least.cut()
		case s.closed:
			for _, t := range s.tasks {
				for _, c := range t.held {
					go c.executor.Kill()
				}
			}
			s.abandon()
			return nil
		}
		if soonest.IsZero() {
			s.changed.Wait()
			continue
		}
		wake := s.afterFunc(time.Until(soonest), func() {
			s.mutex.Lock() // held until Wait has begun: the wake-up of one due before that would be lost
			defer s.mutex.Unlock()
			s.changed.Broadcast()
		})
		s.changed.Wait()
		wake.Stop()
	}
}

// abandon ends the tasks of a closed scheduler of which nothing runs.
func (s *Scheduler) abandon() {
	for _, t := range append([]*task(nil), s.tasks...) {
		t.running -= len(t.held)
		t.held = nil
		s.finish(t)
	}
}

// cut takes the next chunk of a task.
func (t *task) cut() *chunk {
	units := 1
	if perUnit := t.function.nsPerByte * float64(t.function.UnitBytes); perUnit > 0 {
		units = max(1, int(float64(Chunk)/perUnit))
	}
	n := min(units*t.function.UnitBytes, len(t.input)-t.offset)
	c := &chunk{task: t, place: len(t.outputs), input: t.input[t.offset : t.offset+n]}
	t.outputs = append(t.outputs, nil)
	t.offset += n
	t.running++
	return c
}

// serve runs a chunk until it ends or is stopped. The mutex is released meanwhile.
func (s *Scheduler) serve(c *chunk) {
	t := c.task
	if c.executor == nil {
		if err := s.begin(c); err != nil {
			t.running--
			t.fail(err)
			return
		}
	} else {
		c.executor.Continue()
	}
	for {
		began := time.Now()
		s.mutex.Unlock()
		timer := time.NewTimer(Quantum)
		ended := false
		select {
		case <-c.ended:
			ended = true
		case <-timer.C:
		}
		timer.Stop()
		s.mutex.Lock()
		c.ran += time.Since(began)
		if ended {
			s.end(c, false)
			return
		}
		s.charge(c, c.ran)
		if t.cpuNS > t.limitNS { // or other programs had the core meanwhile
			if kernel, reported, ok := c.executor.CPU(); ok {
				s.charge(c, kernel-reported)
			}
		}
		if t.err == nil && (t.cpuNS > t.limitNS || c.ran > longest) {
			s.failStopped(t, ErrStopped)
		}
		if t.err == nil && c.executor.Exceeds() {
			t.fail(ErrMemory)
			s.stats.Killed++
		}
		if t.err != nil {
			s.mutex.Unlock()
			c.executor.Kill()
			<-c.ended
			s.mutex.Lock()
			s.end(c, true)
			return
		}
		if s.held < maxHeld && s.othersWait(t) {
			c.executor.Stop()
			t.held = append(t.held, c)
			s.held++
			s.changed.Broadcast()
			return
		}
	}
}

// charge enters what a chunk has had so far. While it runs that is the time that has passed, which other programs may have had.
func (s *Scheduler) charge(c *chunk, cpu time.Duration) {
	c.task.cpuNS += float64(cpu - c.charged)
	c.charged = cpu
}

func (s *Scheduler) othersWait(t *task) bool {
	now := time.Now()
	for _, other := range s.tasks {
		if other != t && other.waits() && other.used() <= t.used() && !other.due(s.Cores).After(now) {
			return true
		}
	}
	return false
}

// begin hands a new chunk to an executor, a warm one if there is one.
func (s *Scheduler) begin(c *chunk) error {
	f := c.task.function
	for n := len(f.idle); n > 0 && c.executor == nil; n = len(f.idle) {
		x := f.idle[n-1]
		f.idle = f.idle[:n-1]
		if x.Ended() { // while it was idle
			delete(s.live, x)
			go x.Kill()
			continue
		}
		c.executor = x
	}
	if c.executor == nil {
		s.mutex.Unlock()
		x, err := f.Start()
		s.mutex.Lock()
		if err != nil {
			return err
		}
		if s.closed {
			x.Kill()
			return ErrClosed
		}
		c.executor = x
		s.live[x] = struct{}{}
	}
	c.ended = make(chan struct{})
	go func() {
		c.output, c.cpu, c.err = c.executor.Run(f.Index, c.input, len(c.input)/f.UnitBytes*f.MaxOutput)
		close(c.ended)
	}()
	return nil
}

// end accounts for a chunk that has ended, and keeps its executor warm; one that was killed may have ended well just before.
func (s *Scheduler) end(c *chunk, killed bool) {
	t, f := c.task, c.task.function
	t.running--
	if killed { // its own account is missing: what it had until then counts
		c.cpu = max(c.cpu, c.charged)
	}
	s.charge(c, c.cpu)
	s.stats.CPU += c.cpu
	if killed || c.err != nil && c.err != executor.ErrFailed {
		delete(s.live, c.executor)
	} else {
		f.idle = append(f.idle, c.executor)
	}
	if c.err != nil {
		t.fail(c.err)
		return
	}
	if t.cpuNS > t.limitNS && t.waits() { // its next turn may be seconds away
		s.failStopped(t, ErrStopped)
	}
	if t.err != nil {
		return
	}
	t.outputs[c.place] = c.output
	ns := float64(c.cpu) / float64(len(c.input))
	if f.nsPerByte == 0 {
		f.nsPerByte = ns
	}
	f.nsPerByte += measureGain * (ns - f.nsPerByte)
	// Of the means: a few chunks that wait long are most of the time.
	s.meanCPU += measureGain * (float64(c.cpu) - s.meanCPU)
	s.meanRan += measureGain * (float64(c.ran) - s.meanRan)
	s.measured = time.Now()
}

// finish ends a task of which nothing is left to do.
func (s *Scheduler) finish(t *task) {
	if t.err != nil && len(t.held) > 0 { // killed, they end by themselves
		for _, c := range t.held {
			delete(s.live, c.executor)
			go c.executor.Kill()
		}
		s.held -= len(t.held)
		t.running -= len(t.held)
		t.held = nil
	}
	if t.running > 0 || t.err == nil && t.offset < len(t.input) {
		return
	}
	for i := range s.tasks {
		if s.tasks[i] == t {
			s.tasks = append(s.tasks[:i], s.tasks[i+1:]...)
			close(t.finished)
			break
		}
	}
	s.changed.Broadcast()
}

// hidden is how much CPU time an executor may hide before it is killed for it.
const hidden = 200 * time.Millisecond

// Audit kills each idle executor whose account hides more than half of what the kernel
// counted. It is called once a second.
func (s *Scheduler) Audit(functions ...*Function) (killed int) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for _, f := range functions {
		honest := f.idle[:0]
		for _, x := range f.idle {
			if kernel, reported, ok := x.CPU(); ok && kernel > hidden && reported < kernel/2 {
				delete(s.live, x)
				go x.Kill()
				killed++
				continue
			}
			honest = append(honest, x)
		}
		f.idle = honest
	}
	s.stats.Killed += killed
	return killed
}

// Warm starts executors of a function, one for each core, so that no task waits for it.
func (s *Scheduler) Warm(f *Function) error {
	for range s.Cores {
		x, err := f.Start()
		if err != nil {
			return err
		}
		s.mutex.Lock()
		f.idle = append(f.idle, x)
		s.live[x] = struct{}{}
		s.mutex.Unlock()
	}
	return nil
}
