package energy

import "math"

// figure is an amount of joules, and the bounds that it lies within as long as
// the sensors are no worse than is assumed of them.
type figure struct {
	J     float64 `json:"j"`
	LowJ  float64 `json:"low_j"`
	HighJ float64 `json:"high_j"`
}

// around is an amount that may be off by a fraction.
func around(j, off float64) figure { return figure{j, j * (1 - off), j * (1 + off)} }

func (f figure) plus(g figure) figure {
	return figure{f.J + g.J, f.LowJ + g.LowJ, f.HighJ + g.HighJ}
}

func (f figure) widened(byJ float64) figure { return figure{f.J, f.LowJ - byJ, f.HighJ + byJ} }

// within narrows a figure to what a better source says. Where the two
// contradict each other, the better source is believed.
func (f figure) within(lowJ, highJ float64) figure {
	low, high := math.Max(f.LowJ, lowJ), math.Min(f.HighJ, highJ)
	if low > high {
		low, high = lowJ, highJ
	}
	return figure{math.Min(math.Max(f.J, low), high), low, high}
}

// offJ is how far off the amount may be, up or down.
func (f figure) offJ() float64 { return math.Max(f.HighJ-f.J, f.J-f.LowJ) }
