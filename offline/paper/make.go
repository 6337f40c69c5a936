package paper

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"

	"prefdt/configs/cli"
	"prefdt/inference"
	"prefdt/inference/checkpoint"
	"prefdt/inference/goal"
	"prefdt/offline/baseline"
	"prefdt/offline/command"
	"prefdt/offline/corpus"
	"prefdt/offline/methods"
	"prefdt/offline/papertrain"
	"prefdt/offline/rollout"
	"prefdt/offline/search"
	"prefdt/simbridge/world"
)

// flyer is a policy that is ready to fly.
type flyer struct {
	world world.Config
	// runner returns a runner in a world, which may be another.
	runner func(world.Config, rollout.ReportLink) (*rollout.Runner, error)
	// settings are what is asked for: even over the preferences that may be, an archive's
	// members, the budgets of a method that has been trained for some.
	settings []float64
	request  func(setting float64) rollout.Request
	// asInLeader is whether each slot of a budget is flown at the setting, or by the rule, that the joules
	// left pay for, as in the leader; else by Algorithm 1, where the first total decides. Policies of
	// package methods do not read it.
	asInLeader bool
	// constants and band of a policy whose settings can be recalibrated.
	constants  *goal.Constants
	band       [2]float64
	parameters int
}

func preference(omega float64) rollout.Request {
	return rollout.Request{Mode: goal.Preference, Omega: omega}
}

func target(budgetJ float64) rollout.Request {
	return rollout.Request{Mode: goal.Target, BudgetJ: budgetJ}
}

// trainingPath is where in the folder of a set something is trained.
func trainingPath(name string) string { return filepath.Join("train", name) }

// path is where rules are searched.
func (r *rules) path() string {
	return fmt.Sprintf("search/rules%d-%dx-fleet%d.json", r.Population, r.Budgets, cmp.Or(r.Aircraft, 2))
}

// run returns what a maker's method is made with, and the method.
func (c *Config) run(m *maker) (*methods.Run, *methods.Method) {
	r := &methods.Run{Config: c.Methods, World: world.Standard()}
	if m.Scale != 0 {
		r.Config.Scale(m.Method, m.Scale)
	}
	return r, methods.Find(&r.Config, m.Method)
}

// trainingRun names what a maker trains, "" if nothing: makers of one network share it.
func (c *Config) trainingRun(m *maker) string {
	switch {
	case m.Form != nil:
		return m.Name
	case m.Method == "":
		return ""
	}
	_, method := c.run(m)
	switch {
	case method.Budget == nil:
		return ""
	case m.Scale != 0:
		return m.Name
	}
	return method.Training
}

// published returns the configuration and the tokens of a form's training.
func (c *Config) published(m *maker) (p papertrain.Config, tokens float64) {
	p, tokens = c.Form, c.Tokens
	f := m.Form
	if f.Full {
		tokens = c.FullTokens
	}
	if m.Scale != 0 {
		tokens *= m.Scale
	}
	p.Uniform = f.Uniform
	p.Form.UserFeatures = f.userFeatures(p.Form.UserFeatures)
	if f.Aircraft > 0 { // the flights of a larger fleet take as much memory, in fewer
		p.Flights = max(p.Flights*p.Form.Aircraft/f.Aircraft, 1000)
		p.Form.Aircraft = f.Aircraft
	}
	return p, tokens
}

// search returns the configuration of a search.
func (c *Config) search(r *rules) search.Config {
	s := search.Default()
	s.Population, s.World.Aircraft = r.Population, cmp.Or(r.Aircraft, s.World.Aircraft)
	s.Generations = max(r.Budgets*c.Evaluations/r.Population, 1)
	return s
}

// makeFlyer trains or searches what a maker needs, from where it was interrupted, and makes it
// ready to fly for a measurement.
func (s *set) makeFlyer(ctx context.Context, m *maker, t measurement) (*flyer, error) {
	f := &flyer{world: world.Standard(), request: preference, settings: rollout.Linspace(0, 1, s.Settings), asInLeader: t == replan}
	switch {
	case m.Form != nil:
		return f, s.makePublished(ctx, m, f)
	case m.Rules != nil:
		return f, s.makeRules(ctx, m.Rules, f)
	case m.Scheduler != "":
		f.runner = s.withPolicy(func(c *world.Config) (rollout.Policy, error) {
			if m.Scheduler == "even" {
				return baseline.NewEven(&c.Physics), nil
			}
			return &baseline.Random{Physics: &c.Physics}, nil
		})
		return f, nil
	}
	return f, s.makeMethod(ctx, m, t, f)
}

// makePublished has a flyer fly the published form.
func (s *set) makePublished(ctx context.Context, m *maker, f *flyer) error {
	ck, err := s.publishedCheckpoint(ctx, m)
	if err != nil {
		return err
	}
	f.world.Aircraft = ck.GoalConstants.AircraftCount
	f.constants, f.band, f.parameters = &ck.GoalConstants, ck.OmegaBand, ck.Published.Form.Parameters()
	f.settings = rollout.Linspace(f.band[0], f.band[1], s.Settings)
	published, own := *ck.Published, *ck
	published.AsPublished = !f.asInLeader
	own.Published = &published
	f.runner = func(c world.Config, l rollout.ReportLink) (*rollout.Runner, error) {
		return rollout.New(&own, inference.DecoderHeads, c, l)
	}
	return nil
}

// makeMethod has a flyer fly a method of package methods.
func (s *set) makeMethod(ctx context.Context, m *maker, t measurement, f *flyer) error {
	r, method := s.run(m)
	r.Dir, r.PPODir = filepath.Join(s.Dir, trainingPath(cmp.Or(s.trainingRun(m), m.Name))), filepath.Join(s.Dir, trainingPath("ppo-plain"))
	r.Workers, r.Log, r.Corpus, r.AnyOmega = s.workers, s.Log, &s.corpus, t == whole
	if t == entry {
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
		f.settings, f.request = method.BudgetsJ(&r.Config), target
	}
	if m.Method == "unconditioned" {
		f.settings = []float64{0.5}
	}
	f.runner = s.withPolicy(func(*world.Config) (rollout.Policy, error) { return newPolicy() })
	return nil
}

// withPolicy returns runners of policies that take a preference or a budget alone.
func (s *set) withPolicy(newPolicy func(*world.Config) (rollout.Policy, error)) func(world.Config, rollout.ReportLink) (*rollout.Runner, error) {
	return func(c world.Config, l rollout.ReportLink) (*rollout.Runner, error) {
		p, err := newPolicy(&c)
		if err != nil {
			return nil, err
		}
		r := methods.Run{Config: s.Methods, World: c}
		return rollout.NewWithPolicy(p, r.GoalConstants(), c, l)
	}
}

// publishedCheckpoint returns what flies as a published form.
func (s *set) publishedCheckpoint(ctx context.Context, m *maker) (*checkpoint.Checkpoint, error) {
	if m.Name == s.longestArm() && s.full != nil {
		return s.full, nil
	}
	p, tokens := s.published(m)
	return papertrain.Trained(ctx, p, filepath.Join(s.Dir, trainingPath(m.Name)), tokens, s.Log)
}

// makeRules has a flyer fly the rules of a search.
func (s *set) makeRules(ctx context.Context, r *rules, f *flyer) error {
	c := s.search(r)
	found, err := search.Ensure(ctx, filepath.Join(s.Dir, r.path()), c, s.workers, command.Progress(s.Log, "  generations", c.Generations))
	if err != nil {
		return err
	}
	archive, err := corpus.RuleArchive(&found, 0)
	if err != nil {
		return err
	}
	f.world, f.settings = c.World, nil
	var energies []float64
	for _, p := range archive.Points {
		f.settings, energies = append(f.settings, archive.DelayShare(p)), append(energies, p.EnergyJ)
	}
	f.runner = s.withPolicy(func(c *world.Config) (rollout.Policy, error) {
		decideAs, err := search.DecideAs(c, archive.Genes)
		return &baseline.Archive{Omegas: f.settings, EnergiesJ: energies, DecideAs: decideAs, Replans: f.asInLeader}, err
	})
	return nil
}
