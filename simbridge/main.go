// Command simbridge is the world that the leader flies against: simulated
// aircraft and users over real MAVLink and MQTT, on one machine.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"prefdt/configs"
	"prefdt/configs/cli"
	"prefdt/simbridge/chaos"
	"prefdt/simbridge/fly"
)

const flightArgs = "[-config FILE] [-packs LIST] [-autopilot KIND] [-world FILE] [-checkpoint DIR] [-out DIR] [-broker URL] [-json]"

var program = cli.Program{
	Name:  "simbridge",
	Usage: "simbridge is the world the leader flies against.",
	Commands: []cli.Command{
		{Name: "fly", Args: flightArgs, Summary: "fly one mission against simulated aircraft and users",
			Run: flightCommand("fly", "configs/fly.yaml")},
		{Name: "sitl", Args: flightArgs, Summary: "the same around running PX4 or ArduCopter instances, which it gives users and moves " +
			"nowhere",
			Run: flightCommand("sitl", "configs/px4.yaml")},
		{Name: "px4", Args: flightArgs, Summary: "sitl, by its former name", Run: flightCommand("sitl", "configs/px4.yaml")},
		{Name: "hil", Args: flightArgs, Summary: "the same around a leader on its own board, with its latencies",
			Run: flightCommand("hil", "configs/hil.yaml")},
		{Name: "chaos", Args: "-missions N -seed S [-json]", Summary: "fly N missions in which faults happen, and judge them from outside",
			Run: chaosCommand},
		{Name: chaos.MissionCommand, Args: "FOLDER", Summary: "fly the one mission of a folder; chaos starts this for each of its missions",
			Run: missionCommand},
		{Name: "real", Args: "[-acts] [-only a,b] [-repeat N]", Run: realCommand,
			Summary: "fly SITL builds of PX4 and ArduCopter by the recipe, from boot to landed, and judge each flight"},
		{Name: "judge", Args: "FILE...", Summary: "judge flights by their records", Run: judgeCommand},
		{Name: "mutants", Args: "[-only a,b] [-sample N]", Summary: "plant faults in the leader, one at a time, and find what notices them",
			Run: mutantsCommand},
	},
	Notes: "Exit status: 0 all went well, 1 not, 2 bad input.",
}

func main() { program.Main() }

// flightCommand flies one mission, as fly, sitl or hil, by a file unless -config names another.
func flightCommand(name, file string) func(context.Context, *cli.Call) error {
	return func(ctx context.Context, call *cli.Call) error {
		path := call.Flags.String("config", file, "`file` of the flight")
		out := call.Flags.String("out", "", "`folder` for logs, tables and plots, instead of the configuration's")
		world := call.Flags.String("world", "", "`file` of the world, as configs/world.yaml, or the name of a field world; goes over "+
			"the flight's own")
		checkpoint := call.Flags.String("checkpoint", "",
			"`folder` of the policy of the leader that is started, instead of its configuration's")
		packs := call.Flags.String("packs", "", "what the `packs` hold, one for each aircraft, as in 45kJ,60kJ")
		autopilot := call.Flags.String("autopilot", "", "`kind` of the simulated autopilots: px4, ardupilot, or mixed")
		url := call.Flags.String("broker", "", "`URL` of a broker to use instead of our own")
		asJSON := call.JSONFlag()
		if _, err := call.Parse("", 0); err != nil {
			return err
		}
		c, err := loadFlight(name, *path, *world, *checkpoint, *out, *url)
		if err == nil && *packs != "" {
			err = c.FitPacks(*packs)
		}
		if err == nil && *autopilot != "" {
			err = c.FitAutopilots(*autopilot)
		}
		if err != nil {
			return cli.BadInput(err)
		}
		if !*asJSON {
			return fly.Run(ctx, c, call.Stdout)
		}
		report, began := filepath.Join(c.Out, "summary.json"), time.Now()
		flightErr := fly.Run(ctx, c, call.Stderr)
		if info, err := os.Stat(report); err != nil || info.ModTime().Before(began) { // it failed before it had anything to report
			return flightErr
		}
		summary, err := os.ReadFile(report)
		call.Stdout.Write(summary)
		return errors.Join(flightErr, err)
	}
}

// loadFlight reads the configuration of a command's flight.
func loadFlight(command, path, world, checkpoint, out, url string) (fly.Config, error) {
	c := fly.Default()
	if err := configs.Load(path, &c); err != nil {
		return c, err
	}
	if world != "" {
		if err := c.LoadWorld(world); err != nil {
			return c, err
		}
	}
	c.File, c.Leader.Checkpoint = path, checkpoint
	c.Out = cmp.Or(out, c.Out)
	if url != "" {
		c.Broker.Listen, c.Broker.URL = "", url
	}
	if err := c.Check(); err != nil {
		return c, err
	}
	return c, checkCommand(command, &c)
}

// checkCommand returns why a flight is not of its command's kind.
func checkCommand(command string, c *fly.Config) error {
	for i, a := range c.Aircraft {
		switch {
		case command == "sitl" && a.Attach == "":
			return fmt.Errorf("aircraft %d has no attach, want the address that its autopilot sends to", i+1)
		case command == "hil" && a.Attach != "":
			return fmt.Errorf("aircraft %d has attach, want serial, or listen and partner", i+1)
		}
	}
	if c.Attached() && c.Speed != 1 {
		return fmt.Errorf("speed is %v, want 1: real autopilots fly in real time", c.Speed)
	}
	return nil
}
