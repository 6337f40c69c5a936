package train

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"prefdt/configs"
	"prefdt/offline/command"
)

const usage = `offline train fits the policy network to a corpus by imitation.

  offline train                       train, with -corpus and -config as below
  offline train -resume               go on from the state in -out

It appends one line a step to log.csv, and saves state.bin every -save steps
and at the end. Ctrl-C saves and stops; -resume then ends with the parameters
of an uninterrupted run.

Flags:
`

// Corpus is what training needs of a corpus.
type Corpus interface {
	// Source returns the flights for that many workers.
	Source(workers int) Source
	// Validate flies the parameters on training seeds and describes how they
	// did in one line of "name value" pairs for the log.
	Validate(p *Params[float32]) (string, error)
}

// Command is "offline train"; open reads the corpus in a folder.
func Command(open func(dir string) (Corpus, error)) func(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	return func(ctx context.Context, args []string, stdout, _ io.Writer) error {
		c := Default()
		f := command.Flags("train")
		dir := f.String("corpus", "out/corpus", "`FOLDER` of the corpus")
		config := f.String("config", "", "YAML `FILE` with the architecture, batch, schedule and loss weights")
		out := f.String("out", "out/train", "`FOLDER` for state.bin and log.csv")
		steps := f.Int("steps", 0, "steps of the whole run, over the configuration's")
		resume := f.Bool("resume", false, "go on from the state in -out; without one, start")
		save := f.Int("save", 250, "steps between two saves")
		validate := f.Int("validate", 500, "steps between two validations, 0 for none")
		if done, err := command.Parse(f, usage, args, stdout); done {
			return err
		}
		if *config != "" {
			if err := configs.Load(*config, &c); err != nil {
				return err
			}
		}
		if *steps > 0 {
			c.Schedule.Steps = *steps
		}
		if *save < 1 {
			return fmt.Errorf("offline train: -save is %d, want 1 at least", *save)
		}
		corpus, err := open(*dir)
		if err != nil {
			return err
		}
		t, err := New(c, corpus.Source(c.Workers))
		if err != nil {
			return err
		}
		state := filepath.Join(*out, "state.bin")
		switch _, err := os.Stat(state); {
		case err == nil && !*resume:
			return fmt.Errorf("%s holds a run: add -resume to go on with it, or give another -out", state)
		case err == nil:
			if err := t.Load(state); err != nil {
				return err
			}
		case !errors.Is(err, os.ErrNotExist):
			return fmt.Errorf("training state: %w", err)
		}
		return t.run(ctx, corpus, *out, *save, *validate, stdout)
	}
}

// run trains to the end, or to the end of ctx.
func (t *Trainer) run(ctx context.Context, corpus Corpus, dir string, save, validate int, stdout io.Writer) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("training output: %w", err)
	}
	state := filepath.Join(dir, "state.bin")
	log, err := openLog(filepath.Join(dir, "log.csv"), t.Step)
	if err != nil {
		return err
	}
	defer log.Close()
	fmt.Fprintf(stdout, "%d parameters, %d steps of %d episodes\n", t.Config.Arch.Parameters(), t.Config.Schedule.Steps, t.Config.Batch)
	started, first := time.Now(), t.Step
	for t.Step < t.Config.Schedule.Steps {
		if ctx.Err() != nil {
			if err := t.Save(state); err != nil {
				return err
			}
			return fmt.Errorf("training interrupted at step %d of %d; the same command with -resume goes on", t.Step, t.Config.Schedule.Steps)
		}
		at := time.Now()
		line, err := t.Next()
		if err != nil {
			return err
		}
		if err := line.Write(log, time.Since(at)); err != nil {
			return fmt.Errorf("training log: %w", err)
		}
		last := t.Step == t.Config.Schedule.Steps
		if t.Step%50 == 0 || last {
			left := time.Since(started) / time.Duration(t.Step-first) * time.Duration(t.Config.Schedule.Steps-t.Step)
			fmt.Fprintf(stdout, "step %d/%d  loss %.4f  choice %.4f  right %.4f  move %.5f  price %.6f  %.0f tokens/s  left %s\n", t.Step, t.Config.Schedule.Steps,
				line.Terms.Loss, line.Terms.Choice, line.Terms.Right, line.Terms.Move, line.Terms.Price,
				float64(line.Tokens)/time.Since(at).Seconds(), left.Round(time.Second))
		}
		if t.Step%save == 0 || last {
			if err := t.Save(state); err != nil {
				return err
			}
		}
		if validate > 0 && (t.Step%validate == 0 || last) {
			figures, err := corpus.Validate(t.Params)
			if err != nil {
				return err
			}
			fmt.Fprintf(stdout, "validation at step %d: %s\n", t.Step, figures)
		}
	}
	return nil
}

// openLog opens the log for the line of a step, without what an interrupted
// run logged beyond its last save.
func openLog(path string, step int) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("training log: %w", err)
	}
	raw, err := io.ReadAll(f)
	if err != nil {
		return nil, fmt.Errorf("training log: %w", err)
	}
	keep := 0 // bytes of the header and of one line for each step before
	for lines := 0; lines < step+1 && keep < len(raw); keep++ {
		if raw[keep] == '\n' {
			lines++
		}
	}
	if step == 0 || keep == 0 {
		keep = 0
	}
	if err := f.Truncate(int64(keep)); err != nil {
		return nil, fmt.Errorf("training log: %w", err)
	}
	if _, err := f.Seek(int64(keep), io.SeekStart); err != nil {
		return nil, fmt.Errorf("training log: %w", err)
	}
	if keep == 0 {
		_, err = io.WriteString(f, Header)
	}
	return f, err
}
