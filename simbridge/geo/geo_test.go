package geo

import (
	"math"
	"testing"
)

func TestRoundTrip(t *testing.T) {
	for _, origin := range []Point{{47.397742, 8.545594, 488}, {-33.9, 151.2, 20}, {0, 0, 0}, {68.4, -179.999, 0}} {
		for _, l := range []Local{{0, 0, 0}, {1000, 1000, 100}, {-50, 3000, 120}, {8000, -8000, 0}} {
			got := origin.ToLocal(origin.FromLocal(l))
			if math.Hypot(got.EastM-l.EastM, got.NorthM-l.NorthM) > 1e-6 || math.Abs(got.UpM-l.UpM) > 1e-9 {
				t.Errorf("origin %v: %v came back as %v", origin, l, got)
			}
		}
	}
}

// At latitude 45 degrees a thousandth of a degree is 111.132 m north and
// 78.847 m east on WGS84 (published tables of the length of a degree).
func TestLengthOfADegree(t *testing.T) {
	origin := Point{45, 7, 0}
	north := origin.ToLocal(Point{45.001, 7, 0})
	east := origin.ToLocal(Point{45, 7.001, 0})
	if math.Abs(north.NorthM-111.132) > 0.002 || math.Abs(east.EastM-78.847) > 0.002 {
		t.Errorf("a thousandth of a degree is %.4f m north and %.4f m east, want 111.132 and 78.847", north.NorthM, east.EastM)
	}
}
