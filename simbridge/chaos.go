package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"

	"prefdt/configs/cli"
	"prefdt/simbridge/chaos"
	"prefdt/simbridge/judge"
)

// chaosCommand is simbridge chaos.
func chaosCommand(ctx context.Context, call *cli.Call) error {
	flags := call.Flags
	c := chaos.Config{}
	flags.IntVar(&c.Missions, "missions", 20, "how many")
	flags.Uint64Var(&c.Seed, "seed", 1, "of faults and worlds: the same seed, the same missions")
	only := flags.String("only", "", "fly these missions of the run alone, from 0, as `3,17`")
	flags.IntVar(&c.Slots, "slots", 40, "of each mission")
	kind := flags.String("kind", "plain", "`kind` of missions: plain (PX4), packs (to land with 20 %), ardupilot, mixed; any: a share "+
		"of each")
	flags.IntVar(&c.Aircraft, "aircraft", 2, "in the fleet")
	flags.BoolVar(&c.Processes, "processes", false,
		"fly in real time, with the leader's program and sockets; only rules that hold at any speed of the machine are judged")
	flags.StringVar(&c.Leader, "leader", "bin/leader", "the leader's `program`, with -processes")
	flags.Float64Var(&c.Speed, "speed", 0, "mission seconds per second; 0: 1, and 10 with -processes")
	flags.BoolVar(&c.Resume, "resume", false, "do not fly again what -out has of the same missions by this same program")
	flags.BoolVar(&c.Keep, "keep", false, "keep the folders, and with them the records, of all missions")
	flags.StringVar(&c.Checkpoint, "checkpoint", "configs/checkpoint", "`folder` of the policy")
	flags.IntVar(&c.Jobs, "jobs", 1, "missions that fly at once, where there are cores for them")
	flags.StringVar(&c.Out, "out", "out/chaos", "`folder` for the logs of missions that fail")
	listRules := flags.Bool("rules", false, "only print the table of what is judged")
	asJSON := flags.Bool("json", false, "print progress to standard error, and only the result, which is JSON, to standard output")
	if _, err := call.Parse("", 0); err != nil {
		return err
	}
	if *listRules {
		fmt.Fprint(call.Stdout, judge.RuleTable())
		return nil
	}
	for text := range strings.SplitSeq(*only, ",") {
		if text == "" {
			continue
		}
		k, err := strconv.Atoi(text)
		if err != nil {
			return cli.BadInput(fmt.Errorf("-only is %q, want numbers of missions", *only))
		}
		c.Only = append(c.Only, k)
	}
	c.Kind = chaos.Kind(*kind)
	var err error
	if c.Flyer, err = os.Executable(); err != nil {
		return err
	}
	if err := c.Check(); err != nil {
		return cli.BadInput(err)
	}
	progress := call.Stdout
	if *asJSON {
		progress = call.Stderr
	}
	r, err := chaos.Run(ctx, c, progress)
	if err != nil {
		return err
	}
	if err := call.PrintJSON(r); err != nil {
		return err
	}
	if failed := r.Failed(); failed != "" {
		return fmt.Errorf("of %d missions of seed %d: %s", r.Missions, c.Seed, failed)
	}
	return nil
}

// missionCommand flies one mission of a run, as simbridge chaos starts it.
func missionCommand(_ context.Context, call *cli.Call) error {
	words, err := call.Parse("FOLDER", 1)
	if err != nil {
		return err
	}
	if len(words) != 1 {
		return cli.BadInputf("want the folder of a mission; simbridge chaos makes it")
	}
	return chaos.FlyFolder(words[0])
}
