package fleet

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/bluenviron/gomavlib/v3/pkg/message"

	"prefdt/firmware/envelope"
	"prefdt/inference/physics"
)

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
			a.homeward, a.sentHome, a.landsBeside, a.wayHome = false, "", nil, newWayHome()
			a.hold(now)
		}
	})
	return back
}

func (a *aircraft) sendHome() {
	a.homeward, a.awaitsHeartbeatS, a.wayHome = true, 0, newWayHome()
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
	a.waitsAt = new(f.inside(at, a.home))
}

// inside is the nearest place that is no farther outside the area than a home.
func (f *Fleet) inside(to physics.Position, home *physics.Position) physics.Position {
	within := func(to, home float64) float64 { return min(max(to, min(home, 0)), max(home, f.Limits.AreaM)) }
	return physics.Position{EastM: within(to.EastM, home.EastM), NorthM: within(to.NorthM, home.NorthM)}
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
	const near = 0.8
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
	beside := nearestPlace(*a.home, func(p *physics.Position) bool {
		*p = f.inside(*p, a.home)
		return f.parkedAt(a, *p, widerM, widerM) == nil && !f.othersLandAt(a, *p, clearM)
	})
	if beside == nil {
		return *a.home
	}
	a.landsBeside = beside
	return *beside
}

// othersLandAt is whether another is to land nearer to a place than a distance.
func (f *Fleet) othersLandAt(a *aircraft, place physics.Position, withinM float64) bool {
	return slices.ContainsFunc(f.aircraft, func(b *aircraft) bool {
		to := cmp.Or(b.landsBeside, b.home)
		return b != a && to != nil && to.Sub(place).Norm() < withinM
	})
}

// landingWaitS is how long an aircraft may wait near its home for those that land before
// it: for all others in the air with homes side by side, of which each has to be lower by
// envelope.LandingBelowM before the next comes in. One on the ground waits for those that
// may take off as well.
func (f *Fleet) landingWaitS(a *aircraft) (seconds float64) {
	const nearSeparations, comesInS = 4, 5
	for _, b := range f.aircraft {
		if b != a && !b.lost && b.located && (b.inAir() || !a.inAir()) &&
			a.homeOrHere().Sub(b.homeOrHere()).Norm() <= nearSeparations*f.Limits.SeparationM {
			heightM := f.Limits.AltitudeM.Over(b.landsAtM())
			seconds += comesInS + b.params.DescentS(heightM) - b.params.DescentS(heightM-envelope.LandingBelowM)
		}
	}
	return seconds
}

func (a *aircraft) homeOrHere() physics.Position {
	if a.home == nil || !a.inAir() {
		return a.position
	}
	return *a.home
}

// leaderStalled is whether an aircraft gets no setpoints any more from a loop that stalls, and
// its autopilot would take the leader's HEARTBEATs for a sign that all is well.
func (a *aircraft) leaderStalled() bool {
	return a.params.kind().traits().heartbeatsCount && a.controlled() && a.armed && a.trajectory.ended
}

// returnsClear is whether a way home that nobody steers is clear of the others, and of the way home of one with a lower number that
// returns likewise. Others may hover where their setpoints ended: this one hovers too until its way is clear.
func (f *Fleet) returnsClear(a *aircraft) bool {
	const beyondM, stepM = 1.5, 2.0 // a return ends so far beyond the home
	if a.home == nil {
		return true
	}
	way := []physics.Position{a.position, *a.home}
	for _, b := range f.aircraft {
		if b == a || !b.isObstacle() {
			continue
		}
		to := b.position
		if b.home != nil && (b.role() == RoleReturn || b.number < a.number && b.leaderStalled()) {
			to = *b.home
		}
		for steps, k := math.Ceil(to.Sub(b.position).Norm()/stepM), 0.0; k <= steps; k++ {
			at := b.position.Add(to.Sub(b.position).Scale(k / max(steps, 1)))
			if distanceToPath(at, way) < f.Limits.SeparationM+beyondM {
				return false
			}
		}
	}
	return true
}
