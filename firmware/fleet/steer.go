package fleet

import (
	"fmt"
	"math"

	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"
	"github.com/bluenviron/gomavlib/v3/pkg/message"

	"prefdt/inference/physics"
)

// steer advances the aircraft's order by one tick. It returns the commands to send and
// whether a setpoint is due; the gate decides whether they may be sent.
func (a *aircraft) steer(f *Fleet, now float64) (out []message.Message, stream bool) {
	a.checkReception(f, now)
	if !a.fresh(now) || a.phase == PhaseIdle || a.phase == PhasePilot || a.phase == PhaseRejoining {
		return nil, false
	}
	switch a.order {
	case OrderFly:
		return a.fly(f, now)
	case OrderHome:
		return a.flyHome(f, now)
	case OrderStop:
		return a.stop(f, now)
	}
	return nil, false
}

func (a *aircraft) fly(f *Fleet, now float64) (out []message.Message, stream bool) {
	switch a.phase {
	case PhaseClimbing:
		return a.climb(f, now), false
	case PhaseEngaging:
		if a.mode == ModeOffboard && a.mayEngage {
			a.phase, a.pilotReason, a.autopilotText = PhaseFlying, "", ""
			f.Log.Info("flying under command", "aircraft", a.number)
			return nil, true
		}
		switch {
		case a.trajectory.ended: // the loop stalls
			a.engagedS = now
			return nil, true
		case a.mode == ModeHold && a.failsafe && !a.holdIsOurs:
			// PX4 ends the failsafe by itself once there are setpoints. A command would
			// end any other failsafe too, and a Hold that its pilot has just chosen.
			if now-a.engagedS > failsafeEndS {
				a.handToPilot(f, "its failsafe's "+ModeHold.String()+" did not end with setpoints")
				return nil, false
			}
		case a.mayEngage && now-a.engagedS > offboardPrestreamS:
			out = a.retryCommand(f, now, setMode(ModeOffboard))
		}
		f.requestMessages(a.link, a.channel, a, &common.MessageHeartbeat{}) // that reports OFFBOARD sooner than in a second
		return out, true
	case PhaseFlying:
		if a.mode != ModeOffboard { // a Hold that a stop before this order commanded; any other mode is its pilot's
			a.phase, a.engagedS = PhaseEngaging, now
		}
		return nil, true
	}
	return nil, false
}

// climb arms, where the order includes leaving the ground, and takes off.
func (a *aircraft) climb(f *Fleet, now float64) []message.Message {
	switch {
	case a.inAir() && math.Abs(a.upM-f.Limits.AltitudeM) < climbToleranceM:
		a.engage(now)
	case a.inAir() && a.mode == ModeTakeoff: // it climbs
	case (!a.armed || a.onGround()) && f.climbBlocked(a, now):
	case !a.armed && a.armingRequested && now-a.armingRequestedS > armingTimeoutS+armedReportDelayS:
		a.handToPilot(f, fmt.Sprintf("not armed in %v s", armingTimeoutS))
	case !a.armed && a.armingTimedOut(now): // it may still report that it armed
	case !a.armed && a.mode != ModeHold && a.mode != ModeTakeoff:
		// PX4 has returned to the mode it flew in before it landed, and does not arm
		// in OFFBOARD without setpoints.
		return a.retryCommand(f, now, setMode(ModeHold))
	case !a.armed:
		return a.retryCommand(f, now, &common.MessageCommandLong{Command: common.MAV_CMD_COMPONENT_ARM_DISARM, Param1: 1})
	default:
		nan := float32(math.NaN())
		return a.retryCommand(f, now, &common.MessageCommandLong{
			Command: common.MAV_CMD_NAV_TAKEOFF, Param4: nan, Param5: nan, Param6: nan,
			Param7: float32(f.Origin.AltitudeM + f.Limits.AltitudeM),
		})
	}
	return nil
}

// stop hands the aircraft to its autopilot's Hold: once that is reported, it is under
// pilot control. An aircraft in Land or Return continues so.
func (a *aircraft) stop(f *Fleet, now float64) (out []message.Message, stream bool) {
	switch {
	case !a.armed:
		a.phase, a.order = PhaseIdle, OrderNone
	case a.mode == ModeLand || a.mode == ModeReturn:
		a.handToPilot(f, "stopped in "+a.mode.String())
	case a.mode == ModeHold && a.heartbeatS > a.commandedS && (a.modeRequestedS[ModeHold] >= a.commandedS || a.heartbeatS-a.commandedS > commandRetryS):
		a.handToPilot(f, "stopped") // and no command sent before Hold is still in transit
	default:
		return a.retryCommand(f, now, setMode(ModeHold)), a.mode == ModeOffboard
	}
	return nil, false
}

// climbBlocked is whether another aircraft flies so near that this one must not climb
// yet. Aircraft in their own climb, or holding at H, may be as near as the separation.
func (f *Fleet) climbBlocked(a *aircraft, now float64) bool {
	for _, b := range f.aircraft {
		if b == a || !b.isObstacle() || b.phase == PhaseClimbing {
			continue
		}
		near := f.Limits.SeparationM - 1 // for position errors
		if b.velocity.Norm() > stillMPS || b.phase == PhaseFlying && b.hasWayToGo() {
			near = climbClearanceSeparations * f.Limits.SeparationM
		}
		if d := distanceToPath(a.position, b.possiblePath(now)); d < near {
			if !a.takeoffWaits {
				f.Log.Warn("take-off waits: another aircraft flies near", "aircraft", a.number, "other", b.number, "apart_m", d)
			}
			a.takeoffWaits = true
			return true
		}
	}
	a.takeoffWaits = false
	return false
}

// hasWayToGo reports whether the trajectory leads away from where the aircraft is: a
// transit that has arrived does not.
func (a *aircraft) hasWayToGo() bool {
	switch a.trajectory.kind {
	case trajectoryNone, trajectoryHold:
		return false
	case trajectoryTransit:
		return a.position.Sub(a.trajectory.target).Norm() > arrivedM
	}
	return true
}

func distanceToPath(p physics.Position, path []physics.Position) float64 {
	least := p.Sub(path[0]).Norm()
	for i := 1; i < len(path); i++ {
		leg, q := path[i].Sub(path[i-1]), p.Sub(path[i-1])
		if ll := leg.EastM*leg.EastM + leg.NorthM*leg.NorthM; ll > 0 {
			along := min(max((q.EastM*leg.EastM+q.NorthM*leg.NorthM)/ll, 0), 1)
			least = min(least, q.Sub(leg.Scale(along)).Norm())
		}
	}
	return least
}

func (a *aircraft) flyHome(f *Fleet, now float64) (out []message.Message, stream bool) {
	switch a.phase {
	case PhaseClimbing:
		a.phase = PhaseLanding
	case PhaseEngaging, PhaseFlying:
		if a.home == nil {
			a.phase = PhaseLanding
			break
		}
		if a.phase == PhaseEngaging && a.mode == ModeHold && (!a.failsafe || a.holdIsOurs) && a.overHome() {
			a.phase = PhaseLanding // as at the end of its climb
			break
		}
		a.trajectory = trajectory{kind: trajectoryTransit, setAtS: now, target: *a.home, speedMPS: f.transitSpeedMPS()}
		out, stream = a.fly(f, now)
		if a.phase == PhaseFlying && a.position.Sub(*a.home).Norm() < arrivedM && a.velocity.Norm() < 2 {
			a.phase = PhaseLanding
		}
		return out, stream
	case PhaseLanding:
		if !a.armed {
			a.phase, a.order = PhaseIdle, OrderNone
			f.Log.Info("landed", "aircraft", a.number)
			return nil, false
		}
		if a.onGround() {
			return nil, false // it disarms by itself
		}
		if want := a.landingMode(); a.mode != want {
			// Setpoints are sent until the mode has changed: without them the failsafe
			// would act first.
			return a.retryCommand(f, now, setMode(want)), a.mode == ModeOffboard
		}
	}
	return nil, false
}

// landingMode is the mode in which it lands: where it is or, if it is not known where it
// took off, by the autopilot's own way home.
func (a *aircraft) landingMode() Mode {
	if a.home == nil {
		return ModeReturn
	}
	return ModeLand
}

// overHome is whether it is where it took off, but for its height.
func (a *aircraft) overHome() bool {
	return a.home == nil || a.position.Sub(*a.home).Norm() < homeWithinM
}

// updateHeldAt keeps the position where the envelope holds an aircraft. One that is
// held on its way home for too long lands: it must not hover until its battery is empty.
func (a *aircraft) updateHeldAt(f *Fleet, now float64, held bool, at physics.Position) {
	if !held {
		a.heldAt = nil
		return
	}
	if a.heldAt == nil {
		a.heldAt, a.heldS = &at, now
	}
	if a.order == OrderHome && a.phase == PhaseFlying && now-a.heldS > homeBlockedS {
		f.Log.Error("way home blocked; lands where it is", "aircraft", a.number, "held_s", now-a.heldS)
		a.phase = PhaseLanding
	}
}
