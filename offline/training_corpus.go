package main

import (
	"context"
	"path/filepath"
	"runtime"

	"prefdt/inference"
	"prefdt/inference/goal"
	"prefdt/offline/corpus"
	"prefdt/offline/pareto"
	"prefdt/offline/rollout"
	"prefdt/offline/train"
	"prefdt/simbridge/world"
)

// trainingCorpus lets the trainer read a corpus and fly what it has learned.
type trainingCorpus struct{ manifest *corpus.Manifest }

func openCorpus(dir string) (train.Corpus, error) {
	m, err := corpus.Read(filepath.Join(dir, "manifest.json"))
	if err != nil {
		return nil, err
	}
	if err := m.Verify(4); err != nil {
		return nil, err
	}
	return &trainingCorpus{m}, nil
}

// World is the corpus's.
func (c *trainingCorpus) World() world.Config { return c.manifest.World }

// Source goes through the manifest again and again.
func (c *trainingCorpus) Source(workers int) train.Source {
	readers := make([]*corpus.ExampleReader, workers)
	for k := range readers {
		readers[k] = corpus.NewExampleReader(c.manifest, &c.manifest.Statistics)
	}
	return func(worker, i int, ep *train.Example) error {
		return readers[worker].Read(&c.manifest.Flights[i%len(c.manifest.Flights)], ep)
	}
}

// Validate flies ten training seeds, the last of the range, over a front of
// eleven settings and three budgets.
func (c *trainingCorpus) Validate(ctx context.Context, p *train.Params[float32]) (v train.Validation, err error) {
	ck, err := c.manifest.UncalibratedCheckpoint(p, c.manifest.Statistics)
	if err != nil {
		return v, err
	}
	var seeds []uint64
	for s := range uint64(10) {
		seeds = append(seeds, 99_990+s)
	}
	omegas := rollout.Linspace(ck.OmegaBand[0], ck.OmegaBand[1], 11)
	requests := rollout.PreferenceRequests(omegas)
	budgets := []float64{29e3, 32e3, 36e3} // of the standard world
	for i := range budgets {
		budgets[i] *= c.manifest.World.EnergyScale()
	}
	for _, j := range budgets {
		requests = append(requests, rollout.Request{Mode: goal.Target, BudgetJ: j})
	}
	results, err := rollout.Sweep(ctx, ck, inference.DecoderDispatch, c.manifest.World, rollout.ReportLink{}, seeds, requests, runtime.GOMAXPROCS(0), nil)
	if err != nil {
		return v, err
	}
	wide, tight := pareto.References(&c.manifest.World, c.manifest.Archive.Points)
	for s := range seeds {
		points := rollout.SeedPoints(results[:len(omegas)], s)
		v.Hypervolume += pareto.Hypervolume(points, wide) / 1e6 / float64(len(seeds))
		v.TightHypervolume += pareto.Hypervolume(points, tight) / 1e6 / float64(len(seeds))
		v.Fidelity += pareto.Fidelity(omegas, points) / float64(len(seeds))
		for i, j := range budgets {
			e := results[len(omegas)+i][s].EnergyJ/j - 1
			v.BudgetError += max(e, -e) / float64(len(seeds)*len(budgets))
		}
	}
	return v, nil
}
