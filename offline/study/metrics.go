package study

import (
	_ "embed"
	"fmt"
	"math"
	"slices"
	"strings"

	"prefdt/configs"
	"prefdt/offline/experiment"
	"prefdt/offline/pareto"
)

// report is what tables, pictures and the summary are made of.
type report struct {
	*study
	arms       []*row // that have been measured
	results    map[string]*experiment.Result
	decisionUS map[string]float64 // median over the slots of some flights, one core; none: not timed
	reference  pareto.ReferenceFronts
}

// newReport reads what has been measured, and pools the reference front of every seed that all arms flew.
func (s *study) newReport() (*report, error) {
	r := &report{study: s, decisionUS: map[string]float64{}}
	var err error
	if r.results, err = s.Results(); err != nil {
		return nil, err
	}
	r.add(s.Config.arms())
	return r, nil
}

// add adds those of the arms that have been measured.
func (r *report) add(arms []*row) {
	var list []pareto.Contributor
	for _, a := range arms {
		x := r.results[a.Name]
		if x == nil {
			continue
		}
		r.arms = append(r.arms, a)
		if front := x.Sweep(experiment.Nominal); front != nil {
			list = append(list, pareto.Contributor{Arm: a.Name, ResultHash: x.Key, Outcomes: front.Outcomes})
		}
	}
	r.reference = pareto.PoolFronts(list)
}

// figures are one arm's. What it was not measured for is NaN.
type figures struct {
	*row
	Seeds, Settings, Distinct, Parameters int
	DecisionUS                            float64

	Hypervolume, Tight           pareto.Summary // on the arm's own axis
	HypervolumeRatio, TightRatio float64        // to the dispatch teacher at its finest prices, per seed
	IGD                          float64        // on the seeds that all arms flew
	Fidelity                     float64        // on the uniform grid
	FidelityRecalibrated         float64        // on the arm's own axis
	CornerS, ReachS              float64
	Operable                     string
	GustRatio                    float64 // to the dispatch teacher in the same gusts
	Budgets                      experiment.BudgetList

	// Against another arm, paired by seed.
	Baseline      string
	pareto.Paired // of the hypervolumes
}

// HV is the mean hypervolume, in 1e6 s J.
func (f *figures) HV() float64 { return f.Hypervolume.Mean / 1e6 }

// figuresOf computes an arm's, against the arm called baseline; nil if it has not been measured.
func (r *report) figuresOf(name, baseline string) *figures {
	i := slices.IndexFunc(r.arms, func(a *row) bool { return a.Name == name })
	if i < 0 {
		return nil
	}
	own, none := r.results[name], math.NaN()
	f := &figures{
		row: r.arms[i], Parameters: own.Parameters, DecisionUS: none,
		Hypervolume: pareto.Summary{Mean: none, Std: none}, Tight: pareto.Summary{Mean: none, Std: none},
		HypervolumeRatio: none, TightRatio: none, IGD: none, Fidelity: none, FidelityRecalibrated: none,
		CornerS: none, ReachS: none, GustRatio: none,
		Paired: pareto.NotPaired, Operable: experiment.None,
	}
	if even := r.results[evenArm]; even != nil {
		f.Budgets = experiment.JudgeBudgets(own.Budgets, even.Budgets)
	}
	front := own.Sweep(experiment.Nominal)
	if front == nil {
		f.Seeds = len(own.Budgets[0].Outcomes)
		return f
	}
	if us, timed := r.decisionUS[name]; timed {
		f.DecisionUS = us
	}
	m := front.Measure(pareto.Reference, pareto.TightReference)
	f.Seeds, f.Settings, f.Distinct, f.IGD = len(m.Hypervolumes), m.Settings, m.Distinct, 0
	f.Hypervolume, f.Tight = pareto.Summarise(m.Hypervolumes), pareto.Summarise(m.Tight)
	for s, pooled := range r.reference.BySeed {
		f.IGD += pareto.IGD(pareto.NonDominated(pareto.SeedPoints(front.Outcomes, s)), pooled) / float64(len(r.reference.BySeed))
	}
	spanned := front
	if even := own.Sweep(EvenSettings); even != nil {
		spanned = even
		f.Fidelity = pareto.Mean(pareto.Fidelities(even.Settings, even.Outcomes))
		f.FidelityRecalibrated = pareto.Mean(m.Fidelities)
	}
	f.CornerS = pareto.Mean(pareto.BySeed(spanned.Outcomes, pareto.CornerS))
	f.ReachS = pareto.Mean(pareto.BySeed(spanned.Outcomes, pareto.ReachS))
	if expert := r.results[finestTeacherArm]; expert != nil && len(expert.Sweep(experiment.Nominal).Settings) >= f.Settings {
		best := expert.Sweep(experiment.Nominal).Measure(pareto.Reference, pareto.TightReference)
		f.HypervolumeRatio = pareto.MeanRatio(m.Hypervolumes, best.Hypervolumes)
		f.TightRatio = pareto.MeanRatio(m.Tight, best.Tight)
		f.GustRatio = pareto.MeanRatio(own.Hypervolumes(gusty), expert.Hypervolumes(gusty))
		if !math.IsNaN(f.Fidelity) {
			f.Operable = pareto.Operable(f.Fidelity, f.ReachS/pareto.Mean(best.Reaches))
		}
	}
	if other := r.results[baseline]; other != nil && baseline != name {
		f.Baseline = baseline
		f.Paired = pareto.Compare(m.Hypervolumes, other.Hypervolumes(experiment.Nominal))
	}
	return f
}

// table is one of the report's.
type table struct {
	Name, Title, Baseline, Note string
	Arms                        []string
	Columns                     []string // none: those of budgets, by perturbation
}

//go:embed tables.yaml
var tablesYAML []byte

// layout is what the report is made of.
type layout struct {
	Columns map[string]string // by key, as experiment.NewColumn takes them
	Tables  []table
}

func readLayout() (x layout) {
	configs.MustDecode(tablesYAML, &x)
	return x
}

// reportColumns returns the arm's column and others, by key; those of differences are against a baseline.
func reportColumns(keys []string, baseline string) []experiment.Column {
	texts, list := readLayout().Columns, []experiment.Column{experiment.NewColumn("", "arm")}
	names := strings.NewReplacer("{prices}", fmt.Sprint(finestPrices), "{baseline}", baseline)
	for _, key := range keys {
		list = append(list, experiment.NewColumn(key, names.Replace(texts[key])))
	}
	return list
}

// tables lists the report's tables.
func (c *Config) tables() []table {
	list := readLayout().Tables
	var sizes []string
	if !slices.Contains(c.sizes(), c.Train.Arch) {
		sizes = []string{"base"}
	}
	for _, a := range c.sizes() {
		sizes = append(sizes, c.sizeArmName(a))
	}
	names := map[string][]string{
		"{sizes}": sizes, "{heads}": c.headsArmNames(), "{context 5}": {c.contextArmName(5)}, "{context 20}": {c.contextArmName(20)},
	}
	for i := range list {
		var arms []string
		for _, name := range list[i].Arms {
			if expanded, ok := names[name]; ok {
				arms = append(arms, expanded...)
			} else {
				arms = append(arms, name)
			}
		}
		list[i].Arms = arms
	}
	return list
}
