// Package pareto measures trade-offs between delay and energy. Inputs: outcomes
// of whole episodes, one per setting or archive member. Outputs: the metrics of
// the paper's Sec. VI (protocol). Search, calibration, evaluation and the study
// all measure their fronts here, so that their figures mean the same.
//
// Both objectives are costs. The convention is per seed: the outcomes of one
// seed make one front, and figures are averaged over seeds, never over
// outcomes first.
package pareto

import (
	"cmp"
	"math"
	"slices"

	"prefdt/simbridge/world"
)

// Point is the outcome of one episode, or its mean over several.
type Point struct {
	DelayS  float64 `json:"delay_s" yaml:"delay_s"`   // penalties included
	EnergyJ float64 `json:"energy_j" yaml:"energy_j"` // of the whole fleet
}

// The hypervolume's reference points: a wide one, which every method's corner
// dominates, and a tight one close to the front, which separates methods.
var (
	Reference      = Point{DelayS: 1000, EnergyJ: 141e3}
	TightReference = Point{DelayS: 720, EnergyJ: 39e3}
)

// The same two in a field world, as multiples of its world.Reference.
var (
	fieldReference      = Point{DelayS: 1.445, EnergyJ: 5.24}
	tightFieldReference = Point{DelayS: 1.04, EnergyJ: 1.45}
)

// References returns the hypervolume's reference points in a world. In the
// standard one they are Reference and TightReference, in joules for the size of
// the fleet, and in a field world they have about the same ratios to what its
// tasks and its flight take. These mean nothing in another world: there they are a fifth and a
// fiftieth beyond both ends of a teacher's front, which is in order of delay.
func References(c *world.Config, front []Point) (wide, tight Point) {
	if r, ok := c.FieldReference(); ok {
		at := func(p Point) Point { return Point{DelayS: p.DelayS * r.AllLocalS, EnergyJ: p.EnergyJ * r.CalmJ} }
		return at(fieldReference), at(tightFieldReference)
	}
	standard := world.Standard()
	if c.Slots == standard.Slots && c.Trace == nil && c.SameConstants(standard) {
		wide, tight = Reference, TightReference
		wide.EnergyJ *= float64(c.Aircraft) / float64(standard.Aircraft)
		tight.EnergyJ *= float64(c.Aircraft) / float64(standard.Aircraft)
		return wide, tight
	}
	return Beyond(front, 0.2), Beyond(front, 0.02)
}

// Beyond returns the reference point that far beyond both ends of a front, as a
// fraction of their costs.
func Beyond(front []Point, fraction float64) Point {
	return Point{DelayS: (1 + fraction) * front[len(front)-1].DelayS, EnergyJ: (1 + fraction) * front[0].EnergyJ}
}

func (p Point) finite() bool {
	return !math.IsNaN(p.DelayS-p.DelayS) && !math.IsNaN(p.EnergyJ-p.EnergyJ)
}

// NonDominated returns the points that no other dominates (is no worse in both
// objectives and better in one), in order of delay; of equal points one remains.
// Points that are not finite are left out. The argument keeps its order.
func NonDominated(points []Point) []Point {
	sorted := slices.DeleteFunc(slices.Clone(points), func(p Point) bool { return !p.finite() })
	slices.SortFunc(sorted, func(p, q Point) int {
		return cmp.Or(cmp.Compare(p.DelayS, q.DelayS), cmp.Compare(p.EnergyJ, q.EnergyJ))
	})
	kept := sorted[:0]
	for _, p := range sorted {
		if len(kept) == 0 || p.EnergyJ < kept[len(kept)-1].EnergyJ {
			kept = append(kept, p)
		}
	}
	return kept
}

// Pool returns the non-dominated points of several fronts together, the
// reference front that methods share.
func Pool(fronts ...[]Point) []Point { return NonDominated(slices.Concat(fronts...)) }

// Hypervolume returns the area, in seconds x joules, that the points dominate
// below a reference point (Zitzler and Thiele, IEEE Trans. Evol. Comput. 3(4),
// 1999). In two dimensions it is exact: a sum of rectangles along the front. A
// point that is not below the reference in both objectives adds nothing.
func Hypervolume(points []Point, reference Point) float64 {
	area, ceiling := 0.0, reference.EnergyJ
	for _, p := range NonDominated(points) {
		if p.DelayS < reference.DelayS && p.EnergyJ < ceiling {
			area += (reference.DelayS - p.DelayS) * (ceiling - p.EnergyJ)
			ceiling = p.EnergyJ
		}
	}
	return area
}

// IGD returns the inverted generational distance (Coello Coello and Reyes
// Sierra, MICAI 2004): the mean, over a reference front, of the Euclidean
// distance to the nearest point. Each objective is first divided by its span
// over the reference front, so that seconds and joules weigh the same; an
// objective without a span is left as it is. Without points it is +Inf,
// without a reference front NaN.
func IGD(points, reference []Point) float64 {
	spans := Spans(reference)
	return Distance(points, reference, cmp.Or(spans.DelayS, 1), cmp.Or(spans.EnergyJ, 1))
}

// Distance is the same where each objective is divided by a scale of one's own.
func Distance(points, reference []Point, delayS, energyJ float64) float64 {
	sum := 0.0
	for _, r := range reference {
		nearest := math.Inf(1)
		for _, p := range points {
			nearest = min(nearest, math.Hypot((p.DelayS-r.DelayS)/delayS, (p.EnergyJ-r.EnergyJ)/energyJ))
		}
		sum += nearest
	}
	return sum / float64(len(reference))
}

// span returns the least and the greatest of each objective.
func span(points []Point) (low, high Point) {
	low, high = Point{math.Inf(1), math.Inf(1)}, Point{math.Inf(-1), math.Inf(-1)}
	for _, p := range points {
		low = Point{min(low.DelayS, p.DelayS), min(low.EnergyJ, p.EnergyJ)}
		high = Point{max(high.DelayS, p.DelayS), max(high.EnergyJ, p.EnergyJ)}
	}
	return low, high
}

// Spans returns the span of each objective.
func Spans(points []Point) Point {
	low, high := span(points)
	return Point{high.DelayS - low.DelayS, high.EnergyJ - low.EnergyJ}
}

// ReachS returns the span of delay of the outcomes that settings produce, Sec. V: dominated ones
// count, so that it is read beside fidelity alone. Fewer than two reach 0.
func ReachS(points []Point) float64 {
	if len(points) == 0 {
		return 0
	}
	return Spans(points).DelayS
}

// CornerS returns the least delay of the outcomes, +Inf without any.
func CornerS(points []Point) float64 {
	least, _ := span(points)
	return least.DelayS
}

// Nearest returns the index of the value that is nearest to x, the first of equals: with the
// shares of an archive's members, eq. (match).
func Nearest(values []float64, x float64) (best int) {
	for i, v := range values {
		if math.Abs(v-x) < math.Abs(values[best]-x) {
			best = i
		}
	}
	return best
}
