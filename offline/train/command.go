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
	"prefdt/simbridge/world"
)

const usage = `offline train fits the policy network to a corpus by imitation.

  offline train                       train, with -corpus and -recipe as below
  offline train -resume               go on from the state in -out

It appends one line a step to log.csv, and saves state.bin every -save steps
and at the end. Every -validate steps it flies training seeds, appends a line
to validation.csv, keeps the best parameters so far in best.bin, and draws both
logs in training.png. Ctrl-C saves and stops; -resume then ends with the
parameters of an uninterrupted run.

Flags:
`

// Corpus is what training needs of a corpus.
type Corpus interface {
	// World returns the world that the corpus was made in.
	World() world.Config
	// Source returns the flights for that many workers.
	Source(workers int) Source
	// Validate flies the parameters on training seeds.
	Validate(p *Params[float32]) (Validation, error)
}

// Command is "offline train"; open reads the corpus in a folder.
func Command(open func(dir string) (Corpus, error)) func(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	return func(ctx context.Context, args []string, stdout, _ io.Writer) error {
		c := Default()
		f := command.Flags("train")
		dir := f.String("corpus", "out/corpus", "`FOLDER` of the corpus")
		config := command.WorldFlag(f)
		recipe := f.String("recipe", "", "YAML `FILE` with the architecture, batch, schedule and loss weights, as configs/train.yaml")
		out := f.String("out", "out/train", "`FOLDER` for state.bin and log.csv")
		steps := f.Int("steps", 0, "steps of the whole run, over the configuration's")
		resume := f.Bool("resume", false, "go on from the state in -out; without one, start")
		save := f.Int("save", 250, "steps between two saves")
		validate := f.Int("validate", 500, "steps between two validations, 0 for none")
		if done, err := command.Parse(f, usage, args, stdout); done {
			return err
		}
		if *recipe != "" {
			if err := configs.Load(*recipe, &c); err != nil {
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
		if w, err := config(corpus.World()); err != nil {
			return fmt.Errorf("offline train: %w", err)
		} else if err := command.CheckWorld("the corpus was", corpus.World(), w); err != nil {
			return fmt.Errorf("offline train: %w", err)
		}
		t, err := New(c, corpus.Source(c.Workers))
		if err != nil {
			return err
		}
		if _, err := os.Stat(filepath.Join(*out, "state.bin")); err == nil && !*resume {
			return fmt.Errorf("%s holds a run: add -resume to go on with it, or give another -out", *out)
		}
		return t.Run(ctx, *out, *save, *validate, corpus.Validate, stdout)
	}
}

// Run trains from the state in dir, if there is one, to the end, or to the end
// of ctx. check, called every so many steps unless that is 0, is Corpus's
// Validate.
func (t *Trainer) Run(ctx context.Context, dir string, save, validate int, check func(*Params[float32]) (Validation, error), stdout io.Writer) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("training output: %w", err)
	}
	state := filepath.Join(dir, "state.bin")
	if _, err := os.Stat(state); err == nil {
		if err := t.Load(state); err != nil {
			return err
		}
	} else if !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("training state: %w", err)
	}
	log, err := openLog(filepath.Join(dir, "log.csv"), LogHeader, t.Step)
	if err != nil {
		return err
	}
	defer log.Close()
	checks, err := openLog(filepath.Join(dir, "validation.csv"), validationHeader, t.Step/max(validate, 1))
	if err != nil {
		return err
	}
	defer checks.Close()
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
				line.Terms.Loss, line.Terms.Association, line.Terms.Accuracy, line.Terms.Move, line.Terms.Price,
				float64(line.Tokens)/time.Since(at).Seconds(), left.Round(time.Second))
		}
		if t.Step%save == 0 || last {
			if err := t.Save(state); err != nil {
				return err
			}
		}
		if validate > 0 && (t.Step%validate == 0 || last) {
			figures, err := check(t.Params)
			if err != nil {
				return err
			}
			fmt.Fprintf(stdout, "validation at step %d: %s\n", t.Step, figures)
			if err := t.recordValidation(dir, checks, figures); err != nil {
				return err
			}
		}
	}
	return nil
}

// openLog opens a log that holds that many lines below its header, without
// what an interrupted run logged beyond its last save.
func openLog(path, header string, lines int) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("training log: %w", err)
	}
	raw, err := io.ReadAll(f)
	if err != nil {
		return nil, fmt.Errorf("training log: %w", err)
	}
	keep := 0 // bytes of the header and the lines
	for n := 0; lines > 0 && n < lines+1 && keep < len(raw); keep++ {
		if raw[keep] == '\n' {
			n++
		}
	}
	if err := f.Truncate(int64(keep)); err != nil {
		return nil, fmt.Errorf("training log: %w", err)
	}
	if _, err := f.Seek(int64(keep), io.SeekStart); err != nil {
		return nil, fmt.Errorf("training log: %w", err)
	}
	if keep == 0 {
		_, err = io.WriteString(f, header)
	}
	return f, err
}
