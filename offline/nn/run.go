package nn

import (
	"bytes"
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"prefdt/offline/command"
)

// Files is where a run is kept, and how often.
type Files struct {
	Dir    string
	State  string // its file; "": state.bin
	Prefix string // of the names of its logs, log.csv and validation.csv
	Save   int    // steps between two saves; 0: as many as a minute has
	Line   int    // steps of a line of the log; 0: one

	Validate   int                                            // steps between two validations, 0 for none
	After      int                                            // step after which they begin
	Header     string                                         // of their log
	Validation func(ctx context.Context, log io.Writer) error // measures the parameters and appends a line that begins with the step
	Score      func(line []float64) float64                   // ranks validations by their lines: the best has BestFile
}

// BestFile is the state of the validation with the largest score.
const BestFile = "best.bin"

// StatePath is that of the state file.
func (f *Files) StatePath() string { return filepath.Join(f.Dir, cmp.Or(f.State, "state.bin")) }

// LogPath is that of a log.
func (f *Files) LogPath(name string) string { return filepath.Join(f.Dir, f.Prefix+name+".csv") }

// Run trains from the state in a folder, if there is one, to the end, or to the end of ctx.
func (t *Trainer) Run(ctx context.Context, f Files, stdout io.Writer) error {
	if err := t.Load(f.StatePath()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	steps, names := t.Config.Schedule.Steps, strings.Join(t.task.Losses, ",")
	log, _, err := openLog(f.LogPath("log"), fmt.Sprintf("step,rate,norm,%s,%s_per_s\n", names, t.task.Unit), t.Step)
	if err != nil {
		return err
	}
	defer log.Close()
	var checks *os.File
	validated := 0
	if f.Validate > 0 {
		if checks, validated, err = openLog(f.LogPath("validation"), f.Header, t.Step+1); err != nil {
			return err
		}
		defer checks.Close()
	}
	validated = max(validated, f.After)
	fmt.Fprintf(stdout, "%d parameters, %d steps of %d %s\n", len(t.Params.Data), steps, int(t.task.PerStep), t.task.Unit)
	began, first, saved, lineBegan, logged := time.Now(), t.Step, time.Now(), time.Now(), t.Step
	sums := make([]float64, len(t.task.Losses))
	for {
		last := t.Step >= steps
		due := f.Validate > 0 && t.Step > validated && (t.Step%f.Validate == 0 || last)
		if due && ctx.Err() == nil { // else -resume does it first
			err := f.Validation(ctx, checks)
			if err == nil && f.Score != nil {
				err = t.keepBest(&f)
			}
			if err != nil && ctx.Err() == nil {
				return err
			}
			due, lineBegan = err != nil, time.Now()
		}
		if last && !due {
			return nil
		}
		if ctx.Err() != nil {
			ended := command.Interrupted(ctx, " at step %d of %d; the same command with -resume continues", t.Step, steps)
			return cmp.Or(t.Save(f.StatePath()), ended)
		}
		l, err := t.Next()
		if err != nil {
			return err
		}
		for i, x := range l.Losses {
			sums[i] += x
		}
		if last = t.Step == steps; t.Step%max(f.Line, 1) == 0 || last {
			n := float64(t.Step - logged)
			speed := n * t.task.PerStep / time.Since(lineBegan).Seconds()
			text := fmt.Appendf(nil, "%d,%.3g,%.4g", t.Step-1, l.Rate, l.Norm)
			var named strings.Builder
			for i, x := range sums {
				text = fmt.Appendf(text, ",%.6g", x/n)
				fmt.Fprintf(&named, "%s %.5g  ", t.task.Losses[i], x/n)
			}
			if _, err := fmt.Fprintf(log, "%s,%.1f\n", text, speed); err != nil {
				return fmt.Errorf("training log: %w", err)
			}
			if t.Step%(50*max(f.Line, 1)) == 0 || last {
				left := time.Since(began) / time.Duration(t.Step-first) * time.Duration(steps-t.Step)
				fmt.Fprintf(stdout, "step %d/%d  %s%.1f %s/s  left %s\n",
					t.Step, steps, &named, speed, t.task.Unit, left.Round(time.Second))
			}
			clear(sums)
			logged, lineBegan = t.Step, time.Now()
		}
		if f.Save > 0 && t.Step%f.Save == 0 || f.Save == 0 && time.Since(saved) > time.Minute || last {
			if err := t.Save(f.StatePath()); err != nil {
				return err
			}
			saved = time.Now()
		}
	}
}

// openLog opens a log to append to, whose lines each begin with a step, and
// returns the last step in it, 0 without one. It keeps the lines of the steps before
// end: an interrupted run logged others beyond its last save.
func openLog(path, header string, end int) (f *os.File, last int, err error) {
	raw, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, 0, fmt.Errorf("training log: %w", err)
	}
	kept := []byte(header)
	for line := range bytes.Lines(raw) {
		first, _, _ := bytes.Cut(line, []byte(","))
		if step, err := strconv.Atoi(string(first)); err == nil && step < end && bytes.HasSuffix(line, []byte("\n")) {
			kept, last = append(kept, line...), step
		}
	}
	err = command.ReplaceFile(path, func(w io.Writer) error { _, err := w.Write(kept); return err })
	if err == nil {
		f, err = os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("training log: %w", err)
	}
	return f, last, nil
}

// ReadLog reads the numbers of a log, without its header.
func ReadLog(path string) (rows [][]float64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("training log: %w", err)
	}
	defer f.Close()
	lines, err := csv.NewReader(f).ReadAll()
	for _, line := range lines[min(1, len(lines)):] {
		row := make([]float64, len(line))
		for k, text := range line {
			x, parseErr := strconv.ParseFloat(text, 64)
			row[k], err = x, cmp.Or(err, parseErr)
		}
		rows = append(rows, row)
	}
	if err != nil {
		return nil, fmt.Errorf("training log %s: %w", path, err)
	}
	return rows, nil
}

// keepBest saves the parameters if no other validation of the run has as high a score.
func (t *Trainer) keepBest(f *Files) error {
	logs, err := filepath.Glob(filepath.Join(f.Dir, "*validation.csv"))
	if err != nil {
		return err
	}
	own, best := math.Inf(-1), math.Inf(-1)
	for _, path := range logs {
		rows, err := ReadLog(path)
		if err != nil {
			return err
		}
		for _, row := range rows {
			if score := f.Score(row); int(row[0]) == t.Step {
				own = score
			} else {
				best = max(best, score)
			}
		}
	}
	if own > best {
		return t.Save(filepath.Join(f.Dir, BestFile))
	}
	return nil
}
