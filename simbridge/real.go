package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"prefdt/configs/cli"
	"prefdt/simbridge/real"
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
	if _, err := call.Parse("", 0); err != nil {
		return err
	}
	if *inside != "" {
		return real.Inside(*inside)
	}
	if c.Repeat < 1 || c.Jobs < 1 {
		return cli.BadInputf("-repeat is %d and -jobs %d, want at least 1", c.Repeat, c.Jobs)
	}
	if *only != "" {
		c.Only = strings.Split(*only, ",")
	}
	if c.Builds = os.Getenv("PREFDT_SITL"); c.Builds == none {
		fmt.Fprintln(call.Stdout, "0 real flights flown: PREFDT_SITL is none")
		return nil
	}
	if c.Builds == "" {
		c.Builds = defaultBuilds
	}
	err := real.Run(ctx, c, call.Stdout)
	if missing := (real.NoBuilds{}); errors.As(err, &missing) && *skip {
		fmt.Fprintf(call.Stdout, "skipped, 0 real flights flown: %v\n", err)
		return nil
	}
	return err
}
