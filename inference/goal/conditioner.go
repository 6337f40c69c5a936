package goal

import (
	"fmt"
	"math"
	"sort"
)

// Conditioner maps a delay share omega to the delay and the energy that the corpus
// attains at it over a whole mission, the regression of eq. (reg), each linear
// in phi(omega). The paper's phi is quadratic in omega; but half of the front's
// energy lies in the first 1 % of omega, so here phi are the hat functions of a
// linear spline, and a coefficient is the delay or energy at a knot.
type Conditioner struct {
	Omegas  []float64 `json:"omegas"`   // knots, increasing
	DelayS  []float64 `json:"delay_s"`  // rising
	EnergyJ []float64 `json:"energy_j"` // falling
}

// MissionReturn returns the delay and the energy of a mission at a delay share.
func (c *Conditioner) MissionReturn(omega float64) (delayS, energyJ float64) {
	i, f := HatBasis(c.Omegas, omega)
	return c.DelayS[i] + f*(c.DelayS[i+1]-c.DelayS[i]), c.EnergyJ[i] + f*(c.EnergyJ[i+1]-c.EnergyJ[i])
}

// Bisect halves an interval so many times: of the two halves it keeps the one in which a condition that holds below no
// longer does above.
func Bisect(low, high float64, times int, holds func(x float64) bool) (float64, float64) {
	for range times {
		if mid := (low + high) / 2; holds(mid) {
			low = mid
		} else {
			high = mid
		}
	}
	return low, high
}

// OmegaOfEnergy returns the delay share of a band at which a total of energy is expected.
func (c *Conditioner) OmegaOfEnergy(energyJ, low, high float64) float64 {
	low, high = Bisect(low, high, 50, func(omega float64) bool { // energy falls with omega
		_, e := c.MissionReturn(omega)
		return e > energyJ
	})
	return (low + high) / 2
}

// HatBasis returns the two hat functions of linear interpolation that are not zero
// at x: knot i has weight 1-f and knot i+1 has weight f. Below the first knot and
// above the last, the result is that of the knot.
func HatBasis(knots []float64, x float64) (i int, f float64) {
	last := len(knots) - 1
	i = min(max(sort.SearchFloat64s(knots, x)-1, 0), last-1)
	return i, min(max((x-knots[i])/(knots[i+1]-knots[i]), 0), 1)
}

// Check returns an error unless both maps are monotone: delay must not fall, and
// energy must not rise, with omega.
func (c *Conditioner) Check() error {
	if err := CheckKnots("conditioner", c.Omegas, 0, 1); err != nil {
		return err
	}
	if n := len(c.Omegas); len(c.DelayS) != n || len(c.EnergyJ) != n {
		return fmt.Errorf("conditioner has %d knots, %d delays and %d energies, want the same number", n, len(c.DelayS), len(c.EnergyJ))
	}
	for i, d := range c.DelayS {
		e := c.EnergyJ[i]
		if !(math.Abs(d) < 1e12) || !(math.Abs(e) < 1e12) || i > 0 && (d < c.DelayS[i-1] || e > c.EnergyJ[i-1]) {
			return fmt.Errorf("conditioner knot %d is (%v s, %v J), want finite numbers, delay not falling and energy not rising", i, d, e)
		}
	}
	return nil
}

const maxKnots = 10001

// CheckKnots returns an error, with the name, unless there are at least two knots and
// they increase, from low to high at most.
func CheckKnots(name string, knots []float64, low, high float64) error {
	if len(knots) < 2 || len(knots) > maxKnots {
		return fmt.Errorf("%s has %d knots, want 2 to %d", name, len(knots), maxKnots)
	}
	for i, x := range knots {
		if !(x >= low && x <= high) || i > 0 && x <= knots[i-1] {
			return fmt.Errorf("%s knot %d is %v, want increasing numbers in [%v, %v]", name, i, x, low, high)
		}
	}
	return nil
}

// SettingMap is the monotone map from a setting c to the delay share omega(c), the
// remap of Sec. IV-C: piecewise linear between knots evenly spaced in c,
// calibrated so that equal steps of the setting have about equal effect.
type SettingMap struct {
	Omegas []float64 `json:"omegas"` // omega at c = i/(len-1), increasing
}

// Omega returns the delay share of a setting.
func (m *SettingMap) Omega(setting float64) float64 {
	last := len(m.Omegas) - 1
	x := min(max(setting, 0), 1) * float64(last)
	i := min(int(x), last-1)
	return m.Omegas[i] + (x-float64(i))*(m.Omegas[i+1]-m.Omegas[i])
}

// Setting is the inverse of Omega.
func (m *SettingMap) Setting(omega float64) float64 {
	i, f := HatBasis(m.Omegas, omega)
	return (float64(i) + f) / float64(len(m.Omegas)-1)
}

func (m *SettingMap) check() error { return CheckKnots("setting map", m.Omegas, 0, 1) }
