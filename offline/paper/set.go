package paper

import (
	"context"
	_ "embed"
	"fmt"
	"io"

	"prefdt/inference/checkpoint"
	"prefdt/offline/experiment"
	"prefdt/offline/methods"
	"prefdt/simbridge/world"
)

// set is the tables in progress.
type set struct {
	Config
	*experiment.Set
	full     *checkpoint.Checkpoint // that Published names; nil: it is trained in this folder
	policies []*policy
	corpus   methods.Corpus                // that arms after one another share
	study    map[string]*experiment.Result // of our policy and its controllers, by arm of a study
}

// newSet returns the tables in a folder, in which nothing is written yet. full is the checkpoint that the
// configuration's Published names, nil if it names none.
func newSet(c Config, full *checkpoint.Checkpoint, out string, log io.Writer) *set {
	s := &set{Config: c, policies: c.policies(), full: full}
	protocol := struct { // each arm's key has its own method: one method more leaves the folder's results
		Config
		Methods *methods.Config `json:"methods,omitempty"`
	}{Config: c}
	s.Set = experiment.NewSet("paper", "comparison", out, protocol, c.arms(s), log)
	s.OnlyResults, s.Rounded, s.Set.CalibrationSeeds = true, true, c.CalibrationSeeds
	return s
}

// armName returns the name of a policy's arm.
func armName(policy string, t measurement) string {
	if t == ownSettings {
		return policy
	}
	return policy + "-" + string(t)
}

// measurements returns those of a policy. The even pacer takes budgets alone.
func (p *policy) measurements() []measurement {
	if p.Scheduler == "even" {
		return []measurement{budgets}
	}
	return append([]measurement{ownSettings}, p.Tests...)
}

//go:embed costs.json
var costs []byte

// arms returns every arm, in the order they are measured. Those of a set in progress can be.
func (c *Config) arms(s *set) []experiment.Arm {
	list, costs := []experiment.Arm{}, experiment.ReadCosts(costs)
	for _, p := range c.policies() {
		run, needs := c.trainingRun(p), []experiment.Need{}
		if p.Rules != nil {
			run = p.Name // a search is made once as well
		}
		for _, path := range c.needs(p) {
			needs = append(needs, experiment.Need{Path: path, CoreS: costs[path]})
		}
		for _, t := range p.measurements() {
			name := armName(p.Name, t)
			a := experiment.Arm{Name: name, Description: p.Description + descriptions[t], TrainingRun: run, Needs: needs,
				CoreS:    costs[name],
				Optional: p.Optional, Spends: c.spends(p), Recalibrated: map[measurement]int{recalibrated: c.Settings,
					dense: c.DenseSettings}[t]}
			if t.ofBudgets() {
				a.BudgetSeeds = c.seedsOf(p, t)
			}
			if s != nil {
				a.Key = func() string { return s.key(p, t) }
				a.Policy = func(ctx context.Context) (*experiment.Policy, error) { return s.ready(ctx, p, t) }
				a.Protocols = func(f *experiment.Policy) []experiment.Protocol { return s.protocols(p, t, f) }
			}
			list = append(list, a)
		}
	}
	return list
}

// resultVersion is of what is measured and how it is stored: a result of another version is
// measured anew.
const resultVersion = 2

// key identifies all that an arm's result depends on: what it is flown on, and what it is made with.
// A change to how one policy is made leaves the results of the others.
func (s *set) key(p *policy, t measurement) string {
	parts := []any{resultVersion, p, t, s.seedsOf(p, t), s.Settings, s.DenseSettings, s.Config.CalibrationSeeds, s.Methods.Scales,
		s.Methods.CMDP.BudgetsJ}
	if t.ofBudgets() {
		parts = append(parts, shockTotalsJ)
	}
	if t == energyEntry {
		parts = append(parts, entryOmega, entryTotalsJ)
	}
	switch {
	case p.Form != nil:
		c, tokens := s.published(p)
		if parts = append(parts, c, tokens, c.Form.Graph().Nodes); p.Name == s.longestArm() && s.full != nil { // the nodes are its formulas
			parts = append(parts, s.full.Manifest)
		}
	case p.Rules != nil:
		parts = append(parts, s.search(p.Rules))
	case p.Method != "":
		r, method := s.run(p)
		parts = append(parts, method.Settings(&r.Config))
	}
	return experiment.Key(parts...)
}

// needs returns what is made before a policy flies.
func (c *Config) needs(p *policy) (paths []string) {
	run := c.trainingRun(p)
	switch {
	case p.Rules != nil:
		return []string{p.Rules.path()}
	case run == "", p.Name == c.longestArm() && c.Published != "":
		return nil
	case p.Form == nil:
		if _, method := c.run(p); method.LearnsFrom != "" {
			paths = append(paths, trainingPath(method.LearnsFrom))
		}
	}
	return append(paths, trainingPath(run))
}

// budget is what a policy is declared to spend before it flies: of what it learns from others' flights,
// its own part.
func (c *Config) budget(p *policy) methods.Budget {
	switch {
	case p.Rules != nil:
		return methods.Budget{EnvironmentSteps: p.Rules.Population * c.search(p.Rules).Generations * 3 * world.Standard().Slots}
	case p.Form != nil:
		_, tokens := c.published(p)
		return methods.Budget{Tokens: int(tokens)}
	case p.Method == "":
		return methods.Budget{}
	}
	if r, method := c.run(p); method.Budget != nil {
		return method.Budget(r)
	}
	return methods.Budget{}
}

// spends says what a policy is declared to spend before it flies.
func (c *Config) spends(p *policy) string {
	switch b := c.budget(p); {
	case b.EnvironmentSteps > 0:
		return fmt.Sprintf("%.4gM environment steps", float64(b.EnvironmentSteps)/1e6)
	case b.Transitions > 0:
		return fmt.Sprintf("%.4gM transitions", float64(b.Transitions)/1e6)
	case b.Tokens > 0:
		return fmt.Sprintf("%.4gM tokens", float64(b.Tokens)/1e6)
	}
	switch r, _ := c.run(p); p.Method {
	case "sca-oracle":
		return fmt.Sprintf("%d iterations of a plan", r.SCAOracle.Iterations)
	case "sca-mpc":
		return fmt.Sprintf("%d iterations of a plan", r.SCAMPC.Iterations)
	}
	return "nothing"
}

// spent is what the arms that have been measured took: each training run and each search once.
func (t *tables) spent() (b methods.Budget, coreS int) {
	runs, paths := map[string]bool{}, map[string]bool{}
	for _, p := range t.policies {
		for _, measurement := range p.measurements() {
			a := t.Arm(armName(p.Name, measurement))
			if t.results[a.Name] == nil {
				continue
			}
			coreS += a.CoreS
			needs := a.Needs
			if p.Name == t.longestArm() && t.full != nil { // trained elsewhere, so that it is no need
				needs = []experiment.Need{{Path: t.Published, CoreS: experiment.ReadCosts(costs)[t.Published]}}
			}
			for _, n := range needs {
				if !paths[n.Path] {
					paths[n.Path], coreS = true, coreS+n.CoreS
				}
			}
			if run := a.TrainingRun; run != "" && !runs[run] {
				runs[run] = true
				own := t.budget(p)
				b.EnvironmentSteps += own.EnvironmentSteps
				b.Transitions += own.Transitions
				b.Tokens += own.Tokens
			}
		}
	}
	return b, coreS
}
