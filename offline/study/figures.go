package study

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"prefdt/offline/front"
)

// Row is one arm's figures. What it was not measured for is NaN.
type Row struct {
	Arm        string
	What       string
	Seeds      int
	Settings   int
	Parameters int
	DecisionUS float64

	Hypervolume, Tight   front.Summary // on the arm's own axis
	Ratio, TightRatio    float64       // to the dispatch teacher, per seed
	IGD                  float64       // on the seeds that all arms flew
	Fidelity             float64       // on the uniform grid
	FidelityAxis         float64       // on the arm's own axis
	Distinct             int           // settings whose mean outcomes make a front
	CornerS, ReachS      float64
	Operable             string
	GustRatio            float64            // to the dispatch teacher in the same gusts
	BudgetError          map[string]float64 // mean absolute, by perturbation
	BudgetBias, OverRate map[string]float64

	// Against another arm, paired by seed.
	Versus  string
	Pairs   int
	Diff    float64 // of hypervolume
	DiffLow float64 // 95 % bootstrap interval of the mean difference
	DiffTop float64
	P       float64 // Wilcoxon signed-rank, two-sided, exact
}

// Reference is the pooled front that IGD is read against.
type Reference struct {
	Hash         string          `json:"hash"` // of the contributors and their outcomes
	Contributors []Contributor   `json:"contributors"`
	Fronts       [][]front.Point `json:"fronts"` // [seed]
}

// Contributor is one arm whose outcomes went into the pool.
type Contributor struct {
	Arm string `json:"arm"`
	Key string `json:"key"`
}

// pool makes the reference front of every seed that all arms flew.
func pool(results []*Result) Reference {
	var r Reference
	if len(results) == 0 {
		return r
	}
	common := math.MaxInt
	sum := sha256.New()
	for _, x := range results {
		common = min(common, len(x.Front[0]))
		r.Contributors = append(r.Contributors, Contributor{x.arm.Name, x.Key})
		fmt.Fprintln(sum, x.arm.Name, x.Key, x.Front)
	}
	r.Hash = hex.EncodeToString(sum.Sum(nil))
	for s := range common {
		var fronts [][]front.Point
		for _, x := range results {
			fronts = append(fronts, seedPoints(x.Front, s))
		}
		r.Fronts = append(r.Fronts, front.Pool(fronts...))
	}
	return r
}

// find returns a result by name, or nil.
func find(results []*Result, name string) *Result {
	for _, r := range results {
		if r.arm.Name == name {
			return r
		}
	}
	return nil
}

// volumes returns the hypervolume of each seed.
func volumes(outcomes [][]front.Point, reference front.Point) (v []float64) {
	if len(outcomes) == 0 {
		return nil
	}
	for s := range outcomes[0] {
		v = append(v, front.Hypervolume(seedPoints(outcomes, s), reference))
	}
	return v
}

// meanRatio returns the mean over seeds of a over b.
func meanRatio(a, b []float64) float64 {
	n := min(len(a), len(b))
	if n == 0 {
		return math.NaN()
	}
	sum := 0.0
	for i := range n {
		sum += a[i] / b[i] / float64(n)
	}
	return sum
}

// figures reads an arm, against the arm called versus.
func figures(results []*Result, r *Result, reference *Reference, versus string) Row {
	row := Row{
		Arm: r.arm.Name, What: r.arm.What, Seeds: len(r.Front[0]), Settings: len(r.Omegas), Parameters: r.Parameters, DecisionUS: r.DecisionUS,
		Ratio: math.NaN(), TightRatio: math.NaN(), Fidelity: math.NaN(), FidelityAxis: math.NaN(), GustRatio: math.NaN(),
		Diff: math.NaN(), DiffLow: math.NaN(), DiffTop: math.NaN(), P: math.NaN(),
		BudgetError: map[string]float64{}, BudgetBias: map[string]float64{}, OverRate: map[string]float64{}, Operable: "—",
	}
	wide, tight := volumes(r.Front, front.Reference), volumes(r.Front, front.TightReference)
	row.Hypervolume, row.Tight = front.Summarise(wide), front.Summarise(tight)
	teacher := find(results, "dispatch-teacher")
	if teacher != nil {
		row.Ratio = meanRatio(wide, volumes(teacher.Front, front.Reference))
		row.TightRatio = meanRatio(tight, volumes(teacher.Front, front.TightReference))
		row.GustRatio = meanRatio(volumes(r.Gust, front.Reference), volumes(teacher.Gust, front.Reference))
	}
	for s, pooled := range reference.Fronts {
		row.IGD += front.IGD(front.NonDominated(seedPoints(r.Front, s)), pooled) / float64(len(reference.Fronts))
	}
	spanned := r.Front
	if len(r.Uniform.Points) > 0 {
		spanned = r.Uniform.Points
		row.Fidelity = fidelity(r.Uniform.Omegas, r.Uniform.Points)
		row.FidelityAxis = fidelity(r.Omegas, r.Front)
	}
	var means []front.Point
	for _, x := range r.Front {
		means = append(means, meanPoint(x))
	}
	row.Distinct = len(front.NonDominated(means))
	n := float64(len(spanned[0]))
	for s := range spanned[0] {
		p := seedPoints(spanned, s)
		row.CornerS += front.CornerS(p) / n
		row.ReachS += front.ReachS(p) / n
	}
	if teacher != nil && !math.IsNaN(row.Fidelity) {
		width := 0.0
		for s := range teacher.Front[0] {
			width += front.ReachS(seedPoints(teacher.Front, s)) / float64(len(teacher.Front[0]))
		}
		row.Operable = operable(row.Fidelity, row.ReachS/width)
	}
	count := map[string]float64{}
	for _, b := range r.Budgets {
		count[b.Perturbation]++
	}
	for _, b := range r.Budgets {
		row.BudgetError[b.Perturbation] += b.AbsError / count[b.Perturbation]
		row.BudgetBias[b.Perturbation] += b.Error / count[b.Perturbation]
		row.OverRate[b.Perturbation] += b.Over / count[b.Perturbation]
	}
	if other := find(results, versus); other != nil && other != r {
		row.compare(wide, volumes(other.Front, front.Reference), versus)
	}
	return row
}

// operable reads eq. (criterion), and names the clause that fails.
func operable(rho, reach float64) string {
	switch {
	case rho >= 0.9 && reach >= 0.8:
		return "yes"
	case rho >= 0.9:
		return "no (reach)"
	case reach >= 0.8:
		return "no (order)"
	}
	return "no (both)"
}

// fidelity is the mean over seeds of |rho|.
func fidelity(settings []float64, outcomes [][]front.Point) (mean float64) {
	for s := range outcomes[0] {
		mean += front.Fidelity(settings, seedPoints(outcomes, s)) / float64(len(outcomes[0]))
	}
	return mean
}

// compare pairs by seed.
func (r *Row) compare(mine, others []float64, versus string) {
	n := min(len(mine), len(others))
	diff := make([]float64, n)
	for i := range diff {
		diff[i] = mine[i] - others[i]
	}
	mean := func(x []float64) float64 { return front.Summarise(x).Mean }
	r.Versus, r.Pairs, r.Diff = versus, n, mean(diff)
	r.DiffLow, r.DiffTop = front.Bootstrap(rand.New(rand.NewPCG(1, 2)), diff, 10000, 0.95, mean)
	if p, _, err := front.Wilcoxon(diff); err == nil {
		r.P = p
	}
}

// table is one of the report's.
type table struct {
	name, title, versus string
	note                string
	arms                []string
	columns             []string
}

// tables lists the report's tables.
func (c *Config) tables() []table {
	var sizes []string
	if !slices.Contains(c.sizes(), c.Train.Arch) {
		sizes = []string{"base"}
	}
	for _, a := range c.sizes() {
		sizes = append(sizes, c.sizeArm(a))
	}
	return []table{
		{"headline", "Everything on one protocol", "flagship", "",
			[]string{"flagship", "flagship-snapped", "flagship-heads", "base", "dispatch-teacher", "dispatch-centroid", "rules-101", "rules-50", "paper-form", "paper-form-dispatch", "omega-bc", "unconditioned", "random"},
			[]string{"n", "points", "hv", "ratio", "tight", "igd", "corner", "reach", "fidelity", "axis", "operable", "diff", "p", "us", "parameters"}},
		{"budgets", "Budgets in joules, mean absolute error", "flagship",
			"Archives answer a budget by the member that spends as much in calm air; they read nothing of what was spent.",
			[]string{"flagship", "flagship-snapped", "flagship-heads", "base", "paper-form", "paper-form-dispatch", "omega-bc", "rules-50", "dispatch-teacher"},
			[]string{calm, shocked, gusty, revision, "over"}},
		{"departures", "Each departure taken back singly", "base",
			"Sets over aircraft are the shape of the network and were not taken back by themselves: the paper form is bound to its fleet. Streaming computes what a mask of some slots defines; its gain is cost, above.",
			[]string{"base", "base-snapped", "base-heads", "no-price-snapped", "no-price-heads", "no-allowance", "no-dropout", "no-mask", "steady-flights", "remembering", "no-track", "dmax-move", "paper-features", "paper-features-heads"},
			[]string{"ratio", "tight", "diff", "p", "corner", "fidelity", calm, shocked, gusty, revision}},
		{"context", "What the sequence model earns over a context of one slot", "base",
			"The same network, trained alike: under a mask of 1, 5 and 20 slots with the action before hidden, and of 20 slots with it in sight.",
			[]string{"base", c.context(5), c.context(20), "remembering"},
			[]string{"ratio", "tight", "diff", "p", "corner", "fidelity", calm, shocked, gusty, revision, "gust ratio"}},
		{"sizes", "Size against quality", "base", "", sizes,
			[]string{"parameters", "us", "ratio", "tight", "diff", "p", "fidelity", calm, shocked, "gust ratio", gusty}},
		{"heads", "Size against quality, without the exact dispatch", "base-heads",
			"The same networks, decoded by the paper's heads: association and offload are theirs then, not the exact dispatch's.",
			c.sizedHeads(),
			[]string{"parameters", "ratio", "tight", "diff", "p", "corner", "fidelity", calm, shocked}},
	}
}
