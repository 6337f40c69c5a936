package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"prefdt/configs/cli"
	"prefdt/inference/belief/learned"
	"prefdt/inference/budget"
	"prefdt/inference/checkpoint"
	"prefdt/inference/goal"
	"prefdt/offline/belieftrain"
	"prefdt/offline/calibrate"
	"prefdt/offline/command"
	"prefdt/offline/corpus"
	"prefdt/offline/evaluate"
	"prefdt/offline/experiment"
	"prefdt/offline/export"
	"prefdt/offline/rollout"
	"prefdt/offline/seeds"
	"prefdt/offline/train"
	"prefdt/simbridge/world"
)

const calibrateUsage = `offline calibrate spreads the settings of a trained policy evenly over the front
that it achieves on calibration seeds, finds the margin by which ceilings are
kept at a promised rate, measures the floors that budgets are compared with, and writes
calibration.json for export.

  offline calibrate                                  a training run
  offline calibrate -checkpoint configs/checkpoint   a checkpoint, in its manifest
  offline calibrate -checkpoint configs/checkpoint -reserve
                                                     what other sizes of the reserve of
                                                     budgets cost and give; writes nothing

Ctrl-C and SIGTERM keep the phases that are finished in calibration.part.json; the same command
continues from there.

Flags:
`

// calibrateCommand is "offline calibrate".
func calibrateCommand(ctx context.Context, call *cli.Call) error {
	f := call.Flags
	config := command.WorldFlag(f)
	corpusDir := f.String("corpus", "out/corpus", "`FOLDER` of the corpus")
	trainDir := f.String("train", "out/train", "`FOLDER` of the training run; calibration.json goes there")
	seedRange := f.String("seeds", "100000:100060", "calibration seeds, `A:B`, B excluded")
	settings := f.Int("settings", 101, "settings measured")
	flights := f.Int("flights", 399, "flights in each condition that the margin of ceilings is fitted on, on the seeds after those; 0: "+
		"none is fitted")
	checkpointDir := f.String("checkpoint", "", "`FOLDER` of a checkpoint to calibrate anew, instead of a training run")
	reserve := f.Bool("reserve", false, "calibrate nothing: compare sizes of the reserve of budgets, on the cells that it may be chosen on")
	probabilities := f.String("probabilities", "0.09,0.18,0.27,0.36,0.5",
		"with -reserve: `LIST` of probabilities of a change of flight power")
	shares := f.String("shares", "0.01,0.015,0.02,0.03,0.05",
		"with -reserve: `LIST` of largest prices after it, as shares of the price at which nothing is offloaded")
	workers := f.Int("workers", runtime.GOMAXPROCS(0), "episodes simulated at a time; changes no result")
	limit := command.LimitFlag(f)
	asJSON := call.JSONFlag()
	if _, err := call.Parse(calibrateUsage, 0); err != nil {
		return err
	}
	ctx, stop := limit(ctx)
	defer stop()
	if *reserve && *checkpointDir == "" {
		return cli.BadInputf("-reserve is of a checkpoint that flies: add -checkpoint")
	}
	sizes, err := parseReserves(*probabilities, *shares)
	if err != nil {
		return cli.BadInput(err)
	}
	if *settings < 3 || *workers < 1 || *flights < 0 {
		return cli.BadInputf("-settings must be 3 at least, -workers 1, -flights 0")
	}
	mapSeeds, err := command.ParseSeeds(*seedRange, seeds.CheckCalibration)
	if err != nil {
		return cli.BadInput(err)
	}
	var ceilingSeeds []uint64
	if *flights > 0 && !*reserve {
		ceilingSeeds = seeds.List(mapSeeds[len(mapSeeds)-1]+1, *flights)
		if err := calibrate.CheckCeilingSeeds(ceilingSeeds); err != nil {
			return cli.BadInput(err)
		}
	}
	folder := cmp.Or(*checkpointDir, *trainDir)
	ck, trainedIn, parameters, err := loadUncalibrated(*checkpointDir, *corpusDir, *trainDir)
	if err != nil {
		return cli.BadInput(err)
	}
	if !*reserve { // which writes nothing
		if err := command.CheckWritable(folder); err != nil {
			return cli.BadInput(err)
		}
	}
	flownIn, err := config(trainedIn)
	if err != nil {
		return cli.BadInput(err)
	}
	command.WarnOfWorld(call.Stderr, trainedIn, flownIn)
	if *reserve {
		c := evaluate.Config{World: flownIn, Seeds: mapSeeds, Workers: *workers, Progress: call.Stderr}
		return measureReserves(ctx, call, *asJSON, ck, c, sizes)
	}
	job := calibrate.Job{
		Checkpoint: ck, Parameters: parameters, World: flownIn, Seeds: mapSeeds, Ceilings: ceilingSeeds,
		Settings: *settings, Workers: *workers, Partial: filepath.Join(folder, "calibration.part.json"), Log: call.Stderr,
	}
	cal, err := job.Run(ctx)
	if command.Ended(ctx, err) {
		return command.Interrupted(ctx, "; the same command continues with what %s has", job.Partial)
	}
	if err != nil {
		return err
	}
	// Of a training run the calibration is a file of its own, for export. A checkpoint's manifest has it: job.Run
	// has set all of it there but the metrics.
	path, indent, output := filepath.Join(*trainDir, "calibration.json"), "", any(cal)
	if *checkpointDir != "" {
		path, indent, output = filepath.Join(*checkpointDir, checkpoint.ManifestFile), "  ", &ck.Manifest
		ck.Evaluation = cal.BudgetMetrics
	}
	if err := command.ReplaceJSON(path, indent, output); err != nil {
		return err
	}
	if err := os.Remove(job.Partial); err != nil {
		return err
	}
	first, last := cal.Points[cal.FrontIndices[0]], cal.Points[cal.FrontIndices[len(cal.FrontIndices)-1]]
	return call.Result(*asJSON, cal, `%s
%d of %d settings make one front, from %.1f s and %.0f J to %.1f s and %.0f J
ceilings: %s
budgets: from %.0f J, %.5f of the closed form at most, to %.0f J, on every seed to %.0f J
floor named in flight: off by %.2f %% in calm air, %.2f %% in gusts of 5 %%, %.2f %% of 15 %%, %.2f %% after a shock`,
		path, len(cal.FrontIndices), len(cal.Points), first.DelayS, first.EnergyJ, last.DelayS, last.EnergyJ,
		ceilingLine(&cal.CeilingMargin),
		cal.BudgetMetrics["floor_j"], cal.BudgetMetrics["floor_over_closed_form"], cal.BudgetMetrics["most_j"],
		cal.BudgetMetrics["most_least_j"],
		100*cal.BudgetMetrics["floor_error_calm"], 100*cal.BudgetMetrics["floor_error_gust_5"],
		100*cal.BudgetMetrics["floor_error_gust_15"], 100*cal.BudgetMetrics["floor_error_shock"])
}

// ceilingLine is the line on ceilings: how many calibration flights exceeded theirs, and which rate is promised.
func ceilingLine(m *goal.CeilingMargin) string {
	if m.Flights == 0 {
		return fmt.Sprintf("a margin of %.2f deviations, not calibrated: nothing is promised", m.StdDevs)
	}
	return fmt.Sprintf("a margin of %.2f deviations; %v of %d flights passed theirs, at most %.3g are promised to, in each of %q",
		m.StdDevs, m.Violations, m.Flights, m.ViolationRate, m.Conditions)
}

// parseReserves reads the sizes of the reserve that -probabilities and -shares span.
func parseReserves(probabilities, shares string) (sizes []budget.Reserve, err error) {
	p, err := parseShares("-probabilities", probabilities)
	if err != nil {
		return nil, err
	}
	s, err := parseShares("-shares", shares)
	if err != nil {
		return nil, err
	}
	for _, probability := range p {
		for _, share := range s {
			sizes = append(sizes, budget.Reserve{Probability: probability, MaxPriceShare: share})
		}
	}
	return sizes, nil
}

// parseShares reads a list of numbers from 0 to 1.
func parseShares(name, text string) (list []float64, err error) {
	for part := range strings.SplitSeq(text, ",") {
		x, err := strconv.ParseFloat(part, 64)
		if err != nil || !(x >= 0 && x <= 1) {
			return nil, fmt.Errorf("%s has %q, want numbers from 0 to 1, as in 0,0.1", name, part)
		}
		list = append(list, x)
	}
	return list, nil
}

// measureReserves measures sizes of the reserve and prints a line for each. It writes no
// file.
func measureReserves(ctx context.Context, call *cli.Call, asJSON bool, ck *checkpoint.Checkpoint, c evaluate.Config,
	sizes []budget.Reserve) error {
	rows, err := evaluate.MeasureReserves(ctx, ck, c, sizes)
	switch {
	case ctx.Err() != nil:
		return errors.New("interrupted before all cells were measured")
	case err != nil:
		return err
	}
	return command.PrintReport(call, asJSON, evaluate.ReserveText, rows)
}

// loadUncalibrated reads a checkpoint or a training run, and the world it is for;
// of a training run its parameters too.
func loadUncalibrated(dir, corpusDir, trainDir string) (ck *checkpoint.Checkpoint, w world.Config, parameters []float32, err error) {
	if dir != "" {
		if ck, err = checkpoint.Load(dir); err == nil {
			w, err = rollout.WorldOf(&ck.Manifest)
		}
		return ck, w, nil, err
	}
	m, ck, parameters, err := loadTrained(corpusDir, trainDir)
	if err == nil {
		w = m.World
	}
	return ck, w, parameters, err
}

// loadTrained reads a corpus and the parameters trained on it, as a checkpoint that is not calibrated.
func loadTrained(corpusDir, trainDir string) (m *corpus.Manifest, ck *checkpoint.Checkpoint, parameters []float32, err error) {
	if m, err = corpus.Read(filepath.Join(corpusDir, "manifest.json")); err != nil {
		return nil, nil, nil, err
	}
	c, parameters, err := train.ReadParams(filepath.Join(trainDir, "state.bin"))
	if err != nil {
		return nil, nil, nil, err
	}
	if ck, err = m.UncalibratedCheckpoint(c.Arch, parameters, m.Statistics); err == nil {
		ck.Training = map[string]float64{"flights": float64(len(m.Flights)), "parameters": float64(len(parameters)),
			"steps": float64(c.Schedule.Steps), "batch": float64(c.Batch)}
	}
	return m, ck, parameters, err
}

const exportUsage = `offline export writes a trained and calibrated policy as a checkpoint: policy.onnx,
the step graph with float16 weights, estimator.onnx, the estimator of beliefs, if one is
given, and manifest.json, all else. Beside them record.json (of an estimator alone,
record-estimator.json) says by which version on which processor, and has the hashes of
what they were made of and of what came out.

  offline export -estimator out/estimator            a new checkpoint, with an estimator
  offline export -estimator out/estimator -checkpoint configs/checkpoint
                                                     an estimator into a checkpoint that there is

Flags:
`

// exportCommand is "offline export".
func exportCommand(_ context.Context, call *cli.Call) error {
	f := call.Flags
	corpusDir := f.String("corpus", "out/corpus", "`FOLDER` of the corpus")
	trainDir := f.String("train", "out/train", "`FOLDER` of the training run and its calibration.json")
	out := f.String("out", "out/checkpoint", "`FOLDER` of the checkpoint")
	estimator := f.String("estimator", "", "`FOLDER` of an estimator's training run, or of a checkpoint with one")
	checkpointDir := f.String("checkpoint", "", "`FOLDER` of a checkpoint that gets the estimator and stays as it is in all else")
	asJSON := call.JSONFlag()
	if _, err := call.Parse(exportUsage, 0); err != nil {
		return err
	}
	if *checkpointDir != "" && *estimator == "" {
		return cli.BadInputf("-checkpoint is of what gets an estimator: add -estimator")
	}
	var beliefs *learned.Parameters
	var record *checkpoint.Estimator
	var inputs []string
	began := experiment.Now()
	if *checkpointDir == "" {
		inputs = []string{filepath.Join(*corpusDir, "manifest.json"), filepath.Join(*trainDir, "state.bin"), filepath.Join(*trainDir,
			"calibration.json")}
	}
	if *estimator != "" {
		// Read takes a lone file of parameters, too; here a run's folder or a checkpoint's is wanted, for its record.
		path := filepath.Join(*estimator, belieftrain.ParametersFile)
		_, err := os.Stat(path)
		if err != nil {
			path = filepath.Join(*estimator, checkpoint.EstimatorFile)
			_, err = os.Stat(path)
		}
		if err == nil {
			beliefs, record, err = belieftrain.Read(*estimator)
		}
		if err != nil {
			return cli.BadInput(err)
		}
		inputs = append(inputs, path)
	}
	if *checkpointDir != "" {
		return exportEstimator(call, *asJSON, *checkpointDir, record, beliefs, inputs, began)
	}
	_, ck, parameters, err := loadTrained(*corpusDir, *trainDir)
	if err == nil {
		err = command.CheckWritable(*out)
	}
	if err != nil {
		return cli.BadInput(err)
	}
	var cal calibrate.Calibration
	if err := command.ReadJSON(filepath.Join(*trainDir, "calibration.json"), &cal); err != nil {
		return cli.BadInputf("read the calibration (offline calibrate makes it): %w", err)
	}
	ck.PriceCurve, ck.GoalConstants.SettingMap, ck.GoalConstants.CeilingMargin = cal.PriceCurve, cal.SettingMap, cal.CeilingMargin
	ck.Evaluation = cal.BudgetMetrics
	ck.Seeds = map[string]int64{"train_first": 0, "train_last": seeds.TrainingLast, "calibration_first": seeds.CalibrationFirst,
		"calibration": int64(cal.SeedCount)}
	ck.Estimator = record
	if err := export.Write(*out, ck.Manifest, parameters, beliefs); err != nil {
		return err
	}
	if err := writeRecord(*out, "record.json", inputs, began); err != nil {
		return err
	}
	return call.Result(*asJSON, map[string]any{"checkpoint": *out, "parameters": len(parameters)}, "checkpoint of %d parameters in %s",
		len(parameters), *out)
}

// exportEstimator writes an estimator into a checkpoint that there is, and leaves the rest of it as it is.
func exportEstimator(call *cli.Call, asJSON bool, dir string, record *checkpoint.Estimator, beliefs *learned.Parameters,
	inputs []string, began experiment.Stamp) error {
	if _, _, err := export.ReadPolicy(dir); err != nil {
		return cli.BadInput(err)
	}
	if err := command.CheckWritable(dir); err != nil {
		return cli.BadInput(err)
	}
	if err := export.WriteEstimator(dir, *record, beliefs); err != nil {
		return err
	}
	if err := writeRecord(dir, "record-estimator.json", inputs, began); err != nil {
		return err
	}
	return call.Result(asJSON, map[string]any{"checkpoint": dir, "estimator_parameters": len(beliefs.Data), "window": beliefs.Window},
		"an estimator of %d parameters that remembers %d slots, in %s", len(beliefs.Data), beliefs.Window, dir)
}

// writeRecord writes a record into a checkpoint's folder, as the file of that name: which version made the checkpoint,
// on which processor, and the hashes of its inputs, by path, and of its own files, by name.
func writeRecord(dir, name string, inputs []string, began experiment.Stamp) error {
	ck, err := checkpoint.Load(dir)
	if err != nil {
		return err
	}
	w, err := rollout.WorldOf(&ck.Manifest)
	if err != nil {
		return err
	}
	r := experiment.NewRecord(&w, 0)
	for seedName, n := range ck.Seeds {
		r.Seeds[seedName] = fmt.Sprint(n)
	}
	for _, path := range inputs {
		err = errors.Join(err, r.AddFiles(path, path))
	}
	own := []string{checkpoint.GraphFile, checkpoint.ManifestFile}
	if ck.Beliefs != nil {
		own = append(own, checkpoint.EstimatorFile)
	}
	for _, file := range own {
		err = errors.Join(err, r.AddFiles(file, filepath.Join(dir, file)))
	}
	if err != nil {
		return err
	}
	r.End(began)
	return command.ReplaceJSON(filepath.Join(dir, name), "  ", r)
}
