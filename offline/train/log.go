package train

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"prefdt/offline/command"
)

// LogLine is what one step logs.
type LogLine struct {
	Step         int
	LearningRate float64
	GradientNorm float64 // of the gradient, before the clip
	Tokens       int
	Terms        LossTerms
}

// LogHeader names the columns that Write prints.
const LogHeader = "step,rate,norm,loss,choice,offload,class,move,price,right,tokens_per_s\n"

// Write appends the line to a log, one step a line.
func (l LogLine) Write(w io.Writer, took time.Duration) error {
	_, err := fmt.Fprintf(w, "%d,%.3g,%.4g,%.5f,%.5f,%.6f,%.5f,%.6f,%.7f,%.4f,%.0f\n", l.Step, l.LearningRate, l.GradientNorm,
		l.Terms.Loss, l.Terms.Association, l.Terms.Offload, l.Terms.DeadlineClass, l.Terms.Move, l.Terms.Price, l.Terms.Accuracy,
		float64(l.Tokens)/took.Seconds())
	return err
}

// openLog opens a log to append to, whose lines each begin with a step, and
// returns the last step in it, or -1. It keeps the lines of the steps before
// end: an interrupted run logged others beyond its last save.
func openLog(path, header string, end int) (f *os.File, last int, err error) {
	raw, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, 0, fmt.Errorf("training log: %w", err)
	}
	last = -1
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
