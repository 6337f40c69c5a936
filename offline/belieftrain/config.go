package belieftrain

import (
	"cmp"
	"errors"
	"fmt"
	"math"

	"prefdt/configs"
	"prefdt/inference/belief/learned"
	"prefdt/offline/command"
	"prefdt/offline/nn"
	"prefdt/offline/seeds"
)

// Config is one training, in two stages. With the same Config two runs give the same
// parameters on the same processor.
type Config struct {
	Window    int     `json:"window" yaml:"window"`         // of the memory, in slots
	Workers   int     `json:"workers" yaml:"workers"`       // part of the result: the order of sums depends on them
	Seed      uint64  `json:"seed" yaml:"seed"`             // of the initial weights
	Seeds     string  `json:"seeds" yaml:"seeds"`           // of the flights, "A:B" or "N" for 0:N
	SlotShare float64 `json:"slot_share" yaml:"slot_share"` // of a flight's slots that are learned from
	First     Stage   `json:"first" yaml:"first"`
	Refine    Stage   `json:"refine" yaml:"refine"` // goes on from what the first gave; steps 0: none

	// FlightsBefore are those that the parameters to begin with have learned from, for the record.
	FlightsBefore float64 `json:"-" yaml:"-"`
}

// Stage is a part of a training with a schedule of its own.
type Stage struct {
	Batch        int         `json:"batch" yaml:"batch"`                 // flights a step
	StudentsFrom int         `json:"students_from" yaml:"students_from"` // step from which most flights are the student's
	Schedule     nn.Schedule `json:"schedule" yaml:"schedule"`
}

// Default is a training of 128,000 flights, 85 core-minutes.
func Default() (c Config) {
	configs.Default("estimator.yaml", &c)
	return c
}

// Check returns what is wrong with a configuration.
func (c *Config) Check() error {
	if err := learned.CheckWindow(c.Window); err != nil {
		return fmt.Errorf("estimator: %w", err)
	}
	if !(c.SlotShare > 0 && c.SlotShare <= 1) {
		return fmt.Errorf("estimator: %v of the slots, want a share above 0, up to 1", c.SlotShare)
	}
	if _, err := c.seeds(); err != nil {
		return err
	}
	if len(c.stages()) == 0 {
		return errors.New("estimator: no steps in either stage")
	}
	for _, s := range c.stages() {
		run := c.run(s)
		if err := cmp.Or(run.Check(), command.InRange("students_from", s.StudentsFrom, 0, math.MaxInt)); err != nil {
			return fmt.Errorf("estimator, stage %s: %w", s.name, err)
		}
	}
	return nil
}

// run is what the steps of a stage are made with.
func (c *Config) run(s stage) nn.Config {
	return nn.Config{Batch: s.Batch, Workers: c.Workers, Seed: c.Seed, Schedule: s.Schedule}
}

func (c *Config) seeds() ([]uint64, error) { return command.ParseSeeds(c.Seeds, seeds.CheckTraining) }

// setSteps makes the stages that many steps in all, in the proportion that they have.
func (c *Config) setSteps(steps int) {
	first, refine := c.First.Schedule.Steps, c.Refine.Schedule.Steps
	c.Refine.Schedule.Steps = steps * refine / (first + refine)
	c.First.Schedule.Steps = steps - c.Refine.Schedule.Steps
}
