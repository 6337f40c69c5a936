package rig

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"prefdt/firmware/clock"
	"prefdt/firmware/leader"
	"prefdt/simbridge/simnet"
	"prefdt/telemetry"
)

type LeaderRun struct {
	Done chan error // what Run returned

	rig     *Rig
	program *simnet.Program // nil: in real time
	cancel  context.CancelFunc
	mutex   sync.Mutex
	report  leader.LoopReport
}

// FlyToSlot starts a leader, has it take off, and waits until slot n is settled.
func (r *Rig) FlyToSlot(n int) *LeaderRun {
	r.test.Helper()
	f := r.StartLeader()
	r.TakeOff()
	r.Await("the end of the climb", func(s telemetry.Status) bool {
		return s.State != telemetry.StateIdle && s.State != telemetry.StateClimbing
	})
	r.Await(fmt.Sprintf("slot %d", n), SlotSettled(n))
	return f
}

func (r *Rig) StartLeader() *LeaderRun {
	var policy leader.Scheduler = &AllowanceScheduler{Physics: r.Physics}
	if r.Policy != nil {
		policy = r.Policy
	}
	log := slog.New(slog.DiscardHandler)
	if testing.Verbose() {
		log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	}
	f := &LeaderRun{Done: make(chan error, 1), rig: r}
	l := &leader.Leader{
		Config: r.Config, Clock: clock.New(), Log: log,
		Policy: leader.Policy{Scheduler: slowedScheduler{policy, r}, Physics: r.Physics, Scales: r.Scales, UserPrior: UserPrior,
			MaxPriceSPerJ: 3}, OpenRecord: r.OpenRecord,
		OnIteration: func(report leader.LoopReport) {
			f.mutex.Lock()
			f.report = report
			f.mutex.Unlock()
			if r.OnIteration != nil {
				r.OnIteration(report)
			}
		},
	}
	if r.Network != nil {
		f.program = r.Network.Program("leader")
		r.Leader = f.program
		l.Clock, l.Config.Broker, l.Endpoint = f.program, r.BrokerOf("leader"), f.program.Endpoint
	}
	ctx, cancel := context.WithCancel(context.Background())
	f.cancel = cancel
	ended := make(chan struct{})
	go func() {
		f.Done <- l.Run(ctx)
		close(ended)
	}()
	r.test.Cleanup(func() { // the test's folder is removed next, and it may still write there
		const hungS = 5 // one whose disk hangs does not end before that is let go
		cancel()
		select {
		case <-ended:
		case <-time.After(hungS * time.Second):
		}
	})
	return f
}

// Report is the report of the loop's last iteration.
func (f *LeaderRun) Report() leader.LoopReport {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return f.report
}

// RejectedMessages is how many MQTT messages were refused, of one kind or, with an
// empty kind, in all.
func (f *LeaderRun) RejectedMessages(kind string) (n uint64) {
	counts := f.Report().RejectedMessages
	if kind != "" {
		return counts[kind]
	}
	for _, c := range counts {
		n += c
	}
	return n
}

// Stop ends the leader's context and returns what Run returned.
func (f *LeaderRun) Stop() error {
	f.cancel()
	return <-f.Done
}

// Kill ends the leader as a crash would, in virtual time: its links are cut, and its files stay
// as they are.
func (f *LeaderRun) Kill() {
	r := f.rig
	r.test.Helper()
	synctest.Wait() // no file is being written
	files, dir := r.test.TempDir(), r.Config.StateDir
	err := os.CopyFS(files, os.DirFS(dir))
	f.program.Crash()
	f.Stop() // whatever it says of links that are cut
	if err := errors.Join(err, os.RemoveAll(dir), os.CopyFS(dir, os.DirFS(files))); err != nil {
		r.test.Fatal(err)
	}
}

// Restart kills the leader, calls meanwhile while it is down, and starts the next.
func (f *LeaderRun) Restart(meanwhile func()) *LeaderRun {
	f.rig.test.Helper()
	f.Kill()
	f.rig.forgetKilled()
	if meanwhile != nil {
		meanwhile()
	}
	return f.rig.StartLeader()
}

// AwaitSaved waits until the last status is in the ledger for certain: two settlements
// later.
func (r *Rig) AwaitSaved() telemetry.Status {
	r.test.Helper()
	return r.Await("its record", StatusesAfter(r.LastStatus(), 2))
}
