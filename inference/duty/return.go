package duty

import (
	"math"

	"prefdt/inference/physics"
)

// Return returns what the way home takes, in seconds and joules: straight, at the speed over
// ground of least energy in a steady wind, by a measured multiplier of flight power. A
// wind that cannot be flown against at the speed limit takes as long as one that just can.
func Return(c *physics.Constants, from, home, windMPS physics.Position, multiplier float64) (seconds, joules float64) {
	way := home.Sub(from)
	distanceM := way.Norm()
	if !(distanceM > 0) {
		return 0, 0
	}
	const grid = 32
	ahead := way.Scale(1 / distanceM)
	seconds, joules = math.Inf(1), math.Inf(1)
	for k := 1; k <= grid; k++ {
		ground := c.SpeedMaxMPS * float64(k) / grid
		air := ahead.Scale(ground).Sub(windMPS).Norm()
		if air > c.SpeedMaxMPS && k > 1 {
			continue
		}
		if j := c.Propulsion.PowerW(air) * multiplier * distanceM / ground; j < joules {
			seconds, joules = distanceM/ground, j
		}
	}
	return seconds, joules
}
