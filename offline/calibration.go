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

	"prefdt/offline/calibrate"
	"prefdt/offline/command"
	"prefdt/offline/corpus"
	"prefdt/offline/export"
	"prefdt/offline/seeds"
	"prefdt/offline/train"
)

const calibrateUsage = `offline calibrate spreads the settings of a trained policy evenly over the front
that it achieves on calibration seeds, and writes calibration.json.

Flags:
`

// calibrateCommand is "offline calibrate".
func calibrateCommand(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	f := command.Flags("calibrate")
	corpusDir := f.String("corpus", "out/corpus", "`FOLDER` of the corpus")
	trainDir := f.String("train", "out/train", "`FOLDER` of the training run; calibration.json goes there")
	text := f.String("seeds", "100000:100060", "calibration seeds, `A:B`, B excluded")
	settings := f.Int("settings", 101, "settings flown")
	workers := f.Int("workers", runtime.GOMAXPROCS(0), "episodes flown at a time; changes no result")
	if done, err := command.Parse(f, calibrateUsage, args, stdout); done {
		return err
	}
	if *settings < 3 || *workers < 1 {
		return errors.New("offline calibrate: -settings must be 3 at least, -workers 1")
	}
	list, err := command.Range(*text, seeds.Calibration)
	if err != nil {
		return fmt.Errorf("offline calibrate: %w", err)
	}
	m, p, err := trained(*corpusDir, *trainDir)
	if err != nil {
		return err
	}
	ck, err := frozen(m, p)
	if err != nil {
		return err
	}
	cal, err := calibrate.Fit(ck, m.World, list, *settings, *workers, command.Progress(stderr, "seeds", len(list)))
	if err != nil {
		return err
	}
	path := filepath.Join(*trainDir, "calibration.json")
	if err := command.Replace(path, func(w io.Writer) error { return json.NewEncoder(w).Encode(cal) }); err != nil {
		return err
	}
	first, last := cal.Points[cal.Kept[0]], cal.Points[cal.Kept[len(cal.Kept)-1]]
	_, err = fmt.Fprintf(stdout, "%s: %d of %d settings make one front, from %.1f s and %.0f J to %.1f s and %.0f J\n", path,
		len(cal.Kept), len(cal.Points), first.DelayS, first.EnergyJ, last.DelayS, last.EnergyJ)
	return err
}

// trained reads a corpus and the parameters trained on it.
func trained(corpusDir, trainDir string) (*corpus.Manifest, *train.Params[float32], error) {
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
	m, p, err := trained(*corpusDir, *trainDir)
	if err != nil {
		return err
	}
	ck, err := frozen(m, p)
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
	ck.Scales.Remap = cal.Remap
	ck.Training = map[string]float64{"flights": float64(len(m.Flights)), "parameters": float64(p.Arch.Parameters())}
	ck.Evaluation = map[string]float64{}
	ck.Seeds = map[string]int64{"train_first": 0, "train_last": seeds.TrainingLast, "calibration_first": seeds.CalibrationFirst, "calibration": int64(cal.Seeds)}
	if err := export.Write(*out, ck.Manifest, p.Data); err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "checkpoint of %d parameters in %s\n", p.Arch.Parameters(), *out)
	return err
}
