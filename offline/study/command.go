package study

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"prefdt/configs"
	"prefdt/configs/cli"
	"prefdt/offline/command"
)

const usage = `offline study compares the shipped policy with the paper's own form, with each of
its departures reverted one at a time, with teachers and floors and with networks of
other sizes, on one protocol. It trains what has to be trained, flies every arm
on the same evaluation seeds, and writes study.md, tables as CSV, and plots into
the folder report of -out.

  offline study                          everything, from configs/checkpoint
  offline study -resume                  continue it
  offline study -resume -only flagship,rules-50
  offline study -list                    the arms

Ctrl-C may come at any time; -resume continues in the middle of a training run.

Flags:
`

// Command is "offline study".
func Command(ctx context.Context, call *cli.Call) error {
	f, stdout := call.Flags, call.Stdout
	c := Default()
	config := f.String("config", "defaults", "YAML `FILE`, or defaults")
	out := f.String("out", "out/study", "`FOLDER` of all results")
	resume := f.Bool("resume", false, "continue the study in -out; without one, start")
	only := f.String("only", "", "only these `ARMS`, as in flagship,base")
	list := f.Bool("list", false, "print the arms")
	dir := f.String("checkpoint", "", "`FOLDER` of the flagship, over the configuration's")
	steps := f.Int("steps", 0, "training steps of each arm, over the configuration's")
	seeds := f.Int("seeds", 0, "evaluation seeds, over the configuration's; the others follow in proportion")
	asJSON := call.JSONFlag()
	if _, err := call.Parse(usage, 0); err != nil {
		return err
	}
	if *asJSON {
		stdout = call.Stderr
	}
	if *steps < 0 || *seeds < 0 {
		return cli.BadInputf("-steps and -seeds must not be negative")
	}
	if *config != "defaults" {
		if err := configs.Load(*config, &c); err != nil {
			return cli.BadInput(err)
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
		return cli.BadInput(err)
	}
	arms := c.arms()
	if *list && *asJSON {
		return call.PrintJSON(arms)
	}
	if *list {
		for _, a := range arms {
			fmt.Fprintf(call.Stdout, "%-28s %s\n", a.Name, a.Description)
		}
		return nil
	}
	var names []string
	if *only != "" {
		names = strings.Split(*only, ",")
		for _, name := range names {
			if !slices.ContainsFunc(arms, func(a Arm) bool { return a.Name == name }) {
				return cli.BadInputf("no arm is called %q (-list shows them)", name)
			}
		}
	}
	if _, err := os.Stat(filepath.Join(*out, "study.json")); err == nil && !*resume {
		return cli.BadInputf("%s holds a study: add -resume to continue it, or give another -out", *out)
	} else if err != nil && !errors.Is(err, os.ErrNotExist) {
		return cli.BadInput(err)
	}
	if err := command.CheckWritable(*out); err != nil {
		return cli.BadInput(err)
	}
	if err := Run(ctx, c, *out, names, stdout); err != nil || !*asJSON {
		return err
	}
	return call.PrintJSON(map[string]any{"report": filepath.Join(*out, "report"), "arms": len(arms)})
}
