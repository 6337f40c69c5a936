package paper

import (
	"context"
	_ "embed"
	"io"

	"prefdt/inference/checkpoint"
	"prefdt/offline/experiment"
	"prefdt/offline/methods"
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
func (p *policy) measurements() (list []measurement) {
	if p.Scheduler == "even" {
		return []measurement{budgets}
	}
	for _, name := range append([]string{string(ownSettings)}, p.Tests...) {
		list = append(list, measurement(name))
	}
	return list
}

//go:embed costs.json
var costs []byte

// arms returns every arm, in the order they are measured. Those of a set in progress can be.
func (c *Config) arms(s *set) []experiment.Arm {
	list, costs := []experiment.Arm{}, experiment.ReadCosts(costs)
	for _, p := range c.policies() {
		needs := []experiment.Need{}
		for _, path := range p.needs {
			needs = append(needs, experiment.Need{Path: path, CoreS: costs[path]})
		}
		for _, t := range p.measurements() {
			name := armName(p.Name, t)
			a := experiment.Arm{Name: name, Description: p.Description + descriptions[t], TrainingRun: p.run, Needs: needs,
				CoreS:    costs[name],
				Optional: p.Optional, Spends: p.spends, Recalibrated: map[measurement]int{recalibrated: c.Settings,
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
	return experiment.Key(append(parts, p.depends(s)...)...)
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
				b.EnvironmentSteps += p.budget.EnvironmentSteps
				b.Transitions += p.budget.Transitions
				b.Tokens += p.budget.Tokens
			}
		}
	}
	return b, coreS
}
