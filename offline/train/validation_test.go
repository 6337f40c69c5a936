package train

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"prefdt/inference/model"
	"prefdt/offline/nn"
	"prefdt/offline/offlinetest"
)

// Of a run's validations the best keeps its parameters, the last is the state's, and both logs are drawn.
func TestRunKeepsBestAndLast(t *testing.T) {
	c, source := smallRun()
	c.Arch = model.Arch{Width: 16, PairWidth: 8, Layers: 1, Heads: 2, Context: 4}
	c.Batch, c.Workers, c.Schedule.Steps = 2, 1, 12
	run := offlinetest.Must(New(c, source))(t)
	// The fourth of six validations has the hypervolume of the third, and a larger error.
	scores := []figures{{Hypervolume: 1}, {Hypervolume: 2}, {Hypervolume: 9, BudgetError: 0.01}, {Hypervolume: 9, BudgetError: 0.02},
		{Hypervolume: 3}, {Hypervolume: 4}}
	dir, third := t.TempDir(), []float32(nil)
	err := run.Run(t.Context(), nn.Files{Dir: dir, Save: 2, Validate: 2, Header: validationHeader, Score: score,
		Validation: func(_ context.Context, log io.Writer) error {
			if run.Step == 6 {
				third = slices.Clone(run.Params.Data)
			}
			return record(run.Step, dir, log, scores[run.Step/2-1])
		}}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]float32{"state.bin": run.Params.Data, "best.bin": third} {
		if _, got, err := ReadParams(filepath.Join(dir, name)); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s has other parameters, %v", name, err)
		}
	}
	if raw, err := os.ReadFile(filepath.Join(dir, "validation.csv")); err != nil || bytes.Count(raw, []byte("\n")) != 7 {
		t.Errorf("validation.csv: %s, %v", raw, err)
	}
	if info, err := os.Stat(filepath.Join(dir, "training.png")); err != nil || info.Size() < 5000 {
		t.Errorf("no curves: %v", err)
	}
}
