package prefdttrain

import (
	"context"
	"fmt"

	"prefdt/inference"
	"prefdt/inference/checkpoint"
	"prefdt/offline/calibrate"
	"prefdt/offline/export"
	"prefdt/offline/rollout"
	"prefdt/offline/seeds"
)

// calibrationSettings are flown to fit the setting map.
const calibrationSettings = 41

// finish calibrates the parameters of a state file, trained on a corpus, on calibration seeds and writes the
// checkpoint.
func finish(ctx context.Context, m *Corpus, state string, flights, workers int, out string,
	progress func(done int)) (*checkpoint.Checkpoint, error) {
	n, parameters, err := readTrained(state)
	if err != nil {
		return nil, err
	}
	if n.Subject.Corpus != m.Hash() {
		return nil, fmt.Errorf("%s was trained on corpus %.12s, the one beside it is %.12s", state, n.Subject.Corpus, m.Hash())
	}
	ck, err := m.Checkpoint(&n.Config.Form, parameters)
	if err != nil {
		return nil, err
	}
	cal, err := calibrate.FlySettingMap(ctx, ck, inference.DecoderHeads, m.World, seeds.List(seeds.CalibrationFirst, flights),
		rollout.Linspace(ck.OmegaBand[0], ck.OmegaBand[1], calibrationSettings), workers, progress)
	if err != nil {
		return nil, err
	}
	ck.GoalConstants.SettingMap = cal.SettingMap
	ck.Training = map[string]float64{
		"flights": float64(len(m.Flights)), "parameters": float64(len(parameters)), "steps": float64(n.Step),
		"tokens":               float64(n.Progress.Tokens),
		"conditioner_r2_delay": m.Fit.R2DelayS, "conditioner_r2_energy": m.Fit.R2EnergyJ,
	}
	for k := range m.Fit.DelayS { // coefficients of eq. (reg); the manifest's conditioner tabulates them
		ck.Training[fmt.Sprintf("conditioner_delay_s_%d", k)], ck.Training[fmt.Sprintf("conditioner_energy_j_%d", k)] = m.Fit.DelayS[k],
			m.Fit.EnergyJ[k]
	}
	ck.Seeds = map[string]int64{"train_first": 0, "train_last": validationFirst - 1, "calibration_first": seeds.CalibrationFirst,
		"calibration": int64(flights)}
	return ck, export.Write(out, ck.Manifest, parameters, nil)
}
