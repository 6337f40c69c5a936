// Command simbridge is the world that the leader flies against: simulated
// aircraft and users over real MAVLink and MQTT, on one machine.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"prefdt/configs"
	"prefdt/simbridge/fly"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

const usage = `simbridge is the world the leader flies against.
  simbridge fly -config FILE [-out DIR] [-broker URL]   fly one mission against simulated aircraft and users
  simbridge chaos -missions N -seed S [-json]           fly N missions in which things go wrong, and judge them
simbridge COMMAND -h shows its flags. Exit status: 0 all went well, 1 not, 2 bad input.
`

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	switch {
	case len(args) == 0:
		fmt.Fprint(stderr, usage)
		return 2
	case args[0] == "-h" || args[0] == "-help" || args[0] == "--help" || args[0] == "help":
		fmt.Fprint(stdout, usage)
		return 0
	case args[0] == "chaos":
		return runChaos(ctx, args[1:], stdout, stderr)
	case args[0] != "fly":
		fmt.Fprintf(stderr, "simbridge: no command %q; want fly or chaos (simbridge -h)\n", args[0])
		return 2
	}
	flags := flag.NewFlagSet("simbridge fly", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	path := flags.String("config", "configs/fly.yaml", "`file` of the flight")
	out := flags.String("out", "", "`folder` for logs, tables and plots, instead of the configuration's")
	url := flags.String("broker", "", "`URL` of a broker to use instead of our own")
	err := flags.Parse(args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprintln(stdout, "simbridge fly flies one mission against simulated aircraft and users.")
		flags.SetOutput(stdout)
		flags.PrintDefaults()
		return 0
	case err == nil && flags.NArg() > 0:
		err = fmt.Errorf("unexpected %q", flags.Arg(0))
	}
	c := fly.Default()
	if err == nil {
		err = configs.Load(*path, &c)
	}
	if err == nil {
		if *out != "" {
			c.Out = *out
		}
		if *url != "" {
			c.Broker.Listen, c.Broker.URL = "", *url
		}
		err = c.Check()
	}
	if err != nil {
		fmt.Fprintf(stderr, "simbridge fly: %v\n", err)
		return 2
	}
	if err := fly.Run(ctx, c, stdout); err != nil {
		fmt.Fprintf(stderr, "simbridge fly: %v\n", err)
		return 1
	}
	return 0
}
