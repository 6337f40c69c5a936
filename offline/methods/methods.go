// Package methods has the methods that the paper compares its policy with (Sec. V-B,
// table of method classes), each in a file of its own that cites its source.
//
// Inputs: settings (configs/methods.yaml), a world, and for those that learn a folder in
// which an interrupted run goes on. Outputs: policies, which package rollout flies.
// "offline method" trains one, flies it and prints its figures; the study can fly them
// as arms.
//
// omega is throughout the share of delay that a preference accepts: 0 asks for the least
// delay, 1 for the least energy, and a linear utility weighs delay by 1-omega.
package methods

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"prefdt/inference/goal"
	"prefdt/inference/model"
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
	// IQLBetas are further inverse temperatures, each a method of its own.
	IQLBetas []float64 `json:"iql_betas" yaml:"iql_betas"`
}

// Default is configs/methods.yaml.
func Default() Config {
	sca := SCASettings{Iterations: 12, Tolerance: 1e-4, Jittered: 1, JitterMPS: 5, SlotIterations: 3, SlotSteps: 25, RoundBelow: 0.05, PathSteps: 60, TrustM: 200}
	mpc := sca
	mpc.Iterations, mpc.Window = 3, 5
	ppo := PPOSettings{
		Preferences: 21, Steps: 2_000_000, Episodes: 8, Epochs: 4, Minibatches: 4, Gamma: 0.95, Lambda: 0.95, Clip: 0.2, Entropy: 1e-3, Value: 0.5,
		Rate: 1e-3, ClipNorm: 0.5, Width: 64, UserWidth: 32, Seeds: "0:100000", Seed: 1,
	}
	cmdp := CMDPSettings{BudgetsJ: []float64{29e3, 32e3, 36e3}, MultiplierRate: 0.02, MultiplierMax: 20, PPO: ppo}
	iql := IQLSettings{
		Steps: 300_000, Batch: 256, Workers: 2, Tau: 0.7, Beta: 3, Gamma: 0.95, Average: 0.005, Rate: 1e-3, Width: 64, UserWidth: 32, Seed: 1,
		Corpus: DatasetSettings{Flights: 50_000, Heuristic: 0.2, Corner: 0.25, Episodes: 100, Seeds: "0:100000", Seed: 1},
	}
	pgmorl := PGMORLSettings{Tasks: 6, WarmUp: 400, Generations: 40, Updates: 200, Stored: 20, Weights: 21, Sparsity: 0.1, Buffers: 20, Keep: 2, Episodes: 10, PPO: ppo}
	peda := PEDASettings{Steps: 13_000, Batch: 8, Workers: 2, Width: 128, Layers: 3, Heads: 4, Context: 20, Rate: 1e-3, WarmUp: 100, Decay: 0.01, ClipNorm: 1, Seed: 1, Corpus: iql.Corpus}
	peda.Corpus.Corner = 0
	return Config{PEDA: peda, PGMORL: pgmorl, IQL: iql, IQLBetas: []float64{0.3, 1, 10, 30, 100}, Scales: Scales{DelayS: 605, EnergyJ: 12356}, SCAOracle: sca, SCAMPC: mpc, PPO: ppo, CMDP: cmdp}
}

// Check returns what is wrong with a configuration.
func (c *Config) Check() error {
	if !(c.Scales.DelayS > 0 && c.Scales.DelayS < 1e12) || !(c.Scales.EnergyJ > 0 && c.Scales.EnergyJ < 1e12) {
		return fmt.Errorf("scales are %v s and %v J, want positive numbers", c.Scales.DelayS, c.Scales.EnergyJ)
	}
	for _, x := range []struct {
		name  string
		check func() error
	}{{"sca_oracle", c.SCAOracle.Check}, {"sca_mpc", c.SCAMPC.Check}, {"ppo", c.PPO.Check}, {"cmdp", c.CMDP.Check}, {"pgmorl", c.PGMORL.Check}, {"iql", c.IQL.Check}, {"peda", c.PEDA.Check}} {
		if err := x.check(); err != nil {
			return fmt.Errorf("methods %s: %w", x.name, err)
		}
	}
	for i, beta := range c.IQLBetas {
		if !(beta >= 0 && beta <= 1e6) || slices.Contains(c.IQLBetas[:i], beta) {
			return fmt.Errorf("methods iql_betas: %v, want 0 to 1e6, each once", beta)
		}
	}
	if c.SCAMPC.Window < 1 {
		return fmt.Errorf("methods sca_mpc: window is %d, want 1 at least", c.SCAMPC.Window)
	}
	return nil
}

// Scale multiplies what a method is declared to spend: on learning, or a solver's iterations. The PPO
// policies whose flights others learn from are the same for all fractions.
func (c *Config) Scale(method string, fraction float64) {
	own := []*int{&c.CMDP.PPO.Steps, &c.PGMORL.WarmUp, &c.PGMORL.Updates, &c.IQL.Steps, &c.PEDA.Steps, &c.SCAOracle.Iterations, &c.SCAMPC.Iterations}
	if strings.HasPrefix(method, "ppo") {
		own = append(own, &c.PPO.Steps)
	}
	for _, steps := range own {
		*steps = max(int(float64(*steps)*fraction), 1)
	}
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

// Corpus keeps the corpus that was flown last, for the next method that learns from the same one.
// The zero value holds none.
type Corpus struct {
	key   string
	flown *standardised
}

// Method is one row of the comparison.
type Method struct {
	Name, Description string
	// Training names the method whose training it shares: it flies the same network, otherwise.
	Training string
	// LearnsFrom names the method whose flights it learns from; "": none of these.
	LearnsFrom string
	// Settings are its entry of the configuration, all that its training depends on.
	Settings func(*Config) any
	// Budget is what its training spends; nil: it has none.
	Budget func(*Run) Budget
	// BudgetsJ are the budgets it is flown at; nil: preferences.
	BudgetsJ func(*Config) []float64
	// New trains it, from where a training was interrupted, and returns a function that
	// makes its policies, one for each worker.
	New func(context.Context, *Run) (func() (rollout.Policy, error), error)
}

// Methods lists all of a configuration, in the order of the paper's table.
func Methods(c *Config) []Method {
	var list []Method
	for _, x := range sequenceForms {
		flown, corpus := plainPPO, ", on the corpus of the PPO policies"
		if x.form.WeakerPPO {
			flown, corpus = weakerPPO, ", on the corpus of weaker PPO policies"
		}
		newFront, learnsFrom := ppoFront(flown), flown.name
		if x.form.Rules {
			newFront, learnsFrom, corpus = archiveFront, "", ""
		}
		list = append(list, Method{
			Name: x.name, Description: x.description + corpus, Training: cmp.Or(x.training, x.name), LearnsFrom: learnsFrom,
			Settings: func(c *Config) any { return []any{c.PEDA, flown.settings(c.PPO), x.form, corpusRecipe} },
			Budget: func(r *Run) Budget {
				return Budget{Policies: 1, Tokens: r.PEDA.Steps * r.PEDA.Batch * r.World.Slots * model.TokensPerSlot}
			},
			New: func(ctx context.Context, r *Run) (func() (rollout.Policy, error), error) {
				f, err := newFront(ctx, r)
				if err != nil {
					return nil, err
				}
				return makePEDA(ctx, r, r.PEDA, x.form, f)
			},
		})
	}
	for _, x := range []struct {
		name, flown, learnsFrom string
		corner                  func(*IQLSettings) float64 // the archive's corpus alone has its emphasis
		front                   func(context.Context, *Run) (front, error)
	}{
		{"archive", "the searched rules", "", func(s *IQLSettings) float64 { return s.Corpus.Corner }, archiveFront},
		{"ppo", "the PPO policies", plainPPO.name, func(*IQLSettings) float64 { return 0 }, ppoFront(plainPPO)},
	} {
		for k, beta := range slices.Concat([]float64{c.IQL.Beta}, c.IQLBetas) {
			name := "iql-" + x.name
			if k > 0 {
				name += fmt.Sprintf("-beta%v", beta)
			}
			settings := func(c *Config) IQLSettings {
				s := c.IQL
				s.Beta, s.Corpus.Corner = beta, x.corner(&s)
				return s
			}
			list = append(list, Method{
				Name: name, LearnsFrom: x.learnsFrom, Description: fmt.Sprintf("implicit Q-learning under a preference, on the corpus of %s, inverse temperature %v", x.flown, beta),
				Settings: func(c *Config) any { return []any{settings(c), c.PPO.plain(), corpusRecipe} },
				Budget:   func(r *Run) Budget { return Budget{Policies: 1, Transitions: r.IQL.Steps * r.IQL.Batch} },
				New: func(ctx context.Context, r *Run) (func() (rollout.Policy, error), error) {
					f, err := x.front(ctx, r)
					if err != nil {
						return nil, err
					}
					return makeIQL(ctx, r, settings(&r.Config), f)
				},
			})
		}
	}
	for _, x := range ppoVariants {
		list = append(list, Method{
			Name: x.name, Description: x.description,
			Settings: func(c *Config) any { return x.settings(c.PPO) },
			Budget: func(r *Run) Budget {
				return Budget{Policies: r.PPO.Preferences, EnvironmentSteps: r.PPO.Preferences * x.settings(r.PPO).Steps}
			},
			New: func(ctx context.Context, r *Run) (func() (rollout.Policy, error), error) {
				return makePPO(ctx, r, x.settings(r.PPO))
			},
		})
	}
	list = append(list, []Method{
		{
			Name: "pgmorl", Description: "prediction-guided evolution of a population of PPO policies",
			Settings: func(c *Config) any { return c.PGMORL },
			Budget: func(r *Run) Budget {
				return Budget{Policies: r.PGMORL.Tasks, EnvironmentSteps: r.PGMORL.environmentSteps(r.World.Slots)}
			},
			New: makePGMORL,
		},
		{
			Name: "cmdp", Description: "proximal policy optimisation on a Lagrangian, one policy for each budget",
			Settings: func(c *Config) any { return c.CMDP },
			Budget: func(r *Run) Budget {
				return Budget{Policies: len(r.CMDP.BudgetsJ), EnvironmentSteps: len(r.CMDP.BudgetsJ) * r.CMDP.PPO.Steps}
			},
			BudgetsJ: func(c *Config) []float64 { return c.CMDP.BudgetsJ },
			New:      makeCMDP,
		},
		{
			Name: "sca-oracle", Description: "block-coordinate descent with successive convex approximation, given all arrivals",
			Settings: func(c *Config) any { return c.SCAOracle },
			New: func(_ context.Context, r *Run) (func() (rollout.Policy, error), error) {
				return func() (rollout.Policy, error) { return makeSCAOracle(r.SCAOracle, &r.World.Physics, r.Scales) }, nil
			},
		},
		{
			Name: "sca-mpc", Description: "the same over a receding window, of expected arrivals",
			Settings: func(c *Config) any { return c.SCAMPC },
			New: func(_ context.Context, r *Run) (func() (rollout.Policy, error), error) {
				return func() (rollout.Policy, error) { return makeSCAMPC(r.SCAMPC, &r.World.Physics, r.Scales) }, nil
			},
		},
	}...)
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
		Conditioner: goal.Conditioner{Omegas: []float64{0, 1}, DelayS: []float64{0, r.Scales.DelayS}, EnergyJ: []float64{r.Scales.EnergyJ, 0}},
		SettingMap:  goal.SettingMap{Omegas: []float64{0, 1}},
	}
}

// trainToEnd trains until done says total, by rounds, from the state in a file if there is
// one. The state is saved there after every so many rounds, at the end, and when ctx ends,
// which ends the training.
func trainToEnd(ctx context.Context, t *nn.Trainer, path string, total, every int, done func() int, round func() error, progress func(done int)) error {
	if err := t.Load(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for done() < total {
		if err := round(); err != nil {
			return err
		}
		progress(done())
		if ended := ctx.Err(); ended != nil || done()%every == 0 || done() == total {
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
