// Package onboard runs the leader's program within this process, on a network in memory and in
// virtual time, as package process runs it beside this process.
//
// Inputs: the leader's configuration file, its place on the network, what its disk and board do.
// Outputs: its log, and how it ended. Callers: simbridge/fly and simbridge/chaos.
package onboard

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"prefdt/firmware/config"
	"prefdt/firmware/leader"
	"prefdt/firmware/link"
	"prefdt/firmware/program"
	"prefdt/inference/belief"
	"prefdt/inference/goal"
	"prefdt/inference/slot"
	"prefdt/simbridge/simnet"
)

// Board is what the leader runs on. Its disk and its wall clock may be changed while it runs.
type Board struct {
	Network   *simnet.Network
	Name      string           // of its programs on the network
	DecisionS float64          // how long a decision takes beside what is computed
	LoadS     float64          // and reading the checkpoint, of a program that is started next
	Wall      func() time.Time // nil: time.Now

	mutex sync.Mutex
	disk  Disk
}

// Disk is what each write of the ledger meets.
type Disk struct {
	SlowS     float64       // each takes so long
	Error     error         // each fails
	HangUntil chan struct{} // each waits until this is closed; nil: none does
}

// SetDisk changes the disk; a write that waits goes on waiting.
func (b *Board) SetDisk(d Disk) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.disk = d
}

// Leader is a leader's program that was started.
type Leader struct {
	Done chan struct{} // closed when it has ended

	program  *simnet.Program
	cancel   context.CancelFunc
	killed   chan struct{}
	stateDir string
	log      *os.File
	err      error // how it ended, before Done is closed
	end      sync.Once
}

// Start starts it; what it prints goes to a file.
func Start(configPath string, b *Board, logPath string) (*Leader, error) {
	c, err := config.Load(configPath)
	if err != nil {
		return nil, err
	}
	l := &Leader{Done: make(chan struct{}), program: b.Network.Program(b.Name), killed: make(chan struct{}), stateDir: c.StateDir}
	if l.log, err = os.Create(logPath); err != nil {
		return nil, fmt.Errorf("log of the leader: %w", err)
	}
	var ctx context.Context
	ctx, l.cancel = context.WithCancel(context.Background())
	h := program.Host{Clock: l.program, WallClock: b.Wall, Dial: l.program.Dial, Endpoint: l.program.Endpoint,
		Disk: func(write func() error) error { return l.write(b, write) }}
	if b.DecisionS > 0 {
		h.Policy = func(s leader.Scheduler) leader.Scheduler {
			return slowed{s, l.program, time.Duration(b.DecisionS * float64(time.Second))}
		}
	}
	if loadS := b.LoadS; loadS > 0 {
		h.Load = func() error {
			select {
			case <-l.program.After(time.Duration(loadS * float64(time.Second))):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	go func() {
		defer close(l.Done)
		defer l.log.Close()
		l.err = program.Fly(ctx, c, h, l.log)
		if l.err != nil {
			fmt.Fprintln(l.log, "leader:", l.err)
		}
	}()
	return l, nil
}

// slowed is a scheduler on a slow board.
type slowed struct {
	leader.Scheduler
	program *simnet.Program
	takes   time.Duration
}

func (s slowed) Decide(x *slot.Snapshot, o goal.Objective, d *slot.Decision) goal.Observation {
	<-s.program.After(s.takes)
	return s.Scheduler.Decide(x, o, d)
}

// Belief, Reset and Recall are those of its estimator, if it has one: the leader keeps what that believes in its ledger.
func (s slowed) Belief() *belief.Belief {
	if b, ok := s.Scheduler.(interface{ Belief() *belief.Belief }); ok {
		return b.Belief()
	}
	return nil
}

func (s slowed) Reset() {
	if r, ok := s.Scheduler.(interface{ Reset() }); ok {
		r.Reset()
	}
}

func (s slowed) Recall(x *slot.Snapshot) {
	if b, ok := s.Scheduler.(interface{ Recall(*slot.Snapshot) }); ok {
		b.Recall(x)
	}
}

// write is a write of the ledger on the board's disk.
func (l *Leader) write(b *Board, write func() error) error {
	b.mutex.Lock()
	d := b.disk
	b.mutex.Unlock()
	if d.SlowS > 0 {
		d.HangUntil = make(chan struct{})
		time.AfterFunc(time.Duration(d.SlowS*float64(time.Second)), func() { close(d.HangUntil) })
	}
	if d.HangUntil != nil {
		select {
		case <-d.HangUntil:
		case <-l.killed:
		}
	}
	select {
	case <-l.killed:
		return errors.New("the program was killed")
	default:
	}
	if d.Error != nil {
		return d.Error
	}
	return write()
}

// Over is closed when it has ended.
func (l *Leader) Over() <-chan struct{} { return l.Done }

// Ended reports whether it has ended.
func (l *Leader) Ended() bool {
	select {
	case <-l.Done:
		return true
	default:
		return false
	}
}

// Failure is how it ended.
func (l *Leader) Failure() error {
	how := "ended before the mission did"
	if l.err != nil {
		how = strings.TrimSpace(l.err.Error())
	}
	return fmt.Errorf("leader: %s (see %s)", how, l.log.Name())
}

// ExitCode is the exit status of one that has ended.
func (l *Leader) ExitCode() int {
	switch {
	case l.err == nil:
		return 0
	case errors.Is(l.err, link.ErrIncumbent):
		return 3
	}
	return 1
}

// Stop asks it to end, as SIGTERM does, and waits until it has.
func (l *Leader) Stop() {
	l.cancel()
	<-l.Done
}

// Shutdown is Stop, and returns an error if it failed.
func (l *Leader) Shutdown() error {
	if l.Stop(); l.err != nil {
		return l.Failure()
	}
	return nil
}

// Kill ends it as SIGKILL does: its links are cut, and its files stay as they are.
func (l *Leader) Kill() error { return l.crash(l.program.Crash) }

// LosePower ends it as a loss of power does: nobody is told.
func (l *Leader) LosePower() error { return l.crash(l.program.LosePower) }

func (l *Leader) crash(cut func()) (err error) {
	if l.Ended() {
		return nil
	}
	l.end.Do(func() {
		kept := l.stateDir + ".kept"
		if err = os.CopyFS(kept, os.DirFS(l.stateDir)); errors.Is(err, os.ErrNotExist) {
			err = nil // it had written nothing
		}
		close(l.killed)
		cut()
		l.Stop()
		err = errors.Join(err, os.RemoveAll(l.stateDir), os.MkdirAll(filepath.Dir(l.stateDir), 0o750))
		if e := os.Rename(kept, l.stateDir); e != nil && !errors.Is(e, os.ErrNotExist) {
			err = errors.Join(err, e)
		}
	})
	return err
}

// Pause and Continue are SIGSTOP and SIGCONT.
func (l *Leader) Pause()    { l.program.Stop() }
func (l *Leader) Continue() { l.program.Continue() }
