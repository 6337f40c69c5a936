package papertrain

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"prefdt/configs/cli"
	"prefdt/inference/checkpoint"
	"prefdt/inference/model"
	"prefdt/offline/command"
	"prefdt/offline/train"
)

// Files of a run's folder.
const (
	archiveFile  = "rules.json"
	corpusFile   = "corpus.json"
	stateFile    = "state.bin"    // at the constant rate
	coolDownFile = "cooldown.bin" // of the cool-down, the result once it is done
	bestFile     = "best.bin"     // of the validation with the largest hypervolume
)

// saveEvery is how much work a power cut may cost.
const saveEvery = time.Minute

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

// Run trains from the states in a folder to so many tokens, cool-down included, or to the
// end of ctx. Beyond its cool-down a run goes on from where that began, with more tokens.
// check measures the parameters every so many tokens, unless that is 0.
func (t *Trainer) Run(ctx context.Context, dir string, tokens, checkTokens float64, check func(*Trainer) error, stdout io.Writer) error {
	path := filepath.Join(dir, stateFile)
	if err := t.Load(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	perStep := t.Config.tokensPerStep()
	fmt.Fprintf(stdout, "%d parameters, %d windows a step, %.1f million tokens so far of %.1f\n", len(t.Params), t.Config.Batch, float64(t.Tokens)/1e6, tokens/1e6)
	checkSteps := int(math.Ceil(checkTokens / perStep))
	if err := t.runTo(ctx, t.Config.plan(tokens), path, filepath.Join(dir, t.logFile("log")), checkSteps, check, stdout); err != nil {
		return err
	}
	path = filepath.Join(dir, coolDownFile)
	want := t.Config.coolDownAfter(t.Step)
	head, err := readHeaderOf(path)
	switch {
	case err == nil && head.CoolDown == want:
		if err := t.Load(path); err != nil {
			return err
		}
	case err == nil || errors.Is(err, os.ErrNotExist):
		t.coolDown = want
		if err == nil {
			if err := t.setAside(dir, head.CoolDown); err != nil {
				return err
			}
		}
		if err := t.Save(path); err != nil {
			return err
		}
	default:
		return err
	}
	fmt.Fprintf(stdout, "cool-down over %d steps, step %d of them\n", want.Steps, t.Step-want.From)
	return t.runTo(ctx, want.From+want.Steps, path, filepath.Join(dir, t.logFile("log")), checkSteps, check, stdout)
}

// setAside keeps the state of another cool-down under another name, and ends its logs: with more tokens a
// run has a cool-down of its own, and what that replaces may not have been exported. The state goes last:
// while it is there, a run that is killed here does this again.
func (t *Trainer) setAside(dir string, was coolDown) error {
	for _, log := range []string{"log", "validation"} {
		if err := os.Remove(filepath.Join(dir, t.logFile(log))); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return os.Rename(filepath.Join(dir, coolDownFile), filepath.Join(dir, fmt.Sprintf("cooldown-%d.bin", was.From)))
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
		if head, err := readHeaderOf(filepath.Join(dir, stateFile)); err == nil && head.Step > c.plan(tokens) {
			return nil, cli.BadInputf("%s has been trained for %d steps, and %.4g tokens are %d before the cool-down: give more tokens, or another -out", dir, head.Step, tokens, c.plan(tokens))
		}
		t, err := startTrainer(ctx, c, m, command.Progress(log, "flights read", len(m.Flights)))
		if err != nil {
			return nil, err
		}
		if err := t.Run(ctx, dir, tokens, 0, nil, log); err != nil {
			return nil, err
		}
	}
	n, err := readTrained(filepath.Join(dir, coolDownFile))
	if err != nil {
		return nil, err
	}
	if n.Corpus != m.Hash() || mustJSON(n.Config) != mustJSON(c) {
		return nil, cli.BadInputf("%s holds a run of another configuration or corpus: give that one, or another folder", dir)
	}
	ck, err := m.Checkpoint(&c.Form, n.Params)
	if err == nil {
		ck.Published.AsPublished = true
	}
	return ck, err
}

// IsTrained reports whether a folder holds a finished run of so many tokens.
func IsTrained(c Config, dir string, tokens float64) (bool, error) {
	head, err := readHeaderOf(filepath.Join(dir, coolDownFile))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	want := c.coolDownAfter(c.plan(tokens))
	return head.CoolDown == want && head.Step >= want.From+want.Steps, err
}

// logFile returns the name of a log: the constant part and the cool-down have one each,
// because a run can go on from before its cool-down.
func (t *Trainer) logFile(name string) string {
	if t.coolDown.Steps > 0 {
		return "cooldown-" + name + ".csv"
	}
	return name + ".csv"
}

// runTo trains until a step and saves the state, every minute and at the end.
func (t *Trainer) runTo(ctx context.Context, end int, path, logPath string, checkSteps int, check func(*Trainer) error, stdout io.Writer) error {
	log, err := openLog(logPath, "step,tokens,rate,norm,loss,choice,offload,flight,right,tokens_per_s\n", t.Step)
	if err != nil {
		return err
	}
	defer log.Close()
	const each = 50 // steps of a line
	var sum Line
	began, first, saved := time.Now(), t.Step, time.Now()
	lineBegan := began
	for t.Step < end {
		if ctx.Err() != nil {
			return cmp.Or(t.Save(path), command.Interrupted(ctx, " at step %d of %d, saved; the same command with -resume continues", t.Step, end))
		}
		line, err := t.Next()
		if err != nil {
			return err
		}
		sum.add(line.Terms)
		sum.Tokens += line.Tokens
		if t.Step%each == 0 || t.Step == end {
			n := float64((t.Step-1)%each + 1)
			if first > t.Step-int(n) {
				n = float64(t.Step - first)
			}
			rate := float64(sum.Tokens) / time.Since(lineBegan).Seconds()
			_, err := fmt.Fprintf(log, "%d,%d,%.3g,%.3g,%.5f,%.5f,%.5f,%.5f,%.4f,%.0f\n", t.Step, t.Tokens, line.Rate, line.Norm,
				sum.Loss()/n, sum.Association/n, sum.Offload/n, sum.Flight/n, sum.Right/n, rate)
			if err != nil {
				return fmt.Errorf("training log: %w", err)
			}
			if t.Step%(4*each) == 0 || t.Step == end {
				left := time.Since(began) / time.Duration(t.Step-first) * time.Duration(end-t.Step)
				fmt.Fprintf(stdout, "step %d/%d  loss %.4f  choice %.4f  offload %.5f  flight %.5f  right %.4f  %.0f tokens/s  left %s\n", t.Step, end,
					sum.Loss()/n, sum.Association/n, sum.Offload/n, sum.Flight/n, sum.Right/n, rate, left.Round(time.Second))
			}
			sum, lineBegan = Line{}, time.Now()
		}
		if time.Since(saved) > saveEvery || t.Step == end {
			if err := t.Save(path); err != nil {
				return err
			}
			saved = time.Now()
		}
		if check != nil && checkSteps > 0 && (t.Step%checkSteps == 0 || t.Step == end) {
			if err := check(t); err != nil {
				return err
			}
			lineBegan = time.Now()
		}
	}
	return nil
}

// openLog opens a log to append to, whose lines each begin with a step. It keeps those up to
// a step: an interrupted run logged others beyond its last save.
func openLog(path, header string, last int) (*os.File, error) {
	raw, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("training log: %w", err)
	}
	kept := []byte(header)
	for line := range bytes.Lines(raw) {
		first, _, _ := bytes.Cut(line, []byte(","))
		if step, err := strconv.Atoi(string(first)); err == nil && step <= last && bytes.HasSuffix(line, []byte("\n")) {
			kept = append(kept, line...)
		}
	}
	var f *os.File
	err = command.ReplaceFile(path, func(w io.Writer) error { _, err := w.Write(kept); return err })
	if err == nil {
		f, err = os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	}
	if err != nil {
		return nil, fmt.Errorf("training log: %w", err)
	}
	return f, nil
}

// readHeaderOf returns the header of a state file.
func readHeaderOf(path string) (head stateHeader, err error) {
	err = train.ReadState(path, stateMagic, &head, func() ([][]float32, error) { return nil, nil })
	return head, err
}
