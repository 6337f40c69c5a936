package robust

import "testing"

func TestAgrees(t *testing.T) {
	for _, c := range []struct {
		outlier Outlier
		off     float64
		want    bool
	}{
		{0, 0, false}, {0, 0.7, false}, {0.7, 0, false}, {0.7, 0.7, true}, {0.7, 0.4, true}, {0.4, 0.7, true},
		{0.83, -1.2, false}, {-1.2, 0.83, false}, {-0.7, -0.7, true}, {0.7, 0.1, false}, {0.7, 3, false},
	} {
		if got := c.outlier.Agrees(c.off); got != c.want {
			t.Errorf("%v after %v agrees: %v", c.off, c.outlier, got)
		}
	}
}
