package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"prefdt/firmware/clock"
	"prefdt/firmware/config"
	"prefdt/firmware/leader"
	"prefdt/firmware/link"
	"prefdt/firmware/logtool"
	"prefdt/firmware/monitor"
	"prefdt/firmware/preflight"
	"prefdt/inference"
	"prefdt/inference/checkpoint"
	"prefdt/inference/goal"
	"prefdt/inference/record"
)

const usage = `leader flies a mission: users over MQTT, autopilots over MAVLink, a frozen policy between.

  leader -config FILE
  leader check -config FILE    the pre-flight list: everything that can be tested on the ground
  leader log ...               check, export or recover what was flown

Exit status: 0 the mission is over or the leader was asked to end, 1 it cannot
go on, 2 the command line is wrong, 3 another leader flies this fleet.

`

func main() { os.Exit(run(os.Args[1:], os.Stderr)) }

func run(args []string, stderr io.Writer) int {
	if len(args) > 0 {
		switch args[0] {
		case "check":
			return preflight.Run(args[1:], os.Stdout, stderr)
		case "log":
			return logtool.Run(args[1:], os.Stdout, stderr)
		}
	}
	flags := flag.NewFlagSet("leader", flag.ContinueOnError)
	flags.SetOutput(stderr)
	path := flags.String("config", "", "YAML `file`; configs/leader.yaml explains every key")
	flags.Usage = func() { fmt.Fprint(stderr, usage); flags.PrintDefaults() }
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		return 2
	}
	if flags.NArg() > 0 || *path == "" {
		fmt.Fprintln(stderr, "leader: want -config FILE and nothing else; leader -h explains")
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := runMission(ctx, *path, stderr)
	switch {
	case err == nil:
		return 0
	case errors.Is(err, link.ErrIncumbent):
		fmt.Fprintln(stderr, "leader:", err)
		return 3
	}
	fmt.Fprintln(stderr, "leader:", err)
	return 1
}

// runMission wires the mission together.
func runMission(ctx context.Context, path string, stderr io.Writer) error {
	c, err := config.Load(path)
	if err != nil {
		return err
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.LogLevel)); err != nil {
		return fmt.Errorf("log: %w", err)
	}
	frozen, err := checkpoint.Load(c.Checkpoint)
	if err != nil {
		return err
	}
	policy, err := inference.New(frozen, inference.Decoder(c.Decoder))
	if err != nil {
		return err
	}
	log := newLogWriter(stderr)
	defer log.close()
	now := clock.New()
	m, err := monitor.New(monitor.Config{
		Fleet: c.Fleet, Mission: c.Mission, Slots: c.Slots, SlotDuration: c.WallTime(1), MetricsPort: c.MetricsPort, Clock: now, Getenv: os.Getenv,
	})
	if err != nil {
		return err
	}
	defer m.Close()
	l := &leader.Leader{
		Config: c, Clock: now, OnIteration: m.OnIteration, Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: level})),
		Policy: leader.Policy{Scheduler: policy, Physics: frozen.Physics, Scales: &frozen.GoalConstants, UserPrior: frozen.Statistics.UserPrior()},
	}
	if c.RecordFile != "" {
		f, err := os.Create(c.RecordFile)
		if err != nil {
			return fmt.Errorf("record: %w", err)
		}
		defer f.Close()
		l.OpenRecord = func(o goal.State) *record.Writer {
			return record.NewWriter(f, record.Header{GraphSHA256: frozen.GraphSHA256, Decoder: c.Decoder, Physics: frozen.Physics, Objective: o})
		}
	}
	return l.Run(ctx)
}
