package study

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
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
  offline study -list [-json]            the arms; as JSON with what each needs and rough costs
  offline study -resume -shard 0/8       the first of eight parts, which eight jobs measure at a time
  offline study merge [FOLDER...]        the report, over -out and what other folders have measured

Ctrl-C or SIGTERM may come at any time, or -limit end it: the exit status is 75 then, and
-resume continues in the middle of a training run. An arm's flights are kept when all are
flown, minutes of a core each: -list -json tells them. Shards may share the folder -out.
configs/cluster has jobs for Slurm and Kubernetes.

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
	shard := command.ShardFlag(f, "whole training runs, and no report")
	times := f.Bool("times", true, "time decisions for the report; all else in it is the same in every run")
	limit := command.LimitFlag(f)
	list := f.Bool("list", false, "print the arms, with -only and -shard those selected, and do nothing")
	dir := f.String("checkpoint", "", "`FOLDER` of the flagship, over the configuration's")
	steps := f.Int("steps", 0, "training steps of each arm, over the configuration's")
	seeds := f.Int("seeds", 0, "evaluation seeds, over the configuration's; the others follow in proportion")
	asJSON := call.JSONFlag()
	words, err := call.Parse(usage, 1000)
	if err != nil {
		return err
	}
	merge := len(words) > 0 && words[0] == "merge"
	switch {
	case len(words) > 0 && !merge:
		return cli.BadInputf("unexpected %q, want flags alone, or merge before folders (offline study -h)", words[0])
	case merge && (call.Given("shard") || *list):
		return cli.BadInputf("merge is of all shards: it takes neither -shard nor -list")
	}
	ctx, stop, err := limit(ctx)
	defer stop()
	if err != nil {
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
	part := Part{NoTimes: !*times}
	if *only != "" {
		part.Only = strings.Split(*only, ",")
	}
	if part.Shard, err = shard(); err != nil {
		return err
	}
	arms, err := c.selectArms(part.Only, part.Shard)
	if err != nil {
		return cli.BadInput(err)
	}
	switch {
	case *list && *asJSON:
		return call.PrintJSON(c.plan(arms))
	case *list:
		for _, a := range arms {
			fmt.Fprintf(call.Stdout, "%-28s %s\n", a.Name, a.Description)
		}
		return nil
	case merge:
		err = Merge(ctx, c, *out, words[1:], part, stdout)
	default:
		if _, err := os.Stat(filepath.Join(*out, keyFile)); err == nil && !*resume {
			return cli.BadInputf("%s holds a study: add -resume to continue it, or give another -out", *out)
		} else if err != nil && !errors.Is(err, os.ErrNotExist) {
			return cli.BadInput(err)
		}
		if err := command.CheckWritable(*out); err != nil {
			return cli.BadInput(err)
		}
		err = Run(ctx, c, *out, part, stdout)
	}
	if err != nil || !*asJSON {
		return err
	}
	made := map[string]any{"arms": len(arms), "folder": *out}
	if part.Shard.Whole() {
		made["report"] = filepath.Join(*out, "report")
	}
	return call.PrintJSON(made)
}
