package autopilot

import (
	"math"

	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"

	"prefdt/simbridge/geo"
)

// DescentShare is the part of MPC_Z_V_AUTO_DN with which PX4 1.16 descends: 1.17 to 1.29 m/s of 1.5, 2.49 of 3.
const DescentShare = 0.83

// Parts of MPC_Z_VEL_MAX_UP and MPC_LAND_SPEED with which PX4 climbs and lands, as measured: it comes to them slowly.
const (
	climbShare = 0.93
	landShare  = 0.92
)

// LandDetectS is from ground contact until the landing is reported, as measured; the motors turn until then.
const LandDetectS = 5.0

// The position and velocity loops, after PX4's MulticopterPositionControl. With
// drag, a bare velocity of 2 m/s gives 1.4 to 1.7 m/s in the first seconds, as
// was measured on PX4; a position target beside it closes the rest. Of the 1.8/s
// of MPC_XY_VEL_P_ACC, 1.1 follow PX4's turns from 8 m/s east to west and its
// starts and stops best, with a lag of 0.1 s (0.65 m/s of error, root mean square).
const (
	positionGain      = 0.95 // MPC_XY_P, 1/s
	arrivalGain       = 0.57 // 1/s, upwards in PX4's own modes
	velocityGain      = 1.1  // 1/s
	accelLagS         = 0.1  // s, of the acceleration behind the command
	integralGain      = 0.4  // MPC_XY_VEL_I_ACC, 1/s^2
	dragPerS          = 0.9  // m/s^2 lost per m/s
	accelMPS2         = 9.0  // horizontal, from a tilt of some 43 degrees
	climbMPS2         = 4.0
	integralMax       = 30.0 // m/s^2, enough to hold any speed against the drag
	slowTakeoffBelowM = 10.0 // height below which take-off slows to MPC_TKO_SPEED
	sinkMPS           = 1.0  // descent in Position mode without a pilot
	fallMPS           = 20.0 // disarmed by force in the air
	atHomeM           = 1.0

	// A take-off and a landing, as measured.
	spoolUpS           = 1.0 // COM_SPOOLUP_TIME, from arming on
	takeoffDetectS     = 0.7 // until take-off is reported
	liftOffS           = 1.4 // until it leaves the ground
	takeoffRampS       = 4.4 // and climbs at MPC_TKO_SPEED
	returnMinDistanceM = 10.0
)

// integrate advances position and velocity by one step.
func (v *vehicle) integrate() {
	if v.groundContact && !v.liftsOff() {
		v.body.Velocity, v.velocityIntegral, v.accel, v.pushed = geo.Local{}, geo.Local{}, geo.Local{}, Body{}
		detectS := LandDetectS
		if v.conf.Copter {
			detectS = copterLandDetectS
		}
		if !v.landed && (!v.armed || v.elapsedS(v.groundContactUS) > detectS) {
			v.landed, v.landedUS = true, v.timeUS
			if !v.conf.Copter {
				v.queueStatusText(common.MAV_SEVERITY_INFO, "Landing detected")
			}
		}
		return
	}
	b, gust := &v.body, v.gust
	if v.conf.Copter { // it flies its path, off which gusts have it
		gust = geo.Local{}
		b.Position, b.Velocity = b.Position.Sub(v.pushed.Position), b.Velocity.Sub(v.pushed.Velocity)
	}
	want := v.velocityCommand()
	east := v.accelerate(want.EastM-b.Velocity.EastM, &v.velocityIntegral.EastM) - dragPerS*b.Velocity.EastM
	north := v.accelerate(want.NorthM-b.Velocity.NorthM, &v.velocityIntegral.NorthM) - dragPerS*b.Velocity.NorthM
	if a := math.Hypot(east, north); a > accelMPS2 {
		east, north = east*accelMPS2/a, north*accelMPS2/a
	}
	if v.conf.Copter {
		east, north = v.copterAcceleration(want)
	}
	lagS := accelLagS
	if v.conf.Copter {
		lagS = stepS // its jerk is limited already
	}
	if v.brake.on {
		east, north = v.brakeAcceleration()
		lagS = stepS
	}
	v.accel.EastM += (east - v.accel.EastM) * stepS / lagS
	v.accel.NorthM += (north - v.accel.NorthM) * stepS / lagS
	east, north = v.accel.EastM+gust.EastM, v.accel.NorthM+gust.NorthM
	up := clamp(3*(want.UpM-b.Velocity.UpM), -climbMPS2, climbMPS2)
	b.Velocity = b.Velocity.Add(geo.Local{EastM: east, NorthM: north, UpM: up}.Scale(stepS))
	b.Position = b.Position.Add(b.Velocity.Scale(stepS))
	if v.conf.Copter {
		v.push()
		b.Position, b.Velocity = b.Position.Add(v.pushed.Position), b.Velocity.Add(v.pushed.Velocity)
	}
	v.endTakeoffOrTouchDown()
}

func (v *vehicle) accelerate(errorMPS float64, integral *float64) float64 {
	*integral = clamp(*integral+integralGain*errorMPS*stepS, -integralMax, integralMax)
	return velocityGain*errorMPS + *integral
}

// velocityCommand returns the velocity that the active mode commands.
func (v *vehicle) velocityCommand() geo.Local {
	if !v.armed {
		return geo.Local{UpM: -fallMPS}
	}
	switch v.mode {
	case ModeOffboard:
		if v.conf.Copter {
			return v.guidedVelocity()
		}
		return v.offboardVelocity()
	case ModeHold:
		if v.conf.Copter {
			return v.stopVelocity()
		}
	case ModeTakeoff:
		to := v.holdPosition
		if !math.IsNaN(v.takeoffUpM) { // it is if commanded in the air
			to.UpM = v.takeoffToUpM()
		}
		return v.velocityTowards(to)
	case ModeReturn:
		home := v.holdPosition
		if v.homeDistanceM() < atHomeM && v.overHomeUS == 0 {
			v.overHomeUS = v.timeUS
		}
		waitS := 0.0
		if v.conf.Copter {
			waitS = copterLoiterS
		}
		if v.returnDescending = v.overHomeUS != 0 && v.elapsedS(v.overHomeUS) >= waitS; v.returnDescending {
			return v.descentVelocity(home)
		}
		if v.body.Position.UpM < home.UpM-1 { // climb first
			home.EastM, home.NorthM = v.body.Position.EastM, v.body.Position.NorthM
		}
		return v.velocityTowards(home)
	case ModeLand:
		return v.descentVelocity(v.holdPosition)
	case ModePosition:
		switch {
		case v.piloted:
		case v.conf.Copter:
			return geo.Local{UpM: -copterSinkMPS}
		default:
			return geo.Local{UpM: -sinkMPS}
		}
		if v.pilotVelocity != (geo.Local{}) {
			v.holdPosition = v.body.Position
			return v.pilotVelocity
		}
	}
	return v.velocityTowards(v.holdPosition)
}

// brake is a PX4 that comes to rest in Hold, as measured: 23 m on from 9.5 m/s, in 4.9 s, and it stays there.
type brake struct {
	on   bool
	mps2 float64
}

const (
	brakeMPS2  = 2.1  // of 3, MPC_ACC_HOR
	brakePerS  = 1.0  // no more than this times the speed
	brakeMPS3  = 4.0  // MPC_JERK_AUTO
	brakeStill = 0.05 // m/s
)

// brakeAcceleration is that of a brake; where it ends is where it holds.
func (v *vehicle) brakeAcceleration() (east, north float64) {
	b, speed := &v.brake, v.body.SpeedMPS()
	v.holdPosition.EastM, v.holdPosition.NorthM = v.body.Position.EastM, v.body.Position.NorthM
	v.velocityIntegral.EastM, v.velocityIntegral.NorthM = 0, 0
	if speed <= brakeStill {
		b.on = false
		return 0, 0
	}
	want := min(brakeMPS2, brakePerS*speed)
	b.mps2 = min(b.mps2+clamp(want-b.mps2, -brakeMPS3*stepS, brakeMPS3*stepS), speed/stepS)
	return -b.mps2 * v.body.Velocity.EastM / speed, -b.mps2 * v.body.Velocity.NorthM / speed
}

// offboardVelocity follows the setpoint: the position loop's velocity plus the
// feed-forward, each axis as far as it was given. A PX4 whose setpoints end flies on as it did until its failsafe holds
// it, as measured with COM_OF_LOSS_T 1 s: 34 m in all from 9.2 m/s. Of a longer one nothing is known.
func (v *vehicle) offboardVelocity() geo.Local {
	const endS, mostLossS = 0.3, 2
	if !v.conf.Copter && v.elapsedS(v.setpointUS) > endS && v.params.get("COM_OF_LOSS_T") <= mostLossS && v.body.SpeedMPS() > brakeStill {
		on := v.body.Velocity
		on.UpM = v.limitVelocity(geo.Local{UpM: orZero(v.setpoint.Position.UpM - v.body.Position.UpM)}, 0).UpM
		return on
	}
	s := &v.setpoint
	p := v.body.Position
	approach := v.approach(geo.Local{EastM: orZero(s.Position.EastM - p.EastM), NorthM: orZero(s.Position.NorthM - p.NorthM)})
	east, north := orZero(s.Velocity.EastM)+approach.EastM, orZero(s.Velocity.NorthM)+approach.NorthM
	up := orZero(s.Velocity.UpM) + orZero(s.Position.UpM-p.UpM)
	return v.limitVelocity(geo.Local{EastM: east, NorthM: north, UpM: up}, v.params.get("MPC_XY_VEL_MAX"))
}

// approach is the horizontal velocity for the rest of a way. An ArduCopter's can be taken back by half of its acceleration, after
// its sqrt_controller.
func (v *vehicle) approach(way geo.Local) geo.Local {
	gain := positionGain
	if v.conf.Copter {
		gain = 1
		if d, linearM := way.HorizontalM(), v.params.get("WPNAV_ACCEL")/200; d > linearM {
			gain = math.Sqrt(2*linearM*(d-linearM/2)) / d
		}
	}
	return geo.Local{EastM: gain * way.EastM, NorthM: gain * way.NorthM}
}

// velocityTowards flies to a point at cruise speed and stays there.
func (v *vehicle) velocityTowards(to geo.Local) geo.Local {
	way := to.Sub(v.body.Position)
	gainUp := 1.0
	if !v.conf.Copter {
		gainUp = arrivalGain
	}
	want := v.approach(way)
	want.UpM = gainUp * way.UpM
	return v.limitVelocity(want,
		v.params.get("MPC_XY_CRUISE"))
}

func (v *vehicle) descentVelocity(at geo.Local) geo.Local {
	want := v.velocityTowards(at)
	want.UpM = -v.params.get("MPC_Z_V_AUTO_DN")
	if !v.conf.Copter {
		want.UpM *= DescentShare
	}
	if v.heightM() < v.params.get("MPC_LAND_ALT1") {
		want.UpM = -v.params.get("MPC_LAND_SPEED")
		if !v.conf.Copter {
			want.UpM *= landShare
		}
	}
	return want
}

func (v *vehicle) limitVelocity(want geo.Local, horizontalMPS float64) geo.Local {
	horizontalMPS = min(horizontalMPS, v.params.get("MPC_XY_VEL_MAX"))
	if h := want.HorizontalM(); h > horizontalMPS {
		want.EastM, want.NorthM = want.EastM*horizontalMPS/h, want.NorthM*horizontalMPS/h
	}
	want.UpM = clamp(want.UpM, -v.params.get("MPC_Z_VEL_MAX_DN"), v.maxClimbMPS())
	return want
}

// maxClimbMPS is reduced near the ground, and after lift-off.
func (v *vehicle) maxClimbMPS() float64 {
	most := v.params.get("MPC_Z_VEL_MAX_UP")
	if !v.conf.Copter {
		most *= climbShare
	}
	if v.mode == ModeTakeoff && v.heightM() < slowTakeoffBelowM {
		most = min(most, v.params.get("MPC_TKO_SPEED"))
	}
	if since := v.elapsedS(v.liftStartUS) - liftOffS; v.liftStartUS != 0 && since < takeoffRampS {
		most = min(most, max(0, since/takeoffRampS)*v.params.get("MPC_TKO_SPEED"))
	}
	return most
}

// groundUpM is how high the ground is below it: a slope through where it stood first.
func (v *vehicle) groundUpM() float64 {
	from, slope := v.body.Position.Sub(v.conf.Start), v.conf.Slope
	return v.conf.Start.UpM + slope[0]*from.EastM + slope[1]*from.NorthM
}

// heightM is over its home, from which an autopilot without a range finder measures.
func (v *vehicle) heightM() float64 { return v.body.Position.UpM - v.home.UpM }

func (v *vehicle) homeDistanceM() float64 { return v.home.Sub(v.body.Position).HorizontalM() }

// returnUpM is the height of a Return: RTL_RETURN_ALT and never below the present one, which it is within RTL_MIN_DIST of home;
// an ArduCopter's is less within RTL_CONE_SLOPE.
func (v *vehicle) returnUpM() float64 {
	up, distanceM, heightM := v.body.Position.UpM, v.homeDistanceM(), v.params.get("RTL_RETURN_ALT")
	if v.conf.Copter {
		if slope := v.params.get("RTL_CONE_SLOPE"); slope > 0 {
			heightM = min(heightM, slope*distanceM)
		}
	} else if distanceM <= returnMinDistanceM {
		return up
	}
	return max(up, v.home.UpM+heightM)
}

// liftsOff reports whether an aircraft on the ground leaves it now.
func (v *vehicle) liftsOff() bool {
	if !v.climbCommanded() {
		v.liftStartUS = 0
		return false
	}
	if v.liftStartUS == 0 {
		v.liftStartUS = v.timeUS
	}
	if v.elapsedS(v.liftStartUS) < takeoffDetectS {
		return false
	}
	if v.landed && !v.conf.Copter {
		v.queueStatusText(common.MAV_SEVERITY_INFO, "Takeoff detected")
	}
	v.groundContact, v.landed, v.flownSinceArmed = false, false, true
	return true
}

func (v *vehicle) climbCommanded() bool {
	if !v.armed || v.elapsedS(v.armedUS) < spoolUpS {
		return false
	}
	switch v.mode {
	case ModeTakeoff:
		return v.takeoffToUpM() > v.body.Position.UpM+0.5
	case ModeOffboard:
		s, p := &v.setpoint, v.body.Position
		return !v.conf.Copter && orZero(s.Velocity.UpM)+orZero(s.Position.UpM-p.UpM) > 0.3
	}
	return false
}

// endTakeoffOrTouchDown ends a take-off at its height and a descent at the ground.
func (v *vehicle) endTakeoffOrTouchDown() {
	b := &v.body
	if toUpM := v.takeoffToUpM(); v.mode == ModeTakeoff && b.Position.UpM > toUpM-0.5 && b.Velocity.UpM < 0.5 {
		v.setIntendedMode(map[bool]Mode{true: ModeOffboard, false: ModeHold}[v.conf.Copter])
		v.holdPosition.UpM = toUpM
	}
	if ground := v.groundUpM(); b.Position.UpM <= ground && b.Velocity.UpM < 0 {
		b.Position.UpM = ground
		b.Velocity, v.velocityIntegral, v.accel = geo.Local{}, geo.Local{}, geo.Local{}
		v.groundContact, v.groundContactUS, v.liftStartUS = true, v.timeUS, 0
	}
}

func clamp(x, low, high float64) float64 { return min(max(x, low), high) }

func orZero(x float64) float64 {
	if math.IsNaN(x) {
		return 0
	}
	return x
}
