package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"

	"prefdt/inference/checkpoint"
	"prefdt/offline/calibrate"
	"prefdt/offline/command"
	"prefdt/offline/corpus"
	"prefdt/offline/export"
	"prefdt/offline/rollout"
	"prefdt/offline/seeds"
	"prefdt/offline/train"
	"prefdt/simbridge/world"
)

const calibrateUsage = `offline calibrate spreads the settings of a trained policy evenly over the front
that it achieves on calibration seeds, finds the margin by which ceilings are
kept at a promised rate, measures the floors that budgets are told, and writes
calibration.json for export.

  offline calibrate                                  a training run
  offline calibrate -checkpoint configs/checkpoint   a checkpoint, in its manifest

Flags:
`

// calibrateCommand is "offline calibrate".
func calibrateCommand(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	f := command.Flags("calibrate")
	config := command.WorldFlag(f)
	corpusDir := f.String("corpus", "out/corpus", "`FOLDER` of the corpus")
	trainDir := f.String("train", "out/train", "`FOLDER` of the training run; calibration.json goes there")
	text := f.String("seeds", "100000:100060", "calibration seeds, `A:B`, B excluded")
	settings := f.Int("settings", 101, "settings flown")
	flights := f.Int("flights", 399, "flights in each condition that the promise of ceilings rests on, on the seeds after those; 0: none is made")
	dir := f.String("checkpoint", "", "`FOLDER` of a checkpoint to calibrate anew, instead of a training run")
	workers := f.Int("workers", runtime.GOMAXPROCS(0), "episodes flown at a time; changes no result")
	if done, err := command.Parse(f, calibrateUsage, args, stdout); done {
		return err
	}
	if *settings < 3 || *workers < 1 {
		return errors.New("offline calibrate: -settings must be 3 at least, -workers 1")
	}
	list, err := command.ParseSeeds(*text, seeds.CheckCalibration)
	if err != nil {
		return fmt.Errorf("offline calibrate: %w", err)
	}
	ck, w, err := loadUncalibrated(*dir, *corpusDir, *trainDir)
	if err != nil {
		return err
	}
	here, err := config(w)
	if err != nil {
		return fmt.Errorf("offline calibrate: %w", err)
	}
	command.WarnOfWorld(stderr, w, here)
	w = here
	cal, err := calibrate.Fit(ck, w, list, *settings, *workers, command.Progress(stderr, "seeds", len(list)))
	if err != nil {
		return err
	}
	var more []uint64
	for i := range max(*flights, 0) {
		more = append(more, list[len(list)-1]+1+uint64(i))
	}
	ck.GoalConstants.SettingMap = cal.SettingMap
	if len(more) > 0 {
		cal.CeilingMargin, err = calibrate.FitCeilingMargin(ck, w, more, *workers, func(margin float64, violations []int) {
			fmt.Fprintf(stderr, "ceilings, a margin of %.2f deviations: %v of %d flights passed\n", margin, violations, *flights)
		})
		if err != nil {
			return err
		}
	}
	ck.GoalConstants.CeilingMargin = cal.CeilingMargin
	if cal.BudgetMetrics, err = calibrate.MeasureFloors(ck, w, list, *workers); err != nil {
		return err
	}
	path := filepath.Join(*trainDir, "calibration.json")
	if *dir != "" {
		path = filepath.Join(*dir, checkpoint.ManifestFile)
		ck.Evaluation = cal.BudgetMetrics
		err = command.ReplaceFile(path, func(w io.Writer) error {
			out := json.NewEncoder(w)
			out.SetIndent("", "  ")
			return out.Encode(&ck.Manifest)
		})
	} else {
		err = command.ReplaceFile(path, func(w io.Writer) error { return json.NewEncoder(w).Encode(cal) })
	}
	if err != nil {
		return err
	}
	first, last := cal.Points[cal.FrontIndices[0]], cal.Points[cal.FrontIndices[len(cal.FrontIndices)-1]]
	_, err = fmt.Fprintf(stdout, `%s
%d of %d settings make one front, from %.1f s and %.0f J to %.1f s and %.0f J
ceilings: a margin of %.2f deviations; %v of %d flights passed theirs, at most %.3g are promised to, in each of %q
budgets: from %.0f J, %.5f of the closed form at most, to %.0f J, on every seed to %.0f J
floor named in flight: off by %.2f %% in calm air, %.2f %% in gusts of 5 %%, %.2f %% of 15 %%, %.2f %% after a shock
`, path, len(cal.FrontIndices), len(cal.Points), first.DelayS, first.EnergyJ, last.DelayS, last.EnergyJ,
		cal.CeilingMargin.StdDevs, cal.CeilingMargin.Violations, cal.CeilingMargin.Flights, cal.CeilingMargin.ViolationRate, cal.CeilingMargin.Conditions,
		cal.BudgetMetrics["floor_j"], cal.BudgetMetrics["floor_over_closed_form"], cal.BudgetMetrics["most_j"], cal.BudgetMetrics["most_least_j"],
		100*cal.BudgetMetrics["floor_error_calm"], 100*cal.BudgetMetrics["floor_error_gust_5"], 100*cal.BudgetMetrics["floor_error_gust_15"], 100*cal.BudgetMetrics["floor_error_shock"])
	return err
}

// loadUncalibrated reads a checkpoint or a training run, and the world it is for.
func loadUncalibrated(dir, corpusDir, trainDir string) (*checkpoint.Checkpoint, world.Config, error) {
	if dir != "" {
		ck, err := checkpoint.Load(dir)
		if err != nil {
			return nil, world.Config{}, err
		}
		w, err := rollout.WorldOf(&ck.Manifest)
		return ck, w, err
	}
	m, p, err := loadTrained(corpusDir, trainDir)
	if err != nil {
		return nil, world.Config{}, err
	}
	ck, err := m.UncalibratedCheckpoint(p, m.Statistics)
	return ck, m.World, err
}

// loadTrained reads a corpus and the parameters trained on it.
func loadTrained(corpusDir, trainDir string) (*corpus.Manifest, *train.Params[float32], error) {
	m, err := corpus.Read(filepath.Join(corpusDir, "manifest.json"))
	if err != nil {
		return nil, nil, err
	}
	p, err := train.ReadParams(filepath.Join(trainDir, "state.bin"))
	return m, p, err
}

const exportUsage = `offline export writes a trained and calibrated policy as a checkpoint: policy.onnx,
the step graph with float16 weights, and manifest.json, all else.

Flags:
`

// exportCommand is "offline export".
func exportCommand(_ context.Context, args []string, stdout, _ io.Writer) error {
	f := command.Flags("export")
	corpusDir := f.String("corpus", "out/corpus", "`FOLDER` of the corpus")
	trainDir := f.String("train", "out/train", "`FOLDER` of the training run and its calibration.json")
	out := f.String("out", "out/checkpoint", "`FOLDER` of the checkpoint")
	if done, err := command.Parse(f, exportUsage, args, stdout); done {
		return err
	}
	m, p, err := loadTrained(*corpusDir, *trainDir)
	if err != nil {
		return err
	}
	ck, err := m.UncalibratedCheckpoint(p, m.Statistics)
	if err != nil {
		return err
	}
	var cal calibrate.Calibration
	raw, err := os.ReadFile(filepath.Join(*trainDir, "calibration.json"))
	if err == nil {
		err = json.Unmarshal(raw, &cal)
	}
	if err != nil {
		return fmt.Errorf("offline export: read the calibration (offline calibrate makes it): %w", err)
	}
	ck.PriceAxis, ck.GoalConstants.SettingMap, ck.GoalConstants.CeilingMargin = cal.PriceAxis, cal.SettingMap, cal.CeilingMargin
	ck.Training = map[string]float64{"flights": float64(len(m.Flights)), "parameters": float64(p.Arch.Parameters())}
	ck.Evaluation = cal.BudgetMetrics
	ck.Seeds = map[string]int64{"train_first": 0, "train_last": seeds.TrainingLast, "calibration_first": seeds.CalibrationFirst, "calibration": int64(cal.SeedCount)}
	if err := export.Write(*out, ck.Manifest, p.Data); err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "checkpoint of %d parameters in %s\n", p.Arch.Parameters(), *out)
	return err
}
