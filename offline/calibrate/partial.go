package calibrate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"prefdt/inference/checkpoint"
	"prefdt/offline/command"
	"prefdt/simbridge/world"
)

// Job is a whole calibration: what it is of, and the file in which it keeps what is
// finished, to continue from there when it was interrupted.
type Job struct {
	Checkpoint *checkpoint.Checkpoint // its price curve, setting map and ceiling margin are set
	Parameters []float32              // of its network, where the manifest does not have their hash
	World      world.Config
	Seeds      []uint64 // of the setting map and the floors
	Ceilings   []uint64 // seeds of the ceiling margin; empty: none is fitted, it is zero
	Settings   int
	Workers    int
	Partial    string // the file
	Log        io.Writer
}

// partial is what is finished of a calibration.
type partial struct {
	Inputs      string       `json:"inputs"` // their hash
	Calibration *Calibration `json:"calibration"`
	Violated    [][]int      `json:"violated"` // trials, of each ceiling margin tried
}

// Run calibrates.
func (j *Job) Run(ctx context.Context) (Calibration, error) {
	if len(j.Ceilings) > 0 {
		if err := CheckCeilingSeeds(j.Ceilings); err != nil {
			return Calibration{}, err
		}
	}
	done, err := j.load()
	if err != nil {
		return Calibration{}, err
	}
	cal := done.Calibration
	if cal == nil {
		fitted, err := Fit(ctx, j.Checkpoint, j.World, j.Seeds, j.Settings, j.Workers, command.Progress(j.Log, "seeds", len(j.Seeds)))
		if err != nil {
			return fitted, err
		}
		cal, done.Calibration = &fitted, &fitted
		if err := j.save(done); err != nil {
			return fitted, err
		}
	}
	constants := &j.Checkpoint.GoalConstants
	j.Checkpoint.PriceCurve, constants.SettingMap = cal.PriceCurve, cal.SettingMap
	if len(j.Ceilings) > 0 {
		if len(done.Violated) > 0 {
			fmt.Fprintf(j.Log, "ceilings: %d margins were tried before\n", len(done.Violated))
		}
		cal.CeilingMargin, err = fitCeilingMargin(ctx, j.Checkpoint, j.World, j.Ceilings, j.Workers, done.Violated, func(margin float64,
			violations, violated []int) error {
			fmt.Fprintf(j.Log, "ceilings, a margin of %.2f deviations: %v of %d flights passed\n", margin, violations, len(j.Ceilings))
			done.Violated = append(done.Violated, violated)
			return j.save(done)
		})
		if err != nil {
			return *cal, err
		}
	}
	constants.CeilingMargin = cal.CeilingMargin
	cal.BudgetMetrics, err = measureFloors(ctx, j.Checkpoint, j.World, j.Seeds, j.Workers)
	return *cal, err
}

// load reads what is finished of this calibration, and nothing of another.
func (j *Job) load() (*partial, error) {
	inputs := command.Hash([]any{j.Checkpoint.Manifest, j.Parameters, j.World, j.Seeds, j.Ceilings, j.Settings})
	var found partial
	err := command.ReadJSON(j.Partial, &found)
	if denied := new(fs.PathError); errors.As(err, &denied) && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("calibrate: %w", err)
	}
	if err != nil || found.Inputs != inputs {
		return &partial{Inputs: inputs}, nil
	}
	return &found, nil
}

func (j *Job) save(p *partial) error {
	return command.ReplaceJSON(j.Partial, "", p)
}
