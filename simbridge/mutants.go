package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"prefdt/configs/cli"
	"prefdt/simbridge/mutants"
)

// mutantsCommand is simbridge mutants.
func mutantsCommand(ctx context.Context, call *cli.Call) error {
	flags := call.Flags
	c := mutants.Config{Root: "."}
	only := flags.String("only", "", "plant these faults alone, by their ids, as `a,b`")
	flags.IntVar(&c.Sample, "sample", 0, "plant so many, spread over those that their first mission caught before")
	flags.IntVar(&c.Jobs, "jobs", 2, "faults at once, where there are cores for them")
	flags.IntVar(&c.Most, "most", 12, "missions for one fault")
	flags.Uint64Var(&c.Seed, "seed", 7, "of the missions")
	flags.BoolVar(&c.Tests, "tests", true, "run the unit tests where the missions are silent")
	flags.StringVar(&c.Checkpoint, "checkpoint", "configs/checkpoint", "`folder` of the policy")
	flags.StringVar(&c.Out, "out", "out/mutants", "`folder` for results; those that stand there are kept, so a run can be continued")
	list := flags.Bool("list", false, "only print the faults")
	if _, err := call.Parse("", 0); err != nil {
		return err
	}
	all, err := mutants.Load()
	if err != nil {
		return err
	}
	if *list {
		for _, f := range all {
			fmt.Fprintf(call.Stdout, "%-40s %s\n", f.ID, f.What)
		}
		return nil
	}
	if *only != "" {
		c.Only = strings.Split(*only, ",")
	}
	if c.Jobs < 1 || c.Most < 1 || c.Sample < 0 {
		return cli.BadInput(fmt.Errorf("-jobs is %d, -most %d, -sample %d: want 1, 1 and 0 at least", c.Jobs, c.Most, c.Sample))
	}
	results, err := mutants.Run(ctx, c, call.Stdout)
	if err != nil {
		return err
	}
	missions, tests, unseen := 0, 0, 0
	var left []string
	for _, x := range results {
		if slices.ContainsFunc(all, func(f mutants.Fault) bool { return f.ID == x.ID && f.Unseen != "" }) {
			unseen++
		}
		switch {
		case x.Rule != "":
			missions++
		case x.Test != "":
			tests++
		default:
			left = append(left, x.ID)
		}
	}
	flown := len(results) - unseen
	fmt.Fprintf(call.Stdout, "\nof %d planted faults that a flight can show the missions caught %d (%.0f %%), tests %d more, "+
		"and %d faults no flight can show\n", flown, missions, 100*float64(missions)/float64(max(flown, 1)), tests, unseen)
	if slices.Sort(left); len(left) > 0 {
		return fmt.Errorf("nothing caught %s", strings.Join(left, ", "))
	}
	return nil
}
