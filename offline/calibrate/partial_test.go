package calibrate

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"prefdt/offline/offlinetest"
	"prefdt/offline/seeds"
	"prefdt/simbridge/world"
)

// A calibration that is interrupted twice repeats nothing that was finished, and
// ends as one that was not.
func TestInterruptedCalibrationContinues(t *testing.T) {
	// Short flights of few users in calm air and few margins, for a fast test.
	defer func(c []disturbance, m []float64) { disturbances, candidateMargins = c, m }(disturbances, candidateMargins)
	disturbances, candidateMargins = disturbances[:1], candidateMargins[:4]
	run := func(partial, until string, seedCount int) (cal, log string) {
		c := world.Standard()
		c.Slots, c.Users, c.ActiveMin, c.ActiveMax = 3, 4, 2, 4
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		out := &offlinetest.Log{Text: until, Stop: cancel}
		j := Job{Checkpoint: shippedCheckpoint(t), World: c, Seeds: seeds.List(seeds.CalibrationFirst, seedCount),
			Ceilings: seeds.List(seeds.CalibrationFirst+10, 199), Settings: 5, Workers: 2, Partial: partial, Log: out}
		made, err := j.Run(ctx)
		if (err != nil) != (until != "") {
			t.Fatalf("until %q: %v", until, err)
		}
		raw := offlinetest.Must(json.Marshal(made))(t)
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
