package study

import (
	"context"

	"prefdt/configs/cli"
	"prefdt/offline/experiment"
)

const usage = `offline study compares the shipped policy with the paper's own form, with each of
its departures reverted one at a time, with teachers and floors and with networks of
other sizes, on one protocol. It trains what has to be trained, flies every arm
on the same evaluation seeds, and writes study.md, tables as CSV, and plots into
the folder report of -out.

  offline study                          everything, from configs/checkpoint
  offline study -resume                  continue it
  offline study -resume -only flagship,rules-50
  offline study -list [-json]            the arms; as JSON with what each needs and took before
  offline study -resume -shard 0/8       the first of eight parts, which eight jobs measure at a time
  offline study merge [FOLDER...]        the report, over -out and what other folders have measured

Ctrl-C or SIGTERM may come at any time, or -limit end it: the exit status is 75 then, and
-resume continues in the middle of a training run, or after the conditions that an arm has
flown under. Shards may share the folder -out. configs/cluster has jobs for Slurm and Kubernetes.

Flags:
`

// Command is "offline study".
func Command(ctx context.Context, call *cli.Call) error {
	f := call.Flags
	c := Default()
	config := f.String("config", "defaults", "YAML `FILE`, or defaults")
	common := experiment.NewFlags(call, "study", "out/study")
	dir := f.String("checkpoint", "", "`FOLDER` of the flagship, over the configuration's")
	steps := f.Int("steps", 0, "training steps of each arm, over the configuration's")
	seeds := f.Int("seeds", 0, "evaluation seeds, over the configuration's; the others follow in proportion")
	words, err := call.Parse(usage, 1000)
	if err != nil {
		return err
	}
	if *steps < 0 || *seeds < 0 {
		return cli.BadInputf("-steps and -seeds must not be negative")
	}
	if *config == "defaults" {
		*config = ""
	}
	if err := call.Config(*config, &c); err != nil {
		return err
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
	plan := func() []experiment.Arm { return c.planned(nil) }
	return common.Do(ctx, call, words, plan, func() (*experiment.Set, experiment.Report, error) {
		s, err := open(c, *common.Out, call.Stdout)
		if err != nil {
			return nil, nil, err
		}
		return s.Set, s.report, nil
	})
}
