package study

import (
	"math"
	"math/rand/v2"
	"slices"

	"prefdt/offline/baseline"
	"prefdt/offline/evaluate"
	"prefdt/offline/pareto"
	"prefdt/offline/teacher"
)

// Metrics are the metrics of one arm. What it was not measured for is NaN.
type Metrics struct {
	Arm         string
	Description string
	Seeds       int
	Settings    int
	Parameters  int
	DecisionUS  float64

	Hypervolume, Tight           pareto.Summary // on the arm's own axis
	HypervolumeRatio, TightRatio float64        // to the dispatch teacher at its finest prices, per seed
	IGD                          float64        // on the seeds that all arms flew
	Fidelity                     float64        // on the uniform grid
	FidelityRecalibrated         float64        // on the arm's own axis
	NonDominatedSettings         int            // settings whose mean outcomes make a front
	CornerS, ReachS              float64
	Operable                     string
	GustRatio                    float64 // to the dispatch teacher in the same gusts
	Budgets                      []BudgetFigures

	// Against another arm, paired by seed.
	Baseline      string
	pareto.Paired // of the hypervolumes
}

// poolFronts makes the reference front of every seed that all arms flew.
func poolFronts(results []*Result) pareto.ReferenceFronts {
	var list []pareto.Contributor
	for _, x := range results {
		if !x.arm.BudgetsOnly {
			list = append(list, pareto.Contributor{Arm: x.arm.Name, ResultHash: x.Hash, Outcomes: x.Outcomes})
		}
	}
	return pareto.PoolFronts(list)
}

// findResult returns a result by name, or nil.
func findResult(results []*Result, name string) *Result {
	for _, r := range results {
		if r.arm.Name == name {
			return r
		}
	}
	return nil
}

// computeMetrics measures an arm, against the arm called baseline.
func computeMetrics(results []*Result, r *Result, reference *pareto.ReferenceFronts, baseline string) Metrics {
	none := math.NaN()
	m := Metrics{
		Arm: r.arm.Name, Description: r.arm.Description, Settings: len(r.Omegas), Parameters: r.Parameters, DecisionUS: none,
		Hypervolume: pareto.Summary{Mean: none, Std: none}, Tight: pareto.Summary{Mean: none, Std: none},
		HypervolumeRatio: none, TightRatio: none, IGD: none, Fidelity: none, FidelityRecalibrated: none, CornerS: none, ReachS: none, GustRatio: none,
		Paired: pareto.NotPaired, Operable: "—",
	}
	if even := findResult(results, evenArm); even != nil {
		m.Budgets = JudgeBudgets(r.Budgets, even.Budgets)
	}
	if r.arm.BudgetsOnly {
		m.Seeds = len(r.Budgets[0].Outcomes)
		return m
	}
	m.Seeds, m.DecisionUS, m.IGD = len(r.Outcomes[0]), r.DecisionUS, 0
	wide, tight := pareto.Hypervolumes(r.Outcomes, pareto.Reference), pareto.Hypervolumes(r.Outcomes, pareto.TightReference)
	m.Hypervolume, m.Tight = pareto.Summarise(wide), pareto.Summarise(tight)
	m.NonDominatedSettings = len(pareto.NonDominated(teacher.MeanPoints(r.Outcomes)))
	for s, pooled := range reference.BySeed {
		m.IGD += pareto.IGD(pareto.NonDominated(teacher.SeedPoints(r.Outcomes, s)), pooled) / float64(len(reference.BySeed))
	}
	spanned := r.Outcomes
	if len(r.Uniform.Points) > 0 {
		spanned = r.Uniform.Points
		m.Fidelity = pareto.Summarise(pareto.Fidelities(r.Uniform.Omegas, r.Uniform.Points)).Mean
		m.FidelityRecalibrated = pareto.Summarise(pareto.Fidelities(r.Omegas, r.Outcomes)).Mean
	}
	m.CornerS, m.ReachS = meanOverSeeds(spanned, pareto.CornerS), meanOverSeeds(spanned, pareto.ReachS)
	if expert := findResult(results, finestTeacherArm); expert != nil && len(expert.Omegas) >= m.Settings {
		m.HypervolumeRatio = pareto.MeanRatio(wide, pareto.Hypervolumes(expert.Outcomes, pareto.Reference))
		m.TightRatio = pareto.MeanRatio(tight, pareto.Hypervolumes(expert.Outcomes, pareto.TightReference))
		m.GustRatio = pareto.MeanRatio(pareto.Hypervolumes(r.GustOutcomes, pareto.Reference), pareto.Hypervolumes(expert.GustOutcomes, pareto.Reference))
		if !math.IsNaN(m.Fidelity) {
			m.Operable = pareto.Operable(m.Fidelity, m.ReachS/meanOverSeeds(expert.Outcomes, pareto.ReachS))
		}
	}
	if other := findResult(results, baseline); other != nil && other != r {
		m.Baseline = baseline
		m.Paired = pareto.Compare(wide, pareto.Hypervolumes(other.Outcomes, pareto.Reference))
	}
	return m
}

// meanOverSeeds is the mean over seeds of a measure of one seed's outcomes.
func meanOverSeeds(outcomes [][]pareto.Point, measure func([]pareto.Point) float64) float64 {
	return pareto.Summarise(pareto.BySeed(outcomes, measure)).Mean
}

// BudgetFigures is how an arm kept one budget, judged by the budget itself on the
// keepable seeds: those on which the even pacer ends within baseline.KeepableWithin
// of it. The arm has no influence on either.
type BudgetFigures struct {
	Perturbation string
	BudgetJ      float64 // as last revised
	Seeds        int
	Keepable     int     // of these seeds
	EvenDelayS   float64 // of the even pacer
	evaluate.ArmResult

	ends []float64 // by seed; NaN on those that are not keepable
}

// Measured reports whether the budget can be kept on half of the seeds at least.
func (b *BudgetFigures) Measured() bool { return 2*b.Keepable >= b.Seeds }

// JudgeBudgets judges an arm's flights by the even pacer's, which flew the same
// budgets, over the seeds that both flew.
func JudgeBudgets(flown, even []BudgetResult) (list []BudgetFigures) {
	for _, b := range flown {
		i := slices.IndexFunc(even, func(e BudgetResult) bool { return e.Perturbation == b.Perturbation && e.BudgetJ == b.BudgetJ })
		if i < 0 {
			continue
		}
		pacer := even[i].Outcomes
		b.Outcomes = b.Outcomes[:min(len(b.Outcomes), len(pacer))]
		f := BudgetFigures{Perturbation: b.Perturbation, BudgetJ: b.BudgetJ, Seeds: len(b.Outcomes)}
		var keepable []int
		for s := range b.Outcomes {
			f.ends = append(f.ends, math.NaN())
			if pacer[s].EnergyJ <= b.BudgetJ*baseline.KeepableWithin {
				keepable = append(keepable, s)
				f.ends[s] = b.Outcomes[s].EnergyJ/b.BudgetJ - 1
			}
		}
		f.Keepable = len(keepable)
		n := float64(f.Keepable)
		for _, s := range keepable {
			f.Add(b.Outcomes[s], b.BudgetJ, n)
			f.EvenDelayS += pacer[s].DelayS / n
		}
		list = append(list, f)
	}
	return list
}

func (m *Metrics) meanBudget(perturbation string) (mean BudgetFigures, measured bool) {
	return MeanBudget(m.Budgets, perturbation)
}

// MeanBudget returns the mean over the measured budgets of a perturbation, and whether
// there are any.
func MeanBudget(budgets []BudgetFigures, perturbation string) (mean BudgetFigures, measured bool) {
	mean.Perturbation = perturbation
	n := 0.0
	for i := range budgets {
		if b := &budgets[i]; b.Perturbation == perturbation && b.Measured() {
			n++
			mean.DelayS += b.DelayS
			mean.EvenDelayS += b.EvenDelayS
			mean.End += b.End
			mean.MeanOverrun += b.MeanOverrun
			mean.OverrunRate += b.OverrunRate
		}
	}
	for _, x := range []*float64{&mean.DelayS, &mean.EvenDelayS, &mean.End, &mean.MeanOverrun, &mean.OverrunRate} {
		*x /= n
	}
	return mean, n > 0
}

// endInterval is the 95 % bootstrap interval, over seeds, of the mean end of a
// perturbation's measured budgets; NaN where there are none.
func (m *Metrics) endInterval(perturbation string) (low, high float64) {
	var cells []*BudgetFigures
	for i := range m.Budgets {
		if b := &m.Budgets[i]; b.Perturbation == perturbation && b.Measured() {
			cells = append(cells, b)
		}
	}
	if len(cells) == 0 {
		return math.NaN(), math.NaN()
	}
	seeds := make([]float64, cells[0].Seeds) // their indexes
	for s := range seeds {
		seeds[s] = float64(s)
	}
	return pareto.Bootstrap(rand.New(rand.NewPCG(1, 2)), seeds, 10000, 0.95, func(drawn []float64) float64 {
		mean, measured := 0.0, 0.0
		for _, b := range cells {
			sum, n := 0.0, 0.0
			for _, s := range drawn {
				if end := b.ends[int(s)]; !math.IsNaN(end) {
					sum += end
					n++
				}
			}
			if n > 0 {
				mean += sum / n
				measured++
			}
		}
		return mean / max(measured, 1)
	})
}

// table is one of the report's.
type table struct {
	name, title, baseline string
	note                  string
	arms                  []string
	columns               []string // nil: those of budgets, by perturbation
}

// tables lists the report's tables.
func (c *Config) tables() []table {
	var sizes []string
	if !slices.Contains(c.sizes(), c.Train.Arch) {
		sizes = []string{"base"}
	}
	for _, a := range c.sizes() {
		sizes = append(sizes, c.sizeArmName(a))
	}
	return []table{
		{"headline", "Everything on one protocol", "flagship", "",
			[]string{"flagship", "flagship-snapped", "flagship-heads", "base", finestTeacherArm, "dispatch-teacher", "dispatch-centroid", "rules-101", "rules-50", "paper-form", "paper-form-dispatch", "omega-bc", "unconditioned", "random"},
			[]string{"n", "points", "hv", "ratio", "tight", "igd", "corner", "reach", "fidelity", "axis", "operable", "diff", "p", "us", "parameters"}},
		{"budgets", "Budgets in joules", "flagship",
			"For a budget, an archive flies the member that spends as much in calm air; it does not look at what was spent.",
			[]string{"flagship", "flagship-price", evenArm, "capped-even", "constant-price", "controller", "controller-reserve", "greedy",
				"flagship-snapped", "flagship-heads", "base", "paper-form", "paper-form-dispatch", "omega-bc", "rules-50", "dispatch-teacher"},
			nil},
		{"departures", "Each departure reverted alone", "base",
			"Sets over aircraft are the shape of the network and were not reverted by themselves: the paper form is trained for one size of fleet. Streaming computes what a mask of some slots defines; its gain is cost, above.",
			[]string{"base", "base-snapped", "base-heads", "no-price-snapped", "no-price-heads", "no-allowance", "no-dropout", "no-mask", "steady-flights", "remembering", "no-track", "dmax-move", "paper-features", "paper-features-heads"},
			[]string{"ratio", "tight", "diff", "p", "corner", "fidelity", PerturbationNone, PerturbationShock, PerturbationGusts, PerturbationRevision}},
		{"context", "What the sequence model gains over a context of one slot", "base",
			"The same network, trained alike: under a mask of 1, 5 and 20 slots with the previous action hidden, and of 20 slots with it visible.",
			[]string{"base", c.contextArmName(5), c.contextArmName(20), "remembering"},
			[]string{"ratio", "tight", "diff", "p", "corner", "fidelity", PerturbationNone, PerturbationShock, PerturbationGusts, PerturbationRevision, "gust ratio"}},
		{"sizes", "Size against quality", "base", "", sizes,
			[]string{"parameters", "us", "ratio", "tight", "diff", "p", "fidelity", PerturbationNone, PerturbationShock, "gust ratio", PerturbationGusts}},
		{"heads", "Size against quality, without the exact dispatch", "base-heads",
			"The same networks, decoded by the paper's heads: association and offload come from the heads then, not from the exact dispatch.",
			c.headsArmNames(),
			[]string{"parameters", "ratio", "tight", "diff", "p", "corner", "fidelity", PerturbationNone, PerturbationShock}},
	}
}
