//go:build real

package share

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"prefdt/firmware/worker/executor"
)

// service is an executor of which the test says what it does.
type service struct {
	run    func() time.Duration // returns the CPU time to report
	killed atomic.Bool
	kill   func()
}

func (x *service) Run(_ uint32, input []byte, _ int) ([]byte, time.Duration, error) {
	if x.killed.Load() {
		return nil, 0, executor.ErrKilled
	}
	return input, x.run(), nil
}

func (x *service) Kill() {
	if !x.killed.Swap(true) {
		x.kill()
	}
}

func (x *service) Stop()                                          {}
func (x *service) Continue()                                      {}
func (x *service) Ended() bool                                    { return x.killed.Load() }
func (x *service) Exceeds() bool                                  { return false }
func (x *service) CPU() (kernel, reported time.Duration, ok bool) { return 0, 0, false }

// runService computes a task of so many chunks by services that report what is to be charged.
func runService(s *Scheduler, share float64, chunks int, cpu func() time.Duration) error {
	x := &service{run: cpu, kill: func() {}}
	f := &Function{UnitBytes: 1, MaxOutput: 1, Start: func() (Executor, error) { return x, nil }, nsPerByte: 1e9} // a unit a chunk
	_, err := s.Run(context.Background(), f, share, make([]byte, chunks))
	return err
}

// ahead reports a little more CPU time than a task of share 1 may have had, so that it waits for its next turn.
func ahead(by time.Duration) func() time.Duration {
	began, total := time.Now(), time.Duration(0)
	return func() time.Duration {
		cpu := time.Since(began) + by - total
		total += cpu
		return cpu
	}
}

// A turn that comes before its wait has begun is not missed.
func TestDueBeforeTheWait(t *testing.T) {
	s := &Scheduler{Cores: 1, MaxTasks: 1}
	s.afterFunc = func(_ time.Duration, wake func()) *time.Timer {
		woken := make(chan struct{})
		go func() { wake(); close(woken) }()
		select {
		case <-woken:
		case <-time.After(10 * time.Millisecond): // it waits for the wait
		}
		return time.NewTimer(time.Hour)
	}
	s.Start()
	t.Cleanup(s.Close)
	if err := runService(s, 1, 2, ahead(time.Millisecond)); err != nil {
		t.Error(err)
	}
}

// The same by chance: of tasks whose turns are up to 20 µs away, one in some thousand waited for ever.
func TestShortWaits(t *testing.T) {
	for _, procs := range []int{1, 2} {
		t.Run(fmt.Sprintf("GOMAXPROCS %d", procs), func(t *testing.T) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
			s := newScheduler(t, 1)
			for n := range 500 {
				if err := runService(s, 1, 8, ahead(time.Duration(n%200)*100)); err != nil {
					t.Fatalf("task %d: %v", n, err)
				}
			}
		})
	}
}

// A task that has had four times what was granted ends there and then, not when it is next due.
func TestStoppedBeforeItsNextTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScheduler(t, 1)
		began := time.Now()
		if err := runService(s, 0.5, 2, func() time.Duration { return 9 * time.Second }); err != ErrStopped {
			t.Errorf("%v, want %v", err, ErrStopped)
		}
		if took := time.Since(began); took > time.Millisecond { // its next turn is in 18 s
			t.Errorf("stopped after %v", took)
		}
	})
}

// A task that is never served ends all the same: the stop has a timer of its own.
func TestStoppedWhileItWaits(t *testing.T) {
	s := &Scheduler{Cores: 1, MaxTasks: 1}
	s.afterFunc = func(time.Duration, func()) *time.Timer { return time.NewTimer(time.Hour) } // no turn ever comes
	s.Start()
	t.Cleanup(s.Close)
	x := &service{run: ahead(time.Second), kill: func() {}}
	f := &Function{UnitBytes: 1, MaxOutput: 1, Start: func() (Executor, error) { return x, nil }, nsPerByte: 1e8}
	ended := make(chan error, 1)
	go func() { _, err := s.Run(context.Background(), f, 1, make([]byte, 8)); ended <- err }()
	select {
	case err := <-ended:
		if err != ErrStopped {
			t.Errorf("%v, want %v", err, ErrStopped)
		}
	case <-time.After(time.Minute):
		t.Fatal("it waits") // granted 0.8 s
	}
	if n := s.Stats().Killed; n != 1 {
		t.Errorf("%d tasks counted as stopped", n)
	}
}

// An executor that was stopped computes no other task, though its chunk ended at that moment.
func TestStoppedExecutorIsNotKept(t *testing.T) {
	s := newScheduler(t, 1)
	f := &Function{UnitBytes: 1, MaxOutput: 1, nsPerByte: 1}
	f.Start = func() (Executor, error) {
		stopped := make(chan struct{})
		return &service{run: func() time.Duration { <-stopped; return time.Millisecond }, kill: func() { close(stopped) }}, nil
	}
	if _, err := s.Run(context.Background(), f, 1, make([]byte, 1)); err != ErrStopped {
		t.Fatalf("%v, want %v", err, ErrStopped)
	}
	f.Start = func() (Executor, error) {
		return &service{run: func() time.Duration { return time.Millisecond }, kill: func() {}}, nil
	}
	if _, err := s.Run(context.Background(), f, 1, make([]byte, 1)); err != nil {
		t.Errorf("the next task: %v", err)
	}
}
