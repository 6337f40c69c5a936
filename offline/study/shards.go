package study

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"prefdt/inference/model"
	"prefdt/offline/experiment"
	"prefdt/simbridge/world"
)

// planned returns the study's arms with what they take. Those of a study in progress can
// be measured.
func (c *Config) planned(s *study) []experiment.Arm {
	list := []experiment.Arm{}
	arms := c.arms()
	for i := range arms {
		a := &arms[i]
		x := experiment.Arm{Name: a.Name, Description: a.Description, TrainingRun: a.TrainingRun, Needs: c.needs(a), CoreS: experiment.WholeS(float64(c.flights(a)) * c.flightS(a))}
		if s != nil {
			x.Key = func() string { return s.resultHash(a) }
			x.New = func() experiment.Result { return &Result{} }
			x.Check = func(r experiment.Result) error { return s.check(a, r.(*Result)) }
			x.Measure = func(ctx context.Context) (experiment.Result, error) { return s.measure(ctx, a) }
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

// Rough costs, in seconds of an idle core. They balance shards and tell how long a job
// takes; no result depends on them.
const (
	dispatchFlightS = 0.003  // by the dispatch teacher
	ruleFlightS     = 0.0005 // by a rule
	paperFlightS    = 0.06   // by PrefDT as published: its window of sixty tokens is computed anew in each slot
	// secondsPerWeight is of one parameter's part in a token of training, forward and backward.
	secondsPerWeight = 8.5e-11
)

// needs returns what is made before an arm is flown.
func (c *Config) needs(a *Arm) []experiment.Need {
	list := []experiment.Need{} // null is no list in JSON
	archive := func(fromRules bool, population int) {
		if fromRules {
			list = append(list, experiment.Need{Path: ruleArchivePath(population), CoreS: experiment.WholeS(2000 * 3 * ruleFlightS)})
		} else {
			list = append(list, experiment.Need{Path: dispatchArchivePath, CoreS: experiment.WholeS(float64(101*c.ArchiveEpisodes) * dispatchFlightS)})
		}
	}
	switch a.Kind {
	case kindRules, kindDispatch:
		archive(a.Kind == kindRules, a.SearchPopulation)
	case kindPaper:
		p, tokens := c.published(a.TrainingRun)
		list = append(list, experiment.Need{Path: trainingPath(a.TrainingRun), CoreS: experiment.WholeS(tokens*float64(p.Form.Parameters())*secondsPerWeight + 3*float64(p.Flights)*dispatchFlightS)})
	case kindTrained:
		run := c.trainingRun(a.TrainingRun)
		archive(false, 0)
		flights := float64(c.Train.Batch * c.Train.Schedule.Steps)
		tokens := float64(model.TokensPerSlot * world.Standard().Slots)
		list = append(list,
			experiment.Need{Path: corpusPath(run.recipe), CoreS: experiment.WholeS(float64(c.CorpusFlights) * dispatchFlightS)},
			experiment.Need{Path: trainingPath(a.TrainingRun), CoreS: experiment.WholeS(flights * (2*dispatchFlightS + tokens*float64(c.parameters(a))*secondsPerWeight))})
	}
	return list
}

// flights returns how many an arm flies; see measure.
func (c *Config) flights(a *Arm) int {
	seeds, settings, n := c.AblationSeeds, c.Settings, 0
	if a.AllSeeds {
		seeds = c.Seeds
	}
	archive := a.Kind == kindRules || a.Kind == kindDispatch
	switch {
	case a.Kind == kindRules:
		settings = a.SearchPopulation
	case a.Kind == kindDispatch:
		settings = cmp.Or(a.Prices, c.Prices)
	case a.Unconditioned:
		settings = 1
	case a.Kind == kindTrained || a.Kind == kindPaper:
		n += calibrationGridSize * c.CalibrationSeeds
	}
	if !a.BudgetsOnly {
		n += settings * (seeds + c.AblationSeeds)
		if !archive && !a.Unconditioned {
			n += c.Settings * seeds // even settings
		}
	}
	if !a.Unconditioned && a.Kind != kindRandom {
		for _, b := range budgetTests {
			n += len(b.requests) * c.AblationSeeds
		}
		n += len(traceRequests) * c.AblationSeeds
	}
	if a.LossyLink {
		n += len(links) * len(a.fallbacks()) * settings * min(c.LinkSeeds, seeds)
	}
	return n
}

// flightS returns the rough time of an arm's flight.
func (c *Config) flightS(a *Arm) float64 {
	switch a.Kind {
	case kindDispatch, kindPacer:
		return dispatchFlightS
	case kindRules, kindRandom:
		return ruleFlightS
	case kindPaper:
		return paperFlightS
	}
	return dispatchFlightS + float64(world.Standard().Slots)*(24e-6+6e-11*float64(c.parameters(a)))
}

// parameters returns how many an arm's network has, but for the paper's and the
// flagship's, which are as large as the base's.
func (c *Config) parameters(a *Arm) int {
	arch := c.Train.Arch
	if run := c.trainingRun(a.TrainingRun); run != nil && run.adjustArch != nil {
		run.adjustArch(&arch)
	}
	return arch.Parameters()
}

// trainingRun returns the training run of a name, nil if there is none.
func (c *Config) trainingRun(name string) *trainingRun {
	list := c.trainingRuns()
	if i := slices.IndexFunc(list, func(r trainingRun) bool { return r.name == name }); i >= 0 {
		return &list[i]
	}
	return nil
}
