package prefdttrain

import (
	"context"
	"fmt"

	"prefdt/inference"
	"prefdt/inference/prefdt"
	"prefdt/offline/pareto"
	"prefdt/offline/rollout"
	"prefdt/offline/seeds"
)

// sweep flies parameters at some preferences and returns the outcomes [preference][seed].
func (m *Corpus) sweep(ctx context.Context, f *prefdt.Form, parameters []float32, list []uint64, omegas []float64,
	workers int) ([][]pareto.Point, error) {
	ck, err := m.Checkpoint(f, parameters)
	if err != nil {
		return nil, err
	}
	results, err := rollout.Sweep(ctx, ck, inference.DecoderHeads, m.World, rollout.ReportLink{}, list, rollout.PreferenceRequests(omegas),
		workers, nil)
	return rollout.Outcomes(results), err
}

// front is what parameters reach on the uniform grid of preferences, means over seeds.
type frontFigures struct{ Hypervolume, Fidelity, ReachS, CornerS float64 }

func (x frontFigures) String() string {
	return fmt.Sprintf("hypervolume %.3fe6  fidelity %.3f  reach %.0f s  corner %.1f s", x.Hypervolume, x.Fidelity, x.ReachS, x.CornerS)
}

// fly flies parameters on the last training seeds, which the corpus does not use, at some
// preferences evenly spaced over those that the corpus accepts.
func (m *Corpus) fly(ctx context.Context, f *prefdt.Form, parameters []float32, flights, settings, workers int) (x frontFigures,
	err error) {
	low, high := m.Accepted()
	omegas := rollout.Linspace(low, high, settings)
	list := seeds.List(seeds.TrainingLast+1-uint64(flights), flights)
	outcomes, err := m.sweep(ctx, f, parameters, list, omegas, workers)
	if err != nil {
		return x, err
	}
	wide, _ := pareto.References(&m.World, m.Archive.Points)
	y := pareto.Measure(omegas, outcomes, wide, wide)
	return frontFigures{pareto.Mean(y.Hypervolumes) / 1e6, pareto.Mean(y.Fidelities), pareto.Mean(y.Reaches), pareto.Mean(y.Corners)}, nil
}
