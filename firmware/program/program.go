// Package program flies the mission of a configuration: it puts together policy, monitor, log and
// leader, which is all that the leader's program does beside its command line.
//
// Inputs: a configuration, and, where it is not the machine's, the clock and the network.
// Outputs: the flight, its log, and the error that ends the program.
// Callers: package main, and simulators that fly the leader within their own process.
package program

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"time"

	"github.com/bluenviron/gomavlib/v3"

	"prefdt/configs/cli"
	"prefdt/firmware/clock"
	"prefdt/firmware/config"
	"prefdt/firmware/leader"
	"prefdt/firmware/monitor"
	"prefdt/inference/record"
)

// Host is what a program has around it. The zero value is this machine.
type Host struct {
	Clock     clock.Clock
	WallClock func() time.Time
	Dial      func(ctx context.Context, network, address string) (net.Conn, error) // to the broker
	Endpoint  func(string) (gomavlib.EndpointConf, error)                          // of MAVLink
	Disk      func(write func() error) error                                       // of the ledger
	Policy    func(leader.Scheduler) leader.Scheduler                              // a board's slowness; nil: none
	Load      func() error                                                         // the same of reading the checkpoint
}

// Fly flies a mission until it is over, or ctx ends.
func Fly(ctx context.Context, c config.Config, h Host, stderr io.Writer) error {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.LogLevel)); err != nil {
		return fmt.Errorf("log: %w", err)
	}
	log := newLogWriter(stderr)
	defer log.close()
	logger := slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: level}))
	if h.Clock == nil {
		h.Clock = clock.New()
	}
	early, err := leader.StartEarly(&c, h.Clock, h.Endpoint, h.Disk, logger)
	if err != nil {
		logger.Error("no HEARTBEATs before the checkpoint is loaded", "reason", err)
	}
	defer early.Close()
	if h.Load != nil {
		if err := h.Load(); err != nil {
			return err
		}
	}
	policy, frozen, err := leader.LoadPolicy(&c)
	if err != nil {
		return err
	}
	if err := frozen.Fits(len(c.Aircraft), c.Slots); err != nil {
		return cli.BadInputf("checkpoint %s: %w", c.Checkpoint, err)
	}
	if err := c.CheckStarts(policy.Physics.AreaSideM); err != nil {
		return cli.BadInputf("configuration: %w", err)
	}
	m, err := monitor.New(&c, h.Clock, os.Getenv, logger)
	if err != nil {
		return err
	}
	defer m.Close()
	if h.Policy != nil {
		policy.Scheduler = h.Policy(policy.Scheduler)
	}
	if h.Dial != nil {
		c.Broker.Dial = h.Dial
	}
	l := &leader.Leader{
		Config: c, Clock: h.Clock, WallClock: h.WallClock, OnIteration: m.OnIteration, Endpoint: h.Endpoint, Disk: h.Disk,
		Log: logger, Policy: policy, Early: early,
	}
	if c.RecordFile != "" {
		f, err := os.Create(c.RecordFile)
		if err != nil { // it is for analysis, and no aircraft waits for it
			logger.Error("no record of the slots", "reason", err)
			return l.Run(ctx)
		}
		defer f.Close()
		l.OpenRecord = func() *record.Writer {
			h := record.Header{
				GraphSHA256: frozen.GraphSHA256, Decoder: c.Decoder, Physics: policy.Physics,
				OutOfDistribution: policy.OutOfDistribution, Claims: policy.Claims,
			}
			if c.Surroundings.Hidden() {
				expected := c.Surroundings.Expected(nil)
				h.Expected, h.EstimatorSHA256 = &expected, frozen.Estimator.GraphSHA256
			}
			return record.NewWriter(f, h)
		}
	}
	return l.Run(ctx)
}
