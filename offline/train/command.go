package train

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"prefdt/configs/cli"
	"prefdt/offline/command"
	"prefdt/offline/corpus"
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
	ctx, stop, err := limit(ctx)
	defer stop()
	if err != nil {
		return err
	}
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
	check := func(ctx context.Context, p *Params[float32]) (Validation, error) { return Validate(ctx, m, p) }
	if err := t.Run(ctx, *out, *save, *validate, check, stdout); err != nil || !*asJSON {
		return err
	}
	return call.PrintJSON(map[string]any{"folder": *out, "steps": t.Step, "parameters": t.Config.Arch.Parameters()})
}

// Run trains from the state in dir, if there is one, to the end, or to the end
// of ctx. check measures the parameters every so many steps, unless that is 0.
func (t *Trainer) Run(ctx context.Context, dir string, save, validate int, check func(context.Context, *Params[float32]) (Validation, error), stdout io.Writer) error {
	state := filepath.Join(dir, "state.bin")
	if err := t.Load(state); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	log, _, err := openLog(filepath.Join(dir, "log.csv"), logHeader(t.task.Losses), t.Step)
	if err != nil {
		return err
	}
	defer log.Close()
	var checks *os.File
	validated := 0
	if validate > 0 {
		if checks, validated, err = openLog(filepath.Join(dir, "validation.csv"), validationHeader, t.Step+1); err != nil {
			return err
		}
		defer checks.Close()
	}
	fmt.Fprintf(stdout, "%d parameters, %d steps of %d episodes\n", len(t.Params.Data), t.Config.Schedule.Steps, t.Config.Batch)
	started, first := time.Now(), t.Step
	for {
		last := t.Step == t.Config.Schedule.Steps
		due := validate > 0 && t.Step > validated && (t.Step%validate == 0 || last)
		if due && ctx.Err() == nil { // else -resume does it first
			figures, err := check(ctx, t.Params)
			if err == nil {
				fmt.Fprintf(stdout, "validation at step %d: %s\n", t.Step, figures)
				if err := t.recordValidation(dir, checks, figures); err != nil {
					return err
				}
				due = false
			} else if ctx.Err() == nil {
				return err
			}
		}
		if last && !due {
			return nil
		}
		if ctx.Err() != nil {
			return cmp.Or(t.Save(state), command.Interrupted(ctx, " at step %d of %d; the same command with -resume continues", t.Step, t.Config.Schedule.Steps))
		}
		at := time.Now()
		line, err := t.Next()
		if err != nil {
			return err
		}
		if err := line.Write(log, t.Config.Batch, time.Since(at)); err != nil {
			return fmt.Errorf("training log: %w", err)
		}
		last = t.Step == t.Config.Schedule.Steps
		if t.Step%50 == 0 || last {
			left := time.Since(started) / time.Duration(t.Step-first) * time.Duration(t.Config.Schedule.Steps-t.Step)
			fmt.Fprintf(stdout, "step %d/%d  %s  left %s\n", t.Step, t.Config.Schedule.Steps, t.summary(&line, time.Since(at)), left.Round(time.Second))
		}
		if t.Step%save == 0 || last {
			if err := t.Save(state); err != nil {
				return err
			}
		}
	}
}

func (t *Trainer) summary(l *LogLine, took time.Duration) string {
	var text strings.Builder
	for i, name := range t.task.Losses {
		fmt.Fprintf(&text, "%s %.5g  ", name, l.Losses[i])
	}
	return fmt.Sprintf("%s%.1f flights/s", &text, float64(t.Config.Batch)/took.Seconds())
}
