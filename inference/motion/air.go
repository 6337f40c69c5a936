package motion

import (
	"cmp"
	"math"

	"prefdt/inference/physics"
	"prefdt/inference/slot"
)

// Air is what a scheduler believes of the air that the fleet flies in. The zero value
// is calm air, in which flying costs what the model says.
type Air struct {
	Winds []Wind // possible winds; none: calm
	// Multiplier of flight power over the model's at the airspeed; 0 counts as 1.
	Multiplier float64
}

// Wind is one possible wind.
type Wind struct {
	MPS         physics.Position // where it blows to, east and north
	Probability float64
}

// PowerW returns the expected flight power at a velocity over the ground.
func (a *Air) PowerW(c *physics.Constants, groundMPS physics.Position) float64 {
	return a.ModelW(c, groundMPS) * cmp.Or(a.Multiplier, 1)
}

// ModelW is PowerW at a multiplier of 1.
func (a *Air) ModelW(c *physics.Constants, groundMPS physics.Position) (watt float64) {
	if len(a.Winds) == 0 {
		return c.Propulsion.PowerW(groundMPS.Norm())
	}
	for _, w := range a.Winds {
		watt += w.Probability * c.Propulsion.PowerW(groundMPS.Sub(w.MPS).Norm())
	}
	return watt
}

// MeanMPS returns the expected wind.
func (a *Air) MeanMPS() (mean physics.Position) {
	for _, w := range a.Winds {
		mean = mean.Add(w.MPS.Scale(w.Probability))
	}
	return mean
}

// holdRadiusM is how far from its target an aircraft in a wind may be: as far as it
// circles its target in calm air.
func (p *Planner) holdRadiusM() float64 { return circleRadiusSteps * p.bestSpeedMPS }

// MoveInAir returns one slot's displacement of aircraft m of the last call of Targets
// towards its target, at a price of energy. In calm air that is MoveToward at SpeedMPS.
// In a wind, where power is that of airspeed, the aircraft flies to its target at the
// speed over ground of the least total cost and, once it is within the radius at which
// it would circle in calm air, stays there with as little power as it can: at v* in a
// wind below that and, in a stronger or an unknown one, standing over the ground. There
// it turns as little as serves.
func (p *Planner) MoveInAir(c *physics.Constants, s *slot.Snapshot, m int, target physics.Position, air *Air,
	priceSPerJ float64) physics.Position {
	from := s.Aircraft[m].Position
	if len(air.Winds) == 0 {
		return MoveToward(from, target, p.bestSpeedMPS, p.SpeedMPS(c, s, m, target, priceSPerJ*cmp.Or(air.Multiplier, 1)))
	}
	way := target.Sub(from)
	distanceM, wind := way.Norm(), air.MeanMPS()
	switch {
	case !from.Valid() || !target.Valid():
		return physics.Position{}
	case distanceM > p.holdRadiusM():
		return way.Scale(p.transitMPS(c, s, m, target, air, priceSPerJ) / distanceM)
	case wind.Norm() >= p.bestSpeedMPS: // drifting saves less than flying back costs
		return physics.Position{}
	}
	stay := physics.Position{}
	best, leastW := stay, air.PowerW(c, stay)+p.turnW(s, m, stay)
	consider := func(move physics.Position) {
		r := way.Sub(move).Norm()
		if r > p.holdRadiusM() || move.Norm() > maxSpeedShare*c.SpeedMaxMPS {
			return
		}
		w := air.PowerW(c, move)*(1+1e-3*r/p.holdRadiusM()) + p.turnW(s, m, move) // of equal power, the nearest
		if w < leastW {
			best, leastW = move, w
		}
	}
	for k := range headings {
		sin, cos := math.Sincos(2 * math.Pi * float64(k) / headings)
		heading := physics.Position{EastM: cos, NorthM: sin}
		consider(wind.Add(heading.Scale(p.bestSpeedMPS)))
		for _, share := range [...]float64{0.5, 1} {
			consider(way.Add(heading.Scale(share * p.holdRadiusM())))
		}
	}
	return best
}

// turnWPerMPS2 is about what it costs that an airframe follows a change of velocity with a
// lag, in W over a slot for each (m/s)^2 of the change: until then its airspeed is not v*,
// where the power curve bends by 1.9 W/(m/s)^2. Half of that, over half a lag of 0.6 s, for
// the half of the changes that are not across the airspeed.
const turnWPerMPS2 = 0.15

// turnW is what changing from the move of the slot before to another one costs.
func (p *Planner) turnW(s *slot.Snapshot, m int, move physics.Position) float64 {
	last, known := p.lastMoves[s.Aircraft[m].Number]
	if !known || s.Slot != p.lastSlot+1 {
		return 0
	}
	d := move.Sub(last).Norm()
	return turnWPerMPS2 * d * d
}

// Moved remembers the moves decided for a slot: turning away from them costs, in a wind.
func (p *Planner) Moved(s *slot.Snapshot, moves []physics.Position) {
	if p.lastMoves == nil {
		p.lastMoves = map[int]physics.Position{}
	}
	clear(p.lastMoves)
	p.lastSlot = s.Slot
	for m := range s.Aircraft {
		p.lastMoves[s.Aircraft[m].Number] = moves[m]
	}
}

// headings is the number of directions that are compared near a target.
const headings = 24

// HoldW returns about the least expected power that staying at a place takes, at a
// multiplier of 1.
func (p *Planner) HoldW(c *physics.Constants, air *Air) float64 {
	if len(air.Winds) == 0 {
		return p.minFlightW
	}
	wind := air.MeanMPS()
	least := air.ModelW(c, physics.Position{})
	if wind.Norm() >= p.bestSpeedMPS {
		return least
	}
	for k := range headings {
		sin, cos := math.Sincos(2 * math.Pi * float64(k) / headings)
		least = min(least, air.ModelW(c, wind.Add(physics.Position{EastM: cos, NorthM: sin}.Scale(p.bestSpeedMPS))))
	}
	return least
}

// transitMPS is SpeedMPS in a wind: the speed over the ground at which the way to the
// target costs least.
func (p *Planner) transitMPS(c *physics.Constants, s *slot.Snapshot, m int, target physics.Position, air *Air, priceSPerJ float64) float64 {
	way := target.Sub(s.Aircraft[m].Position)
	distanceM := way.Norm()
	fastest := min(maxSpeedShare*c.SpeedMaxMPS, p.bestSpeedMPS+max(distanceM-p.holdRadiusM(), 0)/decelerationTimeS)
	const grid = 24
	holdW, multiplier := p.HoldW(c, air), cmp.Or(air.Multiplier, 1)
	speed, least := fastest, math.Inf(1)
	for k := range grid {
		v := fastest * float64(k+1) / grid
		perSlotS := priceSPerJ*multiplier*(air.ModelW(c, way.Scale(v/distanceM))-holdW) + p.savedDelayS[m]
		if costS := perSlotS * min(distanceM/v, float64(s.Slots-s.Slot)); costS < least {
			speed, least = v, costS
		}
	}
	return speed
}
