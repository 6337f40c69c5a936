// Package belieftrain fits the estimator of package learned to the hidden state of
// simulated flights.
//
// Inputs: a Config. Outputs: parameters, as a file that learned.Read reads, a state to
// resume from, and a log. Each example is a flight of its own, in a world drawn around
// the named ones (Draw), by a scheduler at one price: one that knows what is hidden, one
// of the filters, one without memory, or the student itself as it is then, so that it
// learns from what its own decisions let it observe (DAgger: Ross, Gordon, Bagnell 2011).
// The labels are of every slot alike, whoever flies: the true gain of each upload,
// which users are throttled, the wind and the multiplier of flight power. The loss is
// the negative logarithm of their probability.
//
// Steps, optimiser, state and log are those of package train.
package belieftrain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"prefdt/inference/belief/learned"
	"prefdt/inference/checkpoint"
	"prefdt/inference/slot"
	"prefdt/offline/command"
	"prefdt/offline/corpus"
	"prefdt/offline/seeds"
	"prefdt/offline/train"
	"prefdt/simbridge/world"
)

// SurroundingsOf returns what is configured of a world.
func SurroundingsOf(c *world.Config) learned.Surroundings {
	return learned.Surroundings{
		Physics: &c.Physics, Sounding: c.Sounding, Wind: c.Wind.MeanMaxMPS > 0,
		Payload: c.Payload.FactorMax > 0, Slow: c.Throttling.Factor,
	}
}

// Config is one run. With the same Config two runs give the same parameters on the same
// processor.
type Config struct {
	Window          int // of the memory, in slots
	Batch           int // flights a step
	Workers         int // part of the result: the order of sums depends on them
	Seeds           []uint64
	SlotShare       float64 // of a flight's slots that are learned from
	StudentFromStep int     // from which most flights are the student's
	InitSeed        uint64
	FirstFlight     int                 // number of the first, of which its world is drawn
	From            *learned.Parameters // that training begins with; nil: drawn by InitSeed
	Schedule        train.Schedule
}

// Refine returns the configuration that goes on from parameters that Default's run gave:
// larger batches and smaller steps, with the student in most flights.
func Refine(from *learned.Parameters) Config {
	c := Default()
	c.From, c.Window, c.Batch, c.StudentFromStep, c.FirstFlight = from, from.Window, 16, 0, 1<<20
	c.Schedule.PeakRate, c.Schedule.Steps = 1e-3, 800
	return c
}

// Default is the configuration of a first run.
func Default() Config {
	const steps = 5000
	return Config{
		Window: 20, Batch: 8, Workers: 2, Seeds: seeds.List(0, 30_000), SlotShare: 0.5, StudentFromStep: steps / 5, InitSeed: 1,
		Schedule: train.Schedule{
			PeakRate: 3e-3, FinalFraction: 0.01, WarmUpSteps: 30, Steps: steps,
			Beta1: 0.9, Beta2: 0.99, WeightDecay: 0.001, ClipNorm: 1,
		},
	}
}

// Check returns what is wrong with a configuration.
func (c *Config) Check() error {
	switch {
	case c.Window < 1 || c.Window > learned.MaxWindow:
		return fmt.Errorf("estimator: a memory of %d slots, want 1 to %d", c.Window, learned.MaxWindow)
	case !(c.SlotShare > 0 && c.SlotShare <= 1):
		return fmt.Errorf("estimator: %v of the slots, want a share above 0, up to 1", c.SlotShare)
	case c.From != nil && len(c.From.Data) != learned.ParameterCount():
		return fmt.Errorf("estimator: %d parameters to begin with, want %d", len(c.From.Data), learned.ParameterCount())
	case len(c.Seeds) == 0:
		return fmt.Errorf("estimator: no seeds to fly")
	}
	for _, seed := range c.Seeds {
		if err := seeds.CheckTraining(seed); err != nil {
			return err
		}
	}
	return nil
}

// worker is one worker's part in training. It implements train.Network.
type worker struct {
	network *network[float32]
	source  source
}

// What a slot has of links and of users, about: the losses of a flight are sums over
// its slots, and these make each of order 1.
const (
	linksPerSlot = 12
	usersPerSlot = 6
	windWeight   = 0.3
)

// AddGradient implements train.Network. The terms it returns are the negative
// log-likelihoods of links (Association), CPUs (DeadlineClass) and wind (Move), and the
// squared error of the logarithm of gain (Price).
func (k *worker) AddGradient(i int, _ *corpus.Example, scale float64) (train.LossTerms, error) {
	var sum Losses
	c := k.source.config
	perSlot := 1 / (c.SlotShare * float64(world.Standard().Slots))
	weights := Weights{Link: perSlot / linksPerSlot, Phone: perSlot / usersPerSlot, Wind: windWeight * perSlot}
	scaled := Weights{scale * weights.Link, scale * weights.Phone, scale * weights.Wind}
	k.source.fly(i/c.Batch, c.FirstFlight+i, func(m *learned.Memory, s *slot.Snapshot, h *world.Hidden) {
		k.network.addSlot(m, s, h, scaled, &sum)
	})
	t := train.LossTerms{
		Association: weights.Link * sum.Link, DeadlineClass: weights.Phone * sum.Phone, Move: weights.Wind * sum.Wind,
		Price: sum.LinkSquare / float64(max(sum.Links, 1)),
	}
	t.Loss = t.Association + t.DeadlineClass + t.Move
	return t, nil
}

// New starts a run.
func New(c Config) (*train.Trainer, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	run := train.Default() // of whose architecture only the context is used
	run.Arch.Context = c.Window
	run.Batch, run.Workers, run.Seed, run.Schedule = c.Batch, c.Workers, c.InitSeed, c.Schedule
	none := func(_, _ int, _ *corpus.Example) error { return nil }
	t, err := train.NewWithNetwork(run, none, learned.Tensors(), func(w, g *train.Params[float32]) train.Network {
		return &worker{network: newNetwork(w.Data, g.Data), source: source{config: &c, params: w.Data}}
	})
	if err == nil && c.From != nil {
		copy(t.Params.Data, c.From.Data)
	}
	return t, err
}

// Files that Run leaves in its folder: the parameters, and what a checkpoint's manifest
// says of them.
const (
	ParametersFile = "estimator.bin"
	RecordFile     = "estimator.json"
)

// ReadRun returns what a run left in its folder.
func ReadRun(dir string) (*learned.Parameters, *checkpoint.Estimator, error) {
	p, err := ReadParameters(filepath.Join(dir, ParametersFile))
	if err != nil {
		return nil, nil, err
	}
	raw, err := os.ReadFile(filepath.Join(dir, RecordFile))
	record := &checkpoint.Estimator{}
	if err == nil {
		err = json.Unmarshal(raw, record)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read an estimator's record: %w", err)
	}
	return p, record, nil
}

// ReadParameters reads a file of parameters.
func ReadParameters(path string) (*learned.Parameters, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	p, err := learned.Read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return p, nil
}

// Run trains in a folder, from the state in it if there is one, and writes the
// parameters. The end of ctx saves the state and ends the run.
func Run(ctx context.Context, c Config, dir string, stdout io.Writer) error {
	t, err := New(c)
	if err != nil {
		return err
	}
	if err := t.Run(ctx, dir, 100, 0, nil, stdout); err != nil {
		return err
	}
	p := learned.Parameters{Window: c.Window, Data: t.Params.Data}
	record := checkpoint.Estimator{
		Layout: learned.Layout, Window: c.Window,
		Training: map[string]float64{"flights": float64(c.Batch * c.Schedule.Steps), "parameters": float64(len(p.Data))},
		Seeds:    map[string]int64{"train_first": int64(c.Seeds[0]), "train_last": int64(c.Seeds[len(c.Seeds)-1])},
	}
	return errors.Join(
		command.ReplaceFile(filepath.Join(dir, ParametersFile), p.Write),
		command.ReplaceJSON(filepath.Join(dir, RecordFile), "  ", &record))
}
