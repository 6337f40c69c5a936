package chaos

import (
	"fmt"
	"math"

	"prefdt/simbridge/autopilot"
)

// Rules of where aircraft fly and land, by their true motion.

func (j *judge) checkSeparation(e *event) string {
	const nearM = 8
	return j.closerThan(e, nearM)
}

func (j *judge) checkLeastSeparation(e *event) string {
	return j.closerThan(e, j.physics.SeparationM-fenceSlackM)
}

func (j *judge) closerThan(e *event, leastM float64) string {
	a := &j.aircraft[e.aircraft]
	for k := range j.aircraft {
		o := &j.aircraft[k]
		if k == e.aircraft || !a.inAir && !o.inAir || math.Abs(a.state.Position.UpM-o.state.Position.UpM) > j.physics.SeparationM {
			continue
		}
		d := a.state.Position.Sub(o.state.Position).HorizontalM()
		j.minSeparationM = min(j.minSeparationM, d)
		// One that falls, or has its pilot, is the others' to keep clear of.
		if d < leastM && (a.inAir && a.led() || o.inAir && o.led()) && !a.passesUnsteered(o) && !o.passesUnsteered(a) &&
			!a.isReachedInTakeOff(o) && !o.isReachedInTakeOff(a) {
			return fmt.Sprintf("aircraft %d and %d are %.1f m apart: %s, %s", e.aircraft+1, k+1, d, a, o)
		}
	}
	return ""
}

// passesUnsteered is whether it returns by its own failsafe, or comes to rest after that, past another that has no
// leader just now, or has one again since a moment ago.
func (a *observedAircraft) passesUnsteered(o *observedAircraft) bool {
	const streamS, stopS = 2, 4
	strays := a.copter && a.state.TimeS-a.strayedS < stopS
	return strays && (o.state.TimeS-o.setpointS > streamS || o.state.TimeS-o.leaderReturnedS < settleS)
}

// isReachedInTakeOff is whether it climbs straight up, which nobody steers, while a pilot flies another up to it. How near that
// one may be when the take-off begins is the rule "take-off".
func (a *observedAircraft) isReachedInTakeOff(o *observedAircraft) bool {
	const movesMPS = 3
	return a.led() && a.state.Mode == autopilot.ModeTakeoff && !o.led() && o.state.SpeedMPS() > movesMPS
}

// offboardFor is how long the leader has commanded an aircraft in OFFBOARD; 0: it does not.
func (a *observedAircraft) offboardFor() float64 {
	if !a.led() || math.IsInf(a.offboardS, 1) {
		return 0
	}
	return a.state.TimeS - a.offboardS
}

func (j *judge) checkFence(e *event) string {
	const slackM, enterS, inwardsMPS = 5, 8, 4
	a := &j.aircraft[e.aircraft]
	outsideM, withinS := float64(slackM), float64(enterS)
	if home := outsideByM(a.home.EastM, a.home.NorthM, j.physics.AreaSideM); a.hasHome && home > 0 { // its way in, and home
		withinS += home / inwardsMPS
		if a.copter { // late ones that are near each other come in slowly
			withinS += a.crowdedS
		}
		if returns := !math.IsNaN(a.returnFrom) || j.slotsEnded || j.limits.lowPacks; returns {
			outsideM += home + waitsBesideM
		}
	}
	if p := a.state.Position; a.offboardFor() > withinS && outsideM < outsideByM(p.EastM, p.NorthM, j.physics.AreaSideM) {
		return fmt.Sprintf("aircraft %d is at (%.1f, %.1f) m, in OFFBOARD for %.1f s", e.aircraft+1, p.EastM, p.NorthM, a.offboardFor())
	}
	return ""
}

// waitsBesideM is how far from its home, outside the area, an aircraft waits for those that
// land next to it, with the separation between all of them.
const waitsBesideM = 25

// outsideByM is how far a position is outside the area; below 0 inside.
func outsideByM(eastM, northM, sideM float64) float64 {
	return max(-eastM, -northM, eastM-sideM, northM-sideM)
}

func (j *judge) checkHeight(e *event) string {
	const bandM = 8
	a, climbS := &j.aircraft[e.aircraft], 10.0
	if below := j.physics.AltitudeM - a.offboardM; a.climbMPS > 0 && below > bandM {
		climbS += 1.2 * below / a.climbMPS
	}
	if up := a.state.Position.UpM; a.offboardFor() > climbS && math.Abs(up-j.physics.AltitudeM) > bandM {
		return fmt.Sprintf("aircraft %d is at %.1f m, in OFFBOARD for %.1f s", e.aircraft+1, up, a.offboardFor())
	}
	return ""
}

func (j *judge) checkSpeed(e *event) string {
	a := &j.aircraft[e.aircraft]
	if s := a.state.SpeedMPS(); a.offboardFor() > 3 && s > 1.1*a.speedMPS+1 {
		return fmt.Sprintf("aircraft %d flies at %.1f m/s, the limit is %.1f", e.aircraft+1, s, a.speedMPS)
	}
	return ""
}

func (j *judge) checkHold(e *event) string {
	const stopS, stillMPS = 8, 3
	a := &j.aircraft[e.aircraft]
	if j.isCrowded(e.aircraft) { // another one is to be kept clear of
		return ""
	}
	if !j.limits.lowPacks && a.offboardFor() > stopS && a.state.SpeedMPS() > stillMPS &&
		isLate(a.heldS, stopS, a.state.TimeS) {
		return fmt.Sprintf("aircraft %d flies at %.1f m/s, %.1f s after it was to hold", e.aircraft+1, a.state.SpeedMPS(),
			a.state.TimeS-a.heldS)
	}
	return ""
}

// checkMovesOn requires motion of one aircraft at least: the others may be in its way.
func (j *judge) checkMovesOn(e *event) string {
	const withinS, farM = 12, 8
	a := &j.aircraft[e.aircraft]
	if e.aircraft != 0 || !(a.state.TimeS-a.movesS > withinS) || j.limits.reserve > 0 { // they may be on their way home by then
		return ""
	}
	flying, most := 0, 0.0
	for k := range j.aircraft {
		if o := &j.aircraft[k]; o.offboardFor() > withinS && !math.IsInf(o.movesS, 1) {
			flying++
			most = max(most, o.flownM-o.movesFromM)
		}
		j.aircraft[k].movesS = math.Inf(1)
	}
	if flying > 0 && most < farM {
		return fmt.Sprintf("no aircraft flew more than %.1f m within %d s of a resume", most, withinS)
	}
	return ""
}

func (j *judge) checkStop(e *event) string {
	const withinS = 6
	a := &j.aircraft[e.aircraft]
	moves := a.state.Mode == autopilot.ModeOffboard || a.state.Mode == autopilot.ModeTakeoff
	if moves && a.led() && a.state.Armed && isLate(a.stoppedS, withinS, a.state.TimeS) {
		return fmt.Sprintf("aircraft %d is in %v, %.1f s after a stop", e.aircraft+1, a.state.Mode, a.state.TimeS-a.stoppedS)
	}
	return ""
}

func (j *judge) checkReturn(e *event) string {
	a := &j.aircraft[e.aircraft]
	if a.led() && !a.state.OnGround && isLate(a.returnByS+a.blockedS, 0, a.state.TimeS) {
		text := fmt.Sprintf("aircraft %d is at %.1f m in %v at %.1f s, and was to have returned by %.1f s", e.aircraft+1,
			a.state.Position.UpM, a.state.Mode, a.state.TimeS, a.returnByS)
		a.returnByS = math.Inf(1)
		return text
	}
	return ""
}

func (j *judge) checkPack(e *event) string {
	a := &j.aircraft[e.aircraft]
	switch {
	case a.state.OnGround || !a.led():
	case a.state.LeftJ < 0:
		return fmt.Sprintf("aircraft %d flies with an empty pack, %.0f J", e.aircraft+1, a.state.LeftJ)
	case a.state.Failsafe && (a.state.Mode == autopilot.ModeReturn || a.state.Mode == autopilot.ModeLand) && (a.state.LowPack || !a.copter):
		return fmt.Sprintf("aircraft %d is brought down by its own failsafe, %v, with %.0f J left", e.aircraft+1, a.state.Mode,
			a.state.LeftJ)
	}
	return ""
}

func (j *judge) checkFailsafe(e *event) string {
	a := &j.aircraft[e.aircraft]
	lost := e.before.Mode == autopilot.ModeOffboard && a.state.Mode == autopilot.ModeHold && a.state.Failsafe
	if a.copter {
		lost = a.state.Failsafe && !e.before.Failsafe && !a.state.LowPack
	}
	if !lost || !a.led() || j.disturbed > 0 {
		return ""
	}
	if a.copter {
		return fmt.Sprintf("aircraft %d leaves %v at %.1f s, the last HEARTBEAT of its leader's came at %.1f s", e.aircraft+1,
			e.before.Mode, a.state.TimeS, a.stationS)
	}
	return fmt.Sprintf("aircraft %d leaves OFFBOARD at %.1f s, its last setpoint came at %.1f s", e.aircraft+1, a.state.TimeS, a.setpointS)
}

func (j *judge) checkClimb(e *event) string {
	const withinS = 25
	a := &j.aircraft[e.aircraft]
	if a.led() && a.state.OnGround && isLate(a.launchedS, withinS, a.state.TimeS) {
		text := fmt.Sprintf("aircraft %d is on the ground at %.1f s, and was ordered to take off at %.1f s", e.aircraft+1, a.state.TimeS,
			a.launchedS)
		a.launchedS = math.Inf(1)
		return text
	}
	return ""
}

func (j *judge) checkRejoin(e *event) string {
	const withinS = 10
	a := &j.aircraft[e.aircraft]
	switch {
	case !a.led() || a.state.OnGround || a.state.Mode == autopilot.ModeLand, a.state.Mode == autopilot.ModeOffboard &&
		a.setpointS > a.rejoinsS:
		a.rejoinsS = math.Inf(1)
	case isLate(a.rejoinsS, withinS, a.state.TimeS):
		a.rejoinsS = math.Inf(1)
		return fmt.Sprintf("aircraft %d is in %v at %.1f s, and its leader is back since %d s", e.aircraft+1, a.state.Mode, a.state.TimeS,
			withinS)
	}
	return ""
}

func (j *judge) checkTouchdown(e *event) string {
	a := &j.aircraft[e.aircraft]
	if down := -e.before.Velocity.UpM; a.led() && down > 1.3*a.landMPS+0.3 {
		return fmt.Sprintf("aircraft %d touches down at %.1f m/s", e.aircraft+1, down)
	}
	return ""
}

func (j *judge) checkHome(e *event) string {
	if j.aircraft[e.aircraft].blockedS > longBlockedS {
		return ""
	}
	return j.landsAway(e)
}

func (j *judge) checkHomeBlocked(e *event) string {
	if j.aircraft[e.aircraft].blockedS <= longBlockedS {
		return ""
	}
	return j.landsAway(e)
}

// longBlockedS is how long an aircraft is kept from its home before the leader may give
// it up.
const longBlockedS = 45

func (j *judge) landsAway(e *event) string {
	const nearM = 5
	a := &j.aircraft[e.aircraft]
	if d := a.state.Position.Sub(a.home).HorizontalM(); a.led() && a.hasHome && d > nearM {
		return fmt.Sprintf("aircraft %d lands at (%.0f, %.0f) m, %.0f m from where it took off", e.aircraft+1, a.state.Position.EastM,
			a.state.Position.NorthM, d)
	}
	return ""
}

func (j *judge) checkLeaves(e *event) string {
	a := &j.aircraft[e.aircraft]
	if inSlots := j.lastSlot >= 0 && !j.slotsEnded; !inSlots || !a.led() || j.limits.mayLeave || !math.IsNaN(a.returnFrom) ||
		e.before.Mode != autopilot.ModeLand {
		return ""
	}
	return fmt.Sprintf("aircraft %d has landed after slot %d, at %.1f s, and nobody called it back", e.aircraft+1, j.lastSlot,
		a.state.TimeS)
}

func (j *judge) checkReserve(e *event) string {
	const share = 0.02
	a := &j.aircraft[e.aircraft]
	if kept := j.limits.keptJ; kept > 0 && a.led() && a.state.LeftJ < (1-share)*kept {
		return fmt.Sprintf("aircraft %d touches down with %.0f J, and is to keep %.0f", e.aircraft+1, a.state.LeftJ, kept)
	}
	return ""
}

func (j *judge) checkTakenPlace(e *event) string {
	a := &j.aircraft[e.aircraft]
	for k := range j.aircraft {
		o := &j.aircraft[k]
		if k == e.aircraft || !a.led() || !o.hasHome {
			continue
		}
		home, there := a.state.Position.Sub(o.home).HorizontalM(), math.Inf(1)
		if o.state.OnGround {
			there = a.state.Position.Sub(o.state.Position).HorizontalM()
		}
		if d := min(home, there); d < j.physics.SeparationM-fenceSlackM {
			return fmt.Sprintf("aircraft %d lands %.1f m from aircraft %d or its home", e.aircraft+1, d, k+1)
		}
	}
	return ""
}

func (j *judge) checkReturnCharge(e *event) string {
	a := &j.aircraft[e.aircraft]
	hoverW := j.limits.powerFactor * j.physics.Propulsion.PowerW(0)
	waitingJ := 1.25 * a.blockedS * hoverW
	took := a.state.Spent.J() - a.returnFrom
	if excessJ := took - a.returnJ - waitingJ; a.led() && excessJ > 0 {
		return fmt.Sprintf("aircraft %d took %.0f J for its return, at most %.0f are needed", e.aircraft+1, took, a.returnJ+waitingJ)
	}
	return ""
}
