// Package papertrain trains the published form (inference/paperform) on the published
// corpus, Sec. IV, and makes a checkpoint of it.
//
// Inputs: an archive of searched rules, a configuration, training seeds. Outputs: a corpus,
// states of a run, logs, and a checkpoint's folder. "offline papertrain" calls it.
//
// A step is a batch of windows of Context slots, drawn from all flights at random. The rows
// of all flights are in memory, the windows of a chunk are rows of the same products, and
// the forward and the backward pass are written out (network.go, backward.go): nearly all
// of a step is matrix products.
package papertrain

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"

	"prefdt/inference/model"
	"prefdt/inference/paperform"
	"prefdt/offline/train"
)

// Config is one run.
type Config struct {
	Form    paperform.Form `json:"form" yaml:"form"`
	Flights int            `json:"flights" yaml:"flights"` // of the corpus
	// Dispatch has the exact-dispatch teacher fly it in place of the searched rules.
	Dispatch bool `json:"dispatch,omitempty" yaml:"dispatch"`
	// Uniform leaves the corner emphasis out of it.
	Uniform  bool     `json:"uniform,omitempty" yaml:"uniform"`
	Episodes int      `json:"episodes" yaml:"episodes"` // that a rule's outcome is a mean over
	Batch    int      `json:"batch" yaml:"batch"`       // windows in a step
	Workers  int      `json:"workers" yaml:"workers"`   // part of the result: the order of sums depends on them
	Seed     uint64   `json:"seed" yaml:"seed"`
	Schedule Schedule `json:"schedule" yaml:"schedule"`
}

// Default is the run of configs/papertrain.yaml.
func Default() Config {
	return Config{
		Form: paperform.Published(128), Flights: 50000, Episodes: 100, Batch: 48, Workers: 2, Seed: 1,
		Schedule: Schedule{Rate: 2e-3, WarmUpSteps: 500, CoolDown: 0.2, Beta1: 0.9, Beta2: 0.98, WeightDecay: 0.01, ClipNorm: 1, Average: 0.05},
	}
}

// Check returns what is wrong with a configuration.
func (c *Config) Check() error {
	if err := c.Form.Check(); err != nil {
		return err
	}
	s := &c.Schedule
	for _, r := range []struct {
		name         string
		x, low, high float64
	}{
		{"flights", float64(c.Flights), 2 * statisticFlights, validationFirst}, {"episodes", float64(c.Episodes), 1, 10000},
		{"batch", float64(c.Batch), 1, 1e5}, {"workers", float64(c.Workers), 1, 256}, {"rate", s.Rate, 1e-9, 1}, {"warm_up", float64(s.WarmUpSteps), 0, 1e6},
		{"cool_down", s.CoolDown, 0.01, 0.9}, {"beta1", s.Beta1, 0, 0.9999}, {"beta2", s.Beta2, 0, 0.99999}, {"decay", s.WeightDecay, 0, 10},
		{"clip_norm", s.ClipNorm, 0, 1e6}, {"average", s.Average, 0, 1},
	} {
		if !(r.x >= r.low && r.x <= r.high) {
			return fmt.Errorf("training's %s is %v, want %v to %v", r.name, r.x, r.low, r.high)
		}
	}
	if c.Workers > c.Batch {
		return errors.New("training has more workers than windows in a batch")
	}
	return nil
}

// Trainer is a run in progress.
type Trainer struct {
	Config Config
	Step   int
	Tokens int64 // seen so far
	Params []float32

	flights, settings int // of a validation, on training seeds that the corpus does not use

	coolDown   coolDown
	corpusHash string
	adam       *train.Adam
	mean       []float32 // running mean of the weights
	store      *store
	held       *store // for validation
	workers    []worker
}

type worker struct {
	network *network[float32]
	grads   []float32
	batch   batch
	windows []window
	slots   int // of the windows
	terms   Terms
}

// chunkWindows is how many windows are one pass: enough for large products, few enough for
// their activations to stay near the processor.
const chunkWindows = 12

// heldFlights are kept for validation.
const heldFlights = 256

// startTrainer starts a run on a corpus.
func startTrainer(ctx context.Context, c Config, m *Corpus, progress func(done int)) (*Trainer, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	if err := c.Form.Fits(m.World.Aircraft, m.World.Slots); err != nil {
		return nil, err
	}
	flown, err := load(ctx, m, &c.Form, m.Flights, c.Workers, progress)
	if err != nil {
		return nil, err
	}
	held, err := load(ctx, m, &c.Form, m.validation(heldFlights), c.Workers, nil)
	if err != nil {
		return nil, err
	}
	return newTrainer(c, m.Hash(), flown, held), nil
}

func newTrainer(c Config, corpusHash string, flown, held *store) *Trainer {
	t := &Trainer{Config: c, flights: 10, settings: 11, Params: make([]float32, 0, c.Form.Parameters()), corpusHash: corpusHash, store: flown, held: held}
	r := rand.New(rand.NewPCG(c.Seed, 0x7072656664740000))
	for _, x := range c.Form.Tensors() {
		for range x.Size() {
			t.Params = append(t.Params, float32(x.InitMean+x.InitStdDev*r.NormFloat64()))
		}
	}
	t.adam, t.mean = train.NewAdam(c.Form.Tensors()), slices.Clone(t.Params)
	for range c.Workers {
		grads := make([]float32, len(t.Params))
		t.workers = append(t.workers, worker{network: newNetwork(&t.Config.Form, t.Params, grads), grads: grads})
	}
	return t
}

// Line is what one step logs.
type Line struct {
	Step   int
	Rate   float64
	Norm   float64 // of the gradient, before the clip
	Tokens int
	Terms
}

// Next runs one step.
func (t *Trainer) Next() (Line, error) {
	line := Line{Step: t.Step, Rate: t.Config.Schedule.rate(t.Step, t.coolDown)}
	for k := range t.workers {
		t.workers[k].windows, t.workers[k].slots = t.workers[k].windows[:0], 0
	}
	slots, users := 0, 0
	r := rand.New(rand.NewPCG(t.Config.Seed, uint64(t.Step)))
	for range t.Config.Batch {
		w := t.store.draw(r)
		slots += w.end - w.first
		users += t.store.users(w)
		least := 0 // the worker with the least work so far: they end together
		for k := range t.workers {
			if t.workers[k].slots < t.workers[least].slots {
				least = k
			}
		}
		k := &t.workers[least]
		k.windows, k.slots = append(k.windows, w), k.slots+w.end-w.first
	}
	line.Tokens = model.TokensPerSlot * slots
	t.each(func(k *worker) {
		clear(k.grads)
		k.pass(t.store, slots, users, true)
	})
	grads := make([][]float32, len(t.workers))
	for k := range t.workers {
		line.add(t.workers[k].terms)
		grads[k] = t.workers[k].grads
	}
	if loss := line.Loss(); math.IsNaN(loss) || math.IsInf(loss, 0) {
		return line, fmt.Errorf("training step %d: the loss is %v; lower the learning rate", t.Step, loss)
	}
	line.Norm = t.adam.Step(t.Config.Schedule.step(t.Step, t.coolDown), t.Params, grads...)
	t.Config.Schedule.takeMean(t.Step, len(grads), t.mean, t.Params)
	t.Step++
	t.Tokens += int64(line.Tokens)
	return line, nil
}

// pass takes a worker's windows through the network, a chunk at a time.
func (k *worker) pass(s *store, slots, users int, learn bool) {
	k.terms = Terms{}
	for first := 0; first < len(k.windows); first += chunkWindows {
		k.batch.reset()
		for _, w := range k.windows[first:min(first+chunkWindows, len(k.windows))] {
			s.append(&k.batch, w)
		}
		k.network.forward(&k.batch)
		k.terms.add(k.network.loss(slots, users))
		if learn {
			k.network.backward()
		}
	}
}

// each runs f for every worker at once.
func (t *Trainer) each(f func(*worker)) {
	var wait sync.WaitGroup
	for k := range t.workers {
		wait.Go(func() { f(&t.workers[k]) })
	}
	wait.Wait()
}

// Validate returns the loss of parameters on windows of flights that training does not
// see: the whole of each flight, at the contexts at which it is flown.
func (t *Trainer) Validate(parameters []float32) (sum Terms) {
	slots, users, j := 0, 0, 0
	for k := range t.workers {
		t.workers[k].windows = t.workers[k].windows[:0]
	}
	for i, f := range t.held.flights {
		for end := len(f.userCounts); end > 0; end -= t.Config.Form.Context {
			w := window{i, max(end-t.Config.Form.Context, 0), end}
			k := &t.workers[j%len(t.workers)]
			k.windows = append(k.windows, w)
			slots, users, j = slots+w.end-w.first, users+t.held.users(w), j+1
		}
	}
	t.each(func(k *worker) {
		own := worker{network: newNetwork[float32](&t.Config.Form, parameters, nil), windows: k.windows}
		own.network.arena = k.network.arena // its memory
		own.pass(t.held, slots, users, false)
		k.network.arena = own.network.arena
		k.terms = own.terms
	})
	for k := range t.workers {
		sum.add(t.workers[k].terms)
	}
	return sum
}
