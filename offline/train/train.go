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
	Batch       int         `json:"batch" yaml:"batch"`     // episodes a step
	Workers     int         `json:"workers" yaml:"workers"` // tapes; part of the result, since sums follow them
	Seed        uint64      `json:"seed" yaml:"seed"`
	Schedule    Schedule    `json:"schedule" yaml:"schedule"`
	LossWeights LossWeights `json:"weights" yaml:"weights"`
}

// Default is the configuration of the shipped checkpoint.
func Default() Config {
	return Config{
		Arch:  model.Arch{Width: 128, PairWidth: 64, Layers: 3, Heads: 4, Context: 1},
		Batch: 16, Workers: 2, Seed: 1,
		Schedule: DefaultSchedule(), LossWeights: DefaultLossWeights(),
	}
}

// Check says what is wrong with a configuration.
func (c Config) Check() error {
	if err := c.Arch.Check(); err != nil {
		return err
	}
	if c.Batch < 1 || c.Workers < 1 || c.Workers > c.Batch || c.Schedule.Steps < 1 {
		return fmt.Errorf("training has batch %d, workers %d, steps %d; want all positive and no more workers than episodes", c.Batch, c.Workers, c.Schedule.Steps)
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

// GradientFunc learns from the i-th example of a corpus: it adds the gradient of its
// loss by w, times scale, to g. It is called from several goroutines at once,
// each with a worker number of its own.
type GradientFunc func(worker, i int, w, g *Params[float32], scale float64) (terms LossTerms, tokens int, err error)

// Trainer is a run in progress.
type Trainer struct {
	Config Config
	Step   int
	Params *Params[float32]

	addGradient GradientFunc
	adam        *adam
	grads       []*Params[float32]
}

// New starts a run of the policy network.
func New(c Config, source Source) (*Trainer, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	tapes := make([]tape[float32], c.Workers)
	eps := make([]corpus.Example, c.Workers)
	return NewWithGradient(c, c.Arch.Tensors(), func(worker, i int, w, g *Params[float32], scale float64) (LossTerms, int, error) {
		ep, tape := &eps[worker], &tapes[worker]
		ep.Reset()
		if err := source(worker, i, ep); err != nil {
			return LossTerms{}, 0, err
		}
		tape.forward(w, ep)
		terms, out := tape.loss(c.LossWeights, scale)
		tape.backward(w, g, out)
		return terms, model.TokensPerSlot * ep.Slots, nil
	})
}

// NewWithGradient starts a run of another network.
func NewWithGradient(c Config, tensors []model.Tensor, learn GradientFunc) (*Trainer, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	t := &Trainer{Config: c, addGradient: learn, Params: NewParamsForTensors[float32](c.Arch, tensors), adam: newAdam(tensors)}
	t.Params.Init(c.Seed)
	for range c.Workers {
		t.grads = append(t.grads, NewParamsForTensors[float32](c.Arch, tensors))
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
			clear(t.grads[k].Data)
			for i := k; i < c.Batch; i += c.Workers {
				l, n, err := t.addGradient(k, t.Step*c.Batch+i, t.Params, t.grads[k], 1/float64(c.Batch))
				if err != nil {
					errs[k] = err
					return
				}
				terms[k].Add(l)
				tokens[k] += n
			}
		})
	}
	wait.Wait()
	line := LogLine{Step: t.Step, LearningRate: c.Schedule.rate(t.Step)}
	grads := make([][]float32, c.Workers)
	for k := range c.Workers {
		if errs[k] != nil {
			return line, fmt.Errorf("training step %d: %w", t.Step, errs[k])
		}
		line.Terms.Add(terms[k])
		line.Tokens += tokens[k]
		grads[k] = t.grads[k].Data
	}
	line.Terms = line.Terms.Scaled(1 / float64(c.Batch))
	if math.IsNaN(line.Terms.Loss) || math.IsInf(line.Terms.Loss, 0) {
		return line, fmt.Errorf("training step %d: the loss is %v; lower the learning rate", t.Step, line.Terms.Loss)
	}
	line.GradientNorm = t.adam.step(c.Schedule, t.Step, t.Params.Data, grads...)
	t.Step++
	return line, nil
}
