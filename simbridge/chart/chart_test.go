package chart

import (
	"math"
	"testing"
)

// Two to eleven round values, from the first inside to the last.
func TestTicks(t *testing.T) {
	for _, c := range []struct {
		low, high, limit float64
		count            int
		first, last      string
	}{
		{0, 100, 0, 11, "0", "100"}, {0, 100, 50, 6, "0", "50"}, {-1, 1, 0, 3, "-1", "1"}, {0.5, 39e3, 0, 3, "10000", "30000"},
		{3, 3, 0, 0, "", ""}, {math.NaN(), 1, 0, 0, "", ""},
	} {
		ticks := Ticks{c.limit}.Ticks(c.low, c.high)
		if len(ticks) != c.count {
			t.Errorf("%v to %v has %d ticks, want %d: %v", c.low, c.high, len(ticks), c.count, ticks)
			continue
		}
		if c.count > 0 && (ticks[0].Label != c.first || ticks[c.count-1].Label != c.last) {
			t.Errorf("%v to %v is labelled %s to %s, want %s to %s", c.low, c.high, ticks[0].Label, ticks[c.count-1].Label, c.first, c.last)
		}
	}
}
