// Package envelope is the final check of setpoints before they are sent, against speed
// (C1), separation (C2), the fence and the altitude. A setpoint that breaks a limit is
// corrected by the least change; one that cannot be corrected becomes a hold.
//
// Inputs: the setpoints of all aircraft together, and their measured positions and
// velocities. Outputs: the corrected setpoints, and a verdict on each. Called by
// package fleet ten times a mission second.
package envelope

import (
	"math"

	"prefdt/firmware/height"
	"prefdt/inference/motion"
	"prefdt/inference/physics"
	"prefdt/inference/reuse"
)

// Limits are the limits of one deployment.
type Limits struct {
	SpeedMaxMPS float64            // the lesser of the configuration and the autopilot's own
	SeparationM float64            // D_min
	AreaM       float64            // side of the fence
	AltitudeM   height.AboveOrigin // H
	BandM       float64            // measured altitudes are H +- BandM
	FenceM      float64            // beyond so far outside the area an alarm is raised
}

// Vehicle is one aircraft in the air, at the moment its setpoint is due.
type Vehicle struct {
	Controlled  bool // it gets a setpoint; otherwise it is only an obstacle
	FenceExempt bool // on its way to a home that may lie outside the area
	Landing     bool // it descends, by the leader's order, and keeps its place
	Stays       bool // it is to hold: its setpoint has no velocity, which an autopilot might follow on
	Position    physics.Position
	UpM         height.AboveOrigin
	Velocity    physics.Position // measured, m/s
	Loop        PositionLoop
	// LagS is how long it keeps its velocity before it has the commanded one, if the change were
	// at once, with the delays of its position and of its command. 0: responseLagS.
	LagS float64
	// StopsInM is how far it flies on once it is to hold; half a separation, if that is more.
	StopsInM float64
	// PossiblePath has the corners of the path on which an aircraft that is not received
	// may be, Position the last of them. Empty: it is at Position.
	PossiblePath []physics.Position
	// HeldAt is where it was held at the last check, nil if it was not: a hold that
	// followed the aircraft would drift with it.
	HeldAt *physics.Position
	// The setpoint, input and output: position at the slot's end, velocity
	// feed-forward, height.
	Target         physics.Position
	FeedForwardMPS physics.Position
	TargetUpM      height.AboveOrigin
}

// commandedVelocity is the velocity that position loop and feed-forward command together.
func (v *Vehicle) commandedVelocity() physics.Position {
	return v.Loop.Approach(v.Target.Sub(v.Position)).Add(v.FeedForwardMPS)
}

// setVelocity replaces the setpoint by one that commands another velocity: of one that is to hold by a target alone, where that
// is inside the fence.
func (v *Vehicle) setVelocity(velocity physics.Position, l Limits) {
	v.Target, v.FeedForwardMPS = v.Position.Add(velocity), velocity.Sub(v.Loop.Approach(velocity))
	if at := v.Position.Add(v.Loop.wayFor(velocity)); v.Stays && (v.FenceExempt || l.outsideM(at) <= l.outsideM(v.Target)) {
		v.Target, v.FeedForwardMPS = at, physics.Position{}
	}
}

// PositionLoop is how an autopilot approaches its target: the velocity that it commands for the way that is left.
type PositionLoop struct {
	GainPerS  float64
	SlowsMPSS float64 // no faster than it can slow down by; 0: the loop is linear
}

// Approach is the velocity for a way.
func (p PositionLoop) Approach(way physics.Position) physics.Position {
	linearM, d := p.SlowsMPSS/(p.GainPerS*p.GainPerS), way.Norm()
	if linearM == 0 || d <= linearM {
		return way.Scale(p.GainPerS)
	}
	return way.Scale(math.Sqrt(2*p.SlowsMPSS*(d-linearM/2)) / d)
}

// wayFor is the way for a velocity.
func (p PositionLoop) wayFor(velocity physics.Position) physics.Position {
	linearM, mps := p.SlowsMPSS/(p.GainPerS*p.GainPerS), velocity.Norm()
	if linearM == 0 || mps <= p.GainPerS*linearM {
		return velocity.Scale(1 / p.GainPerS)
	}
	return velocity.Scale((mps*mps/(2*p.SlowsMPSS) + linearM/2) / mps)
}

// Verdict is what was done to one setpoint.
type Verdict uint8

const (
	Kept Verdict = iota
	Corrected
	Held
)

// tolerance is the excess over a limit that is not corrected, for rounding on the
// wire: metres, and metres per second.
const tolerance = 0.05

// LandingBelowM is how far below another aircraft one that lands no longer moves sideways
// into it: the other keeps the separation alone. So aircraft with homes side by side need
// not wait for each other's whole landing. At the usual descent it is down before the next,
// which starts so much higher, is at its height.
const LandingBelowM = 30

// wayInMPS is how fast an aircraft outside the area comes nearer to it, at least: about the
// speed of least power.
const wayInMPS = 8

// responseLagS is the least lag of an aircraft, which is looked ahead by: that of its velocity
// loop. 0.54 to 0.70 s were measured. To look ahead by a longer one keeps less separation: nothing
// is checked in between.
const responseLagS = 0.65

func (v *Vehicle) lagS() float64 {
	return max(v.LagS, responseLagS)
}

// brakingM is kept, beside the separation, from an aircraft that is not controlled.
func (v *Vehicle) brakingM(l Limits) float64 {
	return max(v.StopsInM, l.SeparationM/2)
}

// Commands arrive with a delay, measurements are old by a delay, and an aircraft follows late:
// one that passes another must keep so much more than the separation for each m/s between them,
// and as much longer as either's lag is above the least.
const (
	turnMarginS              = 0.1
	turnMarginMaxSeparations = 0.15 // separations, at the least lag; as many times that as the margin is longer
	nearbySeparations        = 4    // separations, within which it matters, or twice what is kept
)

// turnMargin is the margin of two aircraft, s, and the most that it comes to, m.
func turnMargin(v, o *Vehicle, l Limits) (seconds, mostM float64) {
	seconds = turnMarginS + max(v.lagS(), o.lagS()) - responseLagS
	return seconds, seconds / turnMarginS * turnMarginMaxSeparations * l.SeparationM
}

// lateMarginS is the margin from which on a pair is late: each of these has a margin of its own, which slows
// it and pushes it no farther apart than it is. What pushes a late one goes on for as long as it follows
// late, and towards the next one in a row.
const lateMarginS = 1.0

// isBelow is whether one lands so far below another that it no longer moves sideways into it.
func (v *Vehicle) isBelow(o *Vehicle) bool {
	return v.Landing && o.UpM-v.UpM > LandingBelowM
}

// turnMargins returns what the fastest pass of two aircraft near each other adds to the separation of
// all pairs, and sets in more what a late pair adds to that for its own. Aircraft that hover or
// descend side by side need none, nor one beside another that lands far below: a margin that rises
// with each late position would keep it off its home until that one is down.
func turnMargins(vehicles []Vehicle, moves []physics.Position, more []float64, l Limits) (marginM float64) {
	n := len(vehicles)
	for i := range vehicles {
		for j := range i {
			v, o := &vehicles[i], &vehicles[j]
			seconds, mostM := turnMargin(v, o, l)
			if v.Position.Sub(o.Position).Norm() >= max(nearbySeparations*l.SeparationM, 2*(l.SeparationM+mostM)) ||
				v.isBelow(o) || o.isBelow(v) {
				continue
			}
			fastest := max(v.Velocity.Sub(o.Velocity).Norm(), moves[i].Sub(moves[j]).Norm())
			if m := min(seconds*fastest, mostM); seconds < lateMarginS {
				marginM = max(marginM, m)
			} else {
				m = min(m, max(v.Position.Sub(o.Position).Norm()/(motion.SeparationMargin+1e-3)-l.SeparationM, 0))
				more[i*n+j], more[j*n+i] = m, m
			}
		}
	}
	for i := range more {
		more[i] = max(more[i]-marginM, 0)
	}
	return marginM
}

// slowLatePairs takes from the moves of late pairs that close in what is above a speed that leaves room for
// its margin and for a second of it. What leads past the other, or away from it, stays. Head on, nothing does:
// each goes to its right, faster than positions are rounded on the wire.
func slowLatePairs(vehicles []Vehicle, moves []physics.Position, l Limits) {
	const (
		leastMPS = 0.3 // so slowly a pair always comes nearer
		asideMPS = 0.1
	)
	for i := range vehicles {
		for j := range i {
			v, o := &vehicles[i], &vehicles[j]
			seconds, _ := turnMargin(v, o, l)
			apart := v.Position.Sub(o.Position)
			d := apart.Norm()
			if seconds < lateMarginS || d == 0 {
				continue
			}
			away := apart.Scale(1 / d)
			closingMPS := moves[j].Sub(moves[i]).Dot(away)
			mostMPS := max((d-motion.SeparationMargin*l.SeparationM)/(1+seconds), leastMPS)
			if closingMPS <= mostMPS {
				continue
			}
			left := physics.Position{EastM: away.NorthM, NorthM: -away.EastM} // of the way from vehicle i to the other
			headOn := math.Abs(moves[j].Sub(moves[i]).Dot(left)) < asideMPS
			for _, k := range [...]int{i, j} {
				if towards := -moves[k].Dot(away); vehicles[k].Controlled && towards > 0 {
					moves[k] = moves[k].Add(away.Scale(towards * (1 - mostMPS/closingMPS)))
				}
				if headOn && vehicles[k].Controlled {
					moves[k] = moves[k].Sub(left.Scale(asideMPS))
				}
				away, left = away.Scale(-1), left.Scale(-1)
			}
		}
	}
}

// Checker holds the working memory of Check; its zero value is ready. Once it
// has checked as many vehicles it allocates nothing.
type Checker struct {
	limiter                                     motion.Limiter
	positions, moves, requested, coasted, trial []physics.Position
	fixed, holding                              []bool
	free                                        []bool    // the fence does not bind it
	more                                        []float64 // see turnMargins
	verdicts                                    []Verdict
}

// Check brings the setpoints inside the limits and returns a verdict on each, in
// memory that the next call uses again. The horizon is one slot: a setpoint is valid
// for two, and is checked ten times in each.
func (c *Checker) Check(vehicles []Vehicle, l Limits) []Verdict {
	n := len(vehicles)
	c.verdicts, c.holding, c.fixed = reuse.Slice(c.verdicts, n), reuse.Slice(c.holding, n), reuse.Slice(c.fixed, n)
	c.positions, c.moves = reuse.Slice(c.positions, n), reuse.Slice(c.moves, n)
	c.coasted, c.trial, c.free = reuse.Slice(c.coasted, n), reuse.Slice(c.trial, n), reuse.Slice(c.free, n)
	c.readSetpoints(vehicles, l)
	c.limit(vehicles, l)
	c.holdConflicts(vehicles, l)
	return c.verdicts
}

// readSetpoints reads each vehicle's commanded displacement in a second. A setpoint that
// is no number is replaced by a hold, a wrong altitude by the right one.
func (c *Checker) readSetpoints(vehicles []Vehicle, l Limits) {
	for i := range vehicles {
		v := &vehicles[i]
		c.positions[i], c.moves[i] = v.Position, v.Velocity
		if !v.Controlled {
			continue
		}
		if !v.Target.Valid() || !v.FeedForwardMPS.Valid() || !(v.TargetUpM.Off(0) <= math.MaxFloat64) {
			v.Hold(l)
			c.verdicts[i] = Held
		}
		if v.TargetUpM.Off(l.AltitudeM) > tolerance {
			v.TargetUpM = l.AltitudeM
			c.verdicts[i] = max(c.verdicts[i], Corrected)
		}
		c.moves[i] = v.commandedVelocity()
	}
	c.requested = append(c.requested[:0], c.moves...)
	for i := range vehicles {
		// The way in is a leg like any other, which yields to speed and separation. A hold
		// that replaced no setpoint stays.
		v := &vehicles[i]
		if c.free[i] = v.FenceExempt || l.outsideM(v.Position) > tolerance; v.Controlled && c.free[i] && !v.FenceExempt &&
			c.verdicts[i] != Held {
			c.moves[i] = l.leadIn(v.Position, c.moves[i])
		}
	}
}

// limit changes the moves by the least that keeps speed, separation and fence, and with
// them the setpoints.
func (c *Checker) limit(vehicles []Vehicle, l Limits) {
	slowLatePairs(vehicles, c.moves, l)
	c.more = reuse.Slice(c.more, len(vehicles)*len(vehicles))
	keep := motion.Limits{SpeedMaxMPS: l.SpeedMaxMPS, SeparationM: l.SeparationM + turnMargins(vehicles, c.moves, c.more, l), MoreM: c.more,
		AreaSideM: l.AreaM, Unfenced: c.free}
	c.limitByMeasuredMotion(vehicles, keep)
	keep.Fixed = c.fixed
	for i := range vehicles {
		c.fixed[i] = !vehicles[i].Controlled // an aircraft under pilot control keeps its velocity
	}
	c.limiter.Limit(c.positions, c.moves, keep)
	for i := range vehicles {
		v := &vehicles[i]
		if !v.Controlled {
			continue
		}
		// The feed-forward alone must be flyable too, and the target lead nowhere outside.
		changed := c.requested[i].Sub(c.moves[i]).Norm() > tolerance
		leadsOut := !v.FenceExempt && l.outsideM(v.Target) > l.outsideM(v.Position)+tolerance
		if changed || leadsOut || v.FeedForwardMPS.Norm() > l.SpeedMaxMPS+tolerance {
			v.setVelocity(c.moves[i], l)
			c.verdicts[i] = max(c.verdicts[i], Corrected)
		}
	}
}

// holdConflicts makes aircraft hold that still come too close to one under pilot control
// or to one that holds, since neither gives way, until none does.
func (c *Checker) holdConflicts(vehicles []Vehicle, l Limits) {
	for again := true; again; {
		again = false
		for i := range vehicles {
			for j := range vehicles {
				v, o := &vehicles[i], &vehicles[j]
				if i == j || !v.Controlled || c.holding[i] || o.Controlled && !c.holding[j] || c.keepsClear(vehicles, i, j, c.moves[i], l) {
					continue
				}
				c.holding[i], again = true, true
				if move, ok := c.aside(vehicles, i, j, l); ok {
					v.setVelocity(move, l)
					c.moves[i], c.verdicts[i] = move, Corrected
					continue
				}
				if h := v.HeldAt; h != nil && nearestOtherM(vehicles, i, *h) < min(v.clearM(o, l), nearestOtherM(vehicles, i, v.Position)) {
					v.HeldAt = nil // another has come nearer to that place: do not return to it
				}
				v.Hold(l)
				c.moves[i], c.verdicts[i] = physics.Position{}, Held
			}
		}
	}
}

// clearM is what the vehicle keeps from another that does not give way to it.
func (v *Vehicle) clearM(o *Vehicle, l Limits) float64 {
	if o.Controlled || o.isBelow(v) {
		return l.SeparationM
	}
	return l.SeparationM + v.brakingM(l)
}

// keepsClear is whether vehicle i with a move, in m/s, keeps clear of vehicle j, wherever that may be.
func (c *Checker) keepsClear(vehicles []Vehicle, i, j int, move physics.Position, l Limits) bool {
	clearM := vehicles[i].clearM(&vehicles[j], l)
	return motion.StaysApart(c.positions[i].Sub(c.positions[j]), move.Sub(c.moves[j]), clearM) &&
		vehicles[j].pathClear(c.positions[i], move, clearM)
}

// asideMPS is how fast an aircraft leaves a path on which another may come.
const asideMPS = 8

// aside is the move, in m/s, by which vehicle i leaves the possible path of vehicle j, on which a hold would wait for it: square
// to the path. False: it is not on that path, or it would come too close to others or leave the area.
func (c *Checker) aside(vehicles []Vehicle, i, j int, l Limits) (move physics.Position, ok bool) {
	o, p, clearM := &vehicles[j], c.positions[i], vehicles[i].clearM(&vehicles[j], l)
	if len(o.PossiblePath) == 0 || pathM(o.PossiblePath) < clearM { // another that hovers or lands comes to nobody
		return move, false
	}
	nearest, leg := NearestOnPath(p, o.PossiblePath)
	away := p.Sub(nearest)
	if away.Norm() >= clearM {
		return move, false
	}
	if away.Norm() < tolerance {
		away = physics.Position{EastM: leg.NorthM, NorthM: -leg.EastM}
	}
	for _, mps := range [...]float64{min(asideMPS, l.SpeedMaxMPS), -min(asideMPS, l.SpeedMaxMPS)} {
		move = away.Scale(mps / away.Norm())
		ok = c.free[i] || l.outsideM(p.Add(move)) <= tolerance
		for k := range vehicles {
			ok = ok && (k == i || k == j || c.keepsClear(vehicles, i, k, move, l)) // of j it is too late to keep clear
		}
		if ok {
			break
		}
	}
	return move, ok
}

// NearestOnPath returns the place of a path, given by its corners, that is nearest to p, and the leg it lies on.
func NearestOnPath(p physics.Position, path []physics.Position) (nearest, leg physics.Position) {
	nearest = path[0]
	for i := 1; i < len(path); i++ {
		way, q := path[i].Sub(path[i-1]), p.Sub(path[i-1])
		ll := way.Dot(way)
		if ll == 0 {
			continue
		}
		at := path[i-1].Add(way.Scale(min(max(q.Dot(way)/ll, 0), 1)))
		if leg == (physics.Position{}) || p.Sub(at).Norm() < p.Sub(nearest).Norm() {
			nearest, leg = at, way
		}
	}
	return nearest, leg
}

// pathM is the length of a path.
func pathM(path []physics.Position) (lengthM float64) {
	for i := 1; i < len(path); i++ {
		lengthM += path[i].Sub(path[i-1]).Norm()
	}
	return lengthM
}

// nearestOtherM is how near to a place another than vehicle i is.
func nearestOtherM(vehicles []Vehicle, i int, p physics.Position) float64 {
	nearest := math.Inf(1)
	for k := range vehicles {
		if k != i {
			nearest = min(nearest, p.Sub(vehicles[k].Position).Norm())
		}
	}
	return nearest
}

// limitByMeasuredMotion changes the moves, in m/s, so that each controlled aircraft
// keeps clear of the others even if those keep their measured velocity, and it keeps
// its own for responseLagS: an autopilot may take seconds to follow a command.
func (c *Checker) limitByMeasuredMotion(vehicles []Vehicle, l motion.Limits) {
	const rest = 1 - responseLagS
	l.SpeedMaxMPS *= rest
	l.AreaSideM = 0 // the fence limits commanded moves
	l.Fixed = c.fixed
	for i := range vehicles {
		c.coasted[i], c.fixed[i] = vehicles[i].Position.Add(vehicles[i].Velocity.Scale(responseLagS)), true
	}
	for i := range vehicles {
		if !vehicles[i].Controlled {
			continue
		}
		for j := range vehicles {
			c.trial[j] = vehicles[j].Velocity.Scale(rest)
		}
		c.trial[i], c.fixed[i] = c.moves[i].Scale(rest), false
		if c.limiter.Limit(c.coasted, c.trial, l) {
			c.moves[i] = c.trial[i].Scale(1 / rest)
		}
		c.fixed[i] = true
	}
}

// pathClear reports whether an aircraft at p that moves by move in a second keeps
// clear of the whole path on which the vehicle may be.
func (v *Vehicle) pathClear(p, move physics.Position, separationM float64) bool {
	for i := 1; i < len(v.PossiblePath); i++ {
		leg := v.PossiblePath[i].Sub(v.PossiblePath[i-1])
		n := math.Ceil(leg.Norm() / (separationM / 4))
		for k := range int(n) {
			if !motion.StaysApart(p.Sub(v.PossiblePath[i-1].Add(leg.Scale(float64(k)/n))), move, separationM) {
				return false
			}
		}
	}
	return true
}

// Hold sets the setpoint to the vehicle's position, or to where it was held: outside the
// fence too, for a hold that led back in would lead into what it keeps clear of.
func (v *Vehicle) Hold(l Limits) {
	at := v.Position
	if h := v.HeldAt; h != nil {
		if r := h.Sub(at).Norm(); r < l.SeparationM {
			at = at.Add(h.Sub(at).Scale(min(1, l.SpeedMaxMPS/max(r*v.Loop.GainPerS, 1e-9))))
		}
	}
	v.Target, v.FeedForwardMPS, v.TargetUpM = at, physics.Position{}, l.AltitudeM
}

func (l Limits) outsideM(p physics.Position) float64 { return p.Sub(p.ClampToArea(l.AreaM)).Norm() }

// leadIn changes a move, in m/s, of an aircraft outside the area by the least that ends it
// nearer to the area by wayInMPS, or inside.
func (l Limits) leadIn(p, move physics.Position) physics.Position {
	out := max(-p.EastM, -p.NorthM, p.EastM-l.AreaM, p.NorthM-l.AreaM)
	still := max(0, out-wayInMPS) // outside, after a second
	shift := physics.Position{EastM: still, NorthM: still}
	return p.Add(move).Add(shift).ClampToArea(l.AreaM + 2*still).Sub(shift).Sub(p)
}

// Alarm names the limit that a measured state breaks, or is empty.
func (l Limits) Alarm(p physics.Position, upM height.AboveOrigin) string {
	switch {
	case l.outsideM(p) > l.FenceM:
		return "outside the fence"
	case upM.Off(l.AltitudeM) > l.BandM:
		return "outside the altitude band"
	}
	return ""
}
