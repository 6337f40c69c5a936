package goal

import (
	"fmt"
	"math"
	"sort"
)

// Features is the number of features of the conditioner.
const Features = 5

// Conditioner is the preference-to-return regressor of eq. (reg): delay and
// energy of a whole mission, each linear in phi(omega).
type Conditioner struct {
	Delay  [Features]float64 `json:"delay"`
	Energy [Features]float64 `json:"energy"`
}

// Phi returns the regressor's features: the quadratic ones of the paper, and
// the quadratic ones of sqrt(omega), because half of the front's energy lies
// in the first 6 % of omega, where it bends like a root.
func Phi(omega float64) [Features]float64 {
	r := math.Sqrt(max(omega, 0))
	return [Features]float64{1, r, omega, omega * r, omega * omega}
}

// Return returns the delay in seconds and the energy in joules that the corpus
// attains at a delay share.
func (c *Conditioner) Return(omega float64) (delayS, energyJ float64) {
	for i, x := range Phi(omega) {
		delayS += c.Delay[i] * x
		energyJ += c.Energy[i] * x
	}
	return delayS, energyJ
}

func (c *Conditioner) check() error {
	for i := range Features {
		if !finite(c.Delay[i]) || !finite(c.Energy[i]) {
			return fmt.Errorf("conditioner coefficient %d is (%v, %v), want finite numbers", i, c.Delay[i], c.Energy[i])
		}
	}
	return nil
}

func finite(x float64) bool { return math.Abs(x) <= 1e12 }

// Remap is the monotone map c -> omega(c) of Sec. IV-C, piecewise linear
// between knots evenly spaced in c.
type Remap struct {
	Omegas []float64 `json:"omegas"` // omega at c = i/(len-1), increasing
}

// Omega returns the delay share a setting stands for.
func (r *Remap) Omega(setting float64) float64 {
	last := len(r.Omegas) - 1
	x := min(max(setting, 0), 1) * float64(last)
	i := min(int(x), last-1)
	return r.Omegas[i] + (x-float64(i))*(r.Omegas[i+1]-r.Omegas[i])
}

// Setting inverts Omega.
func (r *Remap) Setting(omega float64) float64 {
	last := len(r.Omegas) - 1
	i := min(max(sort.SearchFloat64s(r.Omegas, omega)-1, 0), last-1)
	x := (omega - r.Omegas[i]) / (r.Omegas[i+1] - r.Omegas[i])
	return min(max((float64(i)+x)/float64(last), 0), 1)
}

func (r *Remap) check() error {
	if len(r.Omegas) < 2 || len(r.Omegas) > 10001 {
		return fmt.Errorf("remap has %d knots, want 2 to 10001", len(r.Omegas))
	}
	for i, w := range r.Omegas {
		if !(w >= 0 && w <= 1) || i > 0 && w <= r.Omegas[i-1] {
			return fmt.Errorf("remap knot %d is %v, want increasing shares in [0, 1]", i, w)
		}
	}
	return nil
}
