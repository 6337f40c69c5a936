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
                [-world FILE] [-checkpoint DIR]         in a world of one's own, with a policy for it
  simbridge px4 -config FILE [-out DIR] [-broker URL]   the same around running PX4 instances: users, channel, batteries
  simbridge hil -config FILE [-out DIR] [-broker URL]   the same around a leader on its own board, with its latencies
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
	}
	what, known := flightCommands[args[0]]
	if !known {
		fmt.Fprintf(stderr, "simbridge: no command %q; want fly, px4, hil or chaos (simbridge -h)\n", args[0])
		return 2
	}
	name := "simbridge " + args[0]
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	path := flags.String("config", "configs/"+args[0]+".yaml", "`file` of the flight")
	out := flags.String("out", "", "`folder` for logs, tables and plots, instead of the configuration's")
	worldFile := flags.String("world", "", "`file` of the world, as configs/world.yaml, whose keys go over the flight's world")
	checkpoint := flags.String("checkpoint", "", "`folder` of the policy of the leader that is started, instead of its configuration's")
	url := flags.String("broker", "", "`URL` of a broker to use instead of our own")
	err := flags.Parse(args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprintf(stdout, "%s %s.\n", name, what)
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
	if err == nil && *worldFile != "" {
		err = c.LoadWorld(*worldFile)
	}
	if err == nil {
		c.Leader.Checkpoint = *checkpoint
		if *out != "" {
			c.Out = *out
		}
		if *url != "" {
			c.Broker.Listen, c.Broker.URL = "", *url
		}
		err = c.Check()
	}
	if err == nil {
		err = checkCommand(args[0], &c)
	}
	if err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", name, err)
		return 2
	}
	if err := fly.Run(ctx, c, stdout); err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", name, err)
		return 1
	}
	return 0
}

// flightCommands are the commands that fly one mission, and what they say of themselves.
var flightCommands = map[string]string{
	"fly": "flies one mission against simulated aircraft and users",
	"px4": "flies one mission with running PX4 instances: it gives them users, a channel and a battery, and commands nothing",
	"hil": "flies one mission of a leader on its own board, and measures how long it takes",
}

// checkCommand says why a flight is none of its command's kind.
func checkCommand(command string, c *fly.Config) error {
	for i, a := range c.Aircraft {
		switch {
		case command == "px4" && a.Attach == "":
			return fmt.Errorf("aircraft %d has no attach, want the address at which its PX4 is heard", i+1)
		case command == "hil" && a.Attach != "":
			return fmt.Errorf("aircraft %d has attach, want serial, or listen and partner", i+1)
		}
	}
	if c.Attached() && c.Speed != 1 {
		return fmt.Errorf("speed is %v, want 1: real autopilots fly in real time", c.Speed)
	}
	return nil
}
