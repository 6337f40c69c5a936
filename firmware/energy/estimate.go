package energy

import "math"

// estimate is an amount of joules, and its bounds as long as the sensors are no worse
// than assumed.
type estimate struct {
	J     float64 `json:"j"`
	LowJ  float64 `json:"low_j"`
	HighJ float64 `json:"high_j"`
}

// withRelativeError is an amount with a relative error.
func withRelativeError(j, off float64) estimate { return estimate{j, j * (1 - off), j * (1 + off)} }

func (f estimate) plus(g estimate) estimate {
	return estimate{f.J + g.J, f.LowJ + g.LowJ, f.HighJ + g.HighJ}
}

func (f estimate) widened(byJ float64) estimate { return estimate{f.J, f.LowJ - byJ, f.HighJ + byJ} }

// narrowed narrows an estimate to the bounds of a better source. Where the two
// contradict each other, the better source is accepted.
func (f estimate) narrowed(lowJ, highJ float64) estimate {
	low, high := math.Max(f.LowJ, lowJ), math.Min(f.HighJ, highJ)
	if low > high {
		low, high = lowJ, highJ
	}
	return estimate{math.Min(math.Max(f.J, low), high), low, high}
}

// uncertaintyJ is how far off the amount may be, up or down.
func (f estimate) uncertaintyJ() float64 { return math.Max(f.HighJ-f.J, f.J-f.LowJ) }
