// Package fly flies one mission of the leader against a simulated world: a
// broker, ground users and autopilots in this process, the leader and the
// crew's tool as processes of their own, and nothing between them but MQTT and
// MAVLink.
//
// Inputs: a Config, which configs/fly.yaml documents, and a leader, started here
// or elsewhere. Outputs: a live view, and a report of the flight that has the
// true joules and delays beside those the leader published. Commands simbridge
// fly, sitl and hil call Run. In a slot it only observes: each beacon advances
// the simulated world by one slot.
package fly

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"prefdt/inference/physics"
	"prefdt/simbridge/autopilot"
	"prefdt/simbridge/broker"
	"prefdt/simbridge/onboard"
	"prefdt/simbridge/process"
	"prefdt/simbridge/report"
	"prefdt/simbridge/users"
	"prefdt/telemetry"
)

// flight is one run.
type flight struct {
	Config
	log        *slog.Logger
	url        string // the broker's
	fleet      *fleet
	users      *users.Simulator
	observer   *observer
	leader     leaderProgram // nil: it is started elsewhere
	killed     int           // how often it was
	killedDue  int           // how many of KillSlots are over
	done       int           // how many of Commands
	leaderArgs []string
	view       *view
	executed   *execution // nil: tasks are not computed
	record     recorder
	closers    []func() // of what was started, in that order

	mutex          sync.Mutex
	commands       []report.Command
	bodiesAtBeacon map[int][]autopilot.Body // at each slot's beacon
	lastBeacon     telemetry.Slot
	lastBeaconAt   time.Time
	slotsEnded     bool // the end of the last slot is scheduled
}

// Run flies a mission and writes its report, also of one that failed in its
// slots; before those an earlier flight's report stays. It returns nil only if the mission
// was completed without a problem and every aircraft is back on the ground.
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

	timeout := time.Duration(c.TimeoutS * float64(time.Second))
	flown, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("the mission was not done after timeout_s = %v", c.TimeoutS))
	defer cancel()
	f := &flight{Config: c, log: slog.New(slog.NewTextHandler(logFile, nil)), view: newView(out),
		bodiesAtBeacon: map[int][]autopilot.Body{}}
	defer f.stop()
	if err := f.start(flown); err != nil {
		err = f.causeOf(flown, err)
		return errors.Join(err, f.endRecord(err))
	}
	err = f.flyMission(flown)
	landed := false
	if err == nil {
		err = f.waitForLanding(flown)
		landed = err == nil
	}
	if err == nil {
		err = f.lostError()
	}
	if err != nil {
		err = f.causeOf(flown, err)
	}
	f.view.leaveDrawing()
	if f.observer.lastSlot() < 0 { // there is nothing to report
		if err == nil {
			err = noSlotError(f.observer.status())
		}
		return errors.Join(err, f.endRecord(err))
	}
	result := f.buildReport(landed)
	if err != nil {
		result.Summary.Failure = err.Error()
	}
	if err := f.addJudgement(&result.Summary, err); err != nil {
		return err
	}
	if err := report.Write(c.Out, result); err != nil {
		return err
	}
	if !c.noPictures {
		if err := report.WritePictures(c.Out, result); err != nil {
			return err
		}
	}
	printSummary(out, &result.Summary, c.Out)
	if err == nil && len(result.Summary.Problems) > 0 {
		err = errors.New(strings.Join(result.Summary.Problems, "; "))
	}
	return errors.Join(err, f.exportLog(context.WithoutCancel(ctx))) // of a flight that was interrupted, too
}

// noSlotError is why a mission that ended in order was none: whoever flies it in a script must not take it for one.
func noSlotError(s telemetry.Status) error {
	text := fmt.Sprintf("none of %d slots was flown; the mission is %s", s.Slots, s.State)
	if s.Reason != "" {
		text += ": " + s.Reason
	}
	for _, a := range s.Aircraft {
		if a.Reason != "" && !strings.Contains(s.Reason, a.Reason) {
			text += fmt.Sprintf("; aircraft %d: %s", a.Number, a.Reason)
		}
	}
	return errors.New(text)
}

// exportLog ends the leader and has it export its log, where that has beliefs or tasks were computed.
func (f *flight) exportLog(ctx context.Context) error {
	if f.leader == nil || f.Leader.surroundings == nil && f.executed == nil {
		return nil
	}
	f.leader.Stop()
	_, err := process.Run(ctx, []string{f.leaderArgs[0], "log", "-file", filepath.Join(f.Out, "leader", "ledger.db"), "export", "-json",
		"-out", filepath.Join(f.Out, report.LogFile)})
	return err
}

// causeOf puts the reason for which the flight was ended before what was missing then.
func (f *flight) causeOf(ctx context.Context, err error) error {
	f.view.leaveDrawing()
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
		b := &broker.Broker{Address: f.Broker.Listen, OnMessage: f.record.noteMessage}
		if f.network != nil {
			b.Listen = f.network.Program("broker").Listen
		}
		if err := b.Initialize(); err != nil {
			return f.adviseInUse(err, "broker", f.Broker.Listen, "broker.listen")
		}
		f.url, f.closers = b.URL(), append(f.closers, b.Close)
		at = telemetry.Broker{URL: f.url}
	}
	var err error
	if f.fleet, err = newFleet(&f.Config, &f.record, f.log); err != nil {
		return err
	}
	f.closers = append(f.closers, f.fleet.close)
	if len(f.fleet.attached) > 0 {
		if err := f.fleet.waitUntilReady(ctx, f.view.printLine); err != nil {
			return err
		}
	}
	f.users = &users.Simulator{Config: users.Config{
		World: f.World, Seed: f.Seed, ReportLoss: f.Users.ReportLoss, Fleet: f.Fleet, Broker: f.at(at, "users"),
		SharedConnection: f.Users.SharedConnection, External: f.Execute,
		Position: f.fleet.position, Log: f.log,
		AddEdgeJ: func(m, slot int, joules float64) { f.fleet.vehicles[m].AddEdgeJ(slot, joules) },
	}}
	if f.observer, err = newObserver(ctx, &f.Config, f.at(at, "observer"), f.handleBeacon, f.fleet.latency.noteDecision,
		f.log); err != nil {
		return err
	}
	f.closers = append(f.closers, f.observer.client.Close)
	if err := f.users.Initialize(ctx); err != nil {
		return err
	}
	f.closers = append(f.closers, f.users.Close)
	f.warnOfCheckpoint()
	for _, line := range f.scaled {
		f.view.printLine(line)
	}
	if f.Execute {
		f.executed = &execution{flight: f, ended: make(chan struct{})}
		f.closers = append(f.closers, f.executed.stop)
		if err := f.executed.start(ctx); err != nil {
			return err
		}
	}
	mission := "fly-" + strings.ToLower(rand.Text()[:10])
	if f.leaderArgs, err = f.Leader.arguments(f.Out, f.Fleet, mission, f.url); err != nil {
		return err
	}
	if err := f.beginRecord(); err != nil || len(f.leaderArgs) == 0 {
		return err
	}
	if err := f.startLeader("leader.log"); err != nil {
		return err
	}
	f.closers = append(f.closers, func() { f.leader.Stop() })
	return nil
}

// leaderProgram is a leader that was started, as a process or within this one.
type leaderProgram interface {
	Ended() bool
	Failure() error
	ExitCode() int
	Stop()
	Kill() error
}

func (f *flight) startLeader(log string) error {
	log = filepath.Join(f.Out, log)
	if f.network != nil {
		l, err := onboard.Start(f.leaderArgs[len(f.leaderArgs)-1], &onboard.Board{Network: f.network, Name: "leader"}, log)
		if err == nil {
			f.leader = l
		}
		return err
	}
	p, err := process.Start(f.leaderArgs, log)
	if err == nil {
		f.leader = p
	}
	return err
}

// killLeader restarts the leader if that is due in a slot.
func (f *flight) killLeader(slot int) error {
	due := f.Leader.KillSlots
	if f.killedDue == len(due) || slot < due[f.killedDue] {
		return nil
	}
	f.killedDue++
	f.view.printLine(fmt.Sprintf("slot %d: the leader is killed, and started again", slot))
	return f.restartLeader()
}

// restartLeader kills the leader, as a loss of power would, and starts it again.
func (f *flight) restartLeader() error {
	f.record.noteLeaderDown(false)
	if err := f.leader.Kill(); err != nil {
		return err
	}
	f.killed++
	defer f.record.noteLeaderDown(true)
	return f.startLeader(fmt.Sprintf("leader-%d.log", f.killed+1))
}

// stop ends everything that start started, the last first.
func (f *flight) stop() {
	f.view.leaveDrawing()
	for _, c := range slices.Backward(f.closers) {
		c()
	}
}

// handleBeacon advances the world to a slot. The last slot of a mission that is
// flown to its end ends by the clock, since no beacon follows it.
func (f *flight) handleBeacon(b telemetry.Slot, received time.Time) {
	f.fleet.setSlot(b.Slot, received)
	f.fleet.latency.noteBeacon(b, received)
	if f.executed != nil {
		f.executed.openSlot(&b)
	}
	slots, bodies := f.observer.status().Slots, f.fleet.bodies()
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.bodiesAtBeacon[b.Slot], f.lastBeacon, f.lastBeaconAt = bodies, b, received
	if b.Slot == slots-1 {
		f.endSlots(b.Slot, slots)
	}
}

// handleStatus ends the slots of a mission that ends before its last slot: energy
// is transit from the end of the slot that is open, as the leader settles it.
func (f *flight) handleStatus(s telemetry.Status) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if isEnding(s.State) && !f.lastBeaconAt.IsZero() {
		f.endSlots(max(s.Slot, f.lastBeacon.Slot), s.Slots)
	}
}

// endSlots counts energy from the end of a slot on, the last to be flown of T, as
// outside the slots. f.mutex is locked.
func (f *flight) endSlots(last, slots int) {
	if f.slotsEnded {
		return
	}
	f.slotsEnded = true
	after := float64(last+1-f.lastBeacon.Slot) * f.lastBeacon.SlotMS
	f.fleet.setSlot(slots, f.lastBeaconAt.Add(time.Duration(after*float64(time.Millisecond))))
}

// waitFor waits until a condition holds, which is checked whenever a message was
// received; it fails if the leader ends, once its last messages had time to arrive.
func (f *flight) waitFor(ctx context.Context, ok func() bool) error {
	var endedAt time.Time
	return f.observer.Wait(ctx, 100*time.Millisecond, func() (bool, error) {
		if ok() {
			return true, nil
		}
		if f.leader != nil && f.leader.Ended() { // it may end as soon as it is done
			if endedAt.IsZero() {
				endedAt = time.Now()
			}
			if time.Since(endedAt) >= 500*time.Millisecond {
				return false, f.leader.Failure()
			}
		}
		return false, nil
	})
}

// flyMission sends the crew's commands, and watches until the mission is done.
func (f *flight) flyMission(ctx context.Context) error {
	if err := f.awaitLeader(ctx); err != nil {
		return err
	}
	if err := f.checkLeader(f.observer.status()); err != nil {
		return err
	}
	for ; f.done < len(f.Commands) && f.Commands[f.done].Slot < 0; f.done++ {
		if err := f.sendBeforeMission(ctx, f.Commands[f.done]); err != nil {
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
			f.announce(command)
			if err := f.sendCommand(ctx, command); err != nil {
				cancel(err)
			}
		}
	})
	err := f.waitFor(ctx, func() bool {
		status, lastSlot := f.observer.status(), f.observer.lastSlot()
		if err := f.doDue(func(c Command) { due <- c }); err != nil {
			cancel(err)
		}
		if status.Slots > 0 {
			f.fleet.setSlots(status.Slots)
		}
		if err := f.killLeader(lastSlot); err != nil {
			cancel(err)
		}
		f.handleStatus(status)
		f.showStatus(status)
		f.logLost()
		return status.State == telemetry.StateDone || status.State == telemetry.StateStopped && f.staysStopped() || f.speedDiffers() ||
			f.fleet.allLost()
	})
	close(due)
	if err != nil && ctx.Err() == nil {
		cancel(err) // the acknowledgement will not come
	}
	crew.Wait()
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	f.logLost()
	if f.fleet.allLost() {
		return f.lostError()
	}
	if f.speedDiffers() {
		speed := f.observer.beacon().Speed
		return fmt.Errorf("the leader flies at speed %v and this world at %v; change slot_ms, which is %v, or speed", speed, f.Speed,
			1000/speed)
	}
	if status := f.observer.status(); status.State == telemetry.StateStopped {
		return fmt.Errorf("the mission was stopped in slot %d of %d", status.Slot, status.Slots)
	}
	return nil
}

// staysStopped is whether nobody brings home what a stop has left in the air: a crew that
// commands by itself may, and one that waits for the stop will.
func (f *flight) staysStopped() bool {
	willReturn := slices.ContainsFunc(f.Commands, func(c Command) bool { return c.When == telemetry.StateStopped })
	return len(f.Commands) > 0 && !willReturn || f.fleet.allLanded()
}

// checkLeader returns an error if the leader was configured for another world.
func (f *flight) checkLeader(s telemetry.Status) error {
	if len(s.Aircraft) != len(f.Aircraft) {
		return fmt.Errorf("the leader has %d aircraft, this world %d", len(s.Aircraft), len(f.Aircraft))
	}
	for i, a := range s.Aircraft {
		if a.SystemID != f.Aircraft[i].SystemID {
			return fmt.Errorf("the leader's aircraft %d is system %d, this world's is %d", i+1, a.SystemID, f.Aircraft[i].SystemID)
		}
		actual := f.fleet.position(i)
		if p := a.PositionM; p != nil && actual.Sub(physics.Position{EastM: p[0], NorthM: p[1]}).Norm() > 20 {
			return fmt.Errorf("the leader has aircraft %d at (%.0f, %.0f) m, it is at (%.0f, %.0f): do the origins differ?",
				i+1, p[0], p[1], actual.EastM, actual.NorthM)
		}
	}
	return nil
}

// speedDiffers reports whether the leader's time runs at another speed than this world's.
func (f *flight) speedDiffers() bool {
	speed := f.observer.beacon().Speed
	return speed != 0 && (speed < 0.99*f.Speed || speed > 1.01*f.Speed)
}

// waitForLanding waits until every aircraft is back on the ground. The leader may
// end before that, once the autopilots return on their own.
func (f *flight) waitForLanding(ctx context.Context) error {
	f.view.printLine("mission done; the aircraft return")
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for !f.fleet.allLanded() {
		select {
		case <-poll.C:
			f.showStatus(f.observer.status())
			f.logLost()
			var refused error
			err := f.doDue(func(c Command) {
				f.announce(c)
				refused = f.sendCommand(ctx, c)
			})
			if err := cmp.Or(err, refused); err != nil {
				return err
			}
		case <-ctx.Done():
			return fmt.Errorf("not all aircraft are back on the ground")
		}
	}
	// What is told last is the whole flight, if its leader has seen the landings too.
	soon, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	f.waitFor(soon, func() bool {
		return !slices.ContainsFunc(f.observer.status().Aircraft, func(a telemetry.StatusAircraft) bool {
			return a.Duty != telemetry.DutyHome && !f.fleet.isLost(a.Number-1)
		})
	})
	return f.undone()
}
