package prefdttrain

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"

	"prefdt/configs/cli"
	"prefdt/inference/checkpoint"
	"prefdt/inference/model"
	"prefdt/inference/prefdt"
	"prefdt/offline/command"
	"prefdt/offline/nn"
)

// Files of a run's folder.
const (
	archiveFile  = "rules.json"
	corpusFile   = "corpus.json"
	stateFile    = "state.bin"    // at the constant rate
	coolDownFile = "cooldown.bin" // of the cool-down, the result once it is done
)

// tokensPerStep is the expectation over windows, see store.draw.
func (c *Config) tokensPerStep() float64 {
	slots, context := float64(c.Form.Slots), float64(c.Form.Context)
	return float64(model.TokensPerSlot*c.Batch) * slots * context / (slots + context - 1)
}

// plan returns how many steps of a run of so many tokens are at the constant rate.
func (c *Config) plan(tokens float64) (constantSteps int) {
	return max(int(math.Round((1-c.Schedule.CoolDown)*tokens/c.tokensPerStep())), 1)
}

// coolDownAfter returns the cool-down of a run that has had so many steps.
func (c *Config) coolDownAfter(step int) coolDown {
	f := c.Schedule.CoolDown
	return coolDown{From: step, Steps: max(int(math.Round(float64(step)*f/(1-f))), 1)}
}

// run trains from the states in a folder to so many tokens, cool-down included, or to the
// end of ctx. Beyond its cool-down a run goes on from where that began, with more tokens.
// It is validated every so many tokens, unless that is 0.
func (r *run) run(ctx context.Context, dir string, tokens, checkTokens float64, check func(context.Context, io.Writer) error,
	stdout io.Writer) error {
	f := nn.Files{Dir: dir, Line: 50, Validate: int(math.Ceil(checkTokens / r.tokensPerStep())), Header: validationHeader,
		Validation: check, Score: score}
	r.Trainer.Config.Schedule.Steps = r.plan(tokens)
	fmt.Fprintf(stdout, "%d windows a step, %.1f million tokens in all\n", r.Config.Batch, tokens/1e6)
	if err := r.Trainer.Run(ctx, f, stdout); err != nil {
		return err
	}
	want := r.coolDownAfter(r.Step)
	f.State, f.Prefix, f.After = coolDownFile, "cooldown-", want.From
	head, err := readHeader(f.StatePath())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	r.subject.CoolDown, r.Trainer.Config.Schedule.Steps = want, want.From+want.Steps
	if err != nil || head.Subject.CoolDown != want {
		if err == nil {
			if err := setAside(&f, head.Subject.CoolDown); err != nil {
				return err
			}
		}
		if err := r.Save(f.StatePath()); err != nil {
			return err
		}
	}
	fmt.Fprintf(stdout, "cool-down over %d steps\n", want.Steps)
	return r.Trainer.Run(ctx, f, stdout)
}

// setAside keeps the state of another cool-down under another name, and ends its logs: with more tokens a
// run has a cool-down of its own, and what that replaces may not have been exported. The state goes last:
// while it is there, a run that is killed here does this again.
func setAside(f *nn.Files, was coolDown) error {
	for _, log := range []string{"log", "validation"} {
		if err := os.Remove(f.LogPath(log)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return os.Rename(f.StatePath(), filepath.Join(f.Dir, fmt.Sprintf("cooldown-%d.bin", was.From)))
}

// Trained returns the network that a run of so many tokens ends with, for a comparison: as a
// checkpoint that is not calibrated and flies as published. It is trained in a folder, from
// where it stands, unless it has been.
func Trained(ctx context.Context, c Config, dir string, tokens float64, log io.Writer) (*checkpoint.Checkpoint, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	m, err := prepare(ctx, c, dir, log)
	if err != nil {
		return nil, err
	}
	trained, err := IsTrained(c, dir, tokens)
	if err != nil {
		return nil, err
	}
	if !trained {
		if head, err := readHeader(filepath.Join(dir, stateFile)); err == nil && head.Step > c.plan(tokens) {
			return nil, cli.BadInputf("%s has been trained for %d steps, and %.4g tokens are %d before the cool-down: give more tokens, "+
				"or another -out", dir, head.Step, tokens, c.plan(tokens))
		}
		r, err := startRun(ctx, c, m, command.Progress(log, "flights read", len(m.Flights)))
		if err != nil {
			return nil, err
		}
		if err := r.run(ctx, dir, tokens, 0, nil, log); err != nil {
			return nil, err
		}
	}
	n, parameters, err := readTrained(filepath.Join(dir, coolDownFile))
	if err != nil {
		return nil, err
	}
	if n.Subject.Corpus != m.Hash() || command.Hash(n.Config) != command.Hash(c) {
		return nil, cli.BadInputf("%s holds a run of another configuration or corpus: give that one, or another folder", dir)
	}
	ck, err := m.Checkpoint(&c.Form, parameters)
	if err == nil {
		ck.Published.AsPublished = true
	}
	return ck, err
}

// IsTrained reports whether a folder holds a finished run of so many tokens.
func IsTrained(c Config, dir string, tokens float64) (bool, error) {
	head, err := readHeader(filepath.Join(dir, coolDownFile))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	want := c.coolDownAfter(c.plan(tokens))
	return head.Subject.CoolDown == want && head.Step >= want.From+want.Steps, err
}

// readHeader returns the header of a state file.
func readHeader(path string) (head state, err error) {
	_, err = nn.Read(path, &head, func() ([]model.Tensor, error) { return nil, nil })
	return head, err
}

// readTrained reads the network of a state file.
func readTrained(path string) (head state, parameters []float32, err error) {
	p, err := nn.Read(path, &head, func() ([]model.Tensor, error) {
		if err := head.Config.Check(); err != nil {
			return nil, err
		}
		return head.Config.Form.Tensors(), nil
	})
	if err != nil {
		return head, nil, err
	}
	return head, p.Data, nil
}

// start is what a run goes on from that has no state: a checkpoint of an earlier one. The
// optimiser's moments begin anew.
type start struct {
	manifest   *checkpoint.Manifest
	parameters []float32
}

// readStart reads a checkpoint of a form.
func readStart(dir string, f *prefdt.Form) (*start, error) {
	m, parameters, err := checkpoint.Parameters(dir)
	if err != nil {
		return nil, err
	}
	if m.Published == nil || !m.Published.Form.Same(f) {
		return nil, fmt.Errorf("checkpoint %s is not of the configuration's form", dir)
	}
	if steps, tokens := m.Training["steps"], m.Training["tokens"]; !(steps >= 1 && steps <= 1e9 && tokens >= 1 && tokens <= 1e13) {
		return nil, fmt.Errorf("checkpoint %s records %v steps of training and %v tokens", dir, steps, tokens)
	}
	return &start{m, parameters}, nil
}

// begin lets a run that has no state go on from a start.
func (r *run) begin(s *start, m *Corpus) error {
	if !reflect.DeepEqual(s.manifest.Published.Statistics, m.Rows) {
		return errors.New("the checkpoint to begin with was trained on another corpus")
	}
	copy(r.Params.Data, s.parameters)
	r.Step, r.progress.Tokens = int(s.manifest.Training["steps"]), int64(s.manifest.Training["tokens"])
	return nil
}
