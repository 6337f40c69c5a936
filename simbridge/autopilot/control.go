package autopilot

import (
	"math"

	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"

	"prefdt/simbridge/geo"
)

// The position and velocity loops, after PX4's MulticopterPositionControl. With
// drag, a bare velocity of 2 m/s gives 1.4 to 1.7 m/s in the first seconds, as
// was measured on PX4; a position target beside it closes the rest. Of the 1.8/s
// of MPC_XY_VEL_P_ACC, 1.1 follow PX4's turns from 8 m/s east to west and its
// starts and stops best, with a lag of 0.1 s (0.65 m/s of error, root mean square).
const (
	positionGain = 0.95 // MPC_XY_P, 1/s
	velocityGain = 1.1  // 1/s
	accelLagS    = 0.1  // s, from what is asked to what accelerates it
	integralGain = 0.4  // MPC_XY_VEL_I_ACC, 1/s^2
	dragPerS     = 0.9  // m/s^2 lost per m/s
	accelMPS2    = 9.0  // horizontal, from a tilt of some 43 degrees
	climbMPS2    = 4.0
	integralMax  = 30.0 // m/s^2, enough to hold any speed against the drag
	startSlowM   = 10.0 // height below which take-off slows to MPC_TKO_SPEED
	sinkMPS      = 1.0  // what is left of Position mode without a pilot
	fallMPS      = 20.0 // disarmed by force in the air
	atTargetM    = 1.0

	// A take-off and a landing, as measured.
	spoolUpS   = 1.0 // COM_SPOOLUP_TIME, from arming on
	detectS    = 0.7 // until it says that it takes off
	thrustS    = 1.4 // until it leaves the ground
	rampS      = 4.4 // and climbs at MPC_TKO_SPEED
	standsUpS  = 5.0 // it stands for so long before it says that it has landed
	returnMinM = 10.0
)

// move advances position and velocity by one step.
func (v *vehicle) move() {
	if v.stands && !v.liftsOff() {
		v.body.Velocity, v.integral, v.accel = geo.Local{}, geo.Local{}, geo.Local{}
		if !v.landed && (!v.armed || v.elapsed(v.standsUS) > standsUpS) {
			v.landed, v.landedUS = true, v.timeUS
			v.say(common.MAV_SEVERITY_INFO, "Landing detected")
		}
		return
	}
	want := v.command()
	b := &v.body
	east := v.accelerate(want.EastM-b.Velocity.EastM, &v.integral.EastM) - dragPerS*b.Velocity.EastM
	north := v.accelerate(want.NorthM-b.Velocity.NorthM, &v.integral.NorthM) - dragPerS*b.Velocity.NorthM
	if a := math.Hypot(east, north); a > accelMPS2 {
		east, north = east*accelMPS2/a, north*accelMPS2/a
	}
	v.accel.EastM += (east - v.accel.EastM) * stepS / accelLagS
	v.accel.NorthM += (north - v.accel.NorthM) * stepS / accelLagS
	east, north = v.accel.EastM, v.accel.NorthM
	up := clamp(3*(want.UpM-b.Velocity.UpM), -climbMPS2, climbMPS2)
	b.Velocity = geo.Local{EastM: b.Velocity.EastM + east*stepS, NorthM: b.Velocity.NorthM + north*stepS, UpM: b.Velocity.UpM + up*stepS}
	b.Position = geo.Local{EastM: b.Position.EastM + b.Velocity.EastM*stepS, NorthM: b.Position.NorthM + b.Velocity.NorthM*stepS, UpM: b.Position.UpM + b.Velocity.UpM*stepS}
	v.arrive()
}

func (v *vehicle) accelerate(errorMPS float64, integral *float64) float64 {
	*integral = clamp(*integral+integralGain*errorMPS*stepS, -integralMax, integralMax)
	return velocityGain*errorMPS + *integral
}

// command returns the velocity that the mode in force asks for.
func (v *vehicle) command() geo.Local {
	if !v.armed {
		return geo.Local{UpM: -fallMPS}
	}
	switch v.mode {
	case ModeOffboard:
		return v.offboard()
	case ModeTakeoff:
		to := v.hold
		to.UpM = v.takeoffM
		if math.IsNaN(v.takeoffM) { // asked for in the air
			to.UpM = v.hold.UpM
		}
		return v.towards(to)
	case ModeReturn:
		home := v.hold
		if v.comesDown = v.comesDown || v.homeM() < atTargetM; v.comesDown {
			return v.descend(home)
		}
		if v.body.Position.UpM < home.UpM-1 { // climbs first
			home.EastM, home.NorthM = v.body.Position.EastM, v.body.Position.NorthM
		}
		return v.towards(home)
	case ModeLand:
		return v.descend(v.hold)
	case ModePosition:
		if !v.piloted {
			return geo.Local{UpM: -sinkMPS}
		}
	}
	return v.towards(v.hold)
}

// offboard follows the setpoint: the position loop's velocity plus the
// feed-forward, each axis as far as it was given.
func (v *vehicle) offboard() geo.Local {
	s := &v.setpoint
	p := v.body.Position
	east := orZero(s.velocity.EastM) + positionGain*orZero(s.position.EastM-p.EastM)
	north := orZero(s.velocity.NorthM) + positionGain*orZero(s.position.NorthM-p.NorthM)
	up := orZero(s.velocity.UpM) + orZero(s.position.UpM-p.UpM)
	return v.bounded(geo.Local{EastM: east, NorthM: north, UpM: up}, v.params.get("MPC_XY_VEL_MAX"))
}

// towards flies to a point at cruise speed and stays there.
func (v *vehicle) towards(to geo.Local) geo.Local {
	p := v.body.Position
	return v.bounded(geo.Local{
		EastM: positionGain * (to.EastM - p.EastM), NorthM: positionGain * (to.NorthM - p.NorthM), UpM: to.UpM - p.UpM,
	}, v.params.get("MPC_XY_CRUISE"))
}

func (v *vehicle) descend(at geo.Local) geo.Local {
	want := v.towards(at)
	want.UpM = -v.params.get("MPC_Z_V_AUTO_DN")
	if v.heightM() < v.params.get("MPC_LAND_ALT1") {
		want.UpM = -v.params.get("MPC_LAND_SPEED")
	}
	return want
}

func (v *vehicle) bounded(want geo.Local, horizontalMPS float64) geo.Local {
	horizontalMPS = min(horizontalMPS, v.params.get("MPC_XY_VEL_MAX"))
	if h := math.Hypot(want.EastM, want.NorthM); h > horizontalMPS {
		want.EastM, want.NorthM = want.EastM*horizontalMPS/h, want.NorthM*horizontalMPS/h
	}
	want.UpM = clamp(want.UpM, -v.params.get("MPC_Z_VEL_MAX_DN"), v.climbMaxMPS())
	return want
}

// climbMaxMPS is slow near the ground.
func (v *vehicle) climbMaxMPS() float64 {
	most := v.params.get("MPC_Z_VEL_MAX_UP")
	if v.mode == ModeTakeoff && v.heightM() < startSlowM {
		most = min(most, v.params.get("MPC_TKO_SPEED"))
	}
	if since := v.elapsed(v.rampUS) - thrustS; v.rampUS != 0 && since < rampS {
		most = min(most, max(0, since/rampS)*v.params.get("MPC_TKO_SPEED"))
	}
	return most
}

func (v *vehicle) heightM() float64 { return v.body.Position.UpM - v.conf.Start.UpM }

func (v *vehicle) homeM() float64 {
	return math.Hypot(v.conf.Start.EastM-v.body.Position.EastM, v.conf.Start.NorthM-v.body.Position.NorthM)
}

// returnM is the height of a Return: within a cone of 45 degrees over home it
// need not be RTL_RETURN_ALT, and close to home it stays as it is.
func (v *vehicle) returnM() float64 {
	up := v.body.Position.UpM
	if d := v.homeM(); d > returnMinM {
		up = max(up, v.conf.Start.UpM+min(d, v.params.get("RTL_RETURN_ALT")))
	}
	return up
}

// liftsOff tells whether an aircraft that stands is lifted from the ground.
func (v *vehicle) liftsOff() bool {
	if !v.asksUp() {
		v.rampUS = 0
		return false
	}
	if v.rampUS == 0 {
		v.rampUS = v.timeUS
	}
	if v.elapsed(v.rampUS) < detectS {
		return false
	}
	if v.landed {
		v.say(common.MAV_SEVERITY_INFO, "Takeoff detected")
	}
	v.stands, v.landed, v.everFlown = false, false, true
	return true
}

func (v *vehicle) asksUp() bool {
	if !v.armed || v.elapsed(v.armedUS) < spoolUpS {
		return false
	}
	switch v.mode {
	case ModeTakeoff:
		return v.takeoffM > v.body.Position.UpM+0.5
	case ModeOffboard:
		s, p := &v.setpoint, v.body.Position
		return orZero(s.velocity.UpM)+orZero(s.position.UpM-p.UpM) > 0.3
	}
	return false
}

// arrive ends a take-off at its height and a flight on the ground.
func (v *vehicle) arrive() {
	b := &v.body
	if v.mode == ModeTakeoff && b.Position.UpM > v.takeoffM-0.5 && b.Velocity.UpM < 0.5 {
		v.choose(ModeHold)
		v.hold.UpM = v.takeoffM
	}
	if b.Position.UpM <= v.conf.Start.UpM && b.Velocity.UpM < 0 {
		b.Position.UpM = v.conf.Start.UpM
		b.Velocity, v.integral, v.accel = geo.Local{}, geo.Local{}, geo.Local{}
		v.stands, v.standsUS, v.rampUS = true, v.timeUS, 0
	}
}

func clamp(x, low, high float64) float64 { return min(max(x, low), high) }

func orZero(x float64) float64 {
	if math.IsNaN(x) {
		return 0
	}
	return x
}
