package paper

import (
	"context"
	"os"

	"prefdt/configs/cli"
	"prefdt/offline/experiment"
	"prefdt/offline/seeds"
)

const usage = `offline paper makes the paper's tables with our figures beside its own: it trains every
method and every ablation with a declared budget, searches the teachers, flies all of them
on the same evaluation seeds, and writes paper.md, tables as CSV, and pictures into the
folder report of -out. What has not been measured is in the tables as "not run".

  offline paper                          everything: see docs/comparison.md for the hours
  offline paper -resume                  continue it
  offline paper -resume -only ppo-plain,ppo-weaker  first on a cluster: others learn from their flights
  offline paper -list [-json]            the arms; as JSON with what each needs, spends and costs
  offline paper -resume -shard 0/8       the first of eight parts, which eight jobs measure at a time
  offline paper merge [FOLDER...]        the report, over -out and what other folders have measured
  offline paper runs CONFIG=FOLDER ...   differences and methods over training runs, each with seeds of its own,
                                         with intervals over the runs: printed, and as runs.md and CSV
                                         in report of -out

Ctrl-C or SIGTERM may come at any time, or -limit end it: the exit status is 75 then, and
-resume continues in the middle of a training run, or after the conditions that an arm has
flown under. Shards may share the folder -out. The rows of our own policy and of its controllers
come from a study's folder, -study. A folder may be within an archive, as in results.tar.gz/arms.

Flags:
`

// Command is "offline paper".
func Command(ctx context.Context, call *cli.Call) error {
	f := call.Flags
	config := f.String("config", "", "YAML `FILE`, as configs/paper.yaml")
	common := experiment.NewFlags(call, "comparison", "out/paper-tables")
	studyDir := f.String("study", "out/study", "`FOLDER` of a study, for the rows of our policy and its controllers")
	c := Default()
	f.StringVar(&c.Published, "published", "", "`FOLDER` of a checkpoint that train-prefdt has trained, over the configuration's")
	beside := f.String("beside", "", "with runs: `CONFIG=FOLDER` of one run of another budget, which the methods' table has beside them")
	words, err := call.Parse(usage, 1000)
	if err != nil {
		return err
	}
	if len(words) > 0 && words[0] == "runs" {
		return runsCommand(call, words[1:], *beside, *common.Out)
	}
	if call.Given("beside") {
		return cli.BadInputf("-beside is of offline paper runs")
	}
	if err := call.Config(*config, &c); err != nil {
		return err
	}
	full, err := c.loadPublished()
	if err != nil {
		return cli.BadInput(err)
	}
	studied, done, err := experiment.OpenFolder(*studyDir)
	if err != nil {
		return cli.BadInput(err)
	}
	defer done()
	if _, err := os.Stat(studied); err != nil && call.Given("study") {
		return cli.BadInput(err)
	}
	return common.Do(ctx, call, words, func() []experiment.Arm { return c.arms(nil) }, func() (*experiment.Set, experiment.Report, error) {
		s := newSet(c, full, *common.Out, call.Stdout)
		if c.FirstSeed == seeds.EvaluationFirst {
			s.study, err = readStudy(studied)
		}
		return s.Set, s.report, err
	})
}
