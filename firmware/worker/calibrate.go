package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"prefdt/configs/cli"
)

// calibrateCommand measures each function where and as it will run: in its executor, one
// task a second. Back to back, a loop stays in the caches and the CPU at its highest clock:
// a function of 192 to 268 ns a byte took 351 at a mission's duty.
func calibrateCommand(ctx context.Context, call *cli.Call) error {
	tasks := call.Flags.Int("tasks", 15, "how many `tasks` of each function")
	every := call.Flags.Duration("every", time.Second, "how `long` from one task to the next")
	c, err := load(call)
	if err != nil {
		return err
	}
	if *tasks < 1 || *tasks > 1000 || *every < 0 {
		return cli.BadInputf("-tasks %d and -every %v, want 1 to 1000 and 0 or more", *tasks, *every)
	}
	x, err := newComputers(&c)
	if err != nil {
		return err
	}
	defer x.close()
	all := map[string]calibrated{}
	var failed error
	for i := range x.functions {
		f := &x.functions[i]
		measured, err := x.measure(ctx, i, *tasks, *every)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil { // the others' are written all the same
			if err = fmt.Errorf("function %s: %w", f.ID, err); failed != nil {
				err = fmt.Errorf("%w; %w", failed, err)
			}
			failed = err
			continue
		}
		median := measured[len(measured)/2]
		all[f.ID] = calibrated{f.Digest, median}
		fmt.Fprintf(call.Stdout, "%s: %.1f ns a byte in the median of %d tasks, %.1f to %.1f: %.4g cycles a bit, digest %s\n",
			f.ID, median, len(measured), measured[0], measured[len(measured)-1], median*1e-9*x.coreHz(i)/8, f.Digest)
	}
	if len(all) == 0 {
		return failed
	}
	raw, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	temporary := c.Calibration + ".new"
	if err := os.MkdirAll(filepath.Dir(c.Calibration), 0o755); err != nil {
		return fmt.Errorf("calibration: %w", err)
	}
	if err := os.WriteFile(temporary, append(raw, '\n'), 0o644); err != nil {
		return fmt.Errorf("calibration: %w", err)
	}
	if err := os.Rename(temporary, c.Calibration); err != nil {
		return fmt.Errorf("calibration: %w", err)
	}
	return failed
}

// measure returns what tasks of function i take, in ns a byte, sorted.
func (x *computers) measure(ctx context.Context, i, tasks int, every time.Duration) (measured []float64, err error) {
	f := &x.functions[i]
	input, err := sample(x.config.Functions[i].Sample, x.config.Functions[i].UnitBytes)
	if err != nil {
		return nil, err
	}
	if err := f.Scheduler.Warm(f.Function); err != nil {
		return nil, err
	}
	for n := range tasks + 1 {
		before := f.Scheduler.Stats().CPU
		if _, err := f.Scheduler.Run(ctx, f.Function, 1, input); err != nil {
			return nil, err
		}
		if n > 0 { // the first one's process had its caches to fill
			measured = append(measured, float64(f.Scheduler.Stats().CPU-before)/float64(len(input)))
		}
		select {
		case <-time.After(every):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	slices.Sort(measured)
	return measured, nil
}
