package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"

	"prefdt/simbridge/chaos"
)

// runChaos is simbridge chaos.
func runChaos(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("simbridge chaos", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
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
	asJSON := flags.Bool("json", false, "print the result as JSON, progress to standard error")
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprintln(stdout, "simbridge chaos flies missions in which things go wrong, and judges them by what the autopilots received.")
		flags.SetOutput(stdout)
		flags.PrintDefaults()
		return 0
	case err == nil && flags.NArg() > 0:
		err = fmt.Errorf("unexpected %q", flags.Arg(0))
	case err == nil && *build != "":
		if err := chaos.BuildJump(*build); err != nil {
			fmt.Fprintf(stderr, "simbridge chaos: %v\n", err)
			return 1
		}
		return 0
	}
	if err == nil {
		err = c.Check()
	}
	if err != nil {
		fmt.Fprintf(stderr, "simbridge chaos: %v\n", err)
		return 2
	}
	progress := stdout
	if *asJSON {
		progress = stderr
	}
	r, err := chaos.Run(ctx, c, progress)
	if err != nil {
		fmt.Fprintf(stderr, "simbridge chaos: %v\n", err)
		return 1
	}
	raw, _ := json.MarshalIndent(r, "", "  ") // every field is finite
	fmt.Fprintf(stdout, "%s\n", raw)
	if failed := r.Failed(); failed != "" {
		fmt.Fprintf(stderr, "simbridge chaos: of %d missions of seed %d: %s\n", r.Missions, c.Seed, failed)
		return 1
	}
	return 0
}
