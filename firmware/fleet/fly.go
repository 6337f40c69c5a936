package fleet

import (
	"math"
	"slices"

	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"
	"github.com/bluenviron/gomavlib/v3/pkg/message"

	"prefdt/inference/physics"
)

// trajectory is the motion that its setpoints command.
type trajectory struct {
	kind          trajectoryKind
	setAtS        float64
	from          physics.Position // leg: its start; hold: where
	displacementM physics.Position // leg: metres in a slot
	target        physics.Position // transit
	speedMPS      float64          // transit
	ended         bool             // the stream ended for lack of a new trajectory
}

type trajectoryKind uint8

const (
	trajectoryNone trajectoryKind = iota // none was ordered: no setpoint is sent
	trajectoryHold
	trajectoryLeg
	trajectoryTransit
)

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

// reference returns the setpoint: the position target of the slot's end, and a
// feed-forward with which the autopilot's position loop commands the leg's speed. The
// loop alone would command gain x the rest of the leg, 8 m/s at its start and nothing
// at its end; the feed-forward is the difference.
func (a *aircraft) reference(now float64) (at, feed physics.Position) {
	switch loop := a.params.positionLoop(); a.trajectory.kind {
	case trajectoryLeg:
		left := max(1-(now-a.trajectory.setAtS), 0) // of the slot
		step := a.trajectory.displacementM
		return a.trajectory.from.Add(step), step.Sub(loop.Approach(step.Scale(left)))
	case trajectoryTransit:
		if a.waitsAt != nil {
			return *a.waitsAt, physics.Position{}
		}
		from := a.advanceTransit(now)
		d := a.trajectory.target.Sub(from)
		if r := d.Norm(); r > a.trajectory.speedMPS {
			step := d.Scale(a.trajectory.speedMPS / r)
			return from.Add(step), step.Sub(loop.Approach(step))
		}
		return a.trajectory.target, physics.Position{}
	case trajectoryHold: // where it comes to rest, or turns: one that follows late would be flown back a long way
		off := a.position.Sub(a.trajectory.from)
		if r := off.Norm(); r > heldWithinM && a.velocity.Dot(off)/r < stillMPS {
			a.trajectory.from = a.position
		}
	}
	return a.trajectory.from, physics.Position{}
}

// advanceTransit returns a point that moves to the target at the transit's speed and
// that the aircraft follows, never far from its position. If setpoints began at the
// measured position, the autopilot's position control would pull the aircraft back
// by the distance flown during a setpoint's delay and life, and nothing would make up
// for missing speed: one was then flown at 5 m/s at first and 7.4 at last, of 8.4.
func (a *aircraft) advanceTransit(now float64) physics.Position {
	at := a.positionAt(now)
	lead := at
	if passedS := now - a.transitReferenceS; passedS >= 0 && passedS < 1 {
		d := a.trajectory.target.Sub(a.transitReference)
		lead = a.transitReference.Add(d.Scale(a.trajectory.speedMPS * passedS / math.Max(d.Norm(), a.trajectory.speedMPS)))
		ahead := lead.Sub(at)
		lead = at.Add(ahead.Scale(math.Min(1, lagMaxM/math.Max(ahead.Norm(), lagMaxM))))
	}
	a.transitReference, a.transitReferenceS = lead, now
	return lead
}

// expireTrajectory replaces a trajectory older than two slots by a position hold, and
// ends the stream ten slots later: it must not continue after the loop has stalled.
// Repeated stalls within that time are one event of the log.
func (a *aircraft) expireTrajectory(f *Fleet, now float64) {
	age := now - a.trajectory.setAtS
	switch {
	case a.trajectory.kind == trajectoryNone:
	case age > setpointLifeS && a.trajectory.kind != trajectoryHold:
		f.counts.ExpiredSetpoints++
		if a.setpointExpiredS == 0 || now-a.setpointExpiredS > streamEndS {
			f.Log.Warn("setpoint outlived two slots; holding", "aircraft", a.number)
		}
		a.setpointExpiredS = now
		a.trajectory = trajectory{kind: trajectoryHold, setAtS: a.trajectory.setAtS, from: a.position}
	case age > streamEndS && !a.trajectory.ended:
		f.Log.Error("no new setpoint for twelve slots; the stream ends", "aircraft", a.number)
		a.trajectory.ended = true
	}
}

// hold has it stay at its position. Repeated, the position stays the same.
func (a *aircraft) hold(now float64) {
	if a.trajectory.kind != trajectoryHold || a.trajectory.ended {
		a.trajectory = trajectory{kind: trajectoryHold, from: a.position}
	}
	a.trajectory.setAtS = now
}

// engage starts the stream with a hold where the aircraft is.
func (a *aircraft) engage(now float64) {
	a.phase, a.engagedS = PhaseEngaging, now
	a.trajectory = trajectory{kind: trajectoryHold, setAtS: now, from: a.position}
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
		if at := f.placeBeside(a, b); at != nil {
			a.waitsAt, t.yieldsTo, t.yieldsFromS = at, b.number, now
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

// placeBeside is the nearest place that is clear of another's way, and of all others; nil: there is none.
func (f *Fleet) placeBeside(a, of *aircraft) *physics.Position {
	way := []physics.Position{of.position, of.transit.target}
	return nearestPlace(a.position, func(p *physics.Position) bool {
		return *p == p.ClampToArea(f.Limits.AreaM) && distanceToPath(*p, way) >= f.clearOfWayM() &&
			!slices.ContainsFunc(f.aircraft, func(b *aircraft) bool {
				return b != a && b.isObstacle() && p.Sub(b.position).Norm() < f.Limits.SeparationM
			})
	})
}

// nearestPlace is the nearest place about a position that suits, which may move it; nil: there is none.
func nearestPlace(to physics.Position, suits func(*physics.Position) bool) *physics.Position {
	const ringM, directions, ringsM = 2, 16, 100
	for r := float64(ringM); r <= ringsM; r += ringM {
		for k := range directions {
			north, east := math.Sincos(2 * math.Pi * float64(k) / directions)
			if p := to.Add(physics.Position{EastM: r * east, NorthM: r * north}); suits(&p) {
				return &p
			}
		}
	}
	return nil
}

// clearOfWayM is what one that lets another pass keeps from its way.
func (f *Fleet) clearOfWayM() float64 { return f.Limits.SeparationM + climbMarginM }
