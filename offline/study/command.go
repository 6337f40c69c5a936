package study

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"prefdt/configs"
	"prefdt/offline/command"
)

const usage = `offline study compares the shipped policy with the paper's own form, with each of
its departures taken back singly, with teachers and floors and with networks of
other sizes, on one protocol. It trains what has to be trained, flies every arm
on the same evaluation seeds, and writes study.md, tables as CSV, and plots into
the folder report of -out.

  offline study                          everything, from configs/checkpoint
  offline study -resume                  go on with it
  offline study -resume -only flagship,rules-50
  offline study -list                    the arms

Ctrl-C may come at any time; -resume goes on in the middle of a training run.

Flags:
`

// Command is "offline study".
func Command(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	c := Default()
	f := command.Flags("study")
	config := f.String("config", "defaults", "YAML `FILE`, or defaults")
	out := f.String("out", "out/study", "`FOLDER` of all results")
	resume := f.Bool("resume", false, "go on with the study in -out; without one, start")
	only := f.String("only", "", "only these `ARMS`, as in flagship,base")
	list := f.Bool("list", false, "print the arms")
	dir := f.String("checkpoint", "", "`FOLDER` of the flagship, over the configuration's")
	steps := f.Int("steps", 0, "training steps of each arm, over the configuration's")
	seeds := f.Int("seeds", 0, "evaluation seeds, over the configuration's; the others follow in proportion")
	if done, err := command.Parse(f, usage, args, stdout); done {
		return err
	}
	if *config != "defaults" {
		if err := configs.Load(*config, &c); err != nil {
			return err
		}
	}
	if *dir != "" {
		c.Checkpoint = *dir
	}
	if *steps > 0 {
		c.Train.Schedule.Steps = *steps
		c.Train.Schedule.WarmUpSteps = min(c.Train.Schedule.WarmUpSteps, *steps/5)
	}
	if *seeds > 0 {
		c.AblationSeeds = max(2, c.AblationSeeds**seeds/c.Seeds)
		c.LinkSeeds = max(1, c.LinkSeeds**seeds/c.Seeds)
		c.Seeds = *seeds
	}
	if err := c.Check(); err != nil {
		return fmt.Errorf("offline study: %w", err)
	}
	arms := c.arms()
	if *list {
		for _, a := range arms {
			fmt.Fprintf(stdout, "%-28s %s\n", a.Name, a.Description)
		}
		return nil
	}
	var names []string
	if *only != "" {
		names = strings.Split(*only, ",")
		for _, name := range names {
			if !slices.ContainsFunc(arms, func(a Arm) bool { return a.Name == name }) {
				return fmt.Errorf("offline study: no arm is called %q (-list shows them)", name)
			}
		}
	}
	if _, err := os.Stat(filepath.Join(*out, "study.json")); err == nil && !*resume {
		return fmt.Errorf("%s holds a study: add -resume to go on with it, or give another -out", *out)
	} else if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("offline study: %w", err)
	}
	return Run(ctx, c, *out, names, stdout)
}
