package fleet

import (
	"errors"
	"fmt"
	"math"

	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"
	"github.com/bluenviron/gomavlib/v3/pkg/message"

	"prefdt/inference/physics"
)

func (f *Fleet) launch(a *aircraft, _ *Ordered) {
	a.startOrder(false)
	a.failsafeAlarm, a.launchFailsafes = "", a.params.failsafes()
	a.homeUpM = a.upM
	a.home, a.phase, a.launchedS = new(a.position), PhaseClimbing, f.nowS()
}

func (a *aircraft) launchRefusal(now float64) error {
	switch {
	case a.foreign != "":
		return foreignError(a.foreign)
	case a.phase != PhaseIdle && a.phase != PhasePilot:
		return fmt.Errorf("is %s already", a.phase)
	case !a.commandable(now):
		return a.staleError(now)
	case !a.onGround():
		return errors.New("is not on the ground, by its own report")
	}
	return nil
}

// climb arms, where the order includes leaving the ground, and takes off.
func (a *aircraft) climb(f *Fleet, now float64) []message.Message {
	kind := a.params.kind()
	switch {
	case a.inAir() && a.upM.Off(f.Limits.AltitudeM) < climbToleranceM && kind.takeOffOver(a):
		a.engage(now)
	case a.inAir() && a.role() == RoleTakeoff: // it climbs
	case a.inAir() && !kind.traits().climbsAgain: // its take-off ended too low: it climbs on by setpoints
		a.engage(now)
	case !a.armed && a.launchTimedOut(now):
		why := fmt.Sprintf("not armed in %v s", launchTimeoutS)
		if a.takeoffWaits {
			why += ": another aircraft flew near"
		}
		a.stayDown(f, why)
	case f.climbBlocked(a, now):
	case !a.armed && a.armingRequestedS > 0 && now-a.armingRequestedS > armingTimeoutS+armedReportDelayS:
		a.stayDown(f, fmt.Sprintf("not armed in %v s", armingTimeoutS))
	case !a.armed && a.armingTimedOut(now): // it may still report that it armed
	case !a.armed && a.checksTimedOut(now):
		a.stayDown(f, fmt.Sprintf("cannot be armed in %s, after %v s", kind.modeName(kind.traits().modes[RoleArmable]), checksTimeoutS))
	case !a.armed && !a.armable():
		return a.retryCommand(f, now, a.setMode(RoleArmable))
	case !a.armed && !a.checksPass(now): // its mode may ask for more than the one in which it was launched
		if a.checksSinceS == 0 {
			a.checksSinceS = now
		}
	case !a.armed:
		return a.retryCommand(f, now, &common.MessageCommandLong{Command: common.MAV_CMD_COMPONENT_ARM_DISARM, Param1: 1})
	case a.takeoffSentS > 0 && now-a.takeoffSentS < kind.traits().takeoffRetryS: // its motors spool up
	default:
		nan := float32(math.NaN())
		return a.retryCommand(f, now, &common.MessageCommandLong{
			Command: common.MAV_CMD_NAV_TAKEOFF, Param4: nan, Param5: nan, Param6: nan,
			Param7: float32(kind.takeOffHeight(f, a)),
		})
	}
	return nil
}

// armingTimedOut is whether arming was commanded for armingTimeoutS in this order.
func (a *aircraft) armingTimedOut(now float64) bool {
	return a.armingRequestedS > 0 && now-a.armingRequestedS > armingTimeoutS
}

// launchTimedOut is whether the order to leave the ground is too old to arm by, whatever kept the aircraft from it: people may be
// beside it again.
func (a *aircraft) launchTimedOut(now float64) bool {
	return a.armingRequestedS == 0 && now-a.launchedS > launchTimeoutS
}

// checksTimedOut is whether the checks of the mode in which it is armed were waited for long enough.
func (a *aircraft) checksTimedOut(now float64) bool {
	return a.checksSinceS > 0 && a.armingRequestedS == 0 && now-a.checksSinceS > checksTimeoutS
}

// checksPass is whether it may be asked to arm in its mode: where the checks are a mode's own, those have to be known,
// and once asked it is asked on. Of an unknown check its autopilot decides.
func (a *aircraft) checksPass(now float64) bool {
	if !a.params.kind().traits().preArmByMode || a.armingRequestedS > 0 {
		return true
	}
	return now-a.modeSinceS >= checksSettleS && a.preArm != PreArmFails
}

// climbBlocked is whether another aircraft flies or climbs so near that this one must not
// climb yet. Aircraft that hover may be as near as the separation, and so may two that
// climb; of two that are nearer, one waits until the other has left.
func (f *Fleet) climbBlocked(a *aircraft, now float64) bool {
	for _, b := range f.aircraft {
		if b == a || !b.isObstacle() && b.phase != PhaseClimbing {
			continue
		}
		path := b.possiblePath(now)
		near := f.Limits.SeparationM - 1 // for position errors
		switch moves := b.velocity.Norm() > stillMPS; {
		case b.phase == PhaseClimbing:
			if !b.climbsBefore(a) {
				continue
			}
			near = f.Limits.SeparationM - climbMarginM
		case b.passes(a, near, now):
		case moves && b.phase != PhaseFlying: // it gives way to nobody
			path = append(path, path[len(path)-1].Add(b.velocity.Scale(passS)))
			fallthrough
		case moves || b.phase == PhaseFlying && b.hasWayToGo() && now-b.slowSinceS < passS: // else this one may be what it waits for
			near = climbClearanceSeparations * f.Limits.SeparationM
		}
		if d := distanceToPath(a.position, path); d < near {
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

// passes is whether it flies slowly, or away from another, on a way to its start that stays clear of that, as the envelope keeps it
// too, or on which it comes no farther: gusts, and others that push it, move it for minutes, and some autopilots disarm one that waits
// for ten seconds.
func (a *aircraft) passes(other *aircraft, clearM, now float64) bool {
	const stallsS = 3
	slow := a.velocity.Norm() < slowMPS
	return a.phase == PhaseFlying && !a.homeward && a.trajectory.kind == trajectoryTransit &&
		(slow && now-a.slowSinceS > stallsS || (slow || a.velocity.Dot(a.position.Sub(other.position)) > 0) &&
			distanceToPath(other.position, []physics.Position{a.position, a.trajectory.target}) >= clearM)
}

// climbsBefore is whether, of two that climb, this one goes first: the one that has come
// further or, of equal ones, has the lower number.
func (a *aircraft) climbsBefore(b *aircraft) bool {
	if x, y := a.climbStage(), b.climbStage(); x != y {
		return x > y
	}
	return a.number < b.number
}

func (a *aircraft) climbStage() int {
	switch {
	case a.inAir() && a.role() == RoleTakeoff:
		return 3
	case a.inAir():
		return 2
	case a.armed:
		return 1
	}
	return 0
}
