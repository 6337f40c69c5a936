package rig

import (
	"context"
	"io"
	"log/slog"
	"os"
	"sync"
	"testing"

	"prefdt/firmware/leader"
	"prefdt/telemetry"
)

// Flight is a running leader.
type Flight struct {
	Done chan error // what Run returned

	rig    *Rig
	cancel context.CancelFunc
	mutex  sync.Mutex
	report leader.Report
}

// Launch starts a leader.
func (r *Rig) Launch() *Flight {
	var policy leader.Scheduler = &AtAllowance{Physics: r.Physics}
	if r.Policy != nil {
		policy = r.Policy
	}
	f := &Flight{Done: make(chan error, 1), rig: r}
	l := &leader.Leader{
		Config: r.Config, Clock: r.Clock, Log: slog.New(slog.NewTextHandler(logWriter{}, &slog.HandlerOptions{Level: slog.LevelWarn})),
		Policy: leader.Policy{Scheduler: hindered{policy, r}, Physics: r.Physics, Scales: r.Scales, Prior: Prior}, Record: r.Record,
		Turned: func(report leader.Report) {
			f.mutex.Lock()
			f.report = report
			f.mutex.Unlock()
			if r.Turned != nil {
				r.Turned(report)
			}
		},
	}
	ctx, cancel := context.WithCancel(context.Background())
	f.cancel = cancel
	go func() { f.Done <- l.Run(ctx) }()
	r.test.Cleanup(cancel)
	return f
}

// Report is how the loop stood after its last turn.
func (f *Flight) Report() leader.Report {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return f.report
}

// Rejects is how many MQTT messages were refused, of a kind or, with an empty
// one, of all.
func (f *Flight) Rejects(kind string) (n uint64) {
	counts := f.Report().Rejects
	if kind != "" {
		return counts[kind]
	}
	for _, c := range counts {
		n += c
	}
	return n
}

// End asks the leader to end and returns what Run returned.
func (f *Flight) End() error {
	f.cancel()
	return <-f.Done
}

// Kill ends the leader as a crash would: nothing is settled or said.
func (f *Flight) Kill() {
	f.rig.test.Helper()
	if err := f.End(); err != nil {
		f.rig.test.Fatal(err)
	}
}

// Again kills the leader, waits for an event while it is gone, and starts the next.
func (f *Flight) Again(meanwhile func()) *Flight {
	f.rig.test.Helper()
	f.Kill()
	f.rig.ForgetStatuses()
	if meanwhile != nil {
		meanwhile()
	}
	return f.rig.Launch()
}

// Saved waits until what a status said is in the ledger for certain: two
// settlements later.
func (r *Rig) Saved() telemetry.Status {
	r.test.Helper()
	return r.Await("its record", Later(r.Last(), 2))
}

// logWriter logs only what a verbose test wants to see.
type logWriter struct{}

func (logWriter) Write(b []byte) (int, error) {
	if testing.Verbose() {
		return os.Stderr.Write(b)
	}
	return io.Discard.Write(b)
}
