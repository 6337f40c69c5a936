package study

import (
	"cmp"
	"fmt"
	"math"
	"path/filepath"
	"slices"

	"prefdt/inference/model"
	"prefdt/offline/command"
	"prefdt/simbridge/world"
)

// need is a file or folder, relative to the study's folder, that is made before an arm
// is flown. Arms share it.
type need struct {
	Path  string `json:"path"`
	CoreS int    `json:"core_s"` // rough seconds of one core to make it
}

// plannedArm is one arm with what it takes to measure it.
type plannedArm struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	TrainingRun string `json:"run,omitempty"`
	Needs       []need `json:"needs"`  // in the order in which they are made
	CoreS       int    `json:"core_s"` // rough seconds of one core to fly it
}

// plan returns what the arms take.
func (c *Config) plan(arms []Arm) []plannedArm {
	list := []plannedArm{}
	for i := range arms {
		a := &arms[i]
		list = append(list, plannedArm{a.Name, a.Description, a.TrainingRun, c.needs(a), wholeS(float64(c.flights(a)) * c.flightS(a))})
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
	paperFlightS    = 0.07   // by the paper's network: its window of sixty tokens is computed anew in each slot
	// secondsPerWeight is of one parameter's part in a token of training, forward and backward.
	secondsPerWeight = 8.5e-11
)

// wholeS rounds a time up. Costs are whole numbers, so that every process adds them up
// to the same sums.
func wholeS(x float64) int { return int(math.Ceil(x)) }

// needs returns what is made before an arm is flown.
func (c *Config) needs(a *Arm) []need {
	list := []need{} // null is no list in JSON
	archive := func(fromRules bool, population int) {
		if fromRules {
			list = append(list, need{ruleArchivePath(population), wholeS(2000 * 3 * ruleFlightS)})
		} else {
			list = append(list, need{dispatchArchivePath, wholeS(float64(101*c.ArchiveEpisodes) * dispatchFlightS)})
		}
	}
	switch a.Kind {
	case kindRules, kindDispatch:
		archive(a.Kind == kindRules, a.SearchPopulation)
	case kindTrained, kindPaper:
		run := c.trainingRun(a.TrainingRun)
		archive(recipes[run.recipe].fromRules, 50)
		flights := float64(c.Train.Batch * c.Train.Schedule.Steps)
		tokens := float64(model.TokensPerSlot * world.Standard().Slots)
		list = append(list,
			need{corpusPath(run.recipe), wholeS(float64(c.CorpusFlights) * dispatchFlightS)},
			need{trainingPath(a.TrainingRun), wholeS(flights * (2*dispatchFlightS + tokens*float64(c.parameters(a))*secondsPerWeight))})
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

// selectArms returns the arms named, or all, that are a shard's, in the study's order.
// Arms of one training run are in one shard: two processes would train the same
// network in the same folder. The runs are dealt by cost, the dearest first, to the shard
// that has the least; every process deals alike.
func (c *Config) selectArms(only []string, shard command.Shard) ([]Arm, error) {
	arms := c.arms()
	for _, name := range only {
		if !slices.ContainsFunc(arms, func(a Arm) bool { return a.Name == name }) {
			return nil, fmt.Errorf("no arm is called %q (-list shows them)", name)
		}
	}
	if len(only) > 0 {
		arms = slices.DeleteFunc(arms, func(a Arm) bool { return !slices.Contains(only, a.Name) })
	}
	if shard.Whole() {
		return arms, nil
	}
	type group struct {
		name  string
		costS int
	}
	var groups []group
	for k, p := range c.plan(arms) {
		name := arms[k].group()
		i := slices.IndexFunc(groups, func(g group) bool { return g.name == name })
		if i < 0 {
			i = len(groups)
			groups = append(groups, group{name: name})
			for _, n := range p.Needs {
				groups[i].costS += n.CoreS
			}
		}
		groups[i].costS += p.CoreS
	}
	slices.SortStableFunc(groups, func(a, b group) int { return cmp.Compare(b.costS, a.costS) })
	loads, own := make([]int, shard.N), map[string]bool{}
	for _, g := range groups {
		least := 0
		for i := range loads {
			if loads[i] < loads[least] {
				least = i
			}
		}
		loads[least] += g.costS
		own[g.name] = least == shard.I
	}
	return slices.DeleteFunc(arms, func(a Arm) bool { return !own[a.group()] }), nil
}

// group names the arms that one process measures: those of a training run, or an arm
// alone (no run's name begins with a blank).
func (a *Arm) group() string { return cmp.Or(a.TrainingRun, " "+a.Name) }
