package corpus

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

// airframe is a rotorcraft as its maker publishes it: take-off weight, and the
// area of all rotor discs.
type airframe struct{ weightN, discM2 float64 }

// airframes: the aircraft of Zeng, Xu and Zhang (IEEE TWC 2019, Table I), and
// from DJI's data sheets the Phantom 4 (1.38 kg, four 9.4-inch propellers), the
// Matrice 100 (2.355 kg, four 13-inch), the Matrice 300 RTK (6.3 kg, four
// 21-inch) and the Matrice 600 Pro (9.5 kg, six 21-inch).
var airframes = []airframe{{20, 0.503}, {13.5, 0.179}, {23.1, 0.343}, {61.8, 0.894}, {93.2, 1.341}}

// propulsion returns the constants of eq. (prop) by Zeng et al.'s eqs. (64) to
// (66), for a payload and a drag relative to the airframe's own: air of 1.225
// kg/m3, profile drag 0.012, solidity 0.05, induced power factor 0.1, fuselage
// drag ratio 0.6, and rotors turned to their blade loading, C_T/s = 0.045.
func (a airframe) propulsion(payload, drag float64) physics.Propulsion {
	const air, profile, solidity, factor, fuselage, loading = 1.225, 0.012, 0.05, 0.1, 0.6, 0.045
	weightN := payload * a.weightN
	tipMPS := math.Sqrt(weightN / (air * a.discM2 * solidity * loading))
	return physics.Propulsion{
		BladeW:   profile / 8 * air * solidity * a.discM2 * tipMPS * tipMPS * tipMPS,
		InducedW: (1 + factor) * math.Pow(weightN, 1.5) / math.Sqrt(2*air*a.discM2),
		TipMPS:   tipMPS, InducedMPS: math.Sqrt(weightN / (2 * air * a.discM2)),
		Parasite: drag * fuselage / 2 * air * solidity * a.discM2,
	}
}

// RandomWorld returns the i-th world of a seed, drawn around a world c: fleet, number
// of users, length, area, tasks, processors, channel and airframe. A trace's tasks
// are not drawn around.
func RandomWorld(c world.Config, seed uint64, i int) world.Config {
	r := rand.New(rand.NewPCG(seed, 1<<40+uint64(i)))
	c.Shock, c.Gust, c.AircraftLosses, c.Trace = world.Shock{}, 0, nil, nil
	log := func(x, spread float64) float64 { return x * math.Exp((2*r.Float64()-1)*math.Log(spread)) }
	fleets := []int{1, 1, 2, 2, 2, 3, 3, 4, 4, 5, 6, 8}
	c.Aircraft = fleets[r.IntN(len(fleets))]
	c.Users = 4 + r.IntN(8*min(c.Aircraft+1, 5))
	c.ActiveMax = max(1, int(float64(c.Users)*(0.4+0.6*r.Float64())))
	c.ActiveMin = c.ActiveMax / 2
	c.Slots = max(int(log(0.9*float64(c.Slots), 3.3)), 1)
	c.TaskProbability = 0.5 + 0.5*r.Float64()
	bits, deadline := log(1, 2), log(1, 1.5)
	c.BitsMin, c.BitsMax = bits*c.BitsMin, bits*c.BitsMax
	c.DeadlineMinS, c.DeadlineMaxS = deadline*bits*c.DeadlineMinS, deadline*bits*c.DeadlineMaxS
	c.CyclesPerBit = log(c.CyclesPerBit, 1.7)
	c.UserCPUHz = log(c.UserCPUHz, 1.7)
	p := &c.Physics
	p.AreaSideM, p.AltitudeM = log(p.AreaSideM, 3), log(p.AltitudeM, 1.4)
	p.EdgeCPUHz, p.SwitchedCapacitance = log(p.EdgeCPUHz, 2), log(p.SwitchedCapacitance, 2)
	p.Channel.BandwidthHz = log(p.Channel.BandwidthHz, 2)
	e := environments[r.IntN(len(environments))]
	p.Channel.UrbanA, p.Channel.UrbanB, p.Channel.LoS.ExcessDB, p.Channel.NLoS.ExcessDB = e.a, e.b, e.los, e.nlos
	p.Contention = r.Float64() < 0.2
	c.DenseStart = r.Float64() < 0.2
	a := airframes[r.IntN(len(airframes))]
	p.Propulsion = a.propulsion(log(1, 1.2), log(1, 1.2))
	if r.Float64() < 0.15 { // a battery that may not last
		_, powerW := p.MinPower()
		p.BatteryCapacityJ = float64(c.Slots) * powerW * (0.6 + r.Float64())
	}
	return c
}
