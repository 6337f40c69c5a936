package paper

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"

	"prefdt/inference/checkpoint"
	"prefdt/offline/experiment"
	"prefdt/offline/methods"
	"prefdt/offline/pareto"
	"prefdt/offline/study"
	"prefdt/simbridge/world"
)

// set is the tables in progress.
type set struct {
	Config
	*experiment.Set
	workers int
	full    *checkpoint.Checkpoint // that Published names; nil: it is trained in this folder
	makers  []maker
	corpus  methods.Corpus           // that arms after one another share
	study   map[string]*study.Result // of our policy and its controllers, by arm of a study
}

// newSet returns the tables in a folder, in which nothing is written yet. full is the checkpoint that the
// configuration's Published names, nil if it names none.
func newSet(c Config, full *checkpoint.Checkpoint, out string, log io.Writer) *set {
	s := &set{Config: c, workers: runtime.GOMAXPROCS(0), makers: c.makers(), full: full}
	s.Set = experiment.NewSet("paper", "comparison", out, c, c.arms(s), log)
	s.OnlyResults = true
	return s
}

// armName returns the name of a maker's arm.
func armName(maker string, t measurement) string {
	if t == front {
		return maker
	}
	return maker + "-" + string(t)
}

// measurements returns those of a maker. The even pacer takes budgets alone.
func (m *maker) measurements() []measurement {
	if m.Scheduler == "even" {
		return []measurement{budgets}
	}
	return append([]measurement{front}, m.tests...)
}

var measured = map[measurement]string{
	front: "", axis: ": recalibrated settings", whole: ": preferences even from 0 to 1", dense: ": many recalibrated settings", budgets: ": budgets in joules", entry: ": the energy entry at one preference", replan: ": budgets in joules, replanned in each slot",
	link: ": the link", shifts: ": fifteen operating points", arrivals: ": another arrival process in flight",
}

// arms returns every arm, in the order they are measured. Those of a set in progress can be.
func (c *Config) arms(s *set) []experiment.Arm {
	list := []experiment.Arm{}
	for _, m := range c.makers() {
		run := c.trainingRun(&m)
		if m.Rules != nil {
			run = m.Name // a search is made once as well
		}
		for _, t := range m.measurements() {
			a := experiment.Arm{
				Name: armName(m.Name, t), Description: m.description + measured[t], TrainingRun: run, Needs: c.needs(&m),
				CoreS: experiment.WholeS(float64(c.flights(&m, t)) * c.flightS(&m)), Optional: m.optional, Spends: c.spends(&m),
			}
			if s != nil {
				a.Key = func() string { return s.key(&m, t) }
				a.New = func() experiment.Result { return &Result{} }
				a.Check = func(r experiment.Result) error { return s.check(&m, t, r.(*Result)) }
				a.Measure = func(ctx context.Context) (experiment.Result, error) { return s.measure(ctx, &m, t) }
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
func (s *set) key(m *maker, t measurement) string {
	parts := []any{resultVersion, m, t, s.seedsOf(m, t), s.Settings, s.DenseSettings, s.CalibrationSeeds, s.Methods.Scales, s.Methods.CMDP.BudgetsJ}
	if t.ofBudgets() {
		parts = append(parts, shockTotalsJ)
	}
	if t == entry {
		parts = append(parts, entryOmega, entryTotalsJ)
	}
	switch {
	case m.Form != nil:
		p, tokens := s.published(m)
		if parts = append(parts, p, tokens, p.Form.Graph().Nodes); m.Name == s.longestArm() && s.full != nil { // the nodes are its formulas
			parts = append(parts, s.full.Manifest)
		}
	case m.Rules != nil:
		parts = append(parts, s.search(m.Rules))
	case m.Method != "":
		r, method := s.run(m)
		parts = append(parts, method.Settings(&r.Config))
	}
	raw, err := json.Marshal(parts)
	if err != nil {
		panic(err) // structs of numbers and strings
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

// check returns what is wrong with a stored result.
func (s *set) check(m *maker, t measurement, r *Result) error {
	n := len(s.seedsOf(m, t))
	if t.ofBudgets() {
		if err := study.CheckBudgets(r.Budgets, r.Traces, n); err != nil {
			return err
		}
	}
	for _, x := range r.Sweeps {
		if err := pareto.CheckOutcomes(x.Settings, x.Outcomes, n); err != nil {
			return fmt.Errorf("%s: %w", x.Name, err)
		}
		if len(x.SpeedMPS) != len(x.Settings) {
			return fmt.Errorf("%s: %d speeds for %d settings", x.Name, len(x.SpeedMPS), len(x.Settings))
		}
	}
	for _, x := range s.sweeps(m, t, &flyer{}) {
		if r.sweep(x.name) == nil {
			return fmt.Errorf("%q is missing", x.name)
		}
	}
	return nil
}

// results returns what has been measured, by arm.
func (s *set) results() (map[string]*Result, error) {
	all := map[string]*Result{}
	for i := range s.Arms {
		a := &s.Arms[i]
		r, err := s.Read(s.Dir, a)
		switch {
		case err == nil:
			all[a.Name] = r.(*Result)
		case !errors.Is(err, os.ErrNotExist):
			return nil, fmt.Errorf("arm %s: %w", a.Name, err)
		}
	}
	return all, nil
}

// Rough rates, in seconds of a core that does nothing else. They balance shards and tell how long
// a job takes; no result depends on them.
const (
	ruleFlightS      = 0.0005
	actorFlightS     = 0.01  // of PPO and of what has its network
	sequenceFlightS  = 0.105 // of package methods' sequence models: their windows are computed anew
	publishedFlightS = 0.06
	oracleFlightS    = 1.1
	mpcFlightS       = 3.6

	stepS             = 1.0 / 25_000 // of the environment, learned from by PPO
	transitionS       = 1.0 / 80_000 // read by IQL
	sequenceTokenS    = 1.0 / 19_000 // read by package methods' sequence models
	publishedTokenS   = 1.0 / 22_000
	corpusFlightS     = 3 * ruleFlightS // drawn twice, and flown again to be read
	pgmorlFlightShare = 1.1             // flights of the population, beside the steps learned from
)

// flightS returns the rough time of a maker's flight.
func (c *Config) flightS(m *maker) float64 {
	switch {
	case m.Form != nil:
		return publishedFlightS * float64(cmp.Or(m.Form.Aircraft, 2)) / 2
	case m.Rules != nil || m.Scheduler != "":
		return ruleFlightS
	case m.Method == "sca-oracle":
		return oracleFlightS * cmp.Or(m.Scale, 1)
	case m.Method == "sca-mpc":
		return mpcFlightS * cmp.Or(m.Scale, 1)
	}
	if c.budget(m).Tokens > 0 {
		return sequenceFlightS
	}
	return actorFlightS
}

// flights returns how many a maker flies for a measurement; see measure.
func (c *Config) flights(m *maker, t measurement) int {
	settings, list := c.Settings, len(c.seedsOf(m, t))
	switch {
	case m.Rules != nil:
		settings = m.Rules.Population // at most: a front has some members less
	case m.Method == "unconditioned":
		settings = 1
	case m.Method == "cmdp":
		settings = len(c.Methods.CMDP.BudgetsJ)
	}
	switch t {
	case axis:
		return calibrationSettings*c.CalibrationSeeds + c.Settings*list
	case dense:
		return calibrationSettings*c.CalibrationSeeds + c.DenseSettings*list
	case entry:
		return len(entryTotalsJ) * list
	case budgets, replan:
		totals := study.BudgetFlights()
		for _, x := range c.sweeps(m, t, &flyer{}) {
			totals += len(x.settings)
		}
		return totals * list
	}
	return len(conditions(t)) * settings * list
}

// needs returns what is made before a maker's policy flies, with its rough cost.
func (c *Config) needs(m *maker) []experiment.Need {
	list := []experiment.Need{} // null is no list in JSON
	add := func(path string, coreS float64) {
		list = append(list, experiment.Need{Path: path, CoreS: experiment.WholeS(coreS)})
	}
	if m.Rules != nil {
		add(m.Rules.path(), float64(m.Rules.Budgets*c.Evaluations*3)*ruleFlightS)
	}
	run := c.trainingRun(m)
	switch {
	case run == "":
	case m.Form != nil:
		if m.Name == c.longestArm() && c.Published != "" {
			break
		}
		p, tokens := c.published(m)
		add(trainingPath(run), tokens*publishedTokenS+float64(p.Flights)*corpusFlightS)
	default:
		r, method := c.run(m)
		b := method.Budget(r)
		if from := method.LearnsFrom; from != "" {
			add(trainingPath(from), float64(methods.Find(&r.Config, from).Budget(r).EnvironmentSteps)*stepS)
		}
		steps := float64(b.EnvironmentSteps) * stepS
		if m.Method == "pgmorl" {
			steps *= pgmorlFlightShare
		}
		add(trainingPath(run), steps+float64(b.Transitions)*transitionS+float64(b.Tokens)*sequenceTokenS)
	}
	return list
}

// budget is what a maker is declared to spend before it flies: of what it learns from others' flights,
// its own part.
func (c *Config) budget(m *maker) methods.Budget {
	switch {
	case m.Rules != nil:
		return methods.Budget{EnvironmentSteps: m.Rules.Population * c.search(m.Rules).Generations * 3 * world.Standard().Slots}
	case m.Form != nil:
		_, tokens := c.published(m)
		return methods.Budget{Tokens: int(tokens)}
	case m.Method == "":
		return methods.Budget{}
	}
	if r, method := c.run(m); method.Budget != nil {
		return method.Budget(r)
	}
	return methods.Budget{}
}

// spends says what a maker is declared to spend before it flies.
func (c *Config) spends(m *maker) string {
	switch b := c.budget(m); {
	case b.EnvironmentSteps > 0:
		return fmt.Sprintf("%.4gM environment steps", float64(b.EnvironmentSteps)/1e6)
	case b.Transitions > 0:
		return fmt.Sprintf("%.4gM transitions", float64(b.Transitions)/1e6)
	case b.Tokens > 0:
		return fmt.Sprintf("%.4gM tokens", float64(b.Tokens)/1e6)
	}
	switch r, _ := c.run(m); m.Method {
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
	for i := range t.makers {
		m := &t.makers[i]
		for _, measurement := range m.measurements() {
			a := t.arm(armName(m.Name, measurement))
			if t.results[a.Name] == nil {
				continue
			}
			coreS += a.CoreS
			for _, n := range a.Needs {
				if !paths[n.Path] {
					paths[n.Path], coreS = true, coreS+n.CoreS
				}
			}
			if run := a.TrainingRun; run != "" && !runs[run] {
				runs[run] = true
				own := t.budget(m)
				b.EnvironmentSteps += own.EnvironmentSteps
				b.Transitions += own.Transitions
				b.Tokens += own.Tokens
				if m.Name == t.longestArm() && t.full != nil { // trained elsewhere, so that it is no need
					coreS += experiment.WholeS(float64(own.Tokens) * publishedTokenS)
				}
			}
		}
	}
	return b, coreS
}
