// Package study compares the shipped policy with baselines and ablations on one
// protocol: the paper's own form, each departure from it reverted alone, teachers,
// and networks of other sizes. Inputs: a configuration and the shipped checkpoint.
// Outputs: one JSON file for each arm, and from those files alone the tables, the
// pictures and the summary. "offline study" calls it.
//
// An arm is trained if it has to be, calibrated, and flown on evaluation seeds
// that all arms share. A study that was interrupted continues where it was, and
// one more arm costs that arm. Arms are independent of each other: shards of them
// may be measured by several processes, in one folder or in one each, and Merge
// writes the report over all.
//
// Every metric of a table is computed per seed and averaged, against reference
// points that all arms share; ratios are to the exact-dispatch teacher's front at 256
// prices. IGD is measured against the pooled front of all arms on the same seed, and
// the reference carries a hash of its contributors. A budget is judged by itself, on
// the seeds on which the reference even pacer keeps it: no arm influences what it is
// judged by.
// Differences are paired by seed: an exact Wilcoxon signed-rank test and a
// bootstrap interval.
package study

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"io"
	"path/filepath"

	"prefdt/configs"
	"prefdt/inference/checkpoint"
	"prefdt/offline/command"
	"prefdt/offline/corpus"
	"prefdt/offline/experiment"
	"prefdt/offline/rollout"
	"prefdt/offline/seeds"
	"prefdt/offline/train"
	"prefdt/simbridge/world"
)

// Config is one study.
type Config struct {
	Checkpoint string `json:"-" yaml:"checkpoint"` // folder of the flagship

	Seeds            int `json:"seeds" yaml:"seeds" range:"2,1000"`                          // evaluation seeds of the headline arms
	AblationSeeds    int `json:"ablation_seeds" yaml:"ablation_seeds"`                       // of all others, the first of the same seeds
	CalibrationSeeds int `json:"calibration_seeds" yaml:"calibration_seeds" range:"1,10000"` // that settings are calibrated on
	LinkSeeds        int `json:"link_seeds" yaml:"link_seeds"`                               // of the lossy link
	Settings         int `json:"settings" yaml:"settings" range:"3,256"`                     // K, of each arm that has no list of its own
	Prices           int `json:"prices" yaml:"prices" range:"3,256"`                         // of the arm dispatch-teacher

	CorpusFlights   int `json:"flights" yaml:"flights" range:"400,1e7"` // of each corpus
	ArchiveEpisodes int `json:"episodes" yaml:"episodes" range:"1,1e5"` // that each archive member's outcome is a mean over

	Train    train.Config `json:"train" yaml:"train"` // of the arms that the study trains
	AllSizes bool         `json:"grid" yaml:"grid"`   // all 27 sizes, not only those around the base
}

// Default takes about an hour and a half on two cores.
func Default() Config {
	var c Config
	configs.Default("study.yaml", &c)
	return c
}

// Check validates a configuration and returns the first violation.
func (c *Config) Check() error {
	if err := cmp.Or(command.CheckRanges(c), command.InRange("ablation_seeds", c.AblationSeeds, 2, c.Seeds),
		command.InRange("link_seeds", c.LinkSeeds, 1, c.Seeds)); err != nil {
		return fmt.Errorf("study %w", err)
	}
	return c.Train.Check()
}

type study struct {
	Config
	*experiment.Set
	world world.Config

	flagship        *checkpoint.Checkpoint
	dispatchArchive *corpus.Archive             // swept once
	corpora         map[string]*corpus.Manifest // by recipe
}

// open loads what a study rests on. It writes nothing, and its errors are the user's.
func open(c Config, out string, log io.Writer) (*study, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	s := &study{Config: c, world: world.Standard(), corpora: map[string]*corpus.Manifest{}}
	s.Set = experiment.NewSet("study", "study", out, c, c.planned(s), log)
	s.Set.CalibrationSeeds = c.CalibrationSeeds
	var err error
	s.flagship, err = checkpoint.Load(c.Checkpoint)
	return s, err
}

//go:embed costs.json
var costs []byte

// planned returns the study's arms with what they take. Those of a study in progress can
// be measured.
func (c *Config) planned(s *study) []experiment.Arm {
	list, costs := []experiment.Arm{}, experiment.ReadCosts(costs)
	for _, a := range c.arms() {
		x := experiment.Arm{Name: a.Name, Description: a.Description, TrainingRun: a.TrainingRun, Needs: []experiment.Need{},
			CoreS: costs[a.Name]}
		for _, path := range c.needs(a) {
			x.Needs = append(x.Needs, experiment.Need{Path: path, CoreS: costs[path]})
		}
		if (a.Kind == kindTrained || a.Kind == kindPaper) && !a.Unconditioned {
			x.Recalibrated = c.Settings
		}
		if !a.Unconditioned && a.Kind != kindRandom { // these take no totals
			x.BudgetSeeds = evaluationSeeds(c.AblationSeeds)
		}
		if s != nil {
			x.Key = func() string { return s.key(a) }
			x.Policy = func(ctx context.Context) (*experiment.Policy, error) { return s.policy(ctx, a, nil) }
			x.Protocols = func(p *experiment.Policy) []experiment.Protocol { return s.protocols(a, p) }
		}
		list = append(list, x)
	}
	return list
}

// Paths in a study's folder.
const dispatchArchivePath = "teacher/dispatch.json"

func ruleArchivePath(population int) string { return fmt.Sprintf("search/rules%d.json", population) }
func corpusPath(recipe string) string       { return filepath.Join("corpus", recipe+".json") }
func trainingPath(run string) string        { return filepath.Join("train", run) }

// needs returns what is made before an arm is flown.
func (c *Config) needs(a *row) []string {
	switch a.Kind {
	case kindRules:
		return []string{ruleArchivePath(a.Population)}
	case kindDispatch:
		return []string{dispatchArchivePath}
	case kindPaper:
		return []string{trainingPath(a.TrainingRun)}
	case kindTrained:
		return []string{dispatchArchivePath, corpusPath(c.trainingRun(a.TrainingRun).Recipe), trainingPath(a.TrainingRun)}
	}
	return nil
}

// gusty names the sweep of an arm's own settings in gusts.
const gusty = "gusts"

// links are the bad links that an arm is flown over.
var links = []rollout.ReportLink{{LossRate: 0.05}, {LossRate: 0.2}, {LossRate: 0.4}, {LossRate: 1}, {LateSlots: 1}}

// fallbacks are what users do without a decision. Only a policy that decides at a price can make a standing offer.
var fallbacks = []rollout.Fallback{rollout.FallbackLocal, rollout.FallbackLastReport, rollout.FallbackOffer}

// linkName names the sweep over a link.
func linkName(l rollout.ReportLink) string {
	return fmt.Sprintf("%.0f %% of reports lost, %d late, %q", 100*l.LossRate, l.LateSlots, l.Fallback)
}

// protocols returns what an arm is flown through beside budgets in joules.
func (s *study) protocols(a *row, p *experiment.Policy) (list []experiment.Protocol) {
	add := func(x experiment.Protocol) {
		x.Request = experiment.Preference
		list = append(list, x)
	}
	few := evaluationSeeds(s.AblationSeeds)
	seeds := few
	if a.AllSeeds {
		seeds = evaluationSeeds(s.Seeds)
	}
	if !a.BudgetsOnly {
		add(experiment.Protocol{Name: experiment.Nominal, Settings: p.Settings, Seeds: seeds})
		if !a.isArchive() && !a.Unconditioned {
			even := rollout.Linspace(p.Band[0], p.Band[1], s.Settings)
			add(experiment.Protocol{Name: experiment.EvenSettings, Settings: even, Seeds: seeds})
		}
		add(experiment.Protocol{Name: gusty, Change: func(c *world.Config) { c.Gust = experiment.GustStdDev }, Settings: p.Settings,
			Seeds: few})
	}
	for _, l := range links {
		l.Prior = s.flagship.Statistics.UserPrior()
		for _, l.Fallback = range fallbacks {
			if a.LossyLink && (l.Fallback != rollout.FallbackOffer || a.Kind != kindPaper) {
				add(experiment.Protocol{Name: linkName(l), Link: l, Settings: p.Settings, Seeds: seeds[:min(s.LinkSeeds, len(seeds))]})
			}
		}
	}
	return list
}

// report times decisions and writes the report, from the results alone.
func (s *study) report(ctx context.Context, timed bool) error {
	r, err := s.newReport()
	if err != nil {
		return err
	}
	// Decisions are timed one arm after the other, so that the times compare, whatever
	// else ran on the machine while the arms were measured.
	if timed {
		s.Logf("timing decisions")
	}
	for _, a := range r.arms {
		if !timed || a.BudgetsOnly {
			continue
		}
		r.decisionUS[a.Name], err = s.timeDecision(ctx, a, r.results[a.Name].Sweep(experiment.Nominal).Settings)
		if command.Ended(ctx, err) {
			return command.Interrupted(ctx, " while decisions were timed; the same command with -resume continues")
		} else if err != nil {
			return fmt.Errorf("study arm %s: %w", a.Name, err)
		}
	}
	return r.write()
}

// timeDecision returns the median time of an arm's decisions over some flights, of one core.
func (s *study) timeDecision(ctx context.Context, a *row, omegas []float64) (medianUS float64, err error) {
	timer := &rollout.DecisionTimer{}
	p, err := s.policy(ctx, a, func(p rollout.Policy) rollout.Policy { timer.Policy = p; return timer })
	if err != nil {
		return 0, err
	}
	runner, err := p.Runner(s.world, rollout.ReportLink{})
	if err != nil {
		return 0, err
	}
	for i, seed := range evaluationSeeds(5) {
		runner.Fly(seed, experiment.Preference(omegas[i*(len(omegas)-1)/4]))
	}
	return timer.Median().Seconds() * 1e6, nil
}

// resultVersion is of what is measured and how it is stored: a result of another
// version is measured anew.
const resultVersion = 3

// key identifies all that an arm's result depends on.
func (s *study) key(a *row) string {
	parts := []any{resultVersion, a, s.Config}
	if a.Kind == kindFlagship || a.Kind == kindPacer { // a pacer has the flagship's archived spending
		m := s.flagship.Manifest
		m.Estimator = nil // no arm flies where anything is hidden
		parts = append(parts, m)
	}
	if a.Kind == kindPaper {
		p, _ := s.published(a.TrainingRun)
		parts = append(parts, p.Form.Graph().Nodes) // its formulas
	}
	return experiment.Key(parts...)
}

func evaluationSeeds(n int) []uint64 { return seeds.List(seeds.EvaluationFirst, n) }
