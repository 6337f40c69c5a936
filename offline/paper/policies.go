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

// policy is how one is made.
type policy struct {
	Name        string `json:"name" yaml:"name"`
	Description string `json:"-" yaml:"description"`

	Method string `json:"method,omitempty" yaml:"-"`  // of package methods
	Form   *form  `json:"form,omitempty" yaml:"form"` // PrefDT as published
	Rules  *rules `json:"rules,omitempty" yaml:"rules"`
	// Scheduler is one that neither learns nor is searched: "random" or "even".
	Scheduler string `json:"scheduler,omitempty" yaml:"scheduler"`

	Few      bool          `json:"-" yaml:"few"`   // flown on FewSeeds episodes, as many as the paper has
	Ours     bool          `json:"-" yaml:"ours"`  // "our instantiation": the text leaves settings open
	Optional bool          `json:"-" yaml:"-"`     // measured where it is named
	Tests    []measurement `json:"-" yaml:"tests"` // beside its front
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

//go:embed policies.yaml
var policiesYAML []byte

// policies returns all, in the order in which they are measured.
func (c *Config) policies() []*policy {
	var list []*policy
	configs.MustDecode(policiesYAML, &list)
	for _, m := range methods.Methods(&c.Methods) {
		if x := m.Paper; x != nil {
			p := &policy{Name: m.Name, Method: m.Name, Few: x.Few, Ours: x.Ours, Optional: x.Optional}
			for _, name := range x.Tests {
				p.Tests = append(p.Tests, measurement(name))
			}
			list = append(list, p)
		}
	}
	tests := []measurement{recalibrated, fullRange, dense, budgets, replanned, link, shifts}
	if c.longestArm() == fullArm { // last, as it takes the longest
		list = append(list, &policy{Name: fullArm, Description: "PrefDT as published, trained longest", Form: &form{Full: true},
			Tests: tests})
	}
	for _, p := range list {
		if p.Name == c.longestArm() {
			p.Tests = tests
		}
		text := "PrefDT as published"
		if p.Method != "" {
			text = methods.Find(&c.Methods, p.Method).Description
		}
		p.Description = cmp.Or(p.Description, text)
	}
	return list
}

// hasPreference reports whether a policy's settings are requests that outcomes can follow.
func (p *policy) hasPreference() bool {
	return p.Rules == nil && p.Scheduler == "" && p.Method != "unconditioned" && p.Method != "cmdp"
}

// aircraft returns the fleet that a policy flies.
func (p *policy) aircraft() int {
	switch {
	case p.Form != nil:
		return cmp.Or(p.Form.Aircraft, 2)
	case p.Rules != nil:
		return cmp.Or(p.Rules.Aircraft, 2)
	}
	return 2
}

// trainingPath is where in the folder of a set something is trained.
func trainingPath(name string) string { return filepath.Join("train", name) }

// path is where rules are searched.
func (r *rules) path() string {
	return fmt.Sprintf("search/rules%d-%dx-fleet%d.json", r.Population, r.Budgets, cmp.Or(r.Aircraft, 2))
}

// run returns what a policy's method is made with, and the method.
func (c *Config) run(p *policy) (*methods.Run, *methods.Method) {
	r := &methods.Run{Config: c.Methods, World: world.Standard()}
	return r, methods.Find(&r.Config, p.Method)
}

// trainingRun names what a policy trains, "" if nothing: policies of one network share it.
func (c *Config) trainingRun(p *policy) string {
	switch {
	case p.Form != nil:
		return p.Name
	case p.Method == "":
		return ""
	}
	if _, method := c.run(p); method.Budget != nil {
		return method.Training
	}
	return ""
}

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

// ready trains or searches what a policy needs, from where it was interrupted, and makes it ready to fly for
// a measurement.
func (s *set) ready(ctx context.Context, p *policy, t measurement) (*experiment.Policy, error) {
	f := &experiment.Policy{World: world.Standard(), Request: experiment.Preference, Settings: rollout.Linspace(0, 1, s.Settings)}
	switch {
	case p.Form != nil:
		return f, s.readyForm(ctx, p, t, f)
	case p.Rules != nil:
		c := s.search(p.Rules)
		rules, err := experiment.Rules(ctx, filepath.Join(s.Dir, p.Rules.path()), c, s.Set)
		if err != nil {
			return nil, err
		}
		f.World, f.Settings = c.World, rules.Omegas
		f.Runner = s.withPolicy(func(c *world.Config) (rollout.Policy, error) { return rules.New(c, t == replanned) })
		return f, nil
	case p.Scheduler == "even":
		f.Runner = s.withPolicy(func(c *world.Config) (rollout.Policy, error) { return baseline.NewEven(&c.Physics), nil })
		return f, nil
	case p.Scheduler == "random":
		f.Runner = s.withPolicy(func(c *world.Config) (rollout.Policy, error) { return &baseline.Random{Physics: &c.Physics}, nil })
		return f, nil
	}
	return f, s.readyMethod(ctx, p, t, f)
}

// readyForm is PrefDT as published. Replanned, each slot of a budget is flown at the setting that the joules left
// pay for, as in the leader; else by Algorithm 1, where the first total decides.
func (s *set) readyForm(ctx context.Context, p *policy, t measurement, f *experiment.Policy) error {
	ck := s.full
	if p.Name != s.longestArm() || ck == nil {
		c, tokens := s.published(p)
		var err error
		if ck, err = prefdttrain.Trained(ctx, c, filepath.Join(s.Dir, trainingPath(p.Name)), tokens, s.Log); err != nil {
			return err
		}
	} else {
		f.Files = []string{filepath.Join(s.Published, checkpoint.ManifestFile)}
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

// readyMethod is a method of package methods.
func (s *set) readyMethod(ctx context.Context, p *policy, t measurement, f *experiment.Policy) error {
	r, method := s.run(p)
	r.Dir, r.PPODir = filepath.Join(s.Dir, trainingPath(cmp.Or(s.trainingRun(p), p.Name))), filepath.Join(s.Dir, trainingPath("ppo-plain"))
	r.Workers, r.Log, r.Corpus, r.AnyOmega = s.Workers, s.Log, &s.corpus, t == fullRange
	if t == energyEntry {
		r.BudgetOmega = entryOmega
	}
	if method.Budget != nil {
		if err := r.Claim(methods.Find(&r.Config, method.Training), true); err != nil {
			return cli.BadInput(err)
		}
	}
	newPolicy, err := method.New(ctx, r)
	if err != nil {
		return err
	}
	if method.BudgetsJ != nil {
		f.Settings, f.Request = method.BudgetsJ(&r.Config), experiment.Target
	}
	if p.Method == "unconditioned" {
		f.Settings = []float64{0.5}
	}
	f.Runner = s.withPolicy(func(*world.Config) (rollout.Policy, error) { return newPolicy() })
	return nil
}

// withPolicy returns runners of policies that take a preference or a budget alone.
func (s *set) withPolicy(newPolicy func(*world.Config) (rollout.Policy, error)) func(world.Config, rollout.ReportLink) (*rollout.Runner,
	error) {
	return func(c world.Config, l rollout.ReportLink) (*rollout.Runner, error) {
		p, err := newPolicy(&c)
		if err != nil {
			return nil, err
		}
		r := methods.Run{Config: s.Methods, World: c}
		return rollout.NewWithPolicy(p, r.GoalConstants(), c, l)
	}
}
