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
	"prefdt/inference"
	"prefdt/inference/checkpoint"
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
	if code, ok := subcommand(args, os.Stdout, stderr); ok {
		return code
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
	err := fly(ctx, *path, stderr)
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errIncumbent):
		fmt.Fprintln(stderr, "leader:", err)
		return 3
	}
	fmt.Fprintln(stderr, "leader:", err)
	return 1
}

// fly wires the mission together.
func fly(ctx context.Context, path string, stderr io.Writer) error {
	c, err := Load(path)
	if err != nil {
		return err
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.Log)); err != nil {
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
	l := &Leader{
		Config: c, Physics: frozen.Physics, Scales: &frozen.Scales, Usual: frozen.Standard.Crowd(), Scheduler: policy,
		Clock: clock.New(), Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: level})),
	}
	if l.monitor, err = newMonitor(l, os.Getenv); err != nil {
		return err
	}
	defer l.monitor.close()
	return l.Run(ctx)
}
