package fly

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"prefdt/simbridge/process"
	"prefdt/simbridge/report"
	"prefdt/telemetry"
	"prefdt/telemetry/command"
)

// awaitLeader waits until a leader is online, idle, and in contact with all its
// aircraft. One that is online and not idle flies another mission.
func (f *flight) awaitLeader(ctx context.Context) error {
	f.view.printLine("waiting for the leader")
	err := f.waitFor(ctx, func() bool {
		f.logLost()
		return f.observer.checkReady() == nil || f.lostError() != nil
	})
	if dead := f.lostError(); err == nil && dead != nil {
		return dead
	}
	if missing := f.observer.checkReady(); err != nil && ctx.Err() != nil && missing != nil {
		return missing
	}
	return err
}

// sendBeforeMission sends a command before the mission. A start that is refused
// for a transient reason is sent again, with a new id, for start_s.
func (f *flight) sendBeforeMission(ctx context.Context, c Command) error {
	const between = time.Second
	until, last := time.Now().Add(time.Duration(f.StartRetryS*float64(time.Second))), ""
	f.announce(c)
	for {
		err := f.sendCommand(ctx, c)
		var no refusedError
		if !errors.As(err, &no) || !slices.Equal(c.Args, []string{"mission", telemetry.ActionStart}) || !command.Transient(no.reason) {
			return err
		}
		if time.Now().Add(between).After(until) {
			return fmt.Errorf("%w; sent again for start_s = %v", err, f.StartRetryS)
		}
		if text := command.Waiting(no.reason, len(f.Aircraft)); text != last {
			f.view.printLine(text)
			last = text
		}
		select {
		case <-time.After(between):
		case <-ctx.Done():
			return ctx.Err()
		}
		if f.logLost(); f.lostError() != nil {
			return f.lostError()
		}
	}
}

// refusedError is the leader's answer to a command.
type refusedError struct {
	error
	reason string
}

// announce shows a command that is to be sent.
func (f *flight) announce(c Command) { f.view.printLine("$ ground " + strings.Join(c.Args, " ")) }

func (f *flight) runCrew(ctx context.Context, c Command, id string) (answer string, err error) {
	if f.crew != nil {
		return f.crew(ctx, f.at(telemetry.Broker{URL: f.url}, "crew"), c, id)
	}
	return process.Run(ctx, slices.Concat(f.Ground[:1], c.Args, f.Ground[1:], []string{"-fleet", f.Fleet, "-broker", f.url, "-id", id}))
}

// sendCommand runs the crew's tool, which waits for the acknowledgement.
func (f *flight) sendCommand(ctx context.Context, c Command) error {
	id := "fly-" + strings.ToLower(rand.Text()[:10])
	slot := f.observer.lastSlot()
	answer, err := f.runCrew(ctx, c, id)
	if err == nil {
		f.view.printLine(answer)
	}
	f.mutex.Lock()
	f.commands = append(f.commands, report.Command{Slot: slot, Args: c.Args, ID: id})
	f.mutex.Unlock()
	if err == nil {
		return nil
	}
	// The acknowledgement reaches the observer as well.
	soon, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if f.waitFor(soon, func() bool { return f.observer.ack(id) != nil }) == nil {
		if ack := f.observer.ack(id); !ack.Accepted {
			return refusedError{err, ack.Reason}
		}
	}
	return err
}
