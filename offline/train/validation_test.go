package train

import (
	"context"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"prefdt/inference/model"
	"prefdt/offline/corpus"
	"prefdt/offline/nn"
)

// A run that is interrupted and resumed leaves the same logs, best and last
// parameters as one that is not.
func TestRunKeepsBestAndLast(t *testing.T) {
	c := Default()
	c.Arch = model.Arch{Width: 16, PairWidth: 8, Layers: 1, Heads: 2, Context: 4}
	c.Batch, c.Workers, c.Schedule.Steps = 2, 1, 12
	source := func(_, i int, ex *corpus.Example) error {
		*ex = *randomExample(rand.New(rand.NewPCG(uint64(i), 1)), 6)
		return nil
	}
	// The third of six validations is the best.
	table := map[int]figures{2: {Hypervolume: 1}, 4: {Hypervolume: 2}, 6: {Hypervolume: 9, BudgetError: 0.01}, 8: {Hypervolume: 9, BudgetError: 0.02}, 10: {Hypervolume: 3}, 12: {Hypervolume: 4}}
	fly := func(dir string, validate, stop int, inside bool) { // inside: it stops in the middle of a validation
		run, err := New(c, source)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		err = run.Run(ctx, nn.Files{Dir: dir, Save: 2, Validate: validate, Header: validationHeader, Validation: func(ctx context.Context, log io.Writer) error {
			if run.Step == stop {
				cancel()
			}
			if inside && ctx.Err() != nil {
				return ctx.Err()
			}
			return record(run, dir, log, table[run.Step])
		}}, io.Discard)
		if stopped := err != nil; stopped != (stop > 0) {
			t.Fatalf("stopping at %d: %v", stop, err)
		}
	}
	whole, parts := t.TempDir(), t.TempDir()
	fly(whole, 2, 0, false)
	fly(parts, 2, 4, true)
	fly(parts, 2, 8, false)
	fly(parts, 2, 12, true)
	fly(parts, 2, 0, false)
	// A finished run loses none of its validations, whatever their distance.
	for _, validate := range []int{2, 5, 500} {
		fly(whole, validate, 0, false)
	}
	for _, name := range []string{"state.bin", "best.bin"} {
		_, a, err := ReadParams(filepath.Join(whole, name))
		if err != nil {
			t.Fatal(err)
		}
		_, b, err := ReadParams(filepath.Join(parts, name))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(a, b) {
			t.Errorf("%s differs", name)
		}
	}
	_, last, _ := ReadParams(filepath.Join(whole, "state.bin"))
	_, best, _ := ReadParams(filepath.Join(whole, "best.bin"))
	if slices.Equal(last, best) {
		t.Error("the best parameters are the last")
	}
	for _, dir := range []string{whole, parts} {
		raw, err := os.ReadFile(filepath.Join(dir, "validation.csv"))
		if lines := strings.Count(string(raw), "\n"); err != nil || lines != 7 {
			t.Errorf("validation.csv has %d lines, want 7: %v", lines, err)
		}
		if info, err := os.Stat(filepath.Join(dir, "training.png")); err != nil || info.Size() < 5000 {
			t.Errorf("no curves: %v", err)
		}
	}
}
