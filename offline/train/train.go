// Package train fits the policy network to a corpus by imitation, Sec. IV-B:
// one whole flight a forward pass, under the sliding-window causal mask that
// makes the flying step's rolling cache exact.
//
// Inputs: examples of a corpus, and a Config. Outputs: parameters, as a state
// file that calibration and export read, and logs. "offline train" calls it, and
// the study. Package nn has the steps, the optimiser and the run.
package train

import (
	"cmp"

	"prefdt/configs"
	"prefdt/inference/model"
	"prefdt/offline/corpus"
	"prefdt/offline/nn"
)

// Config is one training run; with the same Config, source and seed, two runs
// give the same parameters on the same processor.
type Config struct {
	Arch        model.Arch `json:"arch" yaml:"arch"`
	nn.Config   `yaml:",inline"`
	LossWeights LossWeights `json:"weights" yaml:"weights"`
}

// Default is the configuration of the shipped checkpoint.
func Default() (c Config) {
	configs.Default("train.yaml", &c)
	return c
}

// Check returns what is wrong with a configuration.
func (c Config) Check() error {
	return cmp.Or(c.Arch.Check(), c.Config.Check(), nn.CheckFinite(c.LossWeights))
}

// Source fills ex with the i-th example of a corpus (corpus.Manifest.Examples is
// one). It is called from several goroutines at once, each with a worker number
// of its own.
type Source func(worker, i int, ex *corpus.Example) error

// worker is one worker's part in training. It implements nn.Network.
type worker struct {
	*network[float32]
	number  int
	source  Source
	example corpus.Example
}

// AddGradient implements nn.Network.
func (w *worker) AddGradient(i int, scale float64) ([]float64, error) {
	w.example.Reset()
	if err := w.source(w.number, i, &w.example); err != nil {
		return nil, err
	}
	return w.addGradient(&w.example, scale).List(), nil
}

// New starts a run.
func New(c Config, source Source) (*nn.Trainer, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	return nn.New(c.Config, nn.Task{
		Tensors: c.Arch.Tensors(), Losses: lossNames, Config: c,
		Network: func(k int, w, g *nn.Params[float32]) nn.Network {
			return &worker{network: newNetwork(c.Arch, c.LossWeights, w, g), number: k, source: source}
		},
	})
}

// ReadParams returns the configuration of a state file, and its parameters.
func ReadParams(path string) (c Config, parameters []float32, err error) {
	var head nn.State[Config, any, any]
	p, err := nn.Read(path, &head, func() ([]model.Tensor, error) {
		return head.Config.Arch.Tensors(), head.Config.Arch.Check()
	})
	if err != nil {
		return c, nil, err
	}
	return head.Config, p.Data, nil
}
