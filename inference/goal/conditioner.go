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
	n := len(c.Omegas)
	if n < 2 || n > 10001 || len(c.DelayS) != n || len(c.EnergyJ) != n {
		return fmt.Errorf("conditioner has %d knots, %d delays and %d energies, want the same number, 2 to 10001", n, len(c.DelayS), len(c.EnergyJ))
	}
	for i := range n {
		w, d, e := c.Omegas[i], c.DelayS[i], c.EnergyJ[i]
		if !(w >= 0 && w <= 1) || !(math.Abs(d) < 1e12) || !(math.Abs(e) < 1e12) {
			return fmt.Errorf("conditioner knot %d is (%v, %v s, %v J), want a share and finite returns", i, w, d, e)
		}
		if i > 0 && (w <= c.Omegas[i-1] || d < c.DelayS[i-1] || e > c.EnergyJ[i-1]) {
			return fmt.Errorf("conditioner is not monotone at omega %.6f: (%.2f s, %.1f J) after (%.2f s, %.1f J)", w, d, e, c.DelayS[i-1], c.EnergyJ[i-1])
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

func (m *SettingMap) check() error {
	if len(m.Omegas) < 2 || len(m.Omegas) > 10001 {
		return fmt.Errorf("setting map has %d knots, want 2 to 10001", len(m.Omegas))
	}
	for i, w := range m.Omegas {
		if !(w >= 0 && w <= 1) || i > 0 && w <= m.Omegas[i-1] {
			return fmt.Errorf("setting map knot %d is %v, want increasing shares in [0, 1]", i, w)
		}
	}
	return nil
}
