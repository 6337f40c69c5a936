package main

import (
	"context"
	"fmt"

	"prefdt/configs/cli"
	"prefdt/inference/checkpoint"
	"prefdt/simbridge/judge"
)

// judgeCommand is simbridge judge.
func judgeCommand(_ context.Context, call *cli.Call) error {
	const mostFiles = 10_000
	listRules := call.Flags.Bool("rules", false, "only print the table of what is judged")
	all := call.Flags.Bool("all", false, "print also the rules that were kept, with how much of their bounds was used")
	folder := call.Flags.String("checkpoint", checkpoint.DefaultFolder,
		"the leader's checkpoint: its policy is flown beside; none: it is not, nor where another one flew")
	paths, err := call.Parse("", mostFiles)
	if err != nil {
		return err
	}
	if *listRules {
		fmt.Fprint(call.Stdout, judge.RuleTable())
		return nil
	}
	var frozen *checkpoint.Checkpoint
	if *folder != "" {
		if frozen, err = checkpoint.Load(*folder); err != nil {
			return cli.BadInput(fmt.Errorf("-checkpoint: %w", err))
		}
	}
	broken := 0
	for _, path := range paths {
		report, err := judge.Judge(path, frozen)
		if err != nil {
			return cli.BadInput(fmt.Errorf("%s: %w", path, err))
		}
		for _, f := range report.Findings {
			switch {
			case f.Broken > 0:
				broken++
				fmt.Fprintf(call.Stdout, "%s: %s, %d times, first at %s\n", path, f.Rule, f.Broken, f.First)
			case *all:
				fmt.Fprintf(call.Stdout, "%s: %s kept; active %.0f, %.2f of the bound used\n", path, f.Rule, f.Active, f.Used)
			}
		}
	}
	if broken > 0 {
		return fmt.Errorf("%d times a rule was broken in a flight", broken)
	}
	return nil
}
