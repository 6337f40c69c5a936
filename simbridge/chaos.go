package main

import (
	"context"
	"fmt"

	"prefdt/configs/cli"
	"prefdt/simbridge/chaos"
)

// chaosCommand is simbridge chaos.
func chaosCommand(ctx context.Context, call *cli.Call) error {
	flags := call.Flags
	c := chaos.Config{}
	flags.IntVar(&c.Missions, "missions", 20, "how many")
	flags.Uint64Var(&c.Seed, "seed", 1, "of faults and worlds: the same seed, the same missions")
	flags.IntVar(&c.OnlyMission, "only", -1, "fly this mission of the run alone, from 0")
	flags.IntVar(&c.Slots, "slots", 40, "of each mission")
	flags.Float64Var(&c.Speed, "speed", 20, "mission seconds per second")
	flags.IntVar(&c.Aircraft, "aircraft", 2, "in the fleet")
	flags.StringVar(&c.Leader, "leader", "bin/leader", "the leader's `program`")
	flags.StringVar(&c.JumpLeader, "jump-leader", "", "the leader's `program` with a wall clock that jumps, see -build-jump; a third of the missions fly with it")
	flags.StringVar(&c.Checkpoint, "checkpoint", "configs/checkpoint", "`folder` of the policy")
	flags.IntVar(&c.Jobs, "jobs", 1, "missions that fly at once, where there are cores for them")
	flags.StringVar(&c.Out, "out", "out/chaos", "`folder` for the logs of missions that fail")
	build := flags.String("build-jump", "", "only build that program, from this repository, into this `file`")
	asJSON := flags.Bool("json", false, "print progress to standard error, and only the result, which is JSON, to standard output")
	if _, err := call.Parse("", 0); err != nil {
		return err
	}
	if *build != "" {
		return chaos.BuildJump(*build)
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
