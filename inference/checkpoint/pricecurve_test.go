package checkpoint

import (
	"math"
	"testing"
)

func TestPriceCurve(t *testing.T) {
	p := PriceCurve{FrontPositions: []float64{-0.1, 0, 0.5, 1}, PricesSPerJ: []float64{0, 1e-4, 1e-2, 1}}
	if err := p.check(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ y, price float64 }{
		{-0.1, 0}, {-0.05, 5e-5}, {0, 1e-4}, {0.25, 1e-3}, {0.5, 1e-2}, {0.75, 0.1}, {1, 1},
	} {
		if got := p.PriceSPerJ(c.y); math.Abs(got-c.price) > 1e-12 {
			t.Errorf("price at %v is %v, want %v", c.y, got, c.price)
		}
		if got := p.FrontPosition(c.price); math.Abs(got-c.y) > 1e-12 {
			t.Errorf("front position of %v is %v, want %v", c.price, got, c.y)
		}
	}
	if p.PriceSPerJ(-5) != 0 || p.PriceSPerJ(5) != 1 || p.FrontPosition(-1) != -0.1 || p.FrontPosition(9) != 1 ||
		p.PriceSPerJ(math.NaN()) != 0 {
		t.Error("the ends do not hold")
	}
}
