// Package prefdttrain trains the published form (inference/prefdt) on the published
// corpus, Sec. IV, and makes a checkpoint of it.
//
// Inputs: an archive of searched rules, a configuration, training seeds. Outputs: a corpus,
// states of a run, logs, and a checkpoint's folder. "offline train-prefdt" calls it.
//
// A step is a batch of windows of Context slots, drawn from all flights at random. The rows
// of all flights are in memory, and the windows of a chunk are rows of the same products.
package prefdttrain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"

	"prefdt/configs"
	"prefdt/inference/model"
	"prefdt/inference/prefdt"
	"prefdt/offline/command"
	"prefdt/offline/nn"
)

// Config is one run.
type Config struct {
	Form    prefdt.Form `json:"form" yaml:"form"`
	Flights int         `json:"flights" yaml:"flights"` // of the corpus
	// Dispatch has the exact-dispatch teacher fly it in place of the searched rules.
	Dispatch bool `json:"dispatch,omitempty" yaml:"dispatch"`
	// Uniform leaves the corner emphasis out of it.
	Uniform  bool     `json:"uniform,omitempty" yaml:"uniform"`
	Episodes int      `json:"episodes" yaml:"episodes" range:"1,10000"` // that a rule's outcome is a mean over
	Batch    int      `json:"batch" yaml:"batch" range:"1,1e5"`         // windows in a step
	Workers  int      `json:"workers" yaml:"workers" range:"1,256"`     // part of the result: the order of sums depends on them
	Seed     uint64   `json:"seed" yaml:"seed"`
	Schedule Schedule `json:"schedule" yaml:"schedule"`
}

// Default is the run of configs/prefdt.yaml.
func Default() (c Config) {
	configs.Default("prefdt.yaml", &c)
	return c
}

// Check returns what is wrong with a configuration.
func (c *Config) Check() error {
	if err := c.Form.Check(); err != nil {
		return err
	}
	if err := cmp.Or(command.CheckRanges(c), command.CheckRanges(&c.Schedule),
		command.InRange("flights", c.Flights, 10*gateBins, validationFirst)); err != nil {
		return fmt.Errorf("training's %w", err)
	}
	if c.Workers > c.Batch {
		return errors.New("training has more workers than windows in a batch")
	}
	return nil
}

// Schedule is AdamW's: a linear warm-up, then a constant rate for as long as the run goes on, then
// a cool-down in 1 - sqrt to nothing (Hägele et al., Scaling Laws and Compute-Optimal Training
// Beyond Fixed Training Durations, 2024). The constant part needs no length in advance: a run
// can be stopped, cooled down and measured at any step, and then go on from where the
// cool-down began.
type Schedule struct {
	Rate        float64 `json:"rate" yaml:"rate" range:"1e-9,1"`
	WarmUpSteps int     `json:"warm_up" yaml:"warm_up" range:"0,1e6"`
	CoolDown    float64 `json:"cool_down" yaml:"cool_down" range:"0.01,0.9"` // fraction of a run's steps
	Beta1       float64 `json:"beta1" yaml:"beta1" range:"0,0.9999"`
	Beta2       float64 `json:"beta2" yaml:"beta2" range:"0,0.99999"`
	WeightDecay float64 `json:"decay" yaml:"decay" range:"0,10"`          // of the matrices
	ClipNorm    float64 `json:"clip_norm" yaml:"clip_norm" range:"0,1e6"` // of the whole gradient; 0: not clipped
	Average     float64 `json:"average" yaml:"average" range:"0,1"`       // not used; the keys of stored results have it
}

// coolDown is when a cool-down began and how long it is; Steps 0: it has not.
type coolDown struct {
	From  int `json:"from"`
	Steps int `json:"steps"`
}

// rate returns the learning rate of a step, from 0.
func (s *Schedule) rate(step int, c coolDown) float64 {
	rate := s.Rate * min(float64(step+1)/float64(max(s.WarmUpSteps, 1)), 1)
	if c.Steps > 0 && step >= c.From {
		rate *= 1 - math.Sqrt(min(float64(step-c.From+1)/float64(c.Steps+1), 1))
	}
	return rate
}

// run is a training in progress.
type run struct {
	Config
	*nn.Trainer
	subject  subject
	progress progress
	workers  []*worker
	store    *store
	held     *store // for validation

	flights, settings int // of a validation, on training seeds that the corpus does not use
}

// subject is what a state depends on beside the configuration.
type subject struct {
	Corpus   string   `json:"corpus"` // its hash
	CoolDown coolDown `json:"cool_down"`
}

type progress struct {
	Tokens int64 `json:"tokens"` // seen so far
}

type state = nn.State[Config, subject, progress]

// worker is one worker's part in training. It implements nn.Network.
type worker struct {
	*network[float32]
	run    *run
	number int
	batch  batch
}

// chunkWindows is how many windows are one pass: enough for large products, few enough for
// their activations to stay near the processor.
const chunkWindows = 12

// heldFlights are kept for validation.
const heldFlights = 256

// startRun starts a run on a corpus.
func startRun(ctx context.Context, c Config, m *Corpus, progress func(done int)) (*run, error) {
	if err := cmp.Or(c.Check(), c.Form.Fits(m.World.Aircraft, m.World.Slots)); err != nil {
		return nil, err
	}
	flown, err := load(ctx, m, &c.Form, m.Flights, c.Workers, progress)
	if err != nil {
		return nil, err
	}
	flights, err := m.validation(heldFlights)
	if err != nil {
		return nil, err
	}
	held, err := load(ctx, m, &c.Form, flights, c.Workers, nil)
	if err != nil {
		return nil, err
	}
	return newRun(c, m.Hash(), flown, held)
}

func newRun(c Config, corpusHash string, flown, held *store) (*run, error) {
	r := &run{Config: c, subject: subject{Corpus: corpusHash}, store: flown, held: held, flights: 10, settings: 11}
	s := &c.Schedule
	config := nn.Config{Batch: c.Workers, Workers: c.Workers, Seed: c.Seed, Schedule: nn.Schedule{ // a worker's windows are one example
		Steps: 1, Beta1: s.Beta1, Beta2: s.Beta2, WeightDecay: s.WeightDecay, ClipNorm: s.ClipNorm,
	}}
	var err error
	r.Trainer, err = nn.New(config, nn.Task{
		Tensors: c.Form.Tensors(), Losses: LossNames, Config: &r.Config, Subject: &r.subject, Progress: &r.progress,
		Rate: func(step int) float64 { return s.rate(step, r.subject.CoolDown) }, Unit: "tokens", PerStep: c.tokensPerStep(),
		Network: func(k int, w, g *nn.Params[float32]) nn.Network {
			r.workers = append(r.workers, &worker{network: newNetwork(&r.Form, w, g), run: r, number: k})
			return r.workers[k]
		},
	})
	if err != nil {
		return nil, err
	}
	rng, data := rand.New(rand.NewPCG(c.Seed, 0x7072656664740000)), r.Params.Data[:0]
	for _, x := range c.Form.Tensors() {
		for range x.Size() {
			data = append(data, float32(x.InitMean+x.InitStdDev*rng.NormFloat64()))
		}
	}
	return r, nil
}

// step is the windows of a step, by worker, and what they have in all.
type step struct {
	windows      [][]window
	slots, users int
}

// add gives a worker a window of a store.
func (x *step) add(worker int, w window, s *store) {
	x.windows[worker] = append(x.windows[worker], w)
	x.slots, x.users = x.slots+w.end-w.first, x.users+s.users(w)
}

// draw draws the windows of a step. Each goes to the worker with the least work so far: they
// end together.
func (r *run) draw(number int) step {
	x, slots := step{windows: make([][]window, len(r.workers))}, make([]int, len(r.workers))
	rng := rand.New(rand.NewPCG(r.Config.Seed, uint64(number)))
	for range r.Config.Batch {
		w := r.store.draw(rng)
		k := slices.Index(slots, slices.Min(slots))
		slots[k] += w.end - w.first
		x.add(k, w, r.store)
	}
	return x
}

// AddGradient implements nn.Network: of a worker's windows.
func (w *worker) AddGradient(i int, scale float64) ([]float64, error) {
	x := w.run.draw(i / len(w.run.workers))
	if w.number == 0 {
		w.run.progress.Tokens += int64(model.TokensPerSlot * x.slots)
	}
	l := w.pass(w.run.store, x.windows[w.number], x.slots, x.users, true)
	k := 1 / scale // the means are over the windows of all workers already
	return l.List(k), nil
}

// pass takes windows through the network, a chunk at a time.
func (w *worker) pass(s *store, windows []window, slots, users int, learn bool) (sum Losses) {
	for chunk := range slices.Chunk(windows, chunkWindows) {
		w.batch.reset()
		for _, x := range chunk {
			s.append(&w.batch, x)
		}
		w.forward(&w.batch)
		sum.Add(w.loss(&w.batch, slots, users))
		if learn {
			w.tape.Backward()
		}
	}
	return sum
}

// validate returns the loss on windows of flights that training does not see: the whole of
// each flight, at the contexts at which it is flown.
func (r *run) validate() (sum Losses) {
	x, j := step{windows: make([][]window, len(r.workers))}, 0
	for i, f := range r.held.flights {
		for end := len(f.toGo); end > 0; end -= r.Form.Context {
			x.add(j%len(r.workers), window{i, max(end-r.Form.Context, 0), end}, r.held)
			j++
		}
	}
	parts := make([]Losses, len(r.workers))
	var wait sync.WaitGroup
	for k, w := range r.workers {
		wait.Go(func() { parts[k] = w.pass(r.held, x.windows[k], x.slots, x.users, false) })
	}
	wait.Wait()
	for _, l := range parts {
		sum.Add(l)
	}
	return sum
}
