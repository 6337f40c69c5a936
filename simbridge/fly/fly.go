// Package fly flies one mission of the leader against a simulated world: a
// broker, ground users and autopilots in this process, the leader and the
// crew's tool as processes of their own, and nothing between them but MQTT and
// MAVLink.
//
// In come a configuration and a leader; out come a live view, and a report
// with the truth of the world beside what the leader said of it. In a slot it
// only watches: each beacon moves the world's clock on.
package fly

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"prefdt/inference/physics"
	"prefdt/simbridge/autopilot"
	"prefdt/simbridge/broker"
	"prefdt/simbridge/process"
	"prefdt/simbridge/report"
	"prefdt/simbridge/users"
	"prefdt/telemetry"
)

// flight is one run.
type flight struct {
	Config
	log      *slog.Logger
	url      string // the broker's
	fleet    *fleet
	crowd    *users.Crowd
	observer *observer
	leader   *process.Process
	view     *view
	broker   *broker.Broker // nil: somebody else's

	mutex    sync.Mutex
	commands []report.Command
	started  map[int][]autopilot.Body // at each slot's beacon
}

// Run flies a mission and writes its report, also of one that failed in its
// slots. It returns nil only if the mission was completed and every aircraft is
// back on the ground.
func Run(ctx context.Context, c Config, out io.Writer) error {
	if err := c.Check(); err != nil {
		return err
	}
	if err := os.MkdirAll(c.Out, 0o755); err != nil {
		return fmt.Errorf("output folder: %w", err)
	}
	logFile, err := os.Create(filepath.Join(c.Out, "fly.log"))
	if err != nil {
		return fmt.Errorf("log: %w", err)
	}
	defer logFile.Close()
	os.Remove(filepath.Join(c.Out, "summary.json")) // an earlier flight's, should this one fail

	timeout := time.Duration(c.TimeoutS * float64(time.Second))
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("the mission was not done after timeout_s = %v", c.TimeoutS))
	defer cancel()
	f := &flight{Config: c, log: slog.New(slog.NewTextHandler(logFile, nil)), view: newView(out), started: map[int][]autopilot.Body{}}
	defer f.stop()
	if err := f.start(ctx); err != nil {
		return f.why(ctx, err)
	}
	err = f.fly(ctx)
	landed := false
	if err == nil {
		err = f.land(ctx)
		landed = err == nil
	}
	if err == nil {
		err = f.died()
	}
	if err != nil {
		err = f.why(ctx, err)
	}
	f.view.end()
	if !f.observer.begun() {
		return err // there is nothing to report
	}
	result := f.report(landed)
	if err != nil {
		result.Summary.Failure = err.Error()
	}
	if err := report.Write(c.Out, result); err != nil {
		return err
	}
	printSummary(out, &result.Summary, c.Out)
	return err
}

// why puts the reason for which the flight was ended before what was missing then.
func (f *flight) why(ctx context.Context, err error) error {
	f.view.end()
	cause := context.Cause(ctx)
	switch {
	case cause == nil:
		return err
	case errors.Is(cause, context.Canceled):
		return errors.New("interrupted")
	case errors.Is(err, ctx.Err()):
		return cause
	}
	return fmt.Errorf("%w: %w", cause, err)
}

// start brings up the world, then the leader.
func (f *flight) start(ctx context.Context) error {
	f.url = f.Broker.URL
	at := f.Broker.Broker
	if f.Broker.Listen != "" {
		b := &broker.Broker{Address: f.Broker.Listen}
		if err := b.Initialize(); err != nil {
			return err
		}
		f.broker, f.url = b, b.URL()
		at = telemetry.Broker{URL: f.url}
	}
	var err error
	if f.fleet, err = newFleet(&f.Config, f.log); err != nil {
		return err
	}
	if len(f.fleet.attached) > 0 {
		f.view.say("waiting for the autopilots")
		if err := f.fleet.await(ctx); err != nil {
			return err
		}
	}
	f.crowd = &users.Crowd{Config: users.Config{
		World: f.World, Seed: f.Seed, Loss: f.Users.Loss, Fleet: f.Fleet, Broker: at, Shared: f.Users.SharedConnection,
		Position: f.fleet.position, Log: f.log,
		AddEdgeJ: func(m, slot int, joules float64) { f.fleet.autopilots[m].AddEdgeJ(slot, joules) },
	}}
	if f.observer, err = newObserver(ctx, &f.Config, at, f.beacon, f.fleet.latency.decision, f.log); err != nil {
		return err
	}
	if err := f.crowd.Initialize(ctx); err != nil {
		return err
	}
	mission := "fly-" + strings.ToLower(rand.Text()[:10])
	args, err := f.Leader.arguments(f.Out, f.Fleet, mission, f.url)
	if err != nil {
		return err
	}
	if len(args) > 0 {
		if f.leader, err = process.Start(args, filepath.Join(f.Out, "leader.log")); err != nil {
			return err
		}
	}
	return nil
}

// stop ends everything, the leader first.
func (f *flight) stop() {
	f.view.end()
	if f.leader != nil {
		f.leader.Stop()
	}
	if f.crowd != nil {
		f.crowd.Close()
	}
	if f.observer != nil {
		f.observer.client.Close()
	}
	if f.fleet != nil {
		f.fleet.close()
	}
	if f.broker != nil {
		f.broker.Close()
	}
}

// beacon moves the world on. The last slot ends by the clock, since no beacon
// follows it.
func (f *flight) beacon(b telemetry.Slot, received time.Time) {
	f.fleet.setSlot(b.Slot, received)
	f.fleet.latency.beacon(b, received)
	s, fresh, _, _ := f.observer.now()
	if fresh && b.Slot == s.Slots-1 {
		f.fleet.setSlot(s.Slots, received.Add(time.Duration(b.SlotMS*float64(time.Millisecond))))
	}
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.started[b.Slot] = f.fleet.bodies()
}

// wait waits until a condition holds, which is looked at whenever something was
// heard; it fails if the leader ends.
func (f *flight) wait(ctx context.Context, ok func() bool) error {
	var ended <-chan struct{}
	if f.leader != nil {
		ended = f.leader.Ended
	}
	poll := time.NewTicker(100 * time.Millisecond)
	defer poll.Stop()
	for {
		_, _, _, changed := f.observer.now()
		if ok() {
			return nil
		}
		select {
		case <-changed:
		case <-poll.C:
		case <-ended:
			if ok() { // it may end as soon as it is done
				return nil
			}
			return f.leader.Failure()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// fly sends the crew's commands, and watches until the mission is done.
func (f *flight) fly(ctx context.Context) error {
	if err := f.awaitLeader(ctx); err != nil {
		return err
	}
	status, _, _, _ := f.observer.now()
	if err := f.agree(status); err != nil {
		return err
	}
	next := 0
	for ; next < len(f.Commands) && f.Commands[next].Slot < 0; next++ {
		if err := f.launch(ctx, f.Commands[next]); err != nil {
			return err
		}
	}
	// The commands of the flight run beside the watch: a slot does not wait.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var crew sync.WaitGroup
	due := make(chan Command, len(f.Commands))
	crew.Go(func() {
		for command := range due {
			if err := f.order(ctx, command); err != nil {
				cancel(err)
			}
		}
	})
	err := f.wait(ctx, func() bool {
		status, _, slot, _ := f.observer.now()
		for ; next < len(f.Commands) && f.Commands[next].Slot <= slot; next++ {
			due <- f.Commands[next]
		}
		if status.Slots > 0 {
			f.fleet.setSlots(status.Slots)
		}
		f.show(status)
		return status.State == telemetry.StateDone || status.State == telemetry.StateStopped || f.otherSpeed() || !f.noteLost()
	})
	close(due)
	if err != nil && ctx.Err() == nil {
		cancel(err) // no use waiting for an answer
	}
	crew.Wait()
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if !f.noteLost() {
		return f.died()
	}
	if f.otherSpeed() {
		return fmt.Errorf("the leader flies at speed %v, this world at %v: one of slot_ms = %v and speed must change", f.observer.speedNow(), f.Speed, 1000/f.observer.speedNow())
	}
	if status, _, _, _ := f.observer.now(); status.State == telemetry.StateStopped {
		return fmt.Errorf("the mission was stopped in slot %d of %d", status.Slot, status.Slots)
	}
	return nil
}

// agree finds a leader that was configured for another world than this one.
func (f *flight) agree(s telemetry.Status) error {
	if len(s.Aircraft) != len(f.Aircraft) {
		return fmt.Errorf("the leader has %d aircraft, this world %d", len(s.Aircraft), len(f.Aircraft))
	}
	for i, a := range s.Aircraft {
		if a.SystemID != f.Aircraft[i].SystemID {
			return fmt.Errorf("the leader's aircraft %d is system %d, this world's is %d", i+1, a.SystemID, f.Aircraft[i].SystemID)
		}
		truly := f.fleet.position(i)
		if p := a.PositionM; p != nil && truly.Sub(physics.Position{EastM: p[0], NorthM: p[1]}).Norm() > 20 {
			return fmt.Errorf("the leader sees aircraft %d at (%.0f, %.0f) m, it is at (%.0f, %.0f): do the origins differ?",
				i+1, p[0], p[1], truly.EastM, truly.NorthM)
		}
	}
	return nil
}

// otherSpeed tells whether the leader's time runs unlike this world's.
func (f *flight) otherSpeed() bool {
	speed := f.observer.speedNow()
	return speed != 0 && (speed < 0.99*f.Speed || speed > 1.01*f.Speed)
}

// land waits until every aircraft is back on the ground. The leader may end
// before that, once the autopilots bring them home by themselves.
func (f *flight) land(ctx context.Context) error {
	f.view.say("mission done; the aircraft return")
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for !f.fleet.home() {
		select {
		case <-poll.C:
			status, _, _, _ := f.observer.now()
			f.show(status)
			f.noteLost()
		case <-ctx.Done():
			return fmt.Errorf("not all aircraft are back on the ground")
		}
	}
	return nil
}
