package pareto

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// ranks returns the 1-based ranks of x, equal values sharing their mean rank.
func ranks(x []float64) []float64 {
	sorted, order := slices.Clone(x), make([]int, len(x))
	floats.ArgsortStable(sorted, order)
	r := make([]float64, len(x))
	for first := 0; first < len(order); {
		last := first
		for last+1 < len(order) && sorted[last+1] == sorted[first] {
			last++
		}
		for _, i := range order[first : last+1] {
			r[i] = float64(first+last)/2 + 1
		}
		first = last + 1
	}
	return r
}

// Spearman returns the rank correlation of two samples, ties at their mean
// rank (Spearman 1904; the Pearson correlation of the ranks). It is NaN where
// it is not defined: fewer than two pairs, or a sample that is constant.
// It panics if the lengths differ.
func Spearman(x, y []float64) float64 {
	if len(x) != len(y) {
		panic(fmt.Sprintf("pareto: rank correlation of %d and %d values", len(x), len(y)))
	}
	if len(x) < 2 {
		return math.NaN()
	}
	return stat.Correlation(ranks(x), ranks(y), nil)
}

// Fidelity returns |rho| between the requested settings and the delays they
// produced on one seed, Sec. VI: 1 if every outcome lies in the order requested.
// Outcomes that are all equal follow no order: 0.
func Fidelity(settings []float64, outcomes []Point) float64 {
	delays := make([]float64, len(outcomes))
	for i, p := range outcomes {
		delays[i] = p.DelayS
	}
	rho := math.Abs(Spearman(settings, delays))
	if math.IsNaN(rho) {
		return 0
	}
	return min(rho, 1) // rounding
}

// wilcoxonMax bounds the exact null; its weights 2^-n leave float64 beyond.
const wilcoxonMax = 1000

// Wilcoxon returns the two-sided p-value of the signed-rank test on paired
// differences (Wilcoxon, Biometrics Bulletin 1(6), 1945) and the sum of the
// positive ranks. Zero differences are dropped, as in the original; equal
// magnitudes share their mean rank. The null distribution is exact, ties
// included: a subset-sum dynamic program over the doubled ranks, in which each
// rank counts or not with probability one half. Without a difference p is 1.
func Wilcoxon(differences []float64) (p, positive float64, err error) {
	var magnitude []float64
	var sign []bool
	for i, d := range differences {
		if math.IsNaN(d) {
			return 0, 0, fmt.Errorf("signed-rank test: difference %d is not a number", i)
		}
		if d != 0 {
			magnitude, sign = append(magnitude, math.Abs(d)), append(sign, d > 0)
		}
	}
	n := len(magnitude)
	if n > wilcoxonMax {
		return 0, 0, fmt.Errorf("signed-rank test: %d differences, the exact null takes at most %d", n, wilcoxonMax)
	}
	total := n * (n + 1) // of the doubled ranks, which are whole
	null := make([]float64, total+1)
	null[0] = 1
	reached, observed := 0, 0
	for i, r := range ranks(magnitude) {
		double := int(2 * r)
		for s := reached + double; s >= 0; s-- {
			without, with := null[s], 0.0
			if s >= double {
				with = null[s-double]
			}
			null[s] = (without + with) / 2
		}
		reached += double
		if sign[i] {
			observed += double
		}
	}
	// The null is symmetric, so both tails are twice the smaller; summing the
	// lower tail adds small terms to small and keeps p-values of 1e-30 exact.
	tail := 0.0
	for _, q := range null[:min(observed, total-observed)+1] {
		tail += q
	}
	return min(1, 2*tail), float64(observed) / 2, nil
}

// Holm returns p-values corrected for their number (Holm, Scandinavian Journal of Statistics 6(2), 1979): where one is below a
// level, the chance that any of the tests so found is a false one is below it. Those that are NaN were not made, and do not count.
func Holm(p []float64) []float64 {
	var order []int
	for i := range p {
		if !math.IsNaN(p[i]) {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(p[i], p[j]) })
	corrected, most := slices.Clone(p), 0.0
	for k, i := range order {
		most = max(most, min(1, float64(len(order)-k)*p[i]))
		corrected[i] = most
	}
	return corrected
}

// Bootstrap returns the percentile interval of a statistic (Efron and
// Tibshirani, 1993, ch. 13): the sample is drawn again with replacement,
// resamples times, and the middle share level of the statistics is
// kept. It panics on an empty sample, no resamples or a level outside (0, 1).
func Bootstrap(rng *rand.Rand, x []float64, resamples int, level float64, statistic func([]float64) float64) (low, high float64) {
	if len(x) == 0 || resamples < 1 || !(level > 0 && level < 1) {
		panic(fmt.Sprintf("pareto: bootstrap of %d values, %d resamples, level %v", len(x), resamples, level))
	}
	sample, drawn := make([]float64, len(x)), make([]float64, resamples)
	for i := range drawn {
		for j := range sample {
			sample[j] = x[rng.IntN(len(x))]
		}
		drawn[i] = statistic(sample)
	}
	slices.Sort(drawn)
	tail := (1 - level) / 2
	return stat.Quantile(tail, stat.LinInterp, drawn, nil), stat.Quantile(1-tail, stat.LinInterp, drawn, nil)
}

// Summary is a figure over seeds, as the evaluation prints it.
type Summary struct {
	Mean float64 `json:"mean"`
	Std  float64 `json:"std"` // of the sample, n-1; 0 for one value
	N    int     `json:"n"`
}

// StdError is the standard error of the mean.
func (s Summary) StdError() float64 { return s.Std / math.Sqrt(float64(max(s.N, 1))) }

// Summarise returns the mean and standard deviation over seeds.
func Summarise(x []float64) Summary {
	switch len(x) {
	case 0:
		return Summary{}
	case 1:
		return Summary{Mean: x[0], N: 1}
	}
	mean, std := stat.MeanStdDev(x, nil)
	return Summary{Mean: mean, Std: std, N: len(x)}
}

// StudentInterval returns the mean of independent runs and half of its 95 % interval, by Student's t with n-1 degrees of freedom
// (Student, Biometrika 6(1), 1908). Of fewer than two runs there is no interval: NaN.
func StudentInterval(x []float64) (mean, half float64) {
	s := Summarise(x)
	if s.N < 2 {
		return Mean(x), math.NaN()
	}
	t := distuv.StudentsT{Sigma: 1, Nu: float64(s.N - 1)}
	return s.Mean, t.Quantile(0.975) * s.StdError()
}
