package pareto

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/stat"
)

// Outcomes of a sweep are by setting, then by seed. BySeed measures each seed's.
func BySeed(outcomes [][]Point, measure func([]Point) float64) (x []float64) {
	if len(outcomes) == 0 {
		return nil
	}
	points := make([]Point, len(outcomes))
	for s := range outcomes[0] {
		for k := range outcomes {
			points[k] = outcomes[k][s]
		}
		x = append(x, measure(points))
	}
	return x
}

// CheckOutcomes returns what is wrong with a stored sweep: not a row for each of its settings, not as
// many seeds in each, or outcomes that no mission has.
func CheckOutcomes(settings []float64, outcomes [][]Point, seeds int) error {
	if len(settings) == 0 || len(outcomes) != len(settings) {
		return fmt.Errorf("%d rows of outcomes for %d settings", len(outcomes), len(settings))
	}
	for k, row := range outcomes {
		if len(row) != seeds {
			return fmt.Errorf("%d seeds at setting %v, want %d", len(row), settings[k], seeds)
		}
		for _, p := range row {
			if !(p.DelayS > 0 && p.EnergyJ > 0 && p.finite()) {
				return fmt.Errorf("a mission of %v s and %v J at setting %v", p.DelayS, p.EnergyJ, settings[k])
			}
		}
	}
	return nil
}

// Hypervolumes returns the hypervolume of each seed.
func Hypervolumes(outcomes [][]Point, reference Point) []float64 {
	return BySeed(outcomes, func(p []Point) float64 { return Hypervolume(p, reference) })
}

// Fidelities returns |rho| of each seed.
func Fidelities(settings []float64, outcomes [][]Point) []float64 {
	return BySeed(outcomes, func(p []Point) float64 { return Fidelity(settings, p) })
}

// Differences returns a less b over the seeds that both have.
func Differences(a, b []float64) (d []float64) {
	for i := range min(len(a), len(b)) {
		d = append(d, a[i]-b[i])
	}
	return d
}

// MeanRatio returns the mean of a over b over the seeds on which b is positive, NaN where
// there are none.
func MeanRatio(a, b []float64) float64 {
	sum, n := 0.0, 0.0
	for i := range min(len(a), len(b)) {
		if b[i] > 0 {
			sum += a[i] / b[i]
			n++
		}
	}
	return sum / n
}

// Paired is a comparison of two samples, paired by seed.
type Paired struct {
	N         int
	Mean      float64 // of the differences
	Low, High float64 // 95 % bootstrap interval of that mean
	P         float64 // Wilcoxon signed-rank, two-sided, exact
}

// NotPaired is the comparison of what was not measured.
var NotPaired = Paired{Mean: math.NaN(), Low: math.NaN(), High: math.NaN(), P: math.NaN()}

// Compare compares a sample with a baseline's, over the seeds that both have.
func Compare(own, baseline []float64) Paired {
	diff := Differences(own, baseline)
	if len(diff) == 0 {
		return NotPaired
	}
	c := Paired{N: len(diff), Mean: Summarise(diff).Mean, P: math.NaN()}
	c.Low, c.High = MeanInterval(diff)
	if p, _, err := Wilcoxon(diff); err == nil {
		c.P = p
	}
	return c
}

// MeanInterval is the 95 % bootstrap interval of a mean over seeds.
func MeanInterval(x []float64) (low, high float64) {
	return Bootstrap(rand.New(rand.NewPCG(1, 2)), x, 10000, 0.95, func(x []float64) float64 { return stat.Mean(x, nil) })
}

// Operable evaluates eq. (criterion), and names the clause that fails. reach is a fraction
// of the teacher's. Where either is not known, there is no verdict.
func Operable(rho, reach float64) string {
	switch {
	case math.IsNaN(rho) || math.IsNaN(reach):
		return "-"
	case rho >= 0.9 && reach >= 0.8:
		return "yes"
	case rho >= 0.9:
		return "no (reach)"
	case reach >= 0.8:
		return "no (order)"
	}
	return "no (both)"
}

// ReferenceFronts are the pooled fronts that IGD is measured against.
type ReferenceFronts struct {
	Hash         string        `json:"hash"` // of the contributors and their outcomes
	Contributors []Contributor `json:"contributors"`
	BySeed       [][]Point     `json:"fronts"` // [seed]
}

// Contributor is one arm whose outcomes go into the pool.
type Contributor struct {
	Arm        string    `json:"arm"`
	ResultHash string    `json:"key"`
	Outcomes   [][]Point `json:"-"`
}

// PoolFronts makes the reference front of every seed that all contributors flew.
func PoolFronts(list []Contributor) ReferenceFronts {
	r := ReferenceFronts{Contributors: list, BySeed: PooledFronts(list)}
	if len(list) == 0 {
		return r
	}
	sum := sha256.New()
	for _, c := range list {
		fmt.Fprintln(sum, c.Arm, c.ResultHash, c.Outcomes)
	}
	r.Hash = hex.EncodeToString(sum.Sum(nil))
	return r
}

// PooledFronts returns, for every seed that all contributors flew, the front of their outcomes.
func PooledFronts(list []Contributor) (bySeed [][]Point) {
	if len(list) == 0 {
		return nil
	}
	common := math.MaxInt
	for _, c := range list {
		common = min(common, len(c.Outcomes[0]))
	}
	for s := range common {
		var all []Point
		for _, c := range list {
			for _, row := range c.Outcomes {
				all = append(all, row[s])
			}
		}
		bySeed = append(bySeed, NonDominated(all))
	}
	return bySeed
}
