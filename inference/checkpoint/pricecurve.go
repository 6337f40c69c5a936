package checkpoint

import (
	"cmp"
	"fmt"
	"math"

	"prefdt/inference/goal"
)

// PriceCurve maps the front position y that the network predicts, from about 0 at the
// least delay to 1 at the least energy, to a slot's price in seconds per joule. The
// price spans five decades, so between knots its logarithm is interpolated; next to
// a price of zero, the price itself.
type PriceCurve struct {
	FrontPositions []float64 `json:"y"`
	PricesSPerJ    []float64 `json:"lambda_s_per_j"`
}

// PriceSPerJ returns the price at a front position; beyond the axis, that at its end.
func (p *PriceCurve) PriceSPerJ(y float64) float64 {
	if !(y > p.FrontPositions[0]) { // also if it is not a number
		return p.PricesSPerJ[0]
	}
	i, t := goal.HatBasis(p.FrontPositions, y)
	lo, hi := p.PricesSPerJ[i], p.PricesSPerJ[i+1]
	if lo == 0 {
		return t * hi
	}
	return lo * math.Pow(hi/lo, t)
}

// FrontPosition is the inverse of PriceSPerJ.
func (p *PriceCurve) FrontPosition(priceSPerJ float64) float64 {
	i, t := goal.HatBasis(p.PricesSPerJ, priceSPerJ)
	if lo, hi := p.PricesSPerJ[i], p.PricesSPerJ[i+1]; lo > 0 && t > 0 && t < 1 {
		t = math.Log(priceSPerJ/lo) / math.Log(hi/lo)
	}
	return p.FrontPositions[i] + t*(p.FrontPositions[i+1]-p.FrontPositions[i])
}

func (p *PriceCurve) check() error {
	if n := len(p.FrontPositions); n != len(p.PricesSPerJ) {
		return fmt.Errorf("price curve has %d positions and %d prices, want as many of each", n, len(p.PricesSPerJ))
	}
	return cmp.Or(goal.CheckKnots("price curve", p.FrontPositions, -1e6, 1e6), goal.CheckKnots("price curve", p.PricesSPerJ, 0, 1e6))
}
