package search

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"

	"prefdt/offline/pareto"
)

// NSGA-II: Deb, Pratap, Agarwal and Meyarivan, IEEE Trans. Evol. Comput. 6(2),
// 2002. Its operators on real genes: simulated binary crossover (Deb and
// Agrawal, Complex Systems 9, 1995) and polynomial mutation (Deb and Goyal,
// 1996), both in their bounded form.
const (
	crossoverEta   = 15.0
	crossoverRate  = 0.9 // per pair
	crossoverGenes = 0.5 // per gene of a crossed pair
	mutationEta    = 20.0
	mutationRate   = 0.1 // per gene
)

// Member is one rule and what it realised, averaged over the training seeds.
type Member struct {
	Genes []float64 `json:"genes"`
	pareto.Point
}

// crowdedRank is a member's rank in its population.
type crowdedRank struct {
	rank     int     // 0 is the best front
	crowding float64 // crowding distance: the larger, the less crowded
}

// dominates reports whether p is no worse in both objectives and better in one.
func dominates(p, q pareto.Point) bool {
	return p.DelayS <= q.DelayS && p.EnergyJ <= q.EnergyJ && p != q
}

// nonDominatedSort returns the fronts of a population as indices, best first. Of two objectives (Jensen,
// IEEE Trans. Evol. Comput. 7(5), 2003): in order of delay, then energy, the last member of a front has its
// least energy, and so dominates what any member of that front does.
func nonDominatedSort(population []Member) (fronts [][]int) {
	order := make([]int, len(population))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int {
		p, q := population[i].Point, population[j].Point
		return cmp.Or(cmp.Compare(p.DelayS, q.DelayS), cmp.Compare(p.EnergyJ, q.EnergyJ))
	})
	for _, i := range order {
		k := 0
		for k < len(fronts) && dominates(population[fronts[k][len(fronts[k])-1]].Point, population[i].Point) {
			k++
		}
		if k == len(fronts) {
			fronts = append(fronts, nil)
		}
		fronts[k] = append(fronts[k], i)
	}
	for _, front := range fronts {
		slices.Sort(front) // the result must not depend on the order of equal members
	}
	return fronts
}

// crowdingDistances returns the crowding distance of each member of a front, Deb 2002 Sec. III-B.
func crowdingDistances(population []Member, members []int) []float64 {
	distance, values := make([]float64, len(members)), make([]float64, len(members))
	order := make([]int, len(members)) // positions in members, by value
	for _, objective := range []func(pareto.Point) float64{
		func(p pareto.Point) float64 { return p.DelayS },
		func(p pareto.Point) float64 { return p.EnergyJ },
	} {
		for k, i := range members {
			values[k] = objective(population[i].Point)
		}
		floats.ArgsortStable(values, order)
		last := len(order) - 1
		distance[order[0]], distance[order[last]] = math.Inf(1), math.Inf(1)
		if span := values[last] - values[0]; span > 0 {
			for k := 1; k < last; k++ {
				distance[order[k]] += (values[k+1] - values[k-1]) / span
			}
		}
	}
	return distance
}

func crowdedRanks(population []Member) []crowdedRank {
	ranks := make([]crowdedRank, len(population))
	for r, members := range nonDominatedSort(population) {
		for k, d := range crowdingDistances(population, members) {
			ranks[members[k]] = crowdedRank{r, d}
		}
	}
	return ranks
}

// betterThan is the crowded comparison: the better front, then the less crowded.
func (s crowdedRank) betterThan(t crowdedRank) bool {
	return s.rank < t.rank || s.rank == t.rank && s.crowding > t.crowding
}

// survivors keeps the best n of a population: whole fronts while they fit,
// then the least crowded of the next.
func survivors(population []Member, n int) []Member {
	kept := make([]Member, 0, n)
	for _, members := range nonDominatedSort(population) {
		if vacancies := n - len(kept); len(members) > vacancies {
			distance := map[int]float64{}
			for k, d := range crowdingDistances(population, members) {
				distance[members[k]] = d
			}
			slices.SortStableFunc(members, func(a, b int) int { return cmp.Compare(distance[b], distance[a]) })
			members = members[:vacancies]
		}
		for _, i := range members {
			kept = append(kept, population[i])
		}
		if len(kept) == n {
			break
		}
	}
	return kept
}

// randomMembers draws the genes of n members evenly within their bounds.
func randomMembers(rng *rand.Rand, within []geneBound, n int) []Member {
	members := make([]Member, n)
	for i := range members {
		for _, b := range within {
			members[i].Genes = append(members[i].Genes, b.low+(b.high-b.low)*rng.Float64())
		}
	}
	return members
}

// offspring breeds as many children as the population has members; their
// outcomes are still to be measured.
func offspring(rng *rand.Rand, within []geneBound, population []Member) []Member {
	standings := crowdedRanks(population)
	tournament := func() []float64 { // binary, between two different members
		i, j := rng.IntN(len(population)), rng.IntN(len(population)-1)
		if j >= i {
			j++
		}
		if standings[j].betterThan(standings[i]) {
			i = j
		}
		return population[i].Genes
	}
	children := make([]Member, 0, len(population)+1)
	for len(children) < len(population) {
		a, b := slices.Clone(tournament()), slices.Clone(tournament())
		crossover(rng, within, a, b)
		mutate(rng, within, a)
		mutate(rng, within, b)
		children = append(children, Member{Genes: a}, Member{Genes: b})
	}
	return children[:len(population)]
}

// crossover changes two parents' genes into two children's (bounded SBX).
func crossover(rng *rand.Rand, within []geneBound, a, b []float64) {
	if rng.Float64() >= crossoverRate {
		return
	}
	for g, limit := range within {
		if rng.Float64() >= crossoverGenes {
			continue
		}
		u, swap := rng.Float64(), rng.Float64() < 0.5
		low, high := min(a[g], b[g]), max(a[g], b[g])
		if high-low > 1e-14 { // else the children equal the parents
			x := limit.clip((low + high - sbxBeta(u, 1+2*(low-limit.low)/(high-low))*(high-low)) / 2)
			y := limit.clip((low + high + sbxBeta(u, 1+2*(limit.high-high)/(high-low))*(high-low)) / 2)
			a[g], b[g] = x, y
		}
		if swap {
			a[g], b[g] = b[g], a[g]
		}
	}
}

// sbxBeta is SBX's beta_q for a uniform u, where beta is the most that the
// bound allows.
func sbxBeta(u, beta float64) float64 {
	alpha := 2 - math.Pow(beta, -(crossoverEta+1))
	if u <= 1/alpha {
		return math.Pow(u*alpha, 1/(crossoverEta+1))
	}
	return math.Pow(1/(2-u*alpha), 1/(crossoverEta+1))
}

// mutate changes genes in place (bounded polynomial mutation).
func mutate(rng *rand.Rand, within []geneBound, genes []float64) {
	for g, limit := range within {
		if rng.Float64() >= mutationRate {
			continue
		}
		u, width := rng.Float64(), limit.high-limit.low
		var delta float64
		if u < 0.5 {
			span := 1 - (genes[g]-limit.low)/width
			delta = math.Pow(2*u+(1-2*u)*math.Pow(span, mutationEta+1), 1/(mutationEta+1)) - 1
		} else {
			span := 1 - (limit.high-genes[g])/width
			delta = 1 - math.Pow(2*(1-u)+(2*u-1)*math.Pow(span, mutationEta+1), 1/(mutationEta+1))
		}
		genes[g] = limit.clip(genes[g] + delta*width)
	}
}

func (b geneBound) clip(x float64) float64 { return min(max(x, b.low), b.high) }
