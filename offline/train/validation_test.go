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
	figures := map[int]Validation{2: {Hypervolume: 1}, 4: {Hypervolume: 2}, 6: {Hypervolume: 9, BudgetError: 0.01}, 8: {Hypervolume: 9, BudgetError: 0.02}, 10: {Hypervolume: 3}, 12: {Hypervolume: 4}}
	fly := func(dir string, stop int) {
		run, err := New(c, source)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		err = run.Run(ctx, dir, 2, 2, func(*Params[float32]) (Validation, error) {
			if run.Step == stop {
				cancel()
			}
			return figures[run.Step], nil
		}, io.Discard)
		if stopped := err != nil; stopped != (stop > 0) {
			t.Fatalf("stopping at %d: %v", stop, err)
		}
	}
	whole, parts := t.TempDir(), t.TempDir()
	fly(whole, 0)
	fly(parts, 8)
	fly(parts, 0)
	for _, name := range []string{"state.bin", "best.bin"} {
		a, err := ReadParams(filepath.Join(whole, name))
		if err != nil {
			t.Fatal(err)
		}
		b, err := ReadParams(filepath.Join(parts, name))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(a.Data, b.Data) {
			t.Errorf("%s differs", name)
		}
	}
	last, _ := ReadParams(filepath.Join(whole, "state.bin"))
	best, _ := ReadParams(filepath.Join(whole, "best.bin"))
	if slices.Equal(last.Data, best.Data) {
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

// Resuming a run keeps what it logged up to its step, and nothing after that:
// a finished run keeps all, its last validation included, which falls between
// two multiples of the interval.
func TestResumeKeepsLogs(t *testing.T) {
	c := Default()
	c.Arch = model.Arch{Width: 16, PairWidth: 8, Layers: 1, Heads: 2, Context: 4}
	c.Batch, c.Workers, c.Schedule.Steps = 2, 1, 7
	source := func(_, i int, ex *corpus.Example) error {
		*ex = *randomExample(rand.New(rand.NewPCG(uint64(i), 1)), 6)
		return nil
	}
	dir := t.TempDir()
	resume := func(interval int) {
		run, err := New(c, source)
		if err != nil {
			t.Fatal(err)
		}
		err = run.Run(context.Background(), dir, 2, interval, func(*Params[float32]) (Validation, error) { return Validation{}, nil }, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
	}
	read := func(name string) string {
		raw, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	resume(5)
	log, validation := read("log.csv"), read("validation.csv")
	if strings.Count(log, "\n") != 8 || strings.Count(validation, "\n") != 3 {
		t.Fatalf("7 steps left the logs\n%s\n%s", log, validation)
	}
	for _, interval := range []int{5, 100, 0} {
		resume(interval)
		if read("log.csv") != log || read("validation.csv") != validation {
			t.Errorf("resuming the finished run, with a validation every %d steps, left\n%s\n%s", interval, read("log.csv"), read("validation.csv"))
		}
	}
	late := log + "7,0,0,0,0,0,0,0,0,0,0\n" // beyond the last save, and one cut short
	if err := os.WriteFile(filepath.Join(dir, "log.csv"), []byte(late+"8,0"), 0o644); err != nil {
		t.Fatal(err)
	}
	if resume(5); read("log.csv") != log {
		t.Errorf("steps beyond the last save stay: %s", read("log.csv"))
	}
}
