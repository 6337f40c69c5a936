package belieftrain

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"prefdt/configs/cli"
	"prefdt/inference/belief/learned"
	"prefdt/inference/checkpoint"
	"prefdt/offline/command"
)

const usage = `offline train-estimator fits the estimator of beliefs to the hidden state of flights in
random worlds around the field worlds.

  offline train-estimator                        train, then refine
  offline train-estimator -resume                continue the run in -out
  offline train-estimator -window 5 -out out/k5  one that remembers 5 slots
  offline train-estimator -from configs/checkpoint
                                                 refine alone, from what there is

Each stage has a folder in -out, with a line a step in log.csv and a state that is
saved every -save steps and at the end. The parameters come into estimator.bin;
"offline export -estimator FOLDER" puts them into a checkpoint, and "offline evaluate
-world NAME -estimator FILE" measures them. Ctrl-C saves and stops; -resume then ends
with the parameters of an uninterrupted run.

Flags:
`

// Command is "offline train-estimator".
func Command(ctx context.Context, call *cli.Call) error {
	c := Default()
	f, stdout := call.Flags, call.Stdout
	recipe := f.String("recipe", "", "YAML `FILE` with memory, flights and both stages, as configs/estimator.yaml")
	f.IntVar(&c.Window, "window", c.Window, "`SLOTS` that it remembers")
	out := f.String("out", "out/estimator", "`FOLDER` of the run")
	steps := f.Int("steps", 0, "steps of both stages, over the recipe's and in its proportion")
	from := f.String("from", "", "begin with the parameters at this `PATH`, a run's folder or a checkpoint's, without the first stage")
	resume := f.Bool("resume", false, "continue the run in -out; without one, start")
	save := f.Int("save", 100, "steps between two saves")
	asJSON := call.JSONFlag()
	if _, err := call.Parse(usage, 0); err != nil {
		return err
	}
	if *asJSON {
		stdout = call.Stderr
	}
	if err := call.Config(*recipe, &c); err != nil {
		return err
	}
	if *save < 1 || *steps < 0 {
		return cli.BadInputf("-save is %d, want 1 at least; -steps %d, want 0 at least", *save, *steps)
	}
	var begin *learned.Parameters
	if *from != "" {
		var record *checkpoint.Estimator
		var err error
		if begin, record, err = Read(*from); err != nil {
			return cli.BadInput(err)
		}
		c.First.Schedule.Steps, c.FlightsBefore = 0, record.Training["flights"]
		if !call.Given("window") {
			c.Window = begin.Window
		}
	}
	if *steps > 0 {
		c.setSteps(*steps)
	}
	if err := c.Check(); err != nil {
		return cli.BadInput(err)
	}
	for _, s := range c.stages() {
		if _, err := os.Stat(filepath.Join(*out, s.name, stateFile)); err == nil && !*resume {
			return cli.BadInputf("%s holds a run: add -resume to continue it, or give another -out", *out)
		} else if err != nil && !errors.Is(err, os.ErrNotExist) {
			return cli.BadInput(err)
		}
	}
	if err := command.CheckWritable(*out); err != nil {
		return cli.BadInput(err)
	}
	p, err := Run(ctx, c, begin, *out, *save, stdout)
	if err != nil || !*asJSON {
		return err
	}
	return call.PrintJSON(map[string]any{"folder": *out, "window": p.Window, "parameters": len(p.Data)})
}
