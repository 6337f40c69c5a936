package pareto

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"prefdt/offline/offlinetest"
)

// approxEqual compares to within rounding.
func approxEqual(got, want float64) bool { return math.Abs(got-want) <= 1e-12*(1+math.Abs(want)) }

// A point is on the front exactly if it is finite and no other dominates it; the front is in order of delay, and has each
// point once.
func TestNonDominated(t *testing.T) {
	rng, inf, nan := rand.New(rand.NewPCG(1, 0)), math.Inf(1), math.NaN()
	for range 200 {
		points := randomGridPoints(rng, rng.IntN(16))
		given := slices.Concat(points, []Point{{nan, 0}, {-inf, 1}, {1, nan}, {0, inf}})
		kept := NonDominated(given)
		inOrder := slices.IsSortedFunc(kept, func(p, q Point) int { return cmp.Compare(p.DelayS, q.DelayS) })
		if !inOrder || len(slices.Compact(slices.Clone(kept))) != len(kept) || !slices.Equal(given[:len(points)], points) {
			t.Fatalf("the front of %v is %v, and the argument %v", points, kept, given)
		}
		for _, p := range slices.Concat(points, kept) {
			dominated := !slices.Contains(points, p) || slices.ContainsFunc(points, func(q Point) bool {
				return q != p && q.DelayS <= p.DelayS && q.EnergyJ <= p.EnergyJ
			})
			if slices.Contains(kept, p) == dominated {
				t.Fatalf("%v of %v: kept %v, dominated %v", p, points, !dominated, dominated)
			}
		}
	}
}

// randomGridPoints draws points with whole coordinates from 0 to 11, so that ties happen.
func randomGridPoints(rng *rand.Rand, n int) []Point {
	points := make([]Point, n)
	for i := range points {
		points[i] = Point{float64(rng.IntN(12)), float64(rng.IntN(12))}
	}
	return points
}

// On whole coordinates the hypervolume is the number of dominated unit cells.
func TestHypervolume(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 0))
	ref := Point{10, 9}
	for range 300 {
		points := randomGridPoints(rng, rng.IntN(12))
		cells := 0.0
		for x := 0.0; x < ref.DelayS; x++ {
			for y := 0.0; y < ref.EnergyJ; y++ {
				if slices.ContainsFunc(points, func(p Point) bool { return p.DelayS <= x && p.EnergyJ <= y }) {
					cells++
				}
			}
		}
		if got := Hypervolume(points, ref); got != cells {
			t.Fatalf("%v: got %v, counted %v", points, got, cells)
		}
	}
	// One point at the paper's corner: (1000-100)(141000-40000).
	if got := Hypervolume([]Point{{100, 40e3}}, Reference); got != 90.9e6 {
		t.Errorf("corner: %v", got)
	}
}

func TestIGD(t *testing.T) {
	reference := []Point{{0, 40}, {4, 0}} // spans of 4 s and 40 J
	for name, c := range map[string]struct {
		in   []Point
		want float64
	}{
		"itself":     {reference, 0},
		"one end":    {reference[:1], math.Sqrt2 / 2},                // 0 and the unit square's diagonal
		"off by 1/4": {[]Point{{1, 40}, {4, 10}}, 0.25},              // each a quarter of its span
		"centre":     {[]Point{{2, 20}}, math.Sqrt2 / 2},             // half a diagonal twice
		"extra":      {append([]Point{{100, 100}}, reference...), 0}, // only the nearest counts
		"none":       {nil, math.Inf(1)},                             //
	} {
		if got := IGD(c.in, reference); got != c.want && !approxEqual(got, c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
	if got := IGD([]Point{{3, 4}}, []Point{{0, 0}}); got != 5 {
		t.Errorf("a single reference point: %v, want the plain distance 5", got)
	}
	if got := IGD(reference, nil); !math.IsNaN(got) {
		t.Errorf("no reference: %v", got)
	}
}

func TestReachAndCorner(t *testing.T) {
	// (900, 60) is dominated, and an outcome of the settings.
	points := []Point{{700, 27}, {100, 40}, {900, 60}, {300, 30}}
	if r, c := ReachS(points), CornerS(points); r != 800 || c != 100 {
		t.Errorf("reach %v, corner %v; want 800, 100", r, c)
	}
	if r, c := ReachS(nil), CornerS(nil); r != 0 || !math.IsInf(c, 1) {
		t.Errorf("empty: reach %v, corner %v", r, c)
	}
	if got := Pool(points[:2], points[2:]); !slices.Equal(got, []Point{{100, 40}, {300, 30}, {700, 27}}) {
		t.Errorf("pool %v", got)
	}
}

// A field world's reference points follow from its tasks and its flight, and those of
// three aircraft hold half as much energy again.
func TestFieldWorldReferences(t *testing.T) {
	c := offlinetest.FieldWorld(t, "phones")
	wide, tight := References(&c, nil)
	c.Aircraft = 3
	three, _ := References(&c, nil)
	const floorJ = 26.88e3 // two aircraft at 134.4 W for 100 s
	if math.Abs(wide.DelayS/1148-1) > 0.01 || math.Abs(wide.EnergyJ/(5.24*floorJ)-1) > 1e-3 ||
		math.Abs(tight.DelayS/826-1) > 0.01 || math.Abs(tight.EnergyJ/(1.45*floorJ)-1) > 1e-3 ||
		math.Abs(three.EnergyJ/wide.EnergyJ-1.5) > 1e-9 {
		t.Errorf("references %+v and %+v, %+v of three aircraft", wide, tight, three)
	}
}
