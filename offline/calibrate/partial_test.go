package calibrate

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"prefdt/offline/seeds"
	"prefdt/simbridge/world"
)

// logInterrupter cancels when a line of the log begins so.
type logInterrupter struct {
	strings.Builder
	prefix string
	cancel func()
}

func (l *logInterrupter) Write(p []byte) (int, error) {
	if l.prefix != "" && strings.HasPrefix(string(p), l.prefix) {
		l.cancel()
	}
	return l.Builder.Write(p)
}

// A calibration that is interrupted twice repeats nothing that was finished, and
// ends as one that was not.
func TestInterruptedCalibrationContinues(t *testing.T) {
	// Short flights in calm air and few margins, for a fast test.
	defer func(c []disturbance, m []float64) { disturbances, candidateMargins = c, m }(disturbances, candidateMargins)
	disturbances, candidateMargins = disturbances[:1], candidateMargins[:4]
	list := func(first, n int) (l []uint64) {
		for i := range n {
			l = append(l, uint64(seeds.CalibrationFirst+first+i))
		}
		return l
	}
	run := func(partial, prefix string, seedCount int) (cal, log string) {
		c := world.Standard()
		c.Slots = 20
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		out := &logInterrupter{prefix: prefix, cancel: cancel}
		j := Job{Checkpoint: shippedCheckpoint(t), World: c, Seeds: list(0, seedCount), Ceilings: list(10, 199), Settings: 11, Workers: 2,
			Partial: partial, Log: out}
		made, err := j.Run(ctx)
		if (err != nil) != (prefix != "") {
			t.Fatalf("until %q: %v", prefix, err)
		}
		raw, err := json.Marshal(made)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw), out.String()
	}
	whole, _ := run(filepath.Join(t.TempDir(), "part.json"), "", 3)
	partial := filepath.Join(t.TempDir(), "part.json")
	run(partial, "ceilings, a margin of 5.00", 3)
	if _, log := run(partial, "ceilings, a margin of 3.50", 3); strings.Contains(log, "seeds 3/3") ||
		strings.Contains(log, "margin of 5.00") {
		t.Errorf("done again: %s", log)
	}
	parts, log := run(partial, "", 3)
	if parts != whole {
		t.Errorf("interrupted, it ends as\n%s, else as\n%s", parts, whole)
	}
	if strings.Contains(log, "margin of 3.50") || !strings.Contains(log, "3 margins were tried before") {
		t.Errorf("done again: %s", log)
	}
	// Another calibration begins anew.
	if _, log := run(partial, "ceilings, a margin of 5.00", 4); !strings.Contains(log, "seeds 4/4") {
		t.Errorf("continued with what is finished of another: %s", log)
	}
	if _, err := os.Stat(partial); err != nil {
		t.Error(err)
	}
}
