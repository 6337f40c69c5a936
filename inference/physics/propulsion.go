package physics

import "math"

// Propulsion is the rotary-wing power model of eq. (prop).
type Propulsion struct {
	BladeW     float64 `json:"blade_w" yaml:"blade_w"`         // P_0, blade profile at hover
	InducedW   float64 `json:"induced_w" yaml:"induced_w"`     // P_i, induced at hover
	TipMPS     float64 `json:"tip_mps" yaml:"tip_mps"`         // U_tip
	InducedMPS float64 `json:"induced_mps" yaml:"induced_mps"` // v_0, mean rotor induced velocity at hover
	Parasite   float64 `json:"parasite" yaml:"parasite"`       // d_0 rho_a s_r A / 2, W per (m/s)^3
}

// PowerW returns the flight power at a horizontal speed, eq. (prop).
func (p Propulsion) PowerW(speedMPS float64) float64 {
	v2 := speedMPS * speedMPS
	w2 := v2 / (2 * p.InducedMPS * p.InducedMPS)
	// sqrt(1+w^4) - w^2, in a form without cancellation at high speed.
	induced := math.Sqrt(1 / (math.Sqrt(1+w2*w2) + w2))
	return p.BladeW*(1+3*v2/(p.TipMPS*p.TipMPS)) + p.InducedW*induced + p.Parasite*v2*speedMPS
}

// MinPower returns v*, the speed of least flight power, and that power.
func (c *Constants) MinPower() (speedMPS, powerW float64) {
	speedMPS = c.Propulsion.BestSpeedMPS(c.SpeedMaxMPS)
	return speedMPS, c.Propulsion.PowerW(speedMPS)
}

// BestSpeedMPS returns v*, the speed of least power, by golden-section search
// on [0, limit]; eq. (prop) has one interior minimum.
func (p Propulsion) BestSpeedMPS(limitMPS float64) float64 {
	const ratio = 0.6180339887498949 // (sqrt 5 - 1) / 2
	low, high := 0.0, limitMPS
	a, b := high-ratio*(high-low), low+ratio*(high-low)
	pa, pb := p.PowerW(a), p.PowerW(b)
	for high-low > 1e-9*(1+limitMPS) {
		if pa < pb {
			high, b, pb = b, a, pa
			a = high - ratio*(high-low)
			pa = p.PowerW(a)
		} else {
			low, a, pa = a, b, pb
			b = low + ratio*(high-low)
			pb = p.PowerW(b)
		}
	}
	return (low + high) / 2
}
