package autopilot

import (
	"math"
	"math/rand/v2"

	"prefdt/simbridge/geo"
)

// gustS and receiverS are for how long a gust, and an error of the receiver, last about.
const (
	gustS     = 2.0
	receiverS = 1.0
)

// disturbed is what gusts do to an aircraft, and how wrong its receiver is.
type disturbed struct {
	random   *rand.Rand
	gust     geo.Local // m/s^2
	position geo.Local // m, of the receiver
	velocity geo.Local // m/s, of the receiver
	jumpM    float64   // by which the height that it measures jumped
	pushed   Body      // how far gusts have an ArduCopter off the path that it computes
}

// gustKeeps and receiverKeeps are what a step leaves of a gust, and of an error.
var gustKeeps, receiverKeeps = math.Exp(-stepS / gustS), math.Exp(-stepS / receiverS)

// wander moves a value on by one step: Gauss-Markov, of a standard deviation and what a step leaves of it.
func (d *disturbed) wander(x *float64, deviation, keep float64) {
	*x = keep**x + deviation*math.Sqrt(1-keep*keep)*d.random.NormFloat64()
}

// disturb moves all of them on by one step.
func (v *vehicle) disturb() {
	d, r := &v.disturbed, &v.conf.Receiver
	if g := v.conf.GustMPS2; g > 0 {
		d.wander(&d.gust.EastM, g, gustKeeps)
		d.wander(&d.gust.NorthM, g, gustKeeps)
	}
	if *r == (Receiver{}) {
		return
	}
	d.wander(&d.position.EastM, r.PositionM, receiverKeeps)
	d.wander(&d.position.NorthM, r.PositionM, receiverKeeps)
	d.wander(&d.position.UpM, r.HeightM, receiverKeeps)
	d.wander(&d.velocity.EastM, r.VelocityMPS, receiverKeeps)
	d.wander(&d.velocity.NorthM, r.VelocityMPS, receiverKeeps)
}

// push moves on by one step how far off its path an ArduCopter is. The path is within WPNAV_ACCEL and PSC_JERK_XY; what brings
// it back to the path is not: PSC_POSXY_P and PSC_VELXY_P do, here at their defaults.
func (d *disturbed) push() {
	const positionPerS, velocityPerS = 1.0, 2.0
	p := &d.pushed
	back := p.Velocity.Add(p.Position.Scale(positionPerS)).Scale(velocityPerS)
	p.Velocity = p.Velocity.Add(d.gust.Sub(back).Scale(stepS))
	p.Position = p.Position.Add(p.Velocity.Scale(stepS))
}

// driftM is how far off its height is: as a barometer that warms up, and by a jump of its estimator.
func (v *vehicle) driftM() float64 {
	const untilS = 90
	return v.conf.DriftM*min(v.timeS()/untilS, 1) + v.jumpM
}

// takeoffToUpM is where its Takeoff ends in truth: by its own measure at takeoffUpM. NaN: nowhere.
func (v *vehicle) takeoffToUpM() float64 { return v.takeoffUpM - v.driftM() }

// told is the motion that its messages have.
func (v *vehicle) told() Body {
	b := Body{v.body.Position.Add(v.disturbed.position), v.body.Velocity.Add(v.disturbed.velocity)}
	b.Position.UpM += v.driftM()
	return b
}
