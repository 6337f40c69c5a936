package evaluate

import (
	"math"
	"math/rand/v2"

	"prefdt/inference/physics"
	"prefdt/simbridge/world"
)

// environments are the parameter sets of Al-Hourani et al. (LAP): suburban,
// urban, dense urban, high-rise.
var environments = []struct{ a, b, los, nlos float64 }{
	{4.88, 0.43, 0.1, 21}, {9.61, 0.16, 1, 20}, {12.08, 0.11, 1.6, 23}, {27.23, 0.08, 2.3, 34},
}

// randomWorld draws a world around the standard one: fleet, crowd, length,
// area, tasks, processors, channel and airframe.
func randomWorld(r *rand.Rand) world.Config {
	c := world.Standard()
	log := func(x, spread float64) float64 { return x * math.Exp((2*r.Float64()-1)*math.Log(spread)) }
	fleets := []int{1, 1, 2, 2, 2, 3, 3, 4, 4, 5, 6, 8}
	c.Aircraft = fleets[r.IntN(len(fleets))]
	c.Users = 4 + r.IntN(8*min(c.Aircraft+1, 5))
	c.ActiveMax = max(1, int(float64(c.Users)*(0.4+0.6*r.Float64())))
	c.ActiveMin = c.ActiveMax / 2
	c.Slots = int(log(90, 3.3))
	c.TaskProbability = 0.5 + 0.5*r.Float64()
	bits, deadline := log(1, 2), log(1, 1.5)
	c.BitsMin, c.BitsMax = bits*c.BitsMin, bits*c.BitsMax
	c.DeadlineMinS, c.DeadlineMaxS = deadline*bits*c.DeadlineMinS, deadline*bits*c.DeadlineMaxS
	c.CyclesPerBit = log(c.CyclesPerBit, 1.7)
	c.UserCPUHz = log(c.UserCPUHz, 1.7)
	p := &c.Physics
	p.AreaM, p.AltitudeM = log(1000, 3), log(100, 1.4)
	p.EdgeCPUHz, p.Kappa = log(p.EdgeCPUHz, 2), log(p.Kappa, 2)
	p.Channel.BandwidthHz = log(p.Channel.BandwidthHz, 2)
	e := environments[r.IntN(len(environments))]
	p.Channel.UrbanA, p.Channel.UrbanB, p.Channel.LoS.ExcessDB, p.Channel.NLoS.ExcessDB = e.a, e.b, e.los, e.nlos
	p.Contention = r.Float64() < 0.2
	c.Crowded = r.Float64() < 0.2
	power := log(1, 2.5)
	p.Propulsion = physics.Propulsion{
		BladeW: power * p.Propulsion.BladeW, InducedW: power * p.Propulsion.InducedW,
		TipMPS: log(p.Propulsion.TipMPS, 1.5), InducedMPS: log(p.Propulsion.InducedMPS, 1.5), Parasite: log(p.Propulsion.Parasite, 2),
	}
	return c
}
