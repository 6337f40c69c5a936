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
	return c.checkRun()
}

// checkRun is Check without the policy network's architecture.
func (c Config) checkRun() error {
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
	// times scale, and returns the losses of the example.
	AddGradient(i int, ex *corpus.Example, scale float64) ([]float64, error)
}

// Task is what a Trainer trains.
type Task struct {
	Tensors []model.Tensor
	Losses  []string // their names, in a log; the first is the one minimised
	Source  Source   // nil: the network finds its examples itself
	// Subject is what else the result depends on, if anything: a run is resumed only with
	// the same, as JSON.
	Subject any
	// Network returns one bound to parameters w and gradient g.
	Network func(w, g *Params[float32]) Network
}

// Trainer is a run in progress.
type Trainer struct {
	Config Config
	Step   int
	Params *Params[float32]

	task    Task
	subject json.RawMessage
	adam    *Adam
	workers []worker
}

type worker struct {
	network Network
	grads   *Params[float32]
	example corpus.Example
}

// New starts a run of the policy network.
func New(c Config, source Source) (*Trainer, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	return NewTask(c, Task{Tensors: c.Arch.Tensors(), Losses: LossNames(), Source: source, Network: func(w, g *Params[float32]) Network {
		return newNetwork(c.LossWeights, w, g)
	}})
}

// NewTask starts a run of another network.
func NewTask(c Config, task Task) (*Trainer, error) {
	if err := c.checkRun(); err != nil {
		return nil, err
	}
	t := &Trainer{Config: c, Params: NewParams[float32](c.Arch, task.Tensors), task: task, adam: NewAdam(task.Tensors)}
	if task.Subject != nil {
		var err error
		if t.subject, err = json.Marshal(task.Subject); err != nil {
			return nil, fmt.Errorf("training configuration: %w, want finite numbers", err)
		}
	}
	t.Params.Init(c.Seed)
	for range c.Workers {
		grads := NewParams[float32](c.Arch, task.Tensors)
		t.workers = append(t.workers, worker{network: task.Network(t.Params, grads), grads: grads})
	}
	return t, nil
}

// Next runs one step.
func (t *Trainer) Next() (LogLine, error) {
	c := &t.Config
	var wait sync.WaitGroup
	losses := make([][]float64, c.Workers)
	errs := make([]error, c.Workers)
	for k := range c.Workers {
		wait.Go(func() {
			w := &t.workers[k]
			clear(w.grads.Data)
			losses[k] = make([]float64, len(t.task.Losses))
			for i := t.Step*c.Batch + k; i < (t.Step+1)*c.Batch; i += c.Workers {
				w.example.Reset()
				if t.task.Source != nil {
					if errs[k] = t.task.Source(k, i, &w.example); errs[k] != nil {
						return
					}
				}
				l, err := w.network.AddGradient(i, &w.example, 1/float64(c.Batch))
				if errs[k] = err; err != nil {
					return
				}
				for n, x := range l {
					losses[k][n] += x
				}
			}
		})
	}
	wait.Wait()
	line := LogLine{Step: t.Step, LearningRate: c.Schedule.rate(t.Step)}
	line.Losses = make([]float64, len(t.task.Losses))
	grads := make([][]float32, c.Workers)
	for k := range c.Workers {
		if errs[k] != nil {
			return line, fmt.Errorf("training step %d: %w", t.Step, errs[k])
		}
		for n, x := range losses[k] {
			line.Losses[n] += x / float64(c.Batch)
		}
		grads[k] = t.workers[k].grads.Data
	}
	if loss := line.Losses[0]; math.IsNaN(loss) || math.IsInf(loss, 0) {
		return line, fmt.Errorf("training step %d: the loss is %v; lower the learning rate", t.Step, loss)
	}
	line.GradientNorm = t.adam.Step(c.Schedule.step(t.Step), t.Params.Data, grads...)
	t.Step++
	return line, nil
}
