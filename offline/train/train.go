package train

import (
	"encoding/json"
	"fmt"
	"math"
	"sync"

	"prefdt/inference/model"
	"prefdt/offline/corpus"
)

// Config is one training run; with the same Config, source and seed, two runs
// give the same parameters on the same processor.
type Config struct {
	Arch        model.Arch  `json:"arch" yaml:"arch"`
	Batch       int         `json:"batch" yaml:"batch"`     // flights a step
	Workers     int         `json:"workers" yaml:"workers"` // part of the result: the order of sums depends on them
	Seed        uint64      `json:"seed" yaml:"seed"`
	Schedule    Schedule    `json:"schedule" yaml:"schedule"`
	LossWeights LossWeights `json:"weights" yaml:"weights"`
}

// Default is the configuration of the shipped checkpoint.
func Default() Config {
	return Config{
		Arch:  model.Arch{Width: 128, PairWidth: 64, Layers: 3, Heads: 4, Context: 1},
		Batch: 16, Workers: 2, Seed: 1,
		Schedule: Schedule{
			PeakRate: 1e-3, FinalFraction: 0.02, WarmUpSteps: 100, Steps: 3000,
			Beta1: 0.9, Beta2: 0.98, WeightDecay: 0.01, ClipNorm: 1,
		},
		LossWeights: LossWeights{Association: 1, Offload: 3, DeadlineClass: 0.3, Move: 1, Price: 50},
	}
}

// Check returns what is wrong with a configuration.
func (c Config) Check() error {
	if err := c.Arch.Check(); err != nil {
		return err
	}
	if c.Batch < 1 || c.Workers < 1 || c.Workers > c.Batch || c.Schedule.Steps < 1 {
		return fmt.Errorf("training has batch %d, workers %d, steps %d; want all positive and no more workers than flights", c.Batch, c.Workers, c.Schedule.Steps)
	}
	if _, err := json.Marshal(c); err != nil { // into the run's state
		return fmt.Errorf("training configuration: %w, want finite numbers", err)
	}
	return nil
}

// Source fills ex with the i-th example of a corpus (corpus.Manifest.Examples is
// one). It is called from several goroutines at once, each with a worker number
// of its own.
type Source func(worker, i int, ex *corpus.Example) error

// Network is a worker's part in training: a network bound to the parameters and
// to a gradient of the worker's own (see Bind).
type Network interface {
	// AddGradient adds, to the gradient, that of the loss on the i-th example,
	// times scale.
	AddGradient(i int, ex *corpus.Example, scale float64) (LossTerms, error)
}

// Trainer is a run in progress.
type Trainer struct {
	Config Config
	Step   int
	Params *Params[float32]

	source  Source
	adam    *adam
	workers []worker
}

type worker struct {
	network Network
	grads   *Params[float32]
	example corpus.Example
}

// New starts a run of the policy network.
func New(c Config, source Source) (*Trainer, error) {
	return NewWithNetwork(c, source, c.Arch.Tensors(), func(w, g *Params[float32]) Network {
		return newNetwork(c.LossWeights, w, g)
	})
}

// NewWithNetwork starts a run of another network: its tensors, and a function
// that binds one to parameters w and gradient g.
func NewWithNetwork(c Config, source Source, tensors []model.Tensor, newNetwork func(w, g *Params[float32]) Network) (*Trainer, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	t := &Trainer{Config: c, Params: NewParams[float32](c.Arch, tensors), source: source, adam: newAdam(tensors)}
	t.Params.Init(c.Seed)
	for range c.Workers {
		grads := NewParams[float32](c.Arch, tensors)
		t.workers = append(t.workers, worker{network: newNetwork(t.Params, grads), grads: grads})
	}
	return t, nil
}

// Next runs one step.
func (t *Trainer) Next() (LogLine, error) {
	c := &t.Config
	var wait sync.WaitGroup
	terms := make([]LossTerms, c.Workers)
	tokens := make([]int, c.Workers)
	errs := make([]error, c.Workers)
	for k := range c.Workers {
		wait.Go(func() {
			w := &t.workers[k]
			clear(w.grads.Data)
			for i := t.Step*c.Batch + k; i < (t.Step+1)*c.Batch; i += c.Workers {
				w.example.Reset()
				if errs[k] = t.source(k, i, &w.example); errs[k] != nil {
					return
				}
				l, err := w.network.AddGradient(i, &w.example, 1/float64(c.Batch))
				if errs[k] = err; err != nil {
					return
				}
				terms[k].AddScaled(1, l)
				tokens[k] += model.TokensPerSlot * w.example.Slots
			}
		})
	}
	wait.Wait()
	line := LogLine{Step: t.Step, LearningRate: c.Schedule.rate(t.Step)}
	grads, total := make([][]float32, c.Workers), LossTerms{}
	for k := range c.Workers {
		if errs[k] != nil {
			return line, fmt.Errorf("training step %d: %w", t.Step, errs[k])
		}
		total.AddScaled(1, terms[k])
		line.Tokens += tokens[k]
		grads[k] = t.workers[k].grads.Data
	}
	line.Terms.AddScaled(1/float64(c.Batch), total)
	if math.IsNaN(line.Terms.Loss) || math.IsInf(line.Terms.Loss, 0) {
		return line, fmt.Errorf("training step %d: the loss is %v; lower the learning rate", t.Step, line.Terms.Loss)
	}
	line.GradientNorm = t.adam.step(c.Schedule, t.Step, t.Params.Data, grads...)
	t.Step++
	return line, nil
}
