package checkpoint

import (
	"fmt"
	"math"

	"prefdt/inference/goal"
)

// PriceAxis is the axis on which the network predicts a slot's price: knots of
// y, the energy left unspent and the delay borne along the front in units of
// eta, against the price in seconds per joule. The price spans five decades,
// hence between knots it is interpolated in its logarithm, and linearly from a
// price of zero.
type PriceAxis struct {
	Y           []float64 `json:"y"`
	LambdaSPerJ []float64 `json:"lambda_s_per_j"`
}

// Lambda returns the price at y, held to the ends of the axis.
func (p *PriceAxis) Lambda(y float64) float64 {
	if !(y > p.Y[0]) { // also if it is no number
		return p.LambdaSPerJ[0]
	}
	i, t := goal.Hat(p.Y, y)
	lo, hi := p.LambdaSPerJ[i], p.LambdaSPerJ[i+1]
	if lo == 0 {
		return t * hi
	}
	return lo * math.Pow(hi/lo, t)
}

// Place inverts Lambda.
func (p *PriceAxis) Place(lambda float64) float64 {
	i, t := goal.Hat(p.LambdaSPerJ, lambda)
	if lo, hi := p.LambdaSPerJ[i], p.LambdaSPerJ[i+1]; lo > 0 && t > 0 && t < 1 {
		t = math.Log(lambda/lo) / math.Log(hi/lo)
	}
	return p.Y[i] + t*(p.Y[i+1]-p.Y[i])
}

const maxKnots = 4096

func (p *PriceAxis) check() error {
	n := len(p.Y)
	if n != len(p.LambdaSPerJ) || n < 2 || n > maxKnots {
		return fmt.Errorf("price axis has %d places and %d prices, want as many of each, 2 to %d", n, len(p.LambdaSPerJ), maxKnots)
	}
	for i := range n {
		y, lambda := p.Y[i], p.LambdaSPerJ[i]
		if !(math.Abs(y) <= 1e6) || !(lambda >= 0 && lambda <= 1e6) || i > 0 && (y <= p.Y[i-1] || lambda <= p.LambdaSPerJ[i-1]) {
			return fmt.Errorf("price axis knot %d is (%v, %v s/J), want finite and increasing numbers", i, y, lambda)
		}
	}
	return nil
}
