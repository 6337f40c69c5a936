package fleet

import (
	"errors"
	"fmt"

	"prefdt/inference/physics"
)

// What the leader may ask. Launch, Resume and Rejoin make an aircraft ours, each
// under its own conditions; Command changes the order of one that is.

// startOrder makes an order the aircraft's, from the state that it is in.
func (a *aircraft) startOrder(o Order, launched bool) {
	a.order, a.pilotReason, a.launchOrdered, a.armingRequested, a.awaitsHeartbeat = o, "", launched, false, false
	a.modeRequestedS, a.setpointSentS, a.failsafeGraceUntilS, a.setpointExpiredS, a.takeoffWaits = map[Mode]float64{}, 0, 0, 0, false
}

// Launch orders an aircraft on the ground to take off and fly. Arming is asked
// for during ten seconds, from the first time on; a disarm after it is the pilot's.
func (f *Fleet) Launch(number int) (err error) {
	f.withAircraft(number, func(a *aircraft, now float64) {
		switch {
		case a.phase != PhaseIdle && a.phase != PhasePilot:
			err = fmt.Errorf("is %s already", a.phase)
		case !a.fresh(now) || !a.heartbeatFresh(now):
			err = a.staleError(now)
		case !a.onGround():
			err = errors.New("is not on the ground, as far as it says")
		default:
			a.startOrder(OrderFly, true)
			home := a.position
			a.home, a.phase = &home, PhaseClimbing
		}
		err = aircraftError(a, "launch", err)
	})
	return err
}

// Resume takes an aircraft back from its pilot, in the air: to fly on, or home.
// It never arms, nor takes off from the ground.
func (f *Fleet) Resume(number int, o Order) (err error) {
	f.withAircraft(number, func(a *aircraft, now float64) {
		switch {
		case o != OrderFly && o != OrderHome:
			err = fmt.Errorf("order %d is not to fly or to come home", o)
		case a.phase != PhaseIdle && a.phase != PhasePilot && !(a.phase == PhaseStopping && a.mode == ModeHold):
			err = fmt.Errorf("is %s already", a.phase)
		case !a.fresh(now) || !a.heartbeatFresh(now):
			err = a.staleError(now)
		case !a.inAir():
			err = errors.New("is not in the air")
		default:
			a.startOrder(o, false)
			if a.mode == ModeOffboard { // our stream may have ended just now
				a.failsafeGraceUntilS = now + failsafeGraceS
			}
			if o == OrderFly && a.upM < f.Limits.AltitudeM-f.Limits.BandM {
				a.phase = PhaseClimbing
			} else {
				a.engage(now)
			}
		}
		err = aircraftError(a, "resume", err)
	})
	return err
}

// failsafeGraceS is how long after a stream was taken up again the failsafe's Hold may
// still be reported.
const failsafeGraceS = 2.0

// Rejoin gives an aircraft that flew for the leader before us its order back,
// if nothing happened to it meanwhile: its pilot may have acted while nobody was
// there to notice. What is not clearly ours is left to its pilot.
func (f *Fleet) Rejoin(number int, o Order) (err error) {
	f.withAircraft(number, func(a *aircraft, now float64) {
		if a.phase != PhaseIdle || o != OrderFly && o != OrderHome {
			err = aircraftError(a, "rejoin", fmt.Errorf("is %s, with order %d", a.phase, o))
			return
		}
		a.startOrder(o, false)
		why := ""
		switch high := a.upM > f.Limits.AltitudeM-f.Limits.BandM; {
		case !a.fresh(now) || !a.heartbeatFresh(now):
			why = "not heard since the restart"
		case a.bootS(now) > 0 && a.bootS(now) < a.restoredBootS:
			why = "rebooted while the leader was away"
		case !a.armed:
			why = "found with its motors off after the restart"
		case a.mode == ModeTakeoff: // perhaps still on the ground
			a.phase = PhaseClimbing
		case !a.inAir():
			why = "found on the ground after the restart"
		case a.mode == ModeOffboard, a.mode == ModeHold && high: // the failsafe's, for want of setpoints
			if a.mode == ModeOffboard { // the stream before ours ended lately
				a.failsafeGraceUntilS = now + failsafeGraceS
			}
			a.engage(now)
		default:
			why = "found in " + a.mode.String() + " after the restart"
		}
		if why != "" {
			a.handToPilot(f, why)
			err = aircraftError(a, "rejoin", errors.New(why))
		}
	})
	return err
}

// ChangeOrder sends an aircraft of ours home, or hands it to its autopilot's Hold.
func (f *Fleet) ChangeOrder(number int, o Order) {
	f.withAircraft(number, func(a *aircraft, now float64) {
		if a.phase == PhaseIdle || o != OrderHome && o != OrderStop {
			return
		}
		a.order, a.awaitsHeartbeat = o, false
		if o == OrderStop && a.phase != PhasePilot {
			a.phase = PhaseStopping
		}
	})
}

// HandToPilot says that an aircraft is with its pilot.
func (f *Fleet) HandToPilot(number int, why string) {
	f.withAircraft(number, func(a *aircraft, now float64) {
		a.order = OrderFly
		a.handToPilot(f, why)
	})
}

// Clear says that an aircraft in the air of which nothing is heard is in nobody's
// way any more, until it is heard.
func (f *Fleet) Clear(number int) (err error) {
	f.withAircraft(number, func(a *aircraft, now float64) {
		switch {
		case !a.isObstacle():
			err = errors.New("is in nobody's way")
		case a.received && now-a.receivedS <= lostAfterS:
			err = fmt.Errorf("was heard %.1f s ago; it is lost after %v s", now-a.receivedS, lostAfterS)
		default:
			a.cleared = true
		}
		err = aircraftError(a, "clear", err)
	})
	return err
}

func (a *aircraft) staleError(now float64) error {
	if !a.received || !a.located {
		return errors.New("no position and HEARTBEAT were heard of it yet")
	}
	return fmt.Errorf("its position is %.1f s old, its HEARTBEAT %.1f s", now-a.positionS, now-a.heartbeatS)
}

func aircraftError(a *aircraft, action string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s aircraft %d: %w", action, a.number, err)
}

// Leg asks an aircraft to fly a displacement in the coming slot: from where the
// leg before has led to, so that a lag is made up for and not forgiven slot by
// slot, as far as that is near where it is.
func (f *Fleet) Leg(number int, moveM physics.Position) {
	f.withAircraft(number, func(a *aircraft, now float64) {
		age := min(max(now-a.positionS, 0), staleAfterS)
		from := a.position.Add(a.velocity.Scale(age))
		if a.trajectory.kind == trajectoryLeg {
			lag := a.trajectory.from.Add(a.trajectory.displacementM.Scale(now - a.trajectory.setAtS)).Sub(from)
			from = from.Add(lag.Scale(min(1, lagMaxM/max(lag.Norm(), 1e-9))))
		}
		a.trajectory = trajectory{kind: trajectoryLeg, setAtS: now, from: from, displacementM: moveM}
	})
}

// Goto asks an aircraft to fly to a point at the speed of least power.
func (f *Fleet) Goto(number int, to physics.Position) {
	f.withAircraft(number, func(a *aircraft, now float64) {
		a.trajectory = trajectory{kind: trajectoryTransit, setAtS: now, target: to, speedMPS: f.transitSpeedMPS()}
	})
}

// Hold asks an aircraft to stay where it is, and stays there when repeated.
func (f *Fleet) Hold(number int) {
	f.withAircraft(number, func(a *aircraft, now float64) {
		if a.trajectory.kind != trajectoryHold || a.trajectory.ended {
			a.trajectory = trajectory{kind: trajectoryHold, from: a.position}
		}
		a.trajectory.setAtS = now
	})
}

// transitSpeedMPS is the speed of transits: v*, or what the autopilots allow.
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
