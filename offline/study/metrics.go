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

// figures are what tables show of one arm, by column. A number that it was not measured for is NaN.
type figures struct {
	*row
	Cells   experiment.Row
	Budgets experiment.BudgetList
}

// HV is the mean hypervolume, in 1e6 s J.
func (f *figures) HV() float64 { return f.number("hypervolume") / 1e6 }

func (f *figures) number(column string) float64 { return f.Cells[column].(float64) }

// figuresOf computes an arm's, against the arm called baseline; nil if it has not been measured.
func (r *report) figuresOf(name, baseline string) *figures {
	i := slices.IndexFunc(r.arms, func(a *row) bool { return a.Name == name })
	if i < 0 {
		return nil
	}
	own, x := r.results[name], experiment.Row{}
	for _, c := range csvColumns() {
		x[c.Key] = math.NaN()
	}
	x["arm"], x["settings"], x["distinct"], x["parameters"], x["pairs"] = name, 0, 0, own.Parameters, 0
	x["operable"], x["versus"], x["diff"], x["parameters, grouped"] = experiment.None, "", experiment.None, groupThousands(own.Parameters)
	f := &figures{row: r.arms[i], Cells: x}
	if even := r.results[evenArm]; even != nil {
		f.Budgets = experiment.JudgeBudgets(own.Budgets, even.Budgets)
	}
	for _, p := range experiment.Perturbations {
		mean, name := f.Budgets.Mean(p), csvName.Replace(p)
		x[p] = f.ifMeasured(&mean, fmt.Sprintf("%+.2f %% / %.2f", 100*mean.End, mean.OverrunRate))
		x["budget_end_"+name], x["budget_overrun_"+name], x["budget_over_"+name] = mean.End, mean.MeanOverrun, mean.OverrunRate
		x["budget_delay_s_"+name], x["budget_even_delay_s_"+name] = mean.DelayS, mean.EvenDelayS
	}
	if front := own.Sweep(experiment.Nominal); front != nil {
		r.addFront(x, own, front, name, baseline)
	} else {
		x["seeds"] = len(own.Budgets[0].Outcomes)
	}
	x["points"] = fmt.Sprintf("%d / %d", x["distinct"], x["settings"])
	x["hv"] = fmt.Sprintf("%.3f ± %.2f", f.HV(), f.number("hypervolume_std")/1e6)
	x["igd, 1e-3"] = 1e3 * f.number("igd")
	return f
}

// addFront adds the figures of an arm that has a front.
func (r *report) addFront(x experiment.Row, own *experiment.Result, front *experiment.Sweep, name, baseline string) {
	if us, timed := r.decisionUS[name]; timed {
		x["decision_us"] = us
	}
	m := front.Measure(pareto.Reference, pareto.TightReference)
	hypervolume, tight := pareto.Summarise(m.Hypervolumes), pareto.Summarise(m.Tight)
	x["seeds"], x["settings"], x["distinct"] = len(m.Hypervolumes), m.Settings, m.Distinct
	x["hypervolume"], x["hypervolume_std"], x["tight"], x["tight_std"] = hypervolume.Mean, hypervolume.Std, tight.Mean, tight.Std
	igd := 0.0 // on the seeds that all arms flew
	for s, pooled := range r.reference.BySeed {
		igd += pareto.IGD(pareto.NonDominated(pareto.SeedPoints(front.Outcomes, s)), pooled) / float64(len(r.reference.BySeed))
	}
	spanned, fidelity := front, math.NaN()
	if even := own.Sweep(experiment.EvenSettings); even != nil {
		spanned, fidelity = even, pareto.Mean(pareto.Fidelities(even.Settings, even.Outcomes))
		x["fidelity_axis"] = pareto.Mean(m.Fidelities) // on the arm's own axis
	}
	reach := pareto.Mean(pareto.BySeed(spanned.Outcomes, pareto.ReachS))
	x["igd"], x["fidelity"], x["reach_s"] = igd, fidelity, reach
	x["corner_s"] = pareto.Mean(pareto.BySeed(spanned.Outcomes, pareto.CornerS))
	// Ratios are to the dispatch teacher at its finest prices, per seed; in gusts to the same in these gusts.
	if expert := r.results[finestTeacherArm]; expert != nil && len(expert.Sweep(experiment.Nominal).Settings) >= m.Settings {
		best := expert.Sweep(experiment.Nominal).Measure(pareto.Reference, pareto.TightReference)
		x["ratio"], x["tight_ratio"] = pareto.MeanRatio(m.Hypervolumes, best.Hypervolumes), pareto.MeanRatio(m.Tight, best.Tight)
		x["gust_ratio"] = pareto.MeanRatio(own.Hypervolumes(gusty), expert.Hypervolumes(gusty))
		x["operable"] = pareto.Operable(fidelity, reach/pareto.Mean(best.Reaches))
	}
	if other := r.results[baseline]; other != nil && baseline != name {
		d := pareto.Compare(m.Hypervolumes, other.Hypervolumes(experiment.Nominal))
		x["versus"], x["pairs"], x["hypervolume_difference"], x["low95"], x["high95"] = baseline, d.N, d.Mean, d.Low, d.High
		if d.N > 0 {
			x["diff"] = fmt.Sprintf("%+.3f [%+.3f, %+.3f]", d.Mean/1e6, d.Low/1e6, d.High/1e6)
		}
	}
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
