package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"prefdt/configs/cli"
	"prefdt/simbridge/real"
	"prefdt/simbridge/real/probe"
)

// realCommand is simbridge real.
func realCommand(ctx context.Context, call *cli.Call) error {
	const defaultBuilds, none = "../shared/sitl", "none"
	c := real.Config{}
	only := call.Flags.String("only", "", "fly these `flights` alone: px4-orders,mixed-links")
	call.Flags.BoolVar(&c.Acts, "acts", false, "fly what may go wrong, and not the recipe of docs/integrator.md as it stands")
	call.Flags.IntVar(&c.Repeat, "repeat", 1, "each flight so often")
	call.Flags.IntVar(&c.Jobs, "jobs", 3, "flights at once; they mostly wait")
	call.Flags.BoolVar(&c.Resume, "resume", false, "do not fly again what -out has as kept by this same program")
	call.Flags.StringVar(&c.Out, "out", "out/real", "`folder` of records and results")
	skip := call.Flags.Bool("skip", false, "without builds of the autopilots say so, and end well")
	inside := call.Flags.String("inside", "", "run this `script` of a flight, in a network of its own; simbridge real starts this itself")
	probes := call.Flags.Bool("probes", false, "ask real autopilots and simulated ones the same, and compare; -only names probes")
	kinds := call.Flags.String("autopilot", "px4,ardupilot", "`kinds` that -probes asks")
	asked := call.Flags.String("asked", "", "ask the one `side` of -autopilot here, real or simulated; -probes itself starts this")
	asJSON := call.JSONFlag()
	if _, err := call.Parse("", 0); err != nil {
		return err
	}
	if *inside != "" {
		return real.Inside(*inside)
	}
	if *only != "" {
		c.Only = strings.Split(*only, ",")
	}
	if *asked != "" {
		return real.Asked(*asked, probe.Kind(*kinds), c.Only)
	}
	if c.Repeat < 1 || c.Jobs < 1 {
		return cli.BadInputf("-repeat is %d and -jobs %d, want at least 1", c.Repeat, c.Jobs)
	}
	if c.Builds = os.Getenv("PREFDT_SITL"); c.Builds == none {
		fmt.Fprintln(call.Stdout, "0 real flights flown: PREFDT_SITL is none")
		return nil
	}
	if c.Builds == "" {
		c.Builds = defaultBuilds
	}
	run := func() error { return real.Run(ctx, c, call.Stdout) }
	if *probes {
		run = func() error { return compareProbes(ctx, c, *kinds, *asJSON, call) }
	}
	err := run()
	if missing := (real.NoBuilds{}); errors.As(err, &missing) && *skip {
		fmt.Fprintf(call.Stdout, "skipped, 0 real flights flown: %v\n", err)
		return nil
	}
	return err
}

// compareProbes asks the autopilots of some kinds, and prints what they did.
func compareProbes(ctx context.Context, c real.Config, kinds string, asJSON bool, call *cli.Call) error {
	p := real.Probes{Only: c.Only, Out: c.Out, Builds: c.Builds}
	for k := range strings.SplitSeq(kinds, ",") {
		if !slices.Contains(probe.Kinds, probe.Kind(k)) {
			return cli.BadInputf("-autopilot is %s, want some of %v", kinds, probe.Kinds)
		}
		p.Kinds = append(p.Kinds, probe.Kind(k))
	}
	rows, err := real.Probe(ctx, p, call.Stderr)
	if rows == nil {
		return err
	}
	table := call.Stdout
	if asJSON {
		table = call.Stderr
		err = errors.Join(err, json.NewEncoder(call.Stdout).Encode(map[string]any{"figures": rows}))
	}
	if differ := probe.Print(table, rows); differ > 0 {
		err = errors.Join(err, fmt.Errorf("%d of %d figures differ by more than is allowed", differ, len(rows)))
	}
	return err
}
