// Package methods has the methods that the paper compares its policy with (Sec. V-B,
// table of method classes), each in a file of its own that cites its source.
//
// Inputs: settings (configs/methods.yaml), a world, and for those that learn a folder in
// which an interrupted run goes on. Outputs: policies, which package rollout flies.
// Package paper measures them for its tables, and has the command "offline method", which
// trains one, flies it and prints its figures.
//
// omega is throughout the share of delay that a preference accepts: 0 asks for the least
// delay, 1 for the least energy, and a linear utility weighs delay by 1-omega.
package methods

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"prefdt/configs"
	"prefdt/inference/goal"
	"prefdt/offline/command"
	"prefdt/offline/nn"
	"prefdt/offline/rollout"
	"prefdt/simbridge/world"
)

// Scales are the per-objective scales eta of eq. (rtgnorm).
type Scales struct {
	DelayS  float64 `json:"delay_s" yaml:"delay_s"`
	EnergyJ float64 `json:"energy_j" yaml:"energy_j"`
}

// Config has the settings of every method.
type Config struct {
	Scales    Scales         `json:"scales" yaml:"scales"`
	SCAOracle SCASettings    `json:"sca_oracle" yaml:"sca_oracle"`
	SCAMPC    SCASettings    `json:"sca_mpc" yaml:"sca_mpc"`
	PPO       PPOSettings    `json:"ppo" yaml:"ppo"`
	CMDP      CMDPSettings   `json:"cmdp" yaml:"cmdp"`
	PGMORL    PGMORLSettings `json:"pgmorl" yaml:"pgmorl"`
	IQL       IQLSettings    `json:"iql" yaml:"iql"`
	PEDA      PEDASettings   `json:"peda" yaml:"peda"`
	IQLBetas  IQLBetas       `json:"iql_betas" yaml:"iql_betas"`

	OmegaBCDispatch OmegaBCDispatchSettings `json:"omega_bc_dispatch" yaml:"omega_bc_dispatch"`
}

// settings are a method's: a field of Config.
type settings interface{ Check() error }

// Default is configs/methods.yaml.
func Default() (c Config) {
	configs.Default("methods.yaml", &c)
	return c
}

// Check returns what is wrong with a configuration.
func (c *Config) Check() error {
	if !(c.Scales.DelayS > 0 && c.Scales.DelayS < 1e12) || !(c.Scales.EnergyJ > 0 && c.Scales.EnergyJ < 1e12) {
		return fmt.Errorf("scales are %v s and %v J, want positive numbers", c.Scales.DelayS, c.Scales.EnergyJ)
	}
	v := reflect.ValueOf(c).Elem()
	for i := range v.NumField() {
		if s, ok := v.Field(i).Addr().Interface().(settings); ok {
			if err := s.Check(); err != nil {
				return fmt.Errorf("methods %s: %w", v.Type().Field(i).Tag.Get("yaml"), err)
			}
		}
	}
	if c.SCAMPC.Window < 1 {
		return fmt.Errorf("methods sca_mpc: window is %d, want 1 at least", c.SCAMPC.Window)
	}
	return nil
}

// Budget is what a method spends before it flies: environment steps for those that
// interact, tokens or transitions read for those that learn from stored flights. They are
// never added up.
type Budget struct {
	Policies         int `json:"policies"`
	EnvironmentSteps int `json:"environment_steps,omitempty"` // of all policies
	Transitions      int `json:"transitions,omitempty"`       // read from stored flights
	Tokens           int `json:"tokens,omitempty"`            // likewise, three a slot
}

// NewPolicy returns a policy to fly, one for each worker.
type NewPolicy func() rollout.Policy

// Run is what a method is made with.
type Run struct {
	Config
	World   world.Config
	Dir     string // of an interrupted training, which goes on
	PPODir  string // of the PPO policies, for corpora that they fly
	Workers int
	Log     io.Writer // progress
	Corpus  *Corpus   // nil: each method flies its own
	// AnyOmega has sequence models take a preference as it is, also one that no flight of their
	// corpus is stored under; else those from 0 to 1 span what flights are stored under.
	AnyOmega bool
	// BudgetOmega, if positive, is the preference at which sequence models take a budget, from 0
	// to 1 of those that flights are stored under; else that which costs as much as the first total.
	BudgetOmega float64
}

// policyPath is where a method of one network keeps its training.
func (r *Run) policyPath() string { return filepath.Join(r.Dir, "policy.bin") }

// Corpus keeps the corpus that was flown last, for the next method that learns from the same one.
// The zero value holds none.
type Corpus struct {
	key   string
	flown *dataset // standardised
}

// Method is one row of the comparison.
type Method struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	// Training names the method whose training it shares: it flies the same network, otherwise.
	Training string `json:"-"`
	// LearnsFrom names the method whose flights it learns from; "": none of these.
	LearnsFrom string `json:"-"`
	// Settings are its entry of the configuration, all that its training depends on.
	Settings func(*Config) any `json:"-"`
	// Budget is what its training spends; nil: it has none, and Spends says what it spends in place of that.
	Budget func(*Run) Budget    `json:"-"`
	Spends func(*Config) string `json:"-"`
	// Spending are the settings that a fraction of what it is declared to spend multiplies. The PPO policies whose flights
	// others learn from are the same for all fractions. nil: none.
	Spending func(*Config) []*int `json:"-"`
	// BudgetsJ are the budgets it is flown at; nil: preferences.
	BudgetsJ func(*Config) []float64 `json:"-"`
	// New trains it, from where a training was interrupted in the run's folder, which is its own: see Claim.
	New func(context.Context, *Run) (NewPolicy, error) `json:"-"`
	// Paper is how it is measured for the paper's tables; nil: it is not.
	Paper *Paper `json:"-"`
}

// Paper is how a method is measured for the paper's tables.
type Paper struct {
	Few           bool     // on fewer episodes, as many as the paper has
	Ours          bool     // our instantiation: the text leaves settings open
	Optional      bool     // where it is asked for
	Unconditioned bool     // it takes no request: it makes one point
	Tests         []string // beside its front, the measurements of package paper
}

// Methods lists all of a configuration, in the order in which the paper's tables are measured: the
// one list that a method is added to.
func Methods(c *Config) []Method {
	list := slices.Concat(
		[]Method{scaOracleMethod, scaMPCMethod},
		ppoMethods(),
		[]Method{cmdpMethod, pgmorlMethod},
		iqlMethods(false, c.IQL.Beta),
		sequenceMethods(),
		[]Method{omegaBCDispatchMethod()},
		iqlMethods(true, c.IQLBetas...),
	)
	for i := range list {
		list[i].Training = cmp.Or(list[i].Training, list[i].Name)
	}
	return list
}

// Find returns the method of a name, nil if there is none.
func Find(c *Config, name string) *Method {
	all := Methods(c)
	i := slices.IndexFunc(all, func(m Method) bool { return m.Name == name })
	if i < 0 {
		return nil
	}
	return &all[i]
}

// GoalConstants returns constants by which rollout reads the requests of these methods:
// they take omega or a budget alone, so the returns that omega stands for are left open.
func (r *Run) GoalConstants() *goal.Constants {
	return &goal.Constants{
		EtaDelayS: r.Scales.DelayS, EtaEnergyJ: r.Scales.EnergyJ, Slots: r.World.Slots, AircraftCount: r.World.Aircraft,
		Conditioner: goal.Conditioner{Omegas: []float64{0, 1}, DelayS: []float64{0, r.Scales.DelayS},
			EnergyJ: []float64{r.Scales.EnergyJ, 0}},
		SettingMap: goal.SettingMap{Omegas: []float64{0, 1}},
	}
}

// Claim keeps trainings with different settings, or in different worlds, from sharing the
// run's folder.
func (r *Run) Claim(m *Method, resume bool) error {
	path := filepath.Join(r.Dir, "method.json")
	want, err := json.MarshalIndent([]any{m.Name, m.Settings(&r.Config), r.Scales, r.World}, "", "  ")
	if err != nil {
		return err
	}
	have, err := os.ReadFile(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return err
	case strings.TrimSpace(string(have)) != string(want):
		return fmt.Errorf("%s is of another method, world or settings: give those, or another -out", r.Dir)
	case !resume:
		return fmt.Errorf("%s holds a run: add -resume to continue it, or give another -out", r.Dir)
	}
	if err := command.CheckWritable(r.Dir); err != nil {
		return err
	}
	return command.ReplaceJSON(path, "  ", json.RawMessage(want))
}

// trainToEnd trains by rounds of so many steps to the end of the schedule, from the state in a file if there is
// one. The state is saved there after every so many rounds, at the end, and when ctx ends, which ends the training.
func trainToEnd(ctx context.Context, t *nn.Trainer, path string, every, steps int, round func() error, progress func(done int)) error {
	if err := t.Load(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for t.Step < t.Config.Schedule.Steps {
		if err := round(); err != nil {
			return err
		}
		done := t.Step / steps
		progress(done)
		if ended := ctx.Err(); ended != nil || done%every == 0 || t.Step == t.Config.Schedule.Steps {
			if err := t.Save(path); err != nil {
				return err
			}
			if ended != nil {
				return ended
			}
		}
	}
	return nil
}
