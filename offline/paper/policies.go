package paper

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"path/filepath"
	"slices"

	"prefdt/configs"
	"prefdt/configs/cli"
	"prefdt/inference"
	"prefdt/inference/checkpoint"
	"prefdt/inference/prefdt"
	"prefdt/offline/baseline"
	"prefdt/offline/experiment"
	"prefdt/offline/methods"
	"prefdt/offline/prefdttrain"
	"prefdt/offline/rollout"
	"prefdt/offline/search"
	"prefdt/simbridge/world"
)

// policy is a row of policies.yaml or a method, and how it is made.
type policy struct {
	Name        string `json:"name" yaml:"name"`
	Description string `json:"-" yaml:"description"`

	Method string `json:"method,omitempty" yaml:"-"`  // of package methods
	Form   *form  `json:"form,omitempty" yaml:"form"` // PrefDT as published
	Rules  *rules `json:"rules,omitempty" yaml:"rules"`
	// Scheduler is one that neither learns nor is searched: "random" or "even".
	Scheduler string `json:"scheduler,omitempty" yaml:"scheduler"`

	methods.Paper `json:"-" yaml:",inline"`
	making        `json:"-" yaml:"-"`
}

// making is how a policy is made.
type making struct {
	aircraft int            // of the fleet that it flies
	budgeted bool           // its settings are budgets that it is trained for: it has no front
	run      string         // what it trains or searches, "" if nothing: policies of one network share it
	needs    []string       // paths in the folder of a set that are made before it flies
	budget   methods.Budget // declared: of what it learns from others' flights, its own part
	spends   string         // the same in words
	// depends are what its results depend on, beside what it is flown through. Of a set in progress.
	depends func(*set) []any
	// ready trains or searches what it needs, from where that was interrupted, and makes it ready to fly for a measurement.
	ready func(ctx context.Context, s *set, t measurement, f *experiment.Policy) error
}

// form is a variation of PrefDT as published.
type form struct {
	Full        bool `json:"full,omitempty" yaml:"-"`                    // trained longest, not with the declared budget
	Uniform     bool `json:"uniform,omitempty" yaml:"uniform"`           // preferences without corner emphasis
	RawFeatures bool `json:"raw_features,omitempty" yaml:"raw_features"` // without those of eq. (physfeat)
	Aircraft    int  `json:"aircraft,omitempty" yaml:"aircraft"`         // 0: 2
}

// rules are the teacher's, searched.
type rules struct {
	Population int `json:"population" yaml:"population"`
	Budgets    int `json:"budgets" yaml:"budgets"` // of evaluations, 1 or 2
	Aircraft   int `json:"aircraft,omitempty" yaml:"aircraft"`
}

// longestTests are those of what has been trained longest.
var longestTests = []string{"axis", "whole", "dense", "budgets", "replan", "link", "shifts"}

//go:embed policies.yaml
var policiesYAML []byte

// policies returns all, in the order in which they are measured.
func (c *Config) policies() []*policy {
	var list []*policy
	configs.MustDecode(policiesYAML, &list)
	for _, m := range methods.Methods(&c.Methods) {
		if m.Paper != nil {
			list = append(list, &policy{Name: m.Name, Description: m.Description, Method: m.Name, Paper: *m.Paper})
		}
	}
	if c.longestArm() == fullArm { // last, as it takes the longest
		list = append(list, &policy{Name: fullArm, Description: "PrefDT as published, trained longest", Form: &form{Full: true}})
	}
	for _, p := range list {
		if p.Name == c.longestArm() {
			p.Tests = longestTests
		}
		switch {
		case p.Form != nil:
			p.making = c.formMaking(p)
		case p.Rules != nil:
			p.making = c.rulesMaking(p)
		case p.Method != "":
			p.making = c.methodMaking(p)
		default:
			p.making = p.schedulerMaking()
		}
		if b := p.budget; b.EnvironmentSteps > 0 {
			p.spends = fmt.Sprintf("%.4gM environment steps", float64(b.EnvironmentSteps)/1e6)
		} else if b.Transitions > 0 {
			p.spends = fmt.Sprintf("%.4gM transitions", float64(b.Transitions)/1e6)
		} else if b.Tokens > 0 {
			p.spends = fmt.Sprintf("%.4gM tokens", float64(b.Tokens)/1e6)
		}
	}
	return list
}

// hasPreference reports whether a policy's settings are requests that outcomes can follow.
func (p *policy) hasPreference() bool {
	return p.Rules == nil && p.Scheduler == "" && !p.Unconditioned && !p.budgeted
}

// trainingPath is where in the folder of a set something is trained.
func trainingPath(name string) string { return filepath.Join("train", name) }

// published returns the configuration and the tokens of a form's training.
func (c *Config) published(p *policy) (t prefdttrain.Config, tokens float64) {
	t, tokens = c.Form, c.Tokens
	if p.Form.Full {
		tokens = c.FullTokens
	}
	t.Uniform = p.Form.Uniform
	if p.Form.RawFeatures {
		isPhysics := func(name string) bool { return slices.Contains(prefdt.PhysicsFeatures, name) }
		t.Form.UserFeatures = slices.DeleteFunc(slices.Clone(t.Form.UserFeatures), isPhysics)
	}
	if n := p.Form.Aircraft; n > 0 { // the flights of a larger fleet take as much memory, in fewer
		t.Flights = max(t.Flights*t.Form.Aircraft/n, 1000)
		t.Form.Aircraft = n
	}
	return t, tokens
}

// search returns the configuration of a search.
func (c *Config) search(r *rules) search.Config {
	s := search.Default()
	s.Population, s.World.Aircraft = r.Population, cmp.Or(r.Aircraft, s.World.Aircraft)
	s.Generations = max(r.Budgets*c.Evaluations/r.Population, 1)
	return s
}

// ready makes a policy ready to fly for a measurement.
func (s *set) ready(ctx context.Context, p *policy, t measurement) (*experiment.Policy, error) {
	f := &experiment.Policy{World: world.Standard(), Request: experiment.Preference, Settings: rollout.Linspace(0, 1, s.Settings)}
	return f, p.ready(ctx, s, t, f)
}

// formMaking is of PrefDT as published. Replanned, each slot of a budget is flown at the setting that the joules left
// pay for, as in the leader; else by Algorithm 1, where the first total decides.
func (c *Config) formMaking(p *policy) making {
	config, tokens := c.published(p)
	given := p.Name == c.longestArm() && c.Published != ""
	m := making{aircraft: cmp.Or(p.Form.Aircraft, 2), run: p.Name, budget: methods.Budget{Tokens: int(tokens)}}
	if !given {
		m.needs = []string{trainingPath(p.Name)}
	}
	m.depends = func(s *set) []any {
		list := []any{config, tokens, config.Form.Graph().Nodes} // the nodes are its formulas
		if given {
			list = append(list, s.full.Manifest)
		}
		return list
	}
	m.ready = func(ctx context.Context, s *set, t measurement, f *experiment.Policy) (err error) {
		ck := s.full
		if given {
			f.Files = []string{filepath.Join(s.Published, checkpoint.ManifestFile)}
		} else if ck, err = prefdttrain.Trained(ctx, config, filepath.Join(s.Dir, trainingPath(p.Name)), tokens, s.Log); err != nil {
			return err
		}
		f.World.Aircraft = ck.GoalConstants.AircraftCount
		f.Constants, f.Band, f.Parameters = &ck.GoalConstants, ck.OmegaBand, ck.Published.Form.Parameters()
		f.Settings = rollout.Linspace(f.Band[0], f.Band[1], s.Settings)
		published, own := *ck.Published, *ck
		published.AsPublished = t != replanned
		own.Published = &published
		f.Runner = func(c world.Config, l rollout.ReportLink) (*rollout.Runner, error) {
			return rollout.New(&own, inference.DecoderHeads, c, l)
		}
		return nil
	}
	return m
}

// rulesMaking is of searched rules.
func (c *Config) rulesMaking(p *policy) making {
	config := c.search(p.Rules)
	path := fmt.Sprintf("search/rules%d-%dx-fleet%d.json", p.Rules.Population, p.Rules.Budgets, config.World.Aircraft)
	return making{
		aircraft: config.World.Aircraft, run: p.Name, needs: []string{path},
		budget:  methods.Budget{EnvironmentSteps: config.Population * config.Generations * 3 * config.World.Slots},
		depends: func(*set) []any { return []any{config} },
		ready: func(ctx context.Context, s *set, t measurement, f *experiment.Policy) error {
			rules, err := experiment.Rules(ctx, filepath.Join(s.Dir, path), config, s.Set)
			if err != nil {
				return err
			}
			f.World, f.Settings = config.World, rules.Omegas
			f.Runner = withPolicy(&s.Methods, func(c *world.Config) (rollout.Policy, error) { return rules.New(c, t == replanned) })
			return nil
		},
	}
}

// schedulerMaking is of what neither learns nor is searched.
func (p *policy) schedulerMaking() making {
	return making{aircraft: 2, spends: "nothing", depends: func(*set) []any { return nil },
		ready: func(_ context.Context, s *set, _ measurement, f *experiment.Policy) error {
			f.Runner = withPolicy(&s.Methods, func(c *world.Config) (rollout.Policy, error) {
				if p.Scheduler == "even" {
					return baseline.NewEven(&c.Physics), nil
				}
				return baseline.NewRandom(&c.Physics), nil
			})
			return nil
		}}
}

// methodMaking is of a method of package methods.
func (c *Config) methodMaking(p *policy) making {
	run := methods.Run{Config: c.Methods, World: world.Standard()}
	method := methods.Find(&run.Config, p.Method)
	m := making{aircraft: 2, budgeted: method.BudgetsJ != nil, depends: func(*set) []any { return []any{method.Settings(&run.Config)} }}
	if method.Budget == nil {
		m.spends = method.Spends(&run.Config)
	} else {
		m.run, m.budget = method.Training, method.Budget(&run)
		if method.LearnsFrom != "" {
			m.needs = []string{trainingPath(method.LearnsFrom)}
		}
		m.needs = append(m.needs, trainingPath(m.run))
	}
	m.ready = func(ctx context.Context, s *set, t measurement, f *experiment.Policy) error {
		r := run
		r.Dir, r.PPODir = filepath.Join(s.Dir, trainingPath(method.Training)), filepath.Join(s.Dir, trainingPath("ppo-plain"))
		r.Workers, r.Log, r.Corpus, r.AnyOmega = s.Workers, s.Log, &s.corpus, t == fullRange
		if t == energyEntry {
			r.BudgetOmega = entryOmega
		}
		if method.Budget != nil {
			if err := r.Claim(methods.Find(&r.Config, method.Training), true); err != nil {
				return cli.BadInput(err)
			}
		}
		if p.Unconditioned {
			f.Settings = []float64{0.5}
		}
		return readyMethod(ctx, method, &r, f)
	}
	return m
}

// readyMethod trains a method and makes it ready to fly, at the budgets that it is trained for if it is.
func readyMethod(ctx context.Context, m *methods.Method, r *methods.Run, f *experiment.Policy) error {
	newPolicy, err := m.New(ctx, r)
	if m.BudgetsJ != nil {
		f.Settings, f.Request = m.BudgetsJ(&r.Config), experiment.Target
	}
	f.Runner = withPolicy(&r.Config, func(*world.Config) (rollout.Policy, error) { return newPolicy(), nil })
	return err
}

// withPolicy returns runners of policies that take a preference or a budget alone.
func withPolicy(methodConfig *methods.Config, newPolicy func(*world.Config) (rollout.Policy, error)) func(world.Config,
	rollout.ReportLink) (*rollout.Runner, error) {
	return func(c world.Config, l rollout.ReportLink) (*rollout.Runner, error) {
		p, err := newPolicy(&c)
		if err != nil {
			return nil, err
		}
		r := methods.Run{Config: *methodConfig, World: c}
		return rollout.NewWithPolicy(p, r.GoalConstants(), c, l)
	}
}
