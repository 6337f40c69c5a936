// Package belieftrain fits the estimator of package learned to the hidden state of
// simulated flights ("offline train-estimator").
//
// Inputs: a Config. Outputs: parameters, as a file that learned.Read reads, what a
// checkpoint's manifest says of them, a state to resume from, and a log. Each example is
// a flight of its own, in a world drawn around the named ones (Draw), by a scheduler at
// one price: one that knows what is hidden, one of the filters, one without memory, or
// the student itself as it is then, so that it learns from what its own decisions let it
// observe (DAgger: Ross, Gordon, Bagnell 2011). The labels are of every slot alike,
// whoever flies: the true gain of each upload, and which users are throttled. The loss is
// the negative logarithm of their probability.
//
// Steps, optimiser, state and log are those of package nn.
package belieftrain

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"

	"prefdt/inference/belief/learned"
	"prefdt/inference/checkpoint"
	"prefdt/inference/slot"
	"prefdt/offline/command"
	"prefdt/offline/nn"
	"prefdt/simbridge/world"
)

// SurroundingsOf returns what is configured of a world.
func SurroundingsOf(c *world.Config) learned.Surroundings {
	return learned.Surroundings{
		Physics: &c.Physics, Sounding: c.Sounding, Wind: c.Wind.MeanMaxMPS > 0,
		Payload: c.Payload.FactorMax > 0, Slow: c.Throttling.Factor,
	}
}

// worker is one worker's part in training. It implements nn.Network.
type worker struct {
	network *network[float32]
	source  source
}

// What a slot has of links and of users, about: the losses of a flight are sums over
// its slots, and these make each of order 1.
const (
	linksPerSlot = 12
	usersPerSlot = 6
)

// lossNames are the negative log-likelihoods of links and CPUs, with the weights that make
// them the loss, and the mean squared error of the logarithm of gain.
var lossNames = []string{"loss", "links", "cpus", "gain_error"}

// AddGradient implements nn.Network.
func (k *worker) AddGradient(i int, scale float64) ([]float64, error) {
	var sum Losses
	s := &k.source
	perSlot := 1 / (s.slotShare * float64(world.Standard().Slots))
	weights := Weights{Link: perSlot / linksPerSlot, Phone: perSlot / usersPerSlot}
	scaled := Weights{scale * weights.Link, scale * weights.Phone}
	s.fly(i/s.stage.Batch, s.stage.firstFlight+i, func(m *learned.Memory, snapshot *slot.Snapshot, h *world.Hidden) {
		k.network.addSlot(m, snapshot, h, scaled, &sum)
	})
	links, cpus := weights.Link*sum.Link, weights.Phone*sum.Phone
	return []float64{links + cpus, links, cpus, sum.LinkSquare / float64(max(sum.Links, 1))}, nil
}

// stage is a Stage by its name, with the number of its first flight, of which that one's
// world is drawn.
type stage struct {
	Stage
	name        string
	firstFlight int
}

// stages returns those that have steps.
func (c *Config) stages() (list []stage) {
	for _, s := range []stage{{c.First, "first", 0}, {c.Refine, "refine", 1 << 20}} {
		if s.Schedule.Steps != 0 {
			list = append(list, s)
		}
	}
	return list
}

// subject is what a state says of a stage, beside batch and schedule.
type subject struct {
	Window       int     `json:"window"`
	Layout       int     `json:"layout"`
	Seeds        string  `json:"seeds"`
	SlotShare    float64 `json:"slot_share"`
	StudentsFrom int     `json:"students_from"`
	FirstFlight  int     `json:"first_flight"`
	From         uint32  `json:"from"` // checksum of the parameters that it began with, 0: none
}

// newTrainer starts a stage, with parameters to begin with or nil: drawn.
func (c *Config) newTrainer(s stage, from *learned.Parameters) (*nn.Trainer, error) {
	list, err := c.seeds()
	if err != nil {
		return nil, err
	}
	sum := uint32(0)
	if from != nil {
		if len(from.Data) != learned.ParameterCount() {
			return nil, fmt.Errorf("estimator: %d parameters to begin with, want %d", len(from.Data), learned.ParameterCount())
		}
		hash := crc32.NewIEEE()
		if err := from.Write(hash); err != nil {
			return nil, err
		}
		sum = hash.Sum32()
	}
	t, err := nn.New(c.run(s), nn.Task{
		Tensors: learned.Tensors(), Losses: lossNames,
		Subject: subject{c.Window, learned.Layout, c.Seeds, c.SlotShare, s.StudentsFrom, s.firstFlight, sum},
		Network: func(_ int, w, g *nn.Params[float32]) nn.Network {
			return &worker{
				network: newNetwork(w.Data, g.Data),
				source:  source{stage: s, window: c.Window, slotShare: c.SlotShare, seeds: list, params: w.Data},
			}
		},
	})
	if err == nil && from != nil {
		copy(t.Params.Data, from.Data)
	}
	return t, err
}

// Files in a run's folder: the parameters, what a checkpoint's manifest says of them,
// and in each stage's folder its state.
const (
	ParametersFile = "estimator.bin"
	RecordFile     = "estimator.json"
	stateFile      = "state.bin"
)

// Run trains in a folder, stage after stage, from the states in it if there are any, and
// writes the parameters. from are those to begin with, or nil. The end of ctx saves the
// state and ends the run.
func Run(ctx context.Context, c Config, from *learned.Parameters, dir string, save int, stdout io.Writer) (*learned.Parameters, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	list, err := c.seeds()
	if err != nil {
		return nil, err
	}
	flights := c.FlightsBefore
	for _, s := range c.stages() {
		t, err := c.newTrainer(s, from)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(stdout, "stage %s, a memory of %d slots: ", s.name, c.Window)
		if err := t.Run(ctx, nn.Files{Dir: filepath.Join(dir, s.name), Save: save}, stdout); err != nil {
			return nil, fmt.Errorf("stage %s: %w", s.name, err)
		}
		from = &learned.Parameters{Window: c.Window, Data: t.Params.Data}
		flights += float64(s.Batch * s.Schedule.Steps)
	}
	record := checkpoint.Estimator{
		Layout: learned.Layout, Window: c.Window,
		Training: map[string]float64{"flights": flights, "parameters": float64(len(from.Data))},
		Seeds:    map[string]int64{"train_first": int64(list[0]), "train_last": int64(list[len(list)-1])},
	}
	return from, errors.Join(
		command.ReplaceFile(filepath.Join(dir, ParametersFile), from.Write),
		command.ReplaceJSON(filepath.Join(dir, RecordFile), "  ", &record))
}

// Read returns an estimator, in a run's folder, a checkpoint's or a file of parameters, and what is
// recorded of its training; of such a file nothing is.
func Read(path string) (*learned.Parameters, *checkpoint.Estimator, error) {
	if _, err := os.Stat(filepath.Join(path, checkpoint.ManifestFile)); err == nil {
		c, err := checkpoint.Load(path)
		if err == nil && c.Beliefs == nil {
			err = fmt.Errorf("checkpoint %s has no estimator", path)
		}
		if err != nil {
			return nil, nil, err
		}
		return c.Beliefs, c.Estimator, nil
	}
	record := &checkpoint.Estimator{}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		if err := command.ReadJSON(filepath.Join(path, RecordFile), record); err != nil {
			return nil, nil, fmt.Errorf("read an estimator's record: %w", err)
		}
		path = filepath.Join(path, ParametersFile)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	p, err := learned.Read(f)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return p, record, nil
}
