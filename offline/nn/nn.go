// Package nn trains small networks on a CPU: a tape of operations with their backward
// passes, AdamW, and a run that is logged, saved and resumed. It knows nothing of
// policies or of what they learn from.
//
// Inputs: a Task, which has the tensors and makes each worker's Network. Outputs: parameters, as
// a state file, and logs. The policy, the published form, the estimator of beliefs and
// the methods that learn are tasks.
//
// A network is its forward pass alone, written with the operations of a Tape;
// each operation has its backward pass beneath it. In float64 they run the
// kernels' naive references and are what the gradient checks check; in float32
// the same lines run the tuned kernels.
package nn

import (
	"encoding/json"
	"fmt"
	"math"
	"sync"

	"prefdt/inference/kernel"
	"prefdt/inference/model"
)

// Config is what the steps of a run are made with.
type Config struct {
	Batch    int      `json:"batch" yaml:"batch"`     // examples a step
	Workers  int      `json:"workers" yaml:"workers"` // part of the result: the order of sums depends on them
	Seed     uint64   `json:"seed" yaml:"seed"`       // of the initial parameters
	Schedule Schedule `json:"schedule" yaml:"schedule"`
}

// Check returns what is wrong with a configuration.
func (c *Config) Check() error {
	if c.Batch < 1 || c.Workers < 1 || c.Workers > c.Batch || c.Schedule.Steps < 1 {
		return fmt.Errorf("training has batch %d, workers %d, steps %d; want all positive and no more workers than flights",
			c.Batch, c.Workers, c.Schedule.Steps)
	}
	return CheckFinite(c)
}

// CheckFinite returns an error if a configuration cannot be written into a run's state.
func CheckFinite(c any) error {
	if _, err := json.Marshal(c); err != nil {
		return fmt.Errorf("training configuration: %w, want finite numbers", err)
	}
	return nil
}

// Network is a worker's part in training: a network bound to the parameters and
// to a gradient of the worker's own (see Bind).
type Network interface {
	// AddGradient adds, to the gradient, that of the loss on the i-th example,
	// times scale, and returns the losses of the example.
	AddGradient(i int, scale float64) ([]float64, error)
}

// Task is what a Trainer trains.
type Task struct {
	Tensors []model.Tensor
	Losses  []string // their names, in a log; the first is the one minimised
	// Network returns a worker's, bound to parameters w and gradient g.
	Network func(worker int, w, g *Params[float32]) Network

	// Config and Subject are what the result depends on: a run is resumed only with the
	// same. Config nil: the trainer's own; Subject nil: nothing else.
	Config, Subject any
	Progress        any                    // pointer to what else a state keeps of a run; or nil
	Rate            func(step int) float64 // learning rate; nil: the schedule's
	Unit            string                 // of the log's speed; "": flights, a batch of them a step
	PerStep         float64                // in that unit
}

// Trainer is a run in progress.
type Trainer struct {
	Config Config
	Step   int
	Params *Params[float32]

	task     Task
	adam     *adam
	networks []Network
	grads    [][]float32 // of each worker
}

// New starts a run.
func New(c Config, task Task) (*Trainer, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	if err := CheckFinite([]any{task.Config, task.Subject}); err != nil {
		return nil, err
	}
	if task.Rate == nil {
		task.Rate = c.Schedule.rate
	}
	if task.Unit == "" {
		task.Unit, task.PerStep = "flights", float64(c.Batch)
	}
	t := &Trainer{Config: c, Params: NewParams[float32](task.Tensors), task: task, adam: newAdam(task.Tensors)}
	if task.Config == nil {
		t.task.Config = &t.Config
	}
	t.Params.Init(c.Seed)
	for k := range c.Workers {
		g := NewParams[float32](task.Tensors)
		t.networks, t.grads = append(t.networks, task.Network(k, t.Params, g)), append(t.grads, g.Data)
	}
	return t, nil
}

// Line is what one step logs.
type Line struct {
	Rate, Norm float64 // of learning; of the gradient, before the clip
	Losses     []float64
}

// Next runs one step.
func (t *Trainer) Next() (l Line, err error) {
	c := &t.Config
	l = Line{Rate: t.task.Rate(t.Step), Losses: make([]float64, len(t.task.Losses))}
	var wait sync.WaitGroup
	losses := make([][]float64, c.Workers)
	errs := make([]error, c.Workers)
	for k := range c.Workers {
		wait.Go(func() {
			clear(t.grads[k])
			losses[k] = make([]float64, len(t.task.Losses))
			for i := t.Step*c.Batch + k; i < (t.Step+1)*c.Batch && errs[k] == nil; i += c.Workers {
				var of []float64
				of, errs[k] = t.networks[k].AddGradient(i, 1/float64(c.Batch))
				kernel.Add(losses[k][:len(of)], of)
			}
		})
	}
	wait.Wait()
	for k := range c.Workers {
		if errs[k] != nil {
			return l, fmt.Errorf("training step %d: %w", t.Step, errs[k])
		}
		for n, x := range losses[k] {
			l.Losses[n] += x / float64(c.Batch)
		}
	}
	if loss := l.Losses[0]; math.IsNaN(loss) || math.IsInf(loss, 0) {
		return l, fmt.Errorf("training step %d: the loss is %v; lower the learning rate", t.Step, loss)
	}
	l.Norm = t.adam.step(&c.Schedule, t.Step, l.Rate, t.Params.Data, t.grads)
	t.Step++
	return l, nil
}
