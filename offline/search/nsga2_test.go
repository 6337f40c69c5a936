package search

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"prefdt/offline/offlinetest"
	"prefdt/offline/pareto"
)

// populationOf makes a population of some outcomes, numbered by their one gene.
func populationOf(points ...pareto.Point) []Member {
	var population []Member
	for i, p := range points {
		population = append(population, Member{Genes: []float64{float64(i)}, Point: p})
	}
	return population
}

// The fronts are those found by peeling the population by definition.
func TestSortAgainstPeeling(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 0))
	for range 200 {
		var population []Member
		for range 1 + rng.IntN(20) {
			population = append(population, Member{Point: pareto.Point{DelayS: float64(rng.IntN(8)), EnergyJ: float64(rng.IntN(8))}})
		}
		left := make([]int, len(population))
		for i := range left {
			left[i] = i
		}
		var want [][]int
		for len(left) > 0 {
			var peel, rest []int
			for _, i := range left {
				if slices.ContainsFunc(left, func(j int) bool { return dominates(population[j].Point, population[i].Point) }) {
					rest = append(rest, i)
				} else {
					peel = append(peel, i)
				}
			}
			want, left = append(want, peel), rest
		}
		if got := nonDominatedSort(population); !slices.EqualFunc(got, want, slices.Equal[[]int]) {
			t.Fatalf("%v: fronts %v, want %v", population, got, want)
		}
	}
}

func TestCrowding(t *testing.T) {
	population := populationOf(pareto.Point{DelayS: 0, EnergyJ: 10}, pareto.Point{DelayS: 10, EnergyJ: 0},
		pareto.Point{DelayS: 2, EnergyJ: 5}, pareto.Point{DelayS: 4, EnergyJ: 4})
	// Member 2 lies between 0 and 3: (4-0)/10 + (10-4)/10. Member 3 between 2
	// and 1: (10-2)/10 + (5-0)/10.
	want := []float64{math.Inf(1), math.Inf(1), 1.0, 1.3}
	for i, got := range crowdingDistances(population, []int{0, 1, 2, 3}) {
		if got != want[i] && math.Abs(got-want[i]) > 1e-12 {
			t.Errorf("member %d: %v, want %v", i, got, want[i])
		}
	}
	// Equal outcomes have no span: nothing is divided by zero.
	for i, d := range crowdingDistances(populationOf(pareto.Point{DelayS: 1}, pareto.Point{DelayS: 1}, pareto.Point{DelayS: 1}),
		[]int{0, 1, 2}) {
		if math.IsNaN(d) {
			t.Errorf("equal outcomes: member %d has no distance", i)
		}
	}
}

func TestCrowdedComparison(t *testing.T) {
	for _, c := range []struct {
		a, b crowdedRank
		want bool
	}{
		{crowdedRank{0, 1}, crowdedRank{1, 9}, true},
		{crowdedRank{1, 9}, crowdedRank{0, 1}, false},
		{crowdedRank{1, 2}, crowdedRank{1, 1}, true},
		{crowdedRank{1, 1}, crowdedRank{1, 1}, false},
	} {
		if got := c.a.betterThan(c.b); got != c.want {
			t.Errorf("%v better than %v: %v", c.a, c.b, got)
		}
	}
}

func TestSurvivors(t *testing.T) {
	population := populationOf(
		pareto.Point{DelayS: 9, EnergyJ: 9}, // third front
		pareto.Point{DelayS: 0, EnergyJ: 4}, pareto.Point{DelayS: 1, EnergyJ: 3.9}, pareto.Point{DelayS: 2, EnergyJ: 1.5},
		pareto.Point{DelayS: 4, EnergyJ: 0},
		pareto.Point{DelayS: 5, EnergyJ: 5}, // second front
	)
	// Of the first front (4 members) the most crowded goes: member 2, with
	// (2-0)/4 + (4-1.5)/4 against member 3's (4-1)/4 + (3.9-0)/4.
	var kept []float64
	for _, m := range survivors(population, 3) {
		kept = append(kept, m.Genes[0])
	}
	slices.Sort(kept)
	if !slices.Equal(kept, []float64{1, 3, 4}) {
		t.Errorf("kept %v, want 1, 3, 4", kept)
	}
	if got := survivors(population, 5); len(got) != 5 || got[4].Genes[0] != 5 {
		t.Errorf("the second front follows whole: %v", got)
	}
}

// SBX is symmetric: away from the bounds it keeps the parents' mean; its spread
// beta follows the density 0.5 (eta+1) beta^eta below 1, so a half of the
// children lie inside their parents and the median of beta is 1.
func TestCrossover(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 0))
	wide := []geneBound{{-1e9, 1e9}}
	crossed, inside := 0, 0
	const n = 40000
	for range n {
		a, b := []float64{1}, []float64{3}
		crossover(rng, wide, a, b)
		if math.Abs(a[0]+b[0]-4) > 1e-6 {
			t.Fatalf("children %v and %v of 1 and 3", a[0], b[0])
		}
		if d := math.Abs(a[0] - b[0]); d != 2 {
			crossed++
			if d < 2 {
				inside++
			}
		}
	}
	if got, want := float64(crossed)/n, crossoverRate*crossoverGenes; math.Abs(got-want) > 0.01 {
		t.Errorf("a gene is crossed with probability %.3f, want %.2f", got, want)
	}
	if got := float64(inside) / float64(crossed); math.Abs(got-0.5) > 0.02 {
		t.Errorf("%.3f of the children lie inside, want a half", got)
	}
	// P(beta <= 0.9) = 0.9^16 / 2.
	if u := math.Pow(0.9, crossoverEta+1) / 2; math.Abs(sbxBeta(u, math.Inf(1))-0.9) > 1e-12 {
		t.Errorf("spread at %v is %v, want 0.9", u, sbxBeta(u, math.Inf(1)))
	}
}

func TestOperatorsKeepTheBounds(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 0))
	within := geneBounds(3)
	parents := randomMembers(rng, within, 40)
	for i, b := range within { // on the bounds too
		parents[0].Genes[i], parents[1].Genes[i] = b.low, b.high
	}
	changed := 0
	for range 500 {
		a, b := slices.Clone(parents[rng.IntN(40)].Genes), slices.Clone(parents[rng.IntN(40)].Genes)
		crossover(rng, within, a, b)
		before := slices.Clone(a)
		mutate(rng, within, a)
		for i := range a {
			if a[i] != before[i] {
				changed++
			}
		}
		for _, child := range [][]float64{a, b} {
			offlinetest.NoError(t, checkGenes(child, 3))
		}
	}
	if got := float64(changed) / float64(500*len(within)); math.Abs(got-mutationRate) > 0.015 {
		t.Errorf("a gene mutates with probability %.3f, want %v", got, mutationRate)
	}
}

// Polynomial mutation in the middle of a range: |delta| has the distribution
// function 1-(1-2|delta|)^(eta+1) to within the bounds' correction 0.5^21.
func TestMutationSpread(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 0))
	var moved []float64
	for len(moved) < 4000 {
		g := []float64{0.5}
		mutate(rng, []geneBound{{0, 1}}, g)
		if g[0] != 0.5 {
			moved = append(moved, math.Abs(g[0]-0.5))
		}
	}
	slices.Sort(moved)
	if got, want := moved[2000], 1-math.Pow(0.5, 1/(mutationEta+1)); math.Abs(got/want-1) > 0.05 {
		t.Errorf("median step %v, want %v", got, want)
	}
}
