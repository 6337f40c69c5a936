package fleet

import (
	"errors"
	"fmt"
	"math"

	"prefdt/firmware/height"
	"prefdt/inference/physics"
)

// Orders. Launch, Resume and Rejoin put an aircraft under the leader's control, each
// under its own conditions; SendHome and Stop change what one under control does.

// startOrder begins an order, to fly or home, from the aircraft's present state.
func (a *aircraft) startOrder(homeward, launched bool) {
	a.homeward, a.pilotReason, a.launchOrdered, a.armingRequested, a.awaitsHeartbeat = homeward, "", launched, false, false
	a.modeRequestedS, a.setpointSentS, a.setpointExpiredS, a.takeoffSentS, a.takeoffWaits = map[Mode]float64{}, 0, 0, 0, false
	a.checksSinceS = 0
	a.engagedS, a.holdIsOurs, a.nearestHomeM, a.leastWayM, a.landsBy, a.landingAskedS, a.groundS = 0, false, math.Inf(1), math.Inf(1), 0, 0,
		0
	a.waitsAt, a.landsBeside = nil, nil
	if !homeward {
		a.sentHome = ""
	}
}

// Ordered is an aircraft and what it is ordered: unless otherwise said, to follow the
// setpoints, after a take-off if Launch orders it.
type Ordered struct {
	Number   int
	Homeward bool               // to fly home and land
	Clear    bool               // nothing, but it is no obstacle any more
	Engages  bool               // it is engaged at once
	Home     *physics.Position  // where one that takes off stands
	HomeUpM  height.AboveOrigin // likewise
}

// Action is what the crew orders aircraft.
type Action struct {
	name    string
	refusal func(a *aircraft, now float64) error
	begin   func(f *Fleet, a *aircraft, o *Ordered)
	each    bool // each decides for itself
}

var (
	// Launch has aircraft on the ground take off and fly. Arming is commanded for ten seconds
	// from the first time on; a disarm after that is the pilot's.
	Launch = Action{"launch", (*aircraft).launchRefusal, (*Fleet).launch, false}
	// Resume ends pilots' control of aircraft in the air: they fly on, or home. It never
	// arms, nor takes off from the ground.
	Resume = Action{"resume", (*aircraft).resumeRefusal, (*Fleet).resume, true}
	// Return sends home aircraft that fly for the leader; the mission goes on with the others.
	Return = Action{"return", (*aircraft).returnRefusal, func(_ *Fleet, a *aircraft, _ *Ordered) { a.sendHome() }, true}
	// Clear has aircraft in the air that are not received be no obstacles, until they are.
	Clear = Action{"clear", (*aircraft).clearRefusal, func(_ *Fleet, a *aircraft, _ *Ordered) { a.cleared = true }, false}
)

// Check returns why an action would be ordered of none.
func (f *Fleet) Check(x Action, all []Ordered) error {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	able, err := f.able(x, all)
	if len(able) > 0 {
		return nil
	}
	return err
}

// Order orders aircraft an action: all of them or, if one refuses, none; where each decides
// for itself, those that do not refuse.
func (f *Fleet) Order(x Action, all []Ordered) error {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	able, err := f.able(x, all)
	for i := range able {
		x.begin(f, f.aircraft[able[i].Number-1], &able[i])
	}
	return err
}

// able returns which aircraft do not refuse an action, and why others do.
func (f *Fleet) able(x Action, all []Ordered) (able []Ordered, err error) {
	now := f.nowS()
	for _, o := range all {
		if why := x.refusal(f.aircraft[o.Number-1], now); why == nil {
			able = append(able, o)
		} else if err = fmt.Errorf("%s aircraft %d: %w", x.name, o.Number, why); !x.each {
			return nil, err
		}
	}
	return able, err
}

func (f *Fleet) launch(a *aircraft, _ *Ordered) {
	a.startOrder(false, true)
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

func (f *Fleet) resume(a *aircraft, o *Ordered) {
	a.startOrder(o.Homeward, false)
	a.holdIsOurs = a.role() == RoleHold
	if !o.Homeward && a.upM < f.bandFromM() && a.params.kind().traits().climbsAgain {
		a.phase = PhaseClimbing
	} else {
		a.engage(f.nowS())
	}
}

func (a *aircraft) resumeRefusal(now float64) error {
	switch {
	case a.foreign != "":
		return foreignError(a.foreign)
	case a.phase != PhaseIdle && a.phase != PhasePilot && !(a.phase == PhaseStopping && a.role() == RoleHold):
		return fmt.Errorf("is %s already", a.phase)
	case !a.commandable(now):
		return a.staleError(now)
	case !a.placedInMode():
		return errors.New("sent no position since its mode changed; send it again")
	case !a.inAir():
		return errors.New("is not in the air")
	case (a.role() == RoleLand || a.role() == RoleReturn) && a.upM.Over(a.ground.high) < touchdownNearM: // it may be down first
		return errors.New("is about to touch down; launch it once it is down")
	case a.standsAtHome(): // setpoints would have it take off
		return errors.New("stands where it was launched, by its height and its speed; its pilot lifts it, or switches its motors off")
	case a.params.kind().traits().endsHoldItself: // a command to fly ends its other failsafes, too, by the crew's order
	case a.failsafe:
		return errors.New("its autopilot reports a failsafe, which a command to fly would end; cure that, or its pilot flies it")
	case a.role() == RoleTakeoff:
		return errors.New("takes off, which a setpoint would end; send it again once it hovers")
	}
	return nil
}

// standsAtHome is whether it has not left the ground where it was launched, whatever its land detector says, as where a pilot took it
// while its motors came up. One in its hold was stopped in its climb, and comes down by a return.
func (a *aircraft) standsAtHome() bool {
	return a.role() != RoleHold && a.home != nil && a.overHome() &&
		a.upM.Off(a.homeUpM) < climbToleranceM && math.Hypot(a.velocity.Norm(), a.climbMPS) <= landedMPS
}

// placedInMode is whether a position came since its mode changed by itself: until then its autopilot may have rebooted.
func (a *aircraft) placedInMode() bool { return a.positionS >= a.modeUnexplainedS }

// failsafeEndS is how long a failsafe that ends by setpoints may hold an aircraft once these come again.
const failsafeEndS = 10.0

// Rejoin continues the order that an aircraft had from the previous leader process, if
// its state is as that left it: its pilot may have acted while no leader was running.
// Otherwise it is left to its pilot; until that is known, nothing changes. Everything but the aircraft's messages is what the
// ledger has, and that has each command before it was sent.
func (f *Fleet) Rejoin(number int) (err error) {
	f.withAircraft(number, func(a *aircraft, now float64) {
		if a.phase != PhaseRejoining {
			err = fmt.Errorf("rejoin aircraft %d: is %s", number, a.phase)
			return
		}
		a.startOrder(a.homeward, false)
		a.mayEngage = a.restoredEngaged
		why := ""
		switch high := a.upM > f.bandFromM(); {
		case !a.commandable(now):
			why = "not received since the restart"
		case a.bootS(now) > 0 && a.bootS(now) < a.restoredBootS:
			why = "rebooted while the leader was down"
		case a.homeward && a.onGround() && (!a.armed || a.role() == a.landingRole()): // its landing has ended
			a.phase = PhaseLanding
		case !a.armed:
			why = "found with its motors off after the restart"
		case a.role() == RoleTakeoff && !a.restoredEngaged: // perhaps still on the ground
			a.phase = PhaseClimbing
		case !a.inAir():
			why = "found on the ground after the restart"
		case a.homeward && a.role() == a.landingRole() && a.overHome(): // nothing is commanded in it
			a.phase = PhaseLanding
		default:
			switch ours, known := a.params.kind().rejoins(f, a, now, high); {
			case !known: // until the next call
			case ours:
				a.engage(now)
			default:
				why = "found in " + a.modeName() + " after the restart"
			}
		}
		if why != "" {
			a.handToPilot(f, why)
			err = fmt.Errorf("rejoin aircraft %d: %s", number, why)
		}
	})
	return err
}

// SendHome sends an aircraft under control home. One that a stop has not yet handed to its
// autopilot's hold was never its pilot's.
func (f *Fleet) SendHome(number int) { f.SendHomeFor(number, "") }

// SendHomeFor is SendHome by the leader itself, with the reason for the crew. That of an earlier one stands.
func (f *Fleet) SendHomeFor(number int, why string) {
	f.withAircraft(number, func(a *aircraft, now float64) {
		stopping := a.phase == PhaseStopping
		if a.phase == PhaseIdle || a.phase == PhasePilot || stopping && !a.inAir() {
			return
		}
		if !a.homeward {
			a.sentHome = why
		}
		a.sendHome()
		if stopping {
			a.engage(now)
		}
	})
}

// CallBack has an aircraft fly for the mission again that the leader itself sent home, while it flies there. It returns whether it does.
func (f *Fleet) CallBack(number int) (back bool) {
	f.withAircraft(number, func(a *aircraft, now float64) {
		if back = a.homeward && a.sentHome != "" && a.phase == PhaseFlying && a.role() == RoleCommanded; back {
			a.homeward, a.sentHome, a.waitsAt, a.landsBeside = false, "", nil, nil
			a.hold(now)
		}
	})
	return back
}

func (a *aircraft) sendHome() {
	a.homeward, a.awaitsHeartbeat, a.nearestHomeM, a.leastWayM, a.waitsAt = true, false, math.Inf(1), math.Inf(1), nil
}

func (a *aircraft) returnRefusal(float64) error {
	switch {
	case a.homeward:
		return errors.New("is on its way home already")
	case a.phase == PhasePilot:
		return errors.New("is with its pilot; resume gives it back")
	case !a.phase.ordered():
		return fmt.Errorf("is %s; it does not fly for the leader", a.phase)
	}
	return nil
}

// Stop hands an aircraft under control to its autopilot's hold.
func (f *Fleet) Stop(number int) {
	f.withAircraft(number, func(a *aircraft, now float64) {
		if a.controlled() { // else nothing is commanded, or not before its state is known
			a.phase, a.homeward, a.awaitsHeartbeat = PhaseStopping, false, false
			a.stopOrderedS = now
			a.sentHome = ""
		}
	})
}

// RejoinStopped is Rejoin in a mission that is stopped: one that the leader before had not yet handed to its autopilot's hold is.
func (f *Fleet) RejoinStopped(number int) {
	f.withAircraft(number, func(a *aircraft, _ float64) {
		if a.phase == PhaseRejoining && a.role() == RoleHold {
			a.handToPilot(f, reasonStopped)
		}
	})
	if f.Rejoin(number) == nil {
		f.Stop(number)
	}
}

// ForgetSentHome is called as a new mission begins.
func (f *Fleet) ForgetSentHome(number int) {
	f.withAircraft(number, func(a *aircraft, _ float64) { a.sentHome = "" })
}

// HandToPilot leaves an aircraft to its pilot.
func (f *Fleet) HandToPilot(number int, why string) {
	f.withAircraft(number, func(a *aircraft, _ float64) { a.handToPilot(f, why) })
}

func (a *aircraft) clearRefusal(now float64) error {
	switch {
	case !a.isObstacle():
		return errors.New("is not an obstacle")
	case a.received && now-a.receivedS <= LostAfterS:
		return fmt.Errorf("was received %.1f s ago; it is lost after %v s", now-a.receivedS, LostAfterS)
	}
	return nil
}

func (a *aircraft) staleError(now float64) error {
	if !a.received || !a.located {
		return errors.New("no position and HEARTBEAT received from it yet")
	}
	return fmt.Errorf("its position is %.1f s old, its HEARTBEAT %.1f s", now-a.positionS, now-a.heartbeatS)
}

// Leg orders an aircraft to fly a displacement in the coming slot, from the end of the
// leg before, so that its lag is made up for, as far as that is near its position.
func (f *Fleet) Leg(number int, moveM physics.Position) {
	f.withAircraft(number, func(a *aircraft, now float64) {
		from := a.positionAt(now)
		if a.trajectory.kind == trajectoryLeg {
			lag := a.trajectory.from.Add(a.trajectory.displacementM.Scale(now - a.trajectory.setAtS)).Sub(from)
			from = from.Add(lag.Scale(min(1, lagMaxM/max(lag.Norm(), 1e-9))))
		}
		a.trajectory = trajectory{kind: trajectoryLeg, setAtS: now, from: from, displacementM: moveM}
	})
}

// Goto orders an aircraft to fly to a point at the speed of least power.
func (f *Fleet) Goto(number int, to physics.Position) {
	f.withAircraft(number, func(a *aircraft, now float64) {
		a.trajectory = trajectory{kind: trajectoryTransit, setAtS: now, target: to, speedMPS: f.transitSpeedMPS()}
	})
}

// Hold orders an aircraft to stay at its position. Repeated, the position stays the same.
func (f *Fleet) Hold(number int) {
	f.withAircraft(number, func(a *aircraft, now float64) { a.hold(now) })
}

// transitSpeedMPS is the speed of transits: that of least power within the autopilots' limits.
func (f *Fleet) transitSpeedMPS() float64 {
	limit := f.Limits.SpeedMaxMPS
	for _, a := range f.aircraft {
		if s := a.params.SpeedMaxMPS; s > 0 {
			limit = min(limit, s)
		}
	}
	return f.Physics.Propulsion.BestSpeedMPS(limit)
}

func (f *Fleet) withAircraft(number int, do func(a *aircraft, now float64)) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	do(f.aircraft[number-1], f.nowS())
}
