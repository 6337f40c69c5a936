package account

import (
	"math"

	"prefdt/firmware/fleet"
	"prefdt/firmware/height"
	"prefdt/inference/motion"
	"prefdt/inference/physics"
)

// The way home is computed here alone: for C6, for `start` and `launch`, and for the checks
// before a flight. It is flown as package fleet flies it, at the fleet's speed of transit.

// Leg is what a way takes: flying it, and hovering, waiting and descending at its end.
type Leg struct{ CruiseJ, HoverJ float64 }

// TotalJ is the sum of its parts.
func (l Leg) TotalJ() float64 { return l.CruiseJ + l.HoverJ }

// HomeJ is the energy of an aircraft's way home at multiplier 1: two seconds of hover until
// the next decision and the turn, the cruise at the fleet's speed through the air that is
// believed in, the wait for those that land first, the descent, and the motors on the ground
// until the landing is reported.
func HomeJ(p *physics.Constants, v *fleet.View, transitMPS float64, air *motion.Air, waitS float64) float64 {
	return wayHome(p, v, transitMPS, air, waitS, overHome(p, v)).TotalJ()
}

// groundS is how long motors turn on the ground until the autopilot reports the landing, as measured.
const groundS = 5

// landingS is how long an aircraft hovers down from a height until its motors stand still.
func landingS(v *fleet.View, heightM height.AboveGround) float64 {
	return v.Params.DescentS(heightM) + groundS
}

// overHome is from which height over its home one that comes home descends, climbM how far up from there H is.
func overHome(p *physics.Constants, v *fleet.View) height.AboveGround {
	return max(v.UpM, height.AboveOrigin(p.AltitudeM)).Over(v.GroundUpM)
}
func climbM(p *physics.Constants, v *fleet.View) height.AboveGround {
	return height.AboveOrigin(p.AltitudeM).Over(v.GroundUpM)
}

// wayHome is that way, with a descent from a height, and a wait of any kind.
func wayHome(p *physics.Constants, v *fleet.View, transitMPS float64, air *motion.Air, waitS float64, heightM height.AboveGround) (x Leg) {
	const turnS = 2
	hoverS := turnS + waitS + landingS(v, heightM)
	if v.Home != nil {
		x.CruiseJ = cruise(p, v.Home.Sub(v.Position), transitMPS, air)
	}
	x.HoverJ = hoverS * hoverW(p, air)
	return x
}

// TakeOffJ is the energy that a take-off needs at multiplier 1: of the climb, the way to a
// place, and that home from there.
func TakeOffJ(p *physics.Constants, v *fleet.View, to physics.Position, transitMPS float64, air *motion.Air, waitS float64) float64 {
	there := *v
	there.Position, there.Home = to, &v.Position
	x := climb(p, v, to, transitMPS, air)
	return x.HoverJ + x.CruiseJ + HomeJ(p, &there, transitMPS, air, waitS)
}

// climb is the way from the ground to a place at multiplier 1.
func climb(p *physics.Constants, v *fleet.View, to physics.Position, transitMPS float64, air *motion.Air) Leg {
	return Leg{cruise(p, to.Sub(v.Position), transitMPS, air), v.Params.ClimbS(climbM(p, v)) * hoverW(p, air)}
}

// cruise is the energy of a way at a speed over the ground.
func cruise(p *physics.Constants, way physics.Position, speedMPS float64, air *motion.Air) float64 {
	distanceM := way.Norm()
	if distanceM == 0 {
		return 0
	}
	return distanceM / speedMPS * air.ModelW(p, way.Scale(speedMPS/distanceM))
}

// aloneJ is the energy of the path that an aircraft flies by itself, at multiplier 1.
func aloneJ(p *physics.Constants, path []fleet.Waypoint, air *motion.Air) (sumJ float64) {
	for i := 1; i < len(path); i++ {
		way, seconds := path[i].Position.Sub(path[i-1].Position), path[i].AfterS-path[i-1].AfterS
		if way == (physics.Position{}) {
			sumJ += seconds * hoverW(p, air)
		} else {
			sumJ += cruise(p, way, way.Norm()/seconds, air)
		}
	}
	return sumJ + groundS*hoverW(p, air)
}

// hoverW is the power at a place, of which the last part is near the ground, where there
// is less wind.
func hoverW(p *physics.Constants, air *motion.Air) float64 {
	return max(air.ModelW(p, physics.Position{}), p.Propulsion.PowerW(0))
}

// LeftJ is the energy left in an aircraft's pack when its meter shows a total: the lesser of two figures. One is its capacity
// less what was drawn since it was fitted. The other is the charge that it reports. Autopilots round a charge up to a whole point,
// which is 1.5 kJ of a large pack, so what was drawn since that point was first reported is subtracted, up to one point. After a
// restart the last charge counts until the pack reports another.
func LeftJ(v *fleet.View, totalJ float64) float64 {
	left := v.CapacityJ - (totalJ - v.FittedJ)
	switch {
	case math.IsNaN(v.Charge) && v.LastCharge != nil:
		left = math.Min(left, *v.LastCharge*v.CapacityJ)
	case !math.IsNaN(v.Charge):
		drawnJ := v.ChargeDrawnJ - (v.TotalJ - totalJ)
		left = math.Min(left, v.Charge*v.CapacityJ-min(max(drawnJ, 0), v.CapacityJ/100))
	}
	return math.Max(left, 0)
}
