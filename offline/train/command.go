package train

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"prefdt/configs/cli"
	"prefdt/offline/command"
	"prefdt/offline/corpus"
	"prefdt/offline/nn"
)

const usage = `offline train fits the policy network to a corpus by imitation.

  offline train                       train, with -corpus and -recipe as below
  offline train -resume               continue from the state in -out

It appends one line a step to log.csv, and saves state.bin every -save steps
and at the end. Every -validate steps it flies training seeds, appends a line
to validation.csv, keeps the best parameters so far in best.bin, and draws both
logs in training.png. Ctrl-C and SIGTERM save and stop; -resume then ends with the
parameters of an uninterrupted run.

Flags:
`

// Command is "offline train".
func Command(ctx context.Context, call *cli.Call) error {
	c := Default()
	f, stdout := call.Flags, call.Stdout
	dir := f.String("corpus", "out/corpus", "`FOLDER` of the corpus")
	config := command.WorldFlag(f)
	recipe := f.String("recipe", "", "YAML `FILE` with the architecture, batch, schedule and loss weights, as configs/train.yaml")
	out := f.String("out", "out/train", "`FOLDER` for state.bin and log.csv")
	steps := f.Int("steps", 0, "steps of the whole run, over the configuration's")
	resume := f.Bool("resume", false, "continue from the state in -out; without one, start")
	save := f.Int("save", 250, "steps between two saves")
	validate := f.Int("validate", 500, "steps between two validations, 0 for none")
	limit := command.LimitFlag(f)
	asJSON := call.JSONFlag()
	if _, err := call.Parse(usage, 0); err != nil {
		return err
	}
	ctx, stop := limit(ctx)
	defer stop()
	if *asJSON {
		stdout = call.Stderr
	}
	if err := call.Config(*recipe, &c); err != nil {
		return err
	}
	if *steps > 0 {
		c.Schedule.Steps = *steps
	}
	if *save < 1 || *steps < 0 || *validate < 0 {
		return cli.BadInputf("-save is %d, want 1 at least; -steps %d and -validate %d, want 0 at least", *save, *steps, *validate)
	}
	if _, err := os.Stat(filepath.Join(*out, "state.bin")); err == nil && !*resume {
		return cli.BadInputf("%s holds a run: add -resume to continue it, or give another -out", *out)
	}
	if err := command.CheckWritable(*out); err != nil {
		return cli.BadInput(err)
	}
	m, err := corpus.Read(filepath.Join(*dir, "manifest.json"))
	if err == nil {
		err = m.Verify(4)
	}
	if err != nil {
		return cli.BadInput(err)
	}
	if w, err := config(m.World); err != nil {
		return cli.BadInput(err)
	} else if err := command.CheckWorld("the corpus was", m.World, w); err != nil {
		return cli.BadInput(err)
	}
	t, err := New(c, m.Examples(c.Workers, &m.Statistics))
	if err != nil {
		return err
	}
	files := nn.Files{Dir: *out, Save: *save, Validate: *validate, Header: validationHeader, Score: score,
		Validation: func(ctx context.Context, log io.Writer) error {
			v, err := validation(ctx, m, c.Arch, t.Params.Data)
			if err != nil {
				return err
			}
			fmt.Fprintf(stdout, "validation at step %d: %s\n", t.Step, v)
			return record(t.Step, *out, log, v)
		}}
	if err := t.Run(ctx, files, stdout); err != nil || !*asJSON {
		return err
	}
	return call.PrintJSON(map[string]any{"folder": *out, "steps": t.Step, "parameters": c.Arch.Parameters()})
}
