package train

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"prefdt/offline/command"
)

// LogLine is what one step logs.
type LogLine struct {
	Step         int
	LearningRate float64
	GradientNorm float64   // of the gradient, before the clip
	Losses       []float64 // by the trainer's names of them
}

// logHeader names the columns that Write prints.
func logHeader(losses []string) string {
	return "step,rate,norm," + strings.Join(losses, ",") + ",flights_per_s\n"
}

// Write appends the line to a log, one step of so many flights a line.
func (l LogLine) Write(w io.Writer, flights int, took time.Duration) error {
	text := fmt.Appendf(nil, "%d,%.3g,%.4g", l.Step, l.LearningRate, l.GradientNorm)
	for _, x := range l.Losses {
		text = fmt.Appendf(text, ",%.6g", x)
	}
	_, err := fmt.Fprintf(w, "%s,%.1f\n", text, float64(flights)/took.Seconds())
	return err
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
