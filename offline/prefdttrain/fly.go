package prefdttrain

import (
	"context"

	"prefdt/inference"
	"prefdt/inference/prefdt"
	"prefdt/offline/pareto"
	"prefdt/offline/rollout"
	"prefdt/offline/seeds"
)

// fly flies parameters on the last training seeds, which the corpus does not use, at some
// preferences evenly spaced over those that the corpus accepts.
func (m *Corpus) fly(ctx context.Context, f *prefdt.Form, parameters []float32, flights, settings, workers int) (*pareto.Metrics, error) {
	ck, err := m.Checkpoint(f, parameters)
	if err != nil {
		return nil, err
	}
	low, high := m.Accepted()
	omegas := rollout.Linspace(low, high, settings)
	results, err := rollout.Sweep(ctx, ck, inference.DecoderHeads, m.World, rollout.ReportLink{},
		seeds.List(seeds.TrainingLast+1-uint64(flights), flights), rollout.PreferenceRequests(omegas), workers, nil)
	if err != nil {
		return nil, err
	}
	wide, _ := pareto.References(&m.World, m.Archive.Points)
	return pareto.Measure(omegas, rollout.Outcomes(results), wide, wide), nil
}
