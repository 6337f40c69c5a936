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
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"prefdt/inference/checkpoint"
	"prefdt/offline/command"
	"prefdt/offline/corpus"
	"prefdt/offline/experiment"
	"prefdt/offline/pareto"
	"prefdt/offline/seeds"
	"prefdt/offline/train"
	"prefdt/simbridge/world"
)

// Config is one study.
type Config struct {
	Checkpoint string `json:"-" yaml:"checkpoint"` // folder of the flagship

	Seeds            int `json:"seeds" yaml:"seeds"`                         // evaluation seeds of the headline arms
	AblationSeeds    int `json:"ablation_seeds" yaml:"ablation_seeds"`       // of all others, the first of the same seeds
	CalibrationSeeds int `json:"calibration_seeds" yaml:"calibration_seeds"` // that each trained arm's settings are calibrated on
	LinkSeeds        int `json:"link_seeds" yaml:"link_seeds"`               // of the lossy link
	Settings         int `json:"settings" yaml:"settings"`                   // K, of each arm that has no list of its own
	Prices           int `json:"prices" yaml:"prices"`                       // of the arm dispatch-teacher; ratios are to finestPrices

	CorpusFlights   int `json:"flights" yaml:"flights"`   // of each corpus
	ArchiveEpisodes int `json:"episodes" yaml:"episodes"` // that each archive member's outcome is a mean over

	Train    train.Config `json:"train" yaml:"train"` // of the arms that the study trains
	AllSizes bool         `json:"grid" yaml:"grid"`   // all 27 sizes, not only those around the base
}

// Default takes about an hour and a half on two cores.
func Default() Config {
	c := Config{
		Checkpoint: "configs/checkpoint",
		Seeds:      100, AblationSeeds: 20, CalibrationSeeds: 10, LinkSeeds: 10, Settings: 21, Prices: 32,
		CorpusFlights: 6000, ArchiveEpisodes: 100, Train: train.Default(),
	}
	c.Train.Batch, c.Train.Schedule.Steps = 8, 600
	return c
}

// Check validates a configuration and returns the first violation.
func (c *Config) Check() error {
	for _, r := range []struct {
		name    string
		x, low  int
		highest int
	}{
		{"seeds", c.Seeds, 2, 1000}, {"ablation_seeds", c.AblationSeeds, 2, c.Seeds}, {"link_seeds", c.LinkSeeds, 1, c.Seeds},
		{"calibration_seeds", c.CalibrationSeeds, 1, 10000}, {"settings", c.Settings, 3, finestPrices}, {"prices", c.Prices, 3, finestPrices},
		{"flights", c.CorpusFlights, 500, 1e7}, {"episodes", c.ArchiveEpisodes, 1, 1e5},
	} {
		if r.x < r.low || r.x > r.highest {
			return fmt.Errorf("study %s is %d, want %d to %d", r.name, r.x, r.low, r.highest)
		}
	}
	return c.Train.Check()
}

// study is a study in progress.
type study struct {
	Config
	*experiment.Set
	world   world.Config
	workers int

	flagship        *checkpoint.Checkpoint
	dispatchArchive *corpus.Archive             // swept once
	corpora         map[string]*corpus.Manifest // by recipe
}

// open loads what a study rests on. It writes nothing, and its errors are the user's.
func open(c Config, out string, log io.Writer) (*study, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	s := &study{Config: c, world: world.Standard(), workers: runtime.GOMAXPROCS(0), corpora: map[string]*corpus.Manifest{}}
	s.Set = experiment.NewSet("study", "study", out, c, c.planned(s), log)
	var err error
	s.flagship, err = checkpoint.Load(c.Checkpoint)
	return s, err
}

// report times decisions and writes the report, from the results alone.
func (s *study) report(ctx context.Context, timed bool) error {
	arms := s.arms()
	var results []*Result
	for i := range arms {
		r, err := s.readResult(&arms[i])
		if errors.Is(err, os.ErrNotExist) {
			continue
		} else if err != nil {
			return err
		}
		r.DecisionUS = math.NaN()
		results = append(results, r)
	}
	// Decisions are timed one arm after the other, so that the times compare, whatever
	// else ran on the machine while the arms were measured.
	if timed {
		s.Logf("timing decisions")
	}
	for _, r := range results {
		if !timed || r.arm.BudgetsOnly {
			continue
		}
		var err error
		r.DecisionUS, err = s.timeDecision(ctx, r.arm, r.Omegas)
		if command.Ended(ctx, err) {
			return command.Interrupted(ctx, " while decisions were timed; the same command with -resume continues")
		} else if err != nil {
			return fmt.Errorf("study arm %s: %w", r.arm.Name, err)
		}
	}
	return s.writeReport(results)
}

// resultVersion is of what is measured and how it is stored: a result of another
// version is measured anew.
const resultVersion = 2

// resultHash identifies all that an arm's result depends on.
func (s *study) resultHash(a *Arm) string {
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
	raw, err := json.Marshal(parts)
	if err != nil {
		panic(err) // structs of numbers and strings
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

// readResult returns an arm's result, os.ErrNotExist if there is none of this arm as it is
// now defined.
func (s *study) readResult(a *Arm) (*Result, error) {
	i := slices.IndexFunc(s.Arms, func(x experiment.Arm) bool { return x.Name == a.Name })
	stored, err := s.Read(s.Dir, &s.Arms[i])
	if err != nil {
		return nil, err
	}
	r := stored.(*Result)
	r.arm = a
	return r, nil
}

// ReadResult reads an arm's result in a study's folder, of whatever configuration, for other
// reports to show beside their own.
func ReadResult(dir, arm string) (*Result, error) {
	path := filepath.Join(dir, arm, "result.json")
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	r := &Result{}
	err = json.Unmarshal(raw, r)
	if x := r.Uniform; err == nil && len(x.Omegas) > 0 && len(x.Points) > 0 {
		err = pareto.CheckOutcomes(x.Omegas, x.Points, len(x.Points[0]))
	}
	for _, b := range r.Budgets {
		if err == nil {
			err = pareto.CheckOutcomes([]float64{b.BudgetJ}, [][]pareto.Point{b.Outcomes}, max(len(b.Outcomes), 1))
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s is damaged: %w", path, err)
	}
	return r, nil
}

// FirstSeed is that of the episodes that arms fly.
const FirstSeed = seeds.EvaluationFirst

// evaluationSeeds returns the first n evaluation seeds.
func evaluationSeeds(n int) []uint64 { return seeds.List(FirstSeed, n) }
