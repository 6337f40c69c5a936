package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"prefdt/configs/cli"
	"prefdt/simbridge/chaos"
)

// chaosCommand is simbridge chaos.
func chaosCommand(ctx context.Context, call *cli.Call) error {
	flags := call.Flags
	c := chaos.Config{}
	flags.IntVar(&c.Missions, "missions", 20, "how many")
	flags.Uint64Var(&c.Seed, "seed", 1, "of faults and worlds: the same seed, the same missions")
	only := flags.String("only", "", "fly these missions of the run alone, from 0, as `3,17`")
	flags.IntVar(&c.Slots, "slots", 40, "of each mission")
	flags.Float64Var(&c.Speed, "speed", 20, "mission seconds per second")
	kind := flags.String("kind", "plain", "`kind` of missions: plain (PX4), packs (to land with 20 %), ardupilot, mixed; any: a share "+
		"of each")
	flags.IntVar(&c.Aircraft, "aircraft", 2, "in the fleet")
	flags.StringVar(&c.Leader, "leader", "bin/leader", "the leader's `program`")
	flags.StringVar(&c.JumpLeader, "jump-leader", "",
		"the leader's `program` with a wall clock that jumps, see -build-jump; a third of the missions fly with it")
	flags.StringVar(&c.Checkpoint, "checkpoint", "configs/checkpoint", "`folder` of the policy")
	flags.IntVar(&c.Jobs, "jobs", 1, "missions that fly at once, where there are cores for them")
	flags.StringVar(&c.Out, "out", "out/chaos", "`folder` for the logs of missions that fail")
	flags.StringVar(&c.DiskLeader, "disk-leader", "",
		"the leader's `program` with a disk that stalls and loses what was not synced, see -build-disk; empty: no such faults")
	buildJump := flags.String("build-jump", "", "only build the former, from this repository, into this `file`")
	buildDisk := flags.String("build-disk", "", "only build the latter, from this repository, into this `file`")
	listRules := flags.Bool("rules", false, "only print the table of what is judged")
	asJSON := flags.Bool("json", false, "print progress to standard error, and only the result, which is JSON, to standard output")
	if _, err := call.Parse("", 0); err != nil {
		return err
	}
	switch {
	case *buildJump != "":
		return chaos.BuildJump(ctx, *buildJump)
	case *buildDisk != "":
		return chaos.BuildDisk(ctx, *buildDisk, nil)
	case *listRules:
		fmt.Fprint(call.Stdout, chaos.RuleTable())
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
