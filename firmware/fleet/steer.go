package fleet

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"
	"github.com/bluenviron/gomavlib/v3/pkg/message"

	"prefdt/firmware/envelope"
	"prefdt/inference/physics"
)

// steer advances the control of the aircraft by one tick. It returns the commands to send and
// whether a setpoint is due; the gate decides whether they may be sent.
func (a *aircraft) steer(f *Fleet, now float64) (out []message.Message, stream bool) {
	a.checkReception(f, now)
	if !a.hasWayToGo() || a.velocity.Norm() > slowMPS {
		a.slowSinceS = now
	}
	if !a.fresh(now) || !a.controlled() {
		return nil, false
	}
	switch {
	case a.phase == PhaseStopping:
		a.hold(now)
		return a.stop(f, now)
	case a.homeward:
		return a.flyHome(f, now)
	}
	return a.fly(f, now)
}

func (a *aircraft) fly(f *Fleet, now float64) (out []message.Message, stream bool) {
	switch a.phase {
	case PhaseClimbing:
		return a.climb(f, now), false
	case PhaseEngaging:
		commanded := a.role() == RoleCommanded
		if commanded && a.mayEngage {
			a.phase, a.pilotReason, a.autopilotText = PhaseFlying, "", ""
			f.Log.Info("flying under command", "aircraft", a.number)
			return nil, true
		}
		switch {
		case a.trajectory.ended: // the loop stalls
			a.engagedS = now
			return nil, true
		case a.role() == RoleHold && a.failsafe && !a.holdIsOurs:
			// The autopilot ends the failsafe by itself once there are setpoints. A command would
			// end any other failsafe too, and a hold that its pilot has just chosen.
			if now-a.engagedS > failsafeEndS {
				a.handToPilot(f, "its failsafe's "+a.modeName()+" did not end with setpoints")
				return nil, false
			}
		case !commanded && a.mayEngage && (now-a.engagedS > prestreamS || !a.params.kind().traits().prestreams):
			out = a.retryCommand(f, now, a.setMode(RoleCommanded))
		}
		f.requestMessages(a.link, a.channel, a, &common.MessageHeartbeat{}) // that reports the mode sooner than in a second
		return out, a.params.kind().traits().prestreams
	case PhaseFlying:
		if a.role() != RoleCommanded { // a hold that a stop before this order commanded; any other mode is its pilot's
			a.phase, a.engagedS = PhaseEngaging, now
		}
		if !a.homeward {
			f.makeWay(a, now)
		}
		return nil, true
	}
	return nil, false
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
	case !a.armed && a.armingRequested && now-a.armingRequestedS > armingTimeoutS+armedReportDelayS:
		a.stayDown(f, fmt.Sprintf("not armed in %v s", armingTimeoutS))
	case !a.armed && a.armingTimedOut(now): // it may still report that it armed
	case !a.armed && a.checksTimedOut(now):
		a.stayDown(f, fmt.Sprintf("cannot be armed in %s, after %v s", kind.modeName(kind.mode(RoleArmable)), checksTimeoutS))
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

// stop hands the aircraft to its autopilot's hold: once that is reported, it is under
// pilot control. An aircraft that lands or returns continues so.
func (a *aircraft) stop(f *Fleet, now float64) (out []message.Message, stream bool) {
	switch {
	case !a.armed:
		a.phase = PhaseIdle
	case a.role() == RoleLand || a.role() == RoleReturn:
		a.handToPilot(f, "stopped in "+a.modeName())
	case a.stopsSooner() && now-a.stopOrderedS < brakeMaxS: // by setpoints, which keep it clear of others
		return nil, true
	case a.role() == RoleHold && a.heartbeatS > a.commandedS &&
		(a.modeRequestedS[a.mode] >= a.commandedS || a.heartbeatS-a.commandedS > commandRetryS):
		a.handToPilot(f, reasonStopped) // and no command sent before the hold is still in transit
	default:
		return a.retryCommand(f, now, a.setMode(RoleHold)), a.followsSetpoints()
	}
	return nil, false
}

// stopsSooner is whether setpoints stop it on a shorter way than its own hold would.
func (a *aircraft) stopsSooner() bool {
	const measuredMPS = 8
	kind, speed := a.params.kind(), a.velocity.Norm()
	_, stopsInM := kind.motion(&a.params)
	return a.followsSetpoints() && speed > slowMPS && kind.fliesOnM(&a.params, speed, false) > stopsInM*max(1, speed/measuredMPS)*
		speed/measuredMPS
}

// followsSetpoints is whether it flies by the leader's setpoints, rather than climbs to where it will. They
// go on until another mode that is commanded is reported: without them a failsafe would act first.
func (a *aircraft) followsSetpoints() bool { return a.engagedS > 0 && a.role() == RoleCommanded }

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

// hasWayToGo reports whether the trajectory leads away from where the aircraft is: a
// transit that has arrived does not, nor a leg on which it hovers, nor one that the
// envelope holds. A leg that leads through one that waits to climb would wait for it too.
func (a *aircraft) hasWayToGo() bool {
	switch {
	case a.heldAt != nil || a.trajectory.kind == trajectoryNone || a.trajectory.kind == trajectoryHold:
		return false
	case a.trajectory.kind == trajectoryTransit:
		return a.position.Sub(a.trajectory.target).Norm() > arrivedM
	}
	return a.trajectory.displacementM.Norm() > stillMPS
}

func distanceToPath(p physics.Position, path []physics.Position) float64 {
	nearest, _ := envelope.NearestOnPath(p, path)
	return p.Sub(nearest).Norm()
}

func (a *aircraft) flyHome(f *Fleet, now float64) (out []message.Message, stream bool) {
	switch a.phase {
	case PhaseClimbing:
		if a.inAir() && !a.overHome() { // resumed somewhere else
			a.engage(now)
		} else {
			a.phase = PhaseLanding
		}
	case PhaseEngaging, PhaseFlying:
		if a.home == nil {
			a.phase = PhaseLanding
			break
		}
		late := a.phase == PhaseEngaging && now-a.engagedS > engageTimeoutS && a.heartbeatFresh(now)
		switch ours := a.phase == PhaseEngaging && a.role() == RoleHold && (!a.failsafe || a.holdIsOurs); {
		case ours && a.overHome() && (late || a.position.Sub(*a.home).Norm() < landsWithinM || a.upM < f.bandFromM()):
			// As at the end of its climb. One that was stopped beside its home flies there first: others land as near.
			a.phase = PhaseLanding
			return nil, false
		case ours && late:
			f.Log.Error("does not take the commanded mode on its way home; its autopilot returns it", "aircraft", a.number, "asked_s",
				now-a.engagedS)
			a.phase, a.landsBy = PhaseLanding, RoleReturn
			return nil, false
		case late && a.role() != RoleHold && a.role() != RoleTakeoff && a.role() != RoleCommanded:
			a.handToPilot(f, "does not take the commanded mode, but stays in "+a.modeName())
			return nil, false
		}
		target := f.landingPlace(a)
		if why := f.homeBlocked(a, now); why != "" {
			below := f.parkedAt(a, a.position, f.Limits.SeparationM, f.Limits.SeparationM)
			if below == nil || why == batteryLow {
				f.Log.Error(why+" on its way home; lands where it is", "aircraft", a.number, "since_s", now-a.nearerHomeS)
				a.phase = PhaseLanding
				return nil, a.role() == RoleCommanded
			}
			target = a.position.Add(a.position.Sub(*below).Scale(2)) // it must not come down on another
		}
		f.giveWay(a, now)
		a.trajectory = trajectory{kind: trajectoryTransit, setAtS: now, target: target, speedMPS: f.transitSpeedMPS()}
		out, stream = a.fly(f, now)
		arrived := a.arrivedHome(now)
		if a.landsBeside != nil {
			arrived = a.restsAt(target)
		}
		if arrived && a.phase == PhaseFlying {
			a.phase = PhaseLanding
		}
		return out, stream
	case PhaseLanding:
		a.hold(now)
		if !a.armed {
			a.phase, a.homeward = PhaseIdle, false
			f.Log.Info("landed", "aircraft", a.number)
			return nil, false
		}
		if a.onGround() {
			a.awaitDisarm(f, now)
			return nil, false // it disarms by itself
		}
		if a.landed == nil || !*a.landed { // a receiver's speed is wrong for a moment
			a.groundS = 0
		}
		if want := a.landingRole(); a.role() != want {
			if a.landingAskedS == 0 {
				a.landingAskedS = now
			}
			if want == RoleReturn && now-a.landingAskedS > engageTimeoutS {
				f.Log.Error("does not return by itself; lands where it is", "aircraft", a.number)
				a.landsBy = RoleLand
			}
			return a.retryCommand(f, now, a.setMode(want)), a.followsSetpoints()
		}
	}
	return nil, false
}

// transit is how an aircraft comes along on a way that does not lead home.
type transit struct {
	begun       bool
	target      physics.Position
	leastM      float64 // the shortest way that was left, since leastS
	leastS      float64
	yieldsTo    int // where it waits: the number of the one that it lets pass, since yieldsFromS
	yieldsFromS float64
}

// makeWay has an aircraft on a transit, or at its end, let another one pass that comes no nearer to its own target, and wait
// beside its way until then, for at most yieldsS. One that has arrived makes way; of two that are in each other's way it is the
// one with the higher number. None does while another climbs, which waits for all that move near it. What they are sent then, the
// envelope checks as any setpoint.
func (f *Fleet) makeWay(a *aircraft, now float64) {
	const yieldsS = 60
	t := &a.transit
	switch {
	case a.trajectory.kind != trajectoryTransit || a.climbFrom != nil:
		t.begun, a.waitsAt = false, nil
		return
	case !t.begun || t.target != a.trajectory.target:
		*t, a.waitsAt = transit{begun: true, target: a.trajectory.target, leastM: math.Inf(1)}, nil
	case a.waitsAt != nil && (now-t.yieldsFromS > yieldsS || !f.inTheWay(a, f.aircraft[t.yieldsTo-1])):
		a.waitsAt, t.leastM = nil, math.Inf(1)
	case a.waitsAt != nil:
		return
	}
	left := a.position.Sub(t.target).Norm()
	if left < t.leastM-arrivedM || left <= arrivedM ||
		slices.ContainsFunc(f.aircraft, func(b *aircraft) bool { return b.phase == PhaseClimbing }) {
		t.leastM, t.leastS = left, now
	}
	for _, b := range f.aircraft {
		if b == a || !b.stalls(now) || !f.inTheWay(a, b) ||
			left > arrivedM && !(b.number < a.number && a.stalls(now) && f.inTheWay(b, a)) {
			continue
		}
		if at, ok := f.placeBeside(a, b); ok {
			a.waitsAt, t.yieldsTo, t.yieldsFromS = &at, b.number, now
			return
		}
	}
}

// enRoute is whether it is on a transit that does not lead home, has not arrived, and lets none pass.
func (a *aircraft) enRoute() bool {
	return a.phase == PhaseFlying && !a.homeward && a.transit.begun && a.waitsAt == nil &&
		a.position.Sub(a.transit.target).Norm() > arrivedM
}

// stalls is whether it is en route, and has come no nearer for longer than a turn takes it, but for what the envelope holds it for.
func (a *aircraft) stalls(now float64) bool {
	const leastS, lags = 6, 4
	lagS, _ := a.params.kind().motion(&a.params)
	return a.enRoute() && a.heldAt == nil && now-a.transit.leastS > max(leastS, lags*lagS)
}

// inTheWay is whether the way of one en route leads too near to where another is or, if it waits, is to be then.
func (f *Fleet) inTheWay(a, of *aircraft) bool {
	way := []physics.Position{of.position, of.transit.target}
	near := distanceToPath(a.position, way)
	if a.waitsAt != nil {
		near = min(near, distanceToPath(a.transit.target, way))
	}
	return of.enRoute() && near < f.Limits.SeparationM
}

// placeBeside is the nearest place that is clear of another's way, and of all others.
func (f *Fleet) placeBeside(a, of *aircraft) (physics.Position, bool) {
	const ringM, directions, ringsM = 2, 16, 100
	way := []physics.Position{of.position, of.transit.target}
	for r := float64(ringM); r <= ringsM; r += ringM {
		for k := range directions {
			north, east := math.Sincos(2 * math.Pi * float64(k) / directions)
			p := a.position.Add(physics.Position{EastM: r * east, NorthM: r * north})
			if p == p.ClampToArea(f.Limits.AreaM) && distanceToPath(p, way) >= f.clearOfWayM() &&
				!slices.ContainsFunc(f.aircraft, func(b *aircraft) bool {
					return b != a && b.isObstacle() && p.Sub(b.position).Norm() < f.Limits.SeparationM
				}) {
				return p, true
			}
		}
	}
	return physics.Position{}, false
}

// clearOfWayM is what one that lets another pass keeps from its way.
func (f *Fleet) clearOfWayM() float64 { return f.Limits.SeparationM + climbMarginM }

// giveWay has an aircraft on its way home let another go first, and stay beside its way until that
// lands: of those that come no nearer, each in another's way, none would ever move on. The one with the
// shortest way left goes first, unless the envelope holds it.
func (f *Fleet) giveWay(a *aircraft, now float64) {
	const stallsS, meetsM = 3, 80
	left := a.wayHomeM()
	if left < a.leastWayM-arrivedM {
		a.leastWayM, a.leastWayS = left, now
	}
	stalls := !math.IsInf(left, 1) && (a.waitsAt != nil || now-a.leastWayS > stallsS)
	a.waitsAt = nil
	var first *aircraft
	for _, b := range f.aircraft {
		way := b.wayHomeM()
		before := way < left || way == left && b.number < a.number
		if before && stalls && b.heldAt == nil && b.position.Sub(a.position).Norm() < meetsM && (first == nil || way < first.wayHomeM()) {
			first = b
		}
	}
	if first == nil {
		return
	}
	at, way := a.position, first.home.Sub(first.position)
	along := min(max(at.Sub(first.position).Dot(way)/max(way.Dot(way), 1e-9), 0), 1)
	aside := at.Sub(first.position.Add(way.Scale(along)))
	if r, clearM := aside.Norm(), f.clearOfWayM(); r < clearM {
		if r < 1e-3 { // in the middle of its way
			aside, r = physics.Position{EastM: way.NorthM, NorthM: -way.EastM}, max(way.Norm(), 1e-3)
		}
		at = at.Add(aside.Scale((clearM - min(r, clearM)) / r))
	}
	a.waitsAt = &physics.Position{EastM: f.inside(at.EastM, a.home.EastM), NorthM: f.inside(at.NorthM, a.home.NorthM)}
}

// inside is a coordinate that is no farther outside the area than that of a home.
func (f *Fleet) inside(to, home float64) float64 {
	return min(max(to, min(home, 0)), max(home, f.Limits.AreaM))
}

// wayHomeM is how far it is to the home that it flies to; +Inf: to none.
func (a *aircraft) wayHomeM() float64 {
	if a.phase != PhaseFlying || !a.homeward || a.home == nil {
		return math.Inf(1)
	}
	return a.position.Sub(*a.home).Norm()
}

// arrivedHome is whether it is to land: it hovers over its home or, for wind or others
// near, does not come any nearer to it. What it is off there, it is off on the ground.
func (a *aircraft) arrivedHome(now float64) bool {
	off, speed := a.position.Sub(*a.home).Norm(), a.velocity.Norm()
	if off > arrivedM || speed > 2 {
		a.arrivedS = now
	}
	return a.restsAt(*a.home) || now-a.arrivedS > arrivalS
}

// restsAt is whether it is near enough to a place, and slow enough, to land there.
func (a *aircraft) restsAt(place physics.Position) bool {
	return a.position.Sub(place).Norm() < landsWithinM && a.velocity.Norm() < 1
}

// landingRole is how it lands: where it is or, if it is not known where it took off or the
// commanded mode is refused, by the autopilot's own way home, unless that is too.
func (a *aircraft) landingRole() Role {
	switch {
	case a.landsBy != 0:
		return a.landsBy
	case a.home == nil:
		return RoleReturn
	}
	return RoleLand
}

// overHome is whether it is where it took off, but for its height.
func (a *aircraft) overHome() bool {
	return a.home == nil || a.position.Sub(*a.home).Norm() < homeWithinM
}

// awaitDisarm ends the order of an aircraft that is on the ground, by its landed state, its
// height and its speed, and does not disarm. The leader never disarms: in the air that
// would be a crash, and an autopilot that may be wrong about the ground, or has been told
// to run its motors on, is for someone who sees it.
func (a *aircraft) awaitDisarm(f *Fleet, now float64) {
	const sinksM = 5 // a receiver's height is off by less, and the slowest descent takes it further in that time
	if a.groundS == 0 || a.upM.Off(a.groundUpM) > sinksM || a.velocity.Norm() > landedMPS {
		a.groundS, a.groundUpM = now, a.upM
	}
	if now-a.groundS > disarmTimeoutS {
		a.handToPilot(f, "landed, but its motors still run")
	}
}

const batteryLow = "battery low" // why a way home is blocked

// homeBlocked is why an aircraft lands where it is on its way home, or empty: it has come
// no nearer for longer than whatever lands or waits before it takes, or its battery is
// just enough to land. It must not hover until that is empty.
func (f *Fleet) homeBlocked(a *aircraft, now float64) string {
	off := a.position.Sub(*a.home).Norm()
	if a.climbFrom != nil {
		off += f.Limits.AltitudeM.Off(a.upM)
	}
	if a.phase != PhaseFlying || off < a.nearestHomeM-arrivedM {
		a.nearestHomeM, a.nearerHomeS = off, now
	}
	limitS, queue := homeBlockedS, 0
	for _, b := range f.aircraft {
		if b != a && b.isObstacle() && (b.homeward || b.role() == RoleLand || b.role() == RoleReturn) {
			limitS, queue = max(limitS, homeBlockedS+b.params.DescentS(f.Limits.AltitudeM.Over(b.landsAtM()))), queue+1
		}
	}
	if queue < a.queue || a.waitsAt != nil { // one is down: the wait begins anew
		a.queueS = now
	}
	a.queue = queue
	landJ := landingReserve * a.meter.HoverW() * a.params.DescentS(a.upM.Over(a.ground.low))
	switch {
	case now-max(a.nearerHomeS, a.queueS) > limitS:
		return "way home blocked"
	case now-a.nearerHomeS > batteryWaitS && a.charge*a.meter.CapacityJ < landJ:
		return batteryLow
	}
	return ""
}

// parkedAt is where another stands on the ground, nearer to a place than one distance if it stands at its own home, and than
// another if it does not; nil: none.
func (f *Fleet) parkedAt(a *aircraft, place physics.Position, atHomeM, elsewhereM float64) *physics.Position {
	for _, b := range f.aircraft {
		withinM := elsewhereM
		if b.overHome() {
			withinM = atHomeM
		}
		if b != a && b.located && !b.isObstacle() && b.position.Sub(place).Norm() < withinM {
			return &b.position
		}
	}
	return nil
}

// landingPlace is its home or, where another lies near that, the nearest place beside it that is clear of all that stand on the
// ground and of where the others are to land. It stays that until its home is clear, or another comes near that place.
func (f *Fleet) landingPlace(a *aircraft) physics.Position {
	const near, ringM, directions, ringsM = 0.8, 2, 16, 100
	clearM := f.Physics.SeparationM
	widerM := clearM + 2*landsWithinM
	atHomeM, elsewhereM := near*clearM, clearM // one that is to land beside it returns to it once more is clear, so that it does not waver
	if a.landsBeside != nil {
		atHomeM, elsewhereM = clearM, widerM
	}
	if f.parkedAt(a, *a.home, atHomeM, elsewhereM) == nil {
		a.landsBeside = nil
		return *a.home
	}
	if a.landsBeside != nil && f.parkedAt(a, *a.landsBeside, clearM, clearM) == nil {
		return *a.landsBeside
	}
	for r := float64(ringM); r <= ringsM; r += ringM {
		for k := range directions {
			north, east := math.Sincos(2 * math.Pi * float64(k) / directions)
			p := a.home.Add(physics.Position{EastM: r * east, NorthM: r * north})
			p.EastM, p.NorthM = f.inside(p.EastM, a.home.EastM), f.inside(p.NorthM, a.home.NorthM)
			if f.parkedAt(a, p, widerM, widerM) == nil && !f.othersLandAt(a, p, clearM) {
				a.landsBeside = &p
				return p
			}
		}
	}
	return *a.home
}

// othersLandAt is whether another is to land nearer to a place than a distance.
func (f *Fleet) othersLandAt(a *aircraft, place physics.Position, withinM float64) bool {
	return slices.ContainsFunc(f.aircraft, func(b *aircraft) bool {
		to := cmp.Or(b.landsBeside, b.home)
		return b != a && to != nil && to.Sub(place).Norm() < withinM
	})
}

// updateHeldAt keeps the position where the envelope holds an aircraft.
func (a *aircraft) updateHeldAt(now float64, verdict envelope.Verdict, v *envelope.Vehicle) {
	if verdict != envelope.Held { // one that others keep a little off its home has arrived all the same
		a.heldAt = nil
		return
	}
	a.arrivedS = now
	if a.heldAt == nil || v.HeldAt == nil { // the envelope gave that place up
		a.heldAt = new(v.Target)
	}
}
