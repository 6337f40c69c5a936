package pareto

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"prefdt/simbridge/world"
)

// approxEqual compares to within rounding.
func approxEqual(got, want float64) bool { return math.Abs(got-want) <= 1e-12*(1+math.Abs(want)) }

func TestNonDominated(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	for name, c := range map[string]struct{ in, want []Point }{
		"none":            {nil, []Point{}},
		"one":             {[]Point{{3, 4}}, []Point{{3, 4}}},
		"equal":           {[]Point{{3, 4}, {3, 4}}, []Point{{3, 4}}},
		"same delay":      {[]Point{{3, 5}, {3, 4}}, []Point{{3, 4}}},
		"same energy":     {[]Point{{4, 4}, {3, 4}}, []Point{{3, 4}}},
		"front and inner": {[]Point{{3, 1}, {2, 2}, {3, 3}, {1, 3}}, []Point{{1, 3}, {2, 2}, {3, 1}}},
		"not finite":      {[]Point{{nan, 0}, {-inf, 1}, {2, 2}, {1, nan}, {0, inf}}, []Point{{2, 2}}},
	} {
		before := slices.Clone(c.in)
		if got := NonDominated(c.in); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
		for i := range before {
			if before[i] != c.in[i] && before[i].finite() {
				t.Errorf("%s: the argument changed", name)
			}
		}
	}
}

// A point is on the front exactly if no other dominates it.
func TestNonDominatedAgainstDefinition(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 0))
	for range 200 {
		points := randomGridPoints(rng, 1+rng.IntN(15))
		kept := NonDominated(points)
		for _, p := range points {
			dominated := slices.ContainsFunc(points, func(q Point) bool {
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

func TestHypervolume(t *testing.T) {
	ref := Point{10, 10}
	for name, c := range map[string]struct {
		in   []Point
		want float64
	}{
		"none":             {nil, 0},
		"one":              {[]Point{{4, 7}}, 18},                          // 6 x 3
		"staircase":        {[]Point{{2, 6}, {4, 4}, {7, 1}}, 32 + 12 + 9}, // 8x4 + 6x2 + 3x3
		"dominated inside": {[]Point{{2, 6}, {5, 9}}, 32},
		"on the edge":      {[]Point{{10, 1}, {1, 10}}, 0},
		"beyond":           {[]Point{{1, 12}, {11, 1}, {4, 7}}, 18},
	} {
		if got := Hypervolume(c.in, ref); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
	// One point at the paper's corner: (1000-100)(141000-40000).
	if got := Hypervolume([]Point{{100, 40e3}}, Reference); got != 90.9e6 {
		t.Errorf("corner: %v", got)
	}
}

// On whole coordinates the hypervolume is the number of dominated unit cells.
func TestHypervolumeAgainstCellCount(t *testing.T) {
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
	c, err := world.Named("phones")
	if err != nil {
		t.Fatal(err)
	}
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
