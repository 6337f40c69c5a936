package chaos

import (
	"fmt"
	"math"
	"slices"

	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"

	"prefdt/simbridge/autopilot"
	"prefdt/simbridge/geo"
)

// Rules of what arrives at the autopilots.

// isArm reports whether a message is a command to start the motors.
func isArm(r autopilot.Received) bool {
	return r.Command == common.MAV_CMD_COMPONENT_ARM_DISARM && r.Param[0] == 1
}

// isHarmless reports whether a message changes nothing of a flight.
func isHarmless(r autopilot.Received) bool {
	switch {
	case r.Setpoint != nil:
		return false
	case r.Command != 0:
		return r.Command == common.MAV_CMD_REQUEST_MESSAGE || r.Command == common.MAV_CMD_SET_MESSAGE_INTERVAL
	}
	switch r.Other.(type) {
	case *common.MessageHeartbeat, *common.MessageParamRequestRead, *common.MessageStatustext, *common.MessageNamedValueFloat:
		return true
	}
	return false
}

// commandedMode is the mode of a command to change it.
func (f *airframe) commandedMode(r autopilot.Received) autopilot.Mode {
	if f.copter {
		m, _ := autopilot.CopterMode(uint32(r.Param[1]))
		return m
	}
	return autopilot.Mode(uint32(r.Param[1])<<16 | uint32(r.Param[2])<<24)
}

func (j *judge) checkPilot(e *event) string {
	a, r := &j.aircraft[e.aircraft], e.received
	if a.pilot == nil || isHarmless(r) || r.Other != nil || !isLate(max(a.pilot.knownS, a.leaderReturnedS), j.graceS,
		r.TimeS) {
		return ""
	}
	what := "a setpoint"
	if r.Setpoint == nil {
		what = fmt.Sprintf("command %v %v", r.Command, r.Param[:3])
	}
	return fmt.Sprintf("aircraft %d is under pilot control since %.2f s, known at %.2f s, and receives %s in %s at %.2f s", e.aircraft+1,
		a.pilot.sinceS, a.pilot.knownS, what, r.Mode, r.TimeS)
}

func (j *judge) checkWhitelist(e *event) string {
	r := e.received
	if r.Setpoint != nil || isHarmless(r) {
		return ""
	}
	bad := fmt.Sprintf("aircraft %d receives command %v %v", e.aircraft+1, r.Command, r.Param)
	switch r.Command {
	case 0:
		if _, command := r.Other.(*common.MessageCommandLong); j.limits.sharedLink && (command || isSetpoint(r)) {
			return "" // to another aircraft on the link
		}
		return fmt.Sprintf("aircraft %d receives %T %+v", e.aircraft+1, r.Other, r.Other)
	case common.MAV_CMD_COMPONENT_ARM_DISARM:
		if r.Param[0] != 1 || r.Param[1] != 0 {
			return bad
		}
		if j.aircraft[e.aircraft].copter && !r.Armed && r.Mode != autopilot.ModeOffboard {
			return fmt.Sprintf("aircraft %d is to arm in %v, and takes off in GUIDED alone", e.aircraft+1, r.Mode)
		}
	case common.MAV_CMD_DO_SET_MODE:
		m := j.aircraft[e.aircraft].commandedMode(r)
		if r.Param[0] != 1 || !slices.Contains([]autopilot.Mode{autopilot.ModeHold, autopilot.ModeOffboard, autopilot.ModeLand,
			autopilot.ModeReturn}, m) {
			return bad
		}
		if m == autopilot.ModeHold && r.Mode == autopilot.ModeLand && !r.Landed {
			return fmt.Sprintf("aircraft %d lands, and is to hold at %.0f m", e.aircraft+1, r.Position.UpM)
		}
	case common.MAV_CMD_NAV_TAKEOFF:
		groundM := j.limits.amslM
		if j.aircraft[e.aircraft].copter { // it counts from its home
			groundM = 0
		}
		if !math.IsNaN(r.Param[4]) || !math.IsNaN(r.Param[5]) || math.Abs(r.Param[6]-groundM-j.physics.AltitudeM) > 1 {
			return bad
		}
	default:
		return bad
	}
	return ""
}

// isSetpoint reports whether a message is a setpoint in the frame that the contract has.
func isSetpoint(r autopilot.Received) bool {
	m, ok := r.Other.(*common.MessageSetPositionTargetGlobalInt)
	return ok && m.CoordinateFrame == common.MAV_FRAME_GLOBAL_INT
}

func (j *judge) checkDisarm(e *event) string {
	if r := e.received; r.Command == common.MAV_CMD_COMPONENT_ARM_DISARM && r.Param[0] == 0 && !r.Landed {
		return fmt.Sprintf("aircraft %d is to be disarmed at %.1f m", e.aircraft+1, r.Position.UpM)
	}
	return ""
}

func (j *judge) checkAddress(e *event) string {
	r := e.received
	switch {
	case r.Target < 0 || r.Target == e.aircraft+1:
		return ""
	case r.Target > 0 && j.limits.sharedLink && r.Target <= len(j.aircraft):
		return ""
	}
	return fmt.Sprintf("aircraft %d receives a message to system %d", e.aircraft+1, r.Target)
}

// checkArm checks a command to arm: it is allowed once the crew ordered a take-off, for
// a while, and not after the motors ran and were stopped.
func (j *judge) checkArm(e *event) string {
	if !isArm(e.received) {
		return ""
	}
	i, nowS, o := e.aircraft, e.received.TimeS, &j.aircraft[e.aircraft].armOrder
	returned := j.aircraft[i].leaderReturnedS
	switch {
	case !o.open:
		return fmt.Sprintf("aircraft %d is to arm at %.1f s, without an order", i+1, nowS)
	case isLate(max(o.endS, returned), j.slackS, nowS):
		return fmt.Sprintf("aircraft %d is to arm at %.1f s, after the crew ended its order at %.1f s", i+1, nowS, o.endS)
	case isLate(max(o.disarmedS, returned), j.slackS, nowS):
		return fmt.Sprintf("aircraft %d is to arm again at %.1f s, and was disarmed at %.1f s", i+1, nowS, o.disarmedS)
	case isLate(o.firstArmS, armTimeoutS+j.slackS, nowS):
		return fmt.Sprintf("aircraft %d is to arm at %.1f s, first at %.1f s, and the order holds for %d s", i+1, nowS, o.firstArmS,
			armTimeoutS)
	}
	return ""
}

func (j *judge) checkTakeOff(e *event) string {
	const stillM, movingM, movesMPS = 9, 20, 3
	r := e.received
	for k := range j.aircraft {
		o := &j.aircraft[k]
		if !isArm(r) || k == e.aircraft || !o.inAir || o.state.Mode == autopilot.ModeTakeoff {
			continue
		}
		least := float64(stillM)
		if o.state.SpeedMPS() > movesMPS {
			least = movingM
		}
		if d := r.Position.Sub(o.state.Position).HorizontalM(); d < least {
			return fmt.Sprintf("aircraft %d is to arm at %.1f s, %.1f m from aircraft %d in flight", e.aircraft+1, r.TimeS, d, k+1)
		}
	}
	return ""
}

func (j *judge) checkGround(e *event) string {
	a, r := &j.aircraft[e.aircraft], e.received
	if r.Setpoint != nil && !r.Armed && r.Landed && a.disarmedSinceS >= 0 && isLate(max(a.disarmedSinceS, a.leaderReturnedS),
		j.slackS, r.TimeS) {
		return fmt.Sprintf("aircraft %d is on the ground with its motors off, known at %.1f s, and receives a setpoint at %.1f s",
			e.aircraft+1, a.disarmedSinceS, r.TimeS)
	}
	return ""
}

func (j *judge) checkHeartbeat(e *event) string {
	a, r := &j.aircraft[e.aircraft], e.received
	if r.Setpoint != nil && a.heartbeatS >= 0 && isLate(max(a.heartbeatS, a.leaderReturnedS), heartbeatTimeoutS+j.slackS,
		r.TimeS) {
		return fmt.Sprintf("aircraft %d sent no HEARTBEAT since %.1f s, and receives a setpoint at %.1f s", e.aircraft+1, a.heartbeatS,
			r.TimeS)
	}
	return ""
}

func (j *judge) checkStreamGap(e *event) string {
	if a, r := &j.aircraft[e.aircraft], e.received; r.Setpoint != nil && a.followed && r.Mode == autopilot.ModeOffboard && a.led() {
		return j.gapUntil(e.aircraft, r.TimeS)
	}
	return ""
}

// gapUntil checks the time since the last setpoint.
func (j *judge) gapUntil(i int, nowS float64) string {
	a := &j.aircraft[i]
	if a.setpointS >= max(a.streamRequiredS, a.leaderReturnedS) && isLate(a.setpointS, maxSetpointGapS+j.slackS, nowS) {
		return fmt.Sprintf("aircraft %d received no setpoint from %.1f to %.1f s, while only HEARTBEATs were lost", i+1, a.setpointS, nowS)
	}
	return ""
}

// checkStreamEnd bounds a stream of which the leader's slot loop decides nothing any more.
func (j *judge) checkStreamEnd(e *event) string {
	const commitS = 2 // a slot that is decided when the loop stops
	a, r := &j.aircraft[e.aircraft], e.received
	if r.Setpoint != nil && !math.IsInf(a.stalledS, 1) && isLate(a.stalledS, streamEndS+commitS+j.slackS, r.TimeS) {
		return fmt.Sprintf("aircraft %d receives a setpoint at %.1f s, and nothing was decided since %.1f s", e.aircraft+1, r.TimeS,
			a.stalledS)
	}
	return ""
}

func (j *judge) checkTakeOffEnded(e *event) string {
	const nearM = 3
	a, r := &j.aircraft[e.aircraft], e.received
	if r.Setpoint != nil && a.copter && r.Mode == autopilot.ModeTakeoff && !r.Landed && a.led() &&
		r.Position.UpM < j.physics.AltitudeM-nearM {
		return fmt.Sprintf("aircraft %d receives a setpoint at %.1f m of its take-off", e.aircraft+1, r.Position.UpM)
	}
	return ""
}

func (j *judge) checkComplete(e *event) string {
	s := e.received.Setpoint
	if s == nil {
		return ""
	}
	for _, x := range []float64{s.Position.EastM, s.Position.NorthM, s.Position.UpM, s.Velocity.EastM, s.Velocity.NorthM} {
		if math.IsNaN(x) {
			return fmt.Sprintf("aircraft %d receives %+v", e.aircraft+1, *s)
		}
	}
	return ""
}

func (j *judge) checkCommandedSpeed(e *event) string {
	a, r := &j.aircraft[e.aircraft], e.received
	if r.Setpoint == nil {
		return ""
	}
	most := a.speedMPS
	if s := r.Setpoint.Velocity.HorizontalM(); s > most+speedSlackMPS {
		return fmt.Sprintf("aircraft %d is commanded to %.2f m/s, the limit is %.1f", e.aircraft+1, s, most)
	}
	// The target is where the slot ends: what the aircraft lags behind is in it.
	if s := a.requested.HorizontalM(); s > most*(1+j.slackS)+lagM {
		return fmt.Sprintf("aircraft %d is to be %.1f m away in a second, the limit is %.1f m/s", e.aircraft+1, s, most)
	}
	return ""
}

// lagM is what a setpoint may make up for in a second, beyond the speed limit.
const lagM = 0.5

// inwardMPS is how fast a setpoint follows one that comes into the area by itself, as one does that overshot its border.
const inwardMPS = 2

func (j *judge) checkCommandedFence(e *event) string {
	r := e.received
	if r.Setpoint == nil {
		return ""
	}
	p, side := r.Setpoint.Position, j.physics.AreaSideM
	// One outside is on its way in, or home, or waits beside another's.
	allowed := max(0, j.aircraft[e.aircraft].outsideM, outsideByM(r.Position.EastM, r.Position.NorthM, side))
	if j.aircraft[e.aircraft].hasHome {
		for i := range j.aircraft {
			if home := outsideByM(j.aircraft[i].home.EastM, j.aircraft[i].home.NorthM, side); home > 0 {
				allowed = max(allowed, home+waitsBesideM)
			}
		}
	}
	if outsideByM(p.EastM, p.NorthM, side) > allowed+fenceSlackM {
		return fmt.Sprintf("aircraft %d is sent to (%.1f, %.1f)", e.aircraft+1, p.EastM, p.NorthM)
	}
	return ""
}

func (j *judge) checkCommandedHeight(e *event) string {
	if s := e.received.Setpoint; s != nil && math.Abs(s.Position.UpM-j.physics.AltitudeM) > 3 {
		return fmt.Sprintf("aircraft %d is sent to %.1f m", e.aircraft+1, s.Position.UpM)
	}
	return ""
}

func (j *judge) checkStale(e *event) string {
	a, r := &j.aircraft[e.aircraft], e.received
	if r.Setpoint != nil && r.Setpoint.Velocity.HorizontalM() > 0.01 && isLate(a.targetSinceS, setpointTTLS+j.slackS,
		r.TimeS) {
		return fmt.Sprintf("aircraft %d is commanded to the same velocity for %.1f s", e.aircraft+1, r.TimeS-a.targetSinceS)
	}
	return ""
}

// checkCommandedSeparation checks the separation of the commanded paths in the next
// second. The setpoints of one tick arrive one after the other, so that for a moment a
// new leg meets another aircraft's old one: only a conflict that lasts beyond the next
// tick counts.
func (j *judge) checkCommandedSeparation(e *event) string {
	a, r := &j.aircraft[e.aircraft], e.received
	if r.Setpoint == nil || r.Mode != autopilot.ModeOffboard { // in any other mode it is not followed
		a.conflictSinceS = math.Inf(1)
		return ""
	}
	for k := range j.aircraft {
		o := &j.aircraft[k]
		if k == e.aircraft || !o.inAir || math.Abs(r.Position.UpM-o.state.Position.UpM) > j.physics.SeparationM {
			continue
		}
		otherVelocity := o.state.Velocity
		if r.TimeS-o.setpointS < 0.5 && o.followed {
			otherVelocity = o.requested
		}
		apart, closing := r.Position.Sub(o.state.Position), a.requested.Sub(otherVelocity)
		d := closestApproachM(apart, closing)
		if d >= j.physics.SeparationM-fenceSlackM-j.slackS*closing.HorizontalM() {
			a.conflictSinceS = math.Inf(1)
			continue
		}
		a.conflictSinceS = min(a.conflictSinceS, r.TimeS)
		lasts := r.TimeS - a.conflictSinceS - 1.5*setpointPeriodS
		if lasts > 0 {
			return fmt.Sprintf("aircraft %d and %d, %.1f m apart, are commanded to close in at %.1f m/s and come within %.1f m "+
				"(commanded to %.1f and %.1f m/s, fly at %.1f and %.1f, in %s) at %.1f s",
				e.aircraft+1, k+1, apart.HorizontalM(), closing.HorizontalM(), d, a.requested.HorizontalM(), otherVelocity.HorizontalM(),
				r.SpeedMPS(), o.state.SpeedMPS(), r.Mode, r.TimeS)
		}
	}
	return ""
}

// closestApproachM is the least horizontal distance of two aircraft that are apart and close in by so much: in
// the next second, by a velocity. +Inf if they move apart.
func closestApproachM(apart, closing geo.Local) float64 {
	dot := apart.EastM*closing.EastM + apart.NorthM*closing.NorthM
	if dot >= 0 {
		return math.Inf(1)
	}
	vv := closing.EastM*closing.EastM + closing.NorthM*closing.NorthM
	return apart.Add(closing.Scale(min(-dot/vv, 1))).HorizontalM()
}
