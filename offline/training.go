package main

import (
	"path/filepath"
	"runtime"

	"prefdt/inference"
	"prefdt/inference/goal"
	"prefdt/offline/corpus"
	"prefdt/offline/front"
	"prefdt/offline/rollout"
	"prefdt/offline/train"
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

// Source goes through the manifest again and again.
func (c *trainingCorpus) Source(workers int) train.Source {
	readers := make([]*corpus.Reader, workers)
	for k := range readers {
		readers[k] = corpus.NewReader(c.manifest, &c.manifest.Standard)
	}
	return func(worker, i int, ep *train.Episode) error {
		return readers[worker].Episode(&c.manifest.Flights[i%len(c.manifest.Flights)], ep)
	}
}

// Validate flies ten training seeds, the last of the range, over a front of
// eleven settings and three budgets.
func (c *trainingCorpus) Validate(p *train.Params[float32]) (v train.Validation, err error) {
	ck, err := c.manifest.Checkpoint(p, c.manifest.Standard)
	if err != nil {
		return v, err
	}
	var seeds []uint64
	for s := range uint64(10) {
		seeds = append(seeds, 99_990+s)
	}
	omegas := rollout.Grid(ck.Band[0], ck.Band[1], 11)
	requests := rollout.Preferences(omegas)
	budgets := []float64{29e3, 32e3, 36e3}
	for _, j := range budgets {
		requests = append(requests, rollout.Request{Mode: goal.Target, BudgetJ: j})
	}
	results, err := rollout.Sweep(ck, inference.Dispatch, c.manifest.World, rollout.Link{}, seeds, requests, runtime.GOMAXPROCS(0), nil)
	if err != nil {
		return v, err
	}
	for s := range seeds {
		points := rollout.Points(results[:len(omegas)], s)
		v.Hypervolume += front.Hypervolume(points, front.Reference) / 1e6 / float64(len(seeds))
		v.Tight += front.Hypervolume(points, front.TightReference) / 1e6 / float64(len(seeds))
		v.Fidelity += front.Fidelity(omegas, points) / float64(len(seeds))
		for i, j := range budgets {
			e := results[len(omegas)+i][s].EnergyJ/j - 1
			v.BudgetError += max(e, -e) / float64(len(seeds)*len(budgets))
		}
	}
	return v, nil
}
