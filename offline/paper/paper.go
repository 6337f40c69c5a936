// Package paper makes the paper's tables with our figures beside its own: every method it
// compares, every component it removes, the teacher's populations, budgets, the link, fleets,
// shifted worlds, and what a setting costs.
//
// Inputs: a configuration. Outputs: one JSON file for each arm, and from those files alone
// the tables, as markdown and CSV, and pictures. "offline paper" calls it.
//
// A row of a table is data (rows.yaml): the paper's figures, and the arm whose figures stand
// beside them. An arm is one of the policies (policies.yaml) under one of the
// measurements (protocols.go). Package experiment measures arms; package methods, prefdttrain
// and search make the policies. What has to learn is given the same declared budget, in
// tokens or in environment steps, which are never equated.
package paper

import (
	"cmp"
	"fmt"
	"math"
	"strings"

	"prefdt/configs"
	"prefdt/inference/checkpoint"
	"prefdt/offline/command"
	"prefdt/offline/methods"
	"prefdt/offline/prefdttrain"
	"prefdt/offline/seeds"
	"prefdt/simbridge/world"
)

// Config is one set of tables.
type Config struct {
	FirstSeed        uint64 `json:"first_seed" yaml:"first_seed"`                              // of evaluation or of calibration
	Seeds            int    `json:"seeds" yaml:"seeds" range:"2,1000"`                         // episodes
	FewSeeds         int    `json:"few_seeds" yaml:"few_seeds"`                                // where the paper has ten
	BudgetSeeds      int    `json:"budget_seeds" yaml:"budget_seeds"`                          // of budgets in joules
	CalibrationSeeds int    `json:"calibration_seeds" yaml:"calibration_seeds" range:"1,1000"` // episodes that settings are calibrated on
	Settings         int    `json:"settings" yaml:"settings" range:"3,1001"`                   // K
	DenseSettings    int    `json:"dense_settings" yaml:"dense_settings" range:"3,1001"`       // K of the dense front

	Tokens float64 `json:"tokens" yaml:"tokens" range:"1,1e13"` // declared, of each retrained arm of the published form
	// of the arm that is trained longest; with Published, what that checkpoint has had
	FullTokens  float64 `json:"-" yaml:"full_tokens" range:"1,1e13"`
	Evaluations int     `json:"evaluations" yaml:"evaluations" range:"101,1e7"` // of rules, by each search

	// Published is a checkpoint that train-prefdt has made, in place of training one to the end.
	Published string             `json:"-" yaml:"published"`
	Form      prefdttrain.Config `json:"form" yaml:"form"`
	Methods   methods.Config     `json:"methods" yaml:"methods"`
}

// Default is the protocol of the paper.
func Default() Config {
	c := Config{Form: prefdttrain.Default(), Methods: methods.Default()}
	configs.Default("paper.yaml", &c)
	return c
}

// loadPublished loads the checkpoint that Published names, if it does, and takes its tokens for
// those of the arm that is trained longest.
func (c *Config) loadPublished() (*checkpoint.Checkpoint, error) {
	if c.Published == "" {
		return nil, nil
	}
	ck, err := checkpoint.Load(c.Published)
	if err != nil {
		return nil, err
	}
	if ck.Published == nil {
		return nil, fmt.Errorf("%s is no checkpoint of the published form", c.Published)
	}
	if err := ck.Published.Form.Fits(world.Standard().Aircraft, world.Standard().Slots); err != nil {
		return nil, fmt.Errorf("%s: %w", c.Published, err)
	}
	if tokens := ck.Training["tokens"]; tokens > 0 {
		c.FullTokens = tokens
	}
	return ck, nil
}

// Arms of PrefDT as published: with the budget that all methods have, and trained longest.
const (
	declaredArm = "published"
	fullArm     = "published-full"
)

// longestArm returns the arm of PrefDT as published that has been trained for longest: where what
// is trained longest has the declared tokens, the two are one.
func (c *Config) longestArm() string {
	if math.Abs(c.FullTokens-c.Tokens) < 1e-3*c.Tokens { // whole steps
		return declaredArm
	}
	return fullArm
}

// resolve returns the name under which an arm is measured.
func (c *Config) resolve(arm string) string { return strings.Replace(arm, fullArm, c.longestArm(), 1) }

// longest returns a measurement's arm of the form that has been trained for longest.
func (c *Config) longest(t measurement) string { return armName(c.longestArm(), t) }

// Check returns what is wrong with a configuration.
func (c *Config) Check() error {
	if err := cmp.Or(command.CheckRanges(c), command.InRange("few_seeds", c.FewSeeds, 2, c.Seeds),
		command.InRange("budget_seeds", c.BudgetSeeds, 2, c.Seeds)); err != nil {
		return err
	}
	last := c.FirstSeed + uint64(c.Seeds) - 1
	if last < c.FirstSeed || seeds.CheckEvaluation(c.FirstSeed) != nil && (seeds.CheckCalibration(c.FirstSeed) != nil ||
		seeds.CheckCalibration(last) != nil) {
		return fmt.Errorf("first_seed is %d: episodes %[1]d to %d are neither of evaluation nor of calibration", c.FirstSeed, last)
	}
	if err := c.Form.Check(); err != nil {
		return err
	}
	if err := c.Form.Form.Fits(world.Standard().Aircraft, world.Standard().Slots); err != nil {
		return fmt.Errorf("form: %w", err)
	}
	return c.Methods.Check()
}
