package belieftrain

import (
	"math"
	"math/rand/v2"

	"prefdt/simbridge/world"
)

// Draw returns a world around the named ones: each element is on or off by itself, and
// what is hidden of it is drawn from a range around that of the named worlds. In half of
// them the radio surroundings and the walking, if they are on, are the named worlds' own.
func Draw(r *rand.Rand) world.Config {
	c := world.Standard()
	between := func(low, high float64) float64 { return low + (high-low)*r.Float64() }
	chance := func(p float64) bool { return r.Float64() < p }
	named := chance(0.5)
	angle := func() float64 {
		if named {
			return 30
		}
		return 20 + 40*math.Pow(r.Float64(), 2) // half of them below 30 degrees
	}
	c.Users = 4 + r.IntN(14)
	c.ActiveMin, c.ActiveMax = min(c.ActiveMin, c.Users), min(8, c.Users)
	c.Physics.AreaSideM = between(700, 1500)
	c.Physics.Contention = chance(0.8)
	if chance(0.7) {
		c.Wind = world.Wind{TurnRad: between(0.003, 0.02), TurbulenceMPS: between(0.6, 1.4), TurbulenceMemory: between(0.93, 0.98)}
		mean := between(2, 11)
		c.Wind.MeanMinMPS, c.Wind.MeanMaxMPS = mean, mean
	}
	if chance(0.75) {
		f := between(0.78, 1.32)
		c.Payload = world.Payload{FactorMin: f, FactorMax: f}
	}
	if c.Wind.MeanMaxMPS > 0 || c.Payload.FactorMax > 0 {
		c.Gust = between(0.03, 0.07)
	}
	if chance(0.85) {
		c.Sounding = true
		channel := &c.Physics.Channel
		x := between(0, 1)
		if named || chance(0.6) {
			x = 1
		}
		mix := func(paper, highRise float64) float64 { return paper + x*(highRise-paper) }
		channel.UrbanA, channel.UrbanB = mix(9.61, 27.23), mix(0.16, 0.08)
		channel.LoS.ExcessDB, channel.NLoS.ExcessDB = mix(1, 2.3), mix(20, 34)
		if named || chance(0.9) {
			c.SkylineDeg = angle()
		}
		if named || chance(0.9) {
			c.ShadowingDeg = angle()
		}
	}
	if chance(0.5) {
		c.Walking = world.Walking{SpeedSDMPS: between(0.5, 2), Memory: between(0.7, 0.95)}
		if named {
			c.Walking.SpeedSDMPS, c.Walking.Memory = 1.5, 0.85
		}
	}
	if chance(0.6) {
		c.UserCPUMinHz, c.UserCPUMaxHz = 0.7e9, 2.8e9
		c.Throttling = world.Throttling{Factor: between(0.35, 0.6), MeanOnS: between(20, 45), MeanOffS: between(30, 60)}
	}
	return c
}
