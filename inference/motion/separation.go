package motion

import (
	"math"

	"prefdt/inference/physics"
	"prefdt/inference/reuse"
)

// Limits are the constraints on a joint displacement.
type Limits struct {
	SpeedMaxMPS float64 // C1: metres in a slot of one second
	SeparationM float64 // C2: at every instant of the slot
	AreaSideM   float64 // side of the square, 0 for none
	Fixed       []bool  // who flies on whatever the limits, and makes no way; nil: nobody
}

// Limiter brings joint displacements inside limits. It holds the working
// memory; its zero value is ready.
type Limiter struct {
	requested, correction, safeMoves, unscaledMoves []physics.Position
	scale                                           []float64
	conflicts                                       int
}

const (
	// maxProjections bounds the sweeps that look for the least change.
	maxProjections = 40
	// separationMargin is what the projections keep beyond the separation, so that they
	// end inside it instead of approaching it for ever.
	separationMargin = 1.01
)

// Limit changes moves, in place, as little as it finds possible so that each
// aircraft flies at most SpeedMaxMPS, ends inside the area, and every pair stays
// SeparationM apart all along the straight segments flown. Of a pair that
// starts closer than that, neither the end nor any instant is closer than the
// start, and they move apart. An aircraft that starts outside the area ends no
// farther outside. One that is fixed does as it does; beside it, in a crowd,
// not all of this can be had. Moves that are not finite count as none;
// positions must be finite. It reports whether it changed anything.
//
// Conflicts are resolved by projecting each pair's relative displacement onto
// the boundary of its velocity obstacle (van den Berg et al., Reciprocal n-body
// collision avoidance, 2011), half to each aircraft, for all pairs at once. What
// that leaves unresolved in a crowd is scaled down, aircraft by aircraft,
// towards a joint displacement known to be safe.
func (e *Limiter) Limit(positions, moves []physics.Position, l Limits) (changed bool) {
	n := len(moves)
	e.requested = append(e.requested[:0], moves...)
	for i := range moves {
		if !moves[i].Valid() {
			moves[i] = physics.Position{}
		}
		moves[i] = l.clamp(i, positions[i], moves[i])
	}
	for range maxProjections {
		e.correction, e.conflicts = reuse.Slice(e.correction, n), 0
		for i := range n {
			for j := range i {
				mine, theirs := l.avoidanceShares(i, j)
				if mine+theirs == 0 {
					continue
				}
				u := separatingChange(positions[j].Sub(positions[i]), moves[i].Sub(moves[j]), separationMargin*l.SeparationM, j, i)
				if u == (physics.Position{}) {
					continue
				}
				e.correction[i] = e.correction[i].Add(u.Scale(mine))
				e.correction[j] = e.correction[j].Sub(u.Scale(theirs))
				e.conflicts++
			}
		}
		if e.conflicts == 0 {
			break
		}
		for i := range n {
			moves[i] = l.clamp(i, positions[i], moves[i].Add(e.correction[i]))
		}
	}
	e.scaleToSafe(positions, moves, l)
	for i := range moves {
		changed = changed || moves[i] != e.requested[i]
	}
	return changed
}

func (l Limits) fixed(i int) bool { return l.Fixed != nil && l.Fixed[i] }

// avoidanceShares is how much of the way each of a pair makes.
func (l Limits) avoidanceShares(i, j int) (ofI, ofJ float64) {
	switch {
	case l.fixed(i) && l.fixed(j):
		return 0, 0
	case l.fixed(i):
		return 0, 1
	case l.fixed(j):
		return 1, 0
	}
	return 0.5, 0.5
}

// clamp keeps one displacement inside speed and area.
func (l Limits) clamp(i int, from, move physics.Position) physics.Position {
	if l.fixed(i) {
		return move
	}
	if l.AreaSideM > 0 {
		move = from.Add(move).ClampToArea(l.AreaSideM).Sub(from)
	}
	if r := move.Norm(); r > l.SpeedMaxMPS {
		move = move.Scale(l.SpeedMaxMPS / r * (1 - 1e-15))
	}
	return move
}

// separatingChange returns the least change of the relative displacement v that keeps
// two aircraft apart by separationM during the slot, where p points from one
// to the other and v is the displacement of the first relative to the second;
// zero if they already do. Of a pair that starts closer it asks that they end
// as far apart. i and j only choose the direction of two in the same place.
func separatingChange(p, v physics.Position, separationM float64, i, j int) physics.Position {
	distance := p.Norm()
	if distance < separationM {
		away := p.Scale(-1)
		if distance < 1e-9 {
			sin, cos := math.Sincos(2.399963 * float64(i+64*j)) // the golden angle spreads a pile evenly
			away, distance = physics.Position{EastM: cos, NorthM: sin}, 1
		}
		away = away.Scale(1 / distance)
		if lack := separationM - p.Norm() - v.Dot(away); lack > 0 {
			return away.Scale(lack)
		}
		return physics.Position{}
	}
	if closestApproach(p.Scale(-1), v) >= separationM {
		return physics.Position{}
	}
	w := v.Sub(p)
	if toward := w.Dot(p); toward < 0 && toward*toward > separationM*separationM*w.Dot(w) {
		r := w.Norm() // the end of the slot is the closest: leave the disc about the other
		return w.Scale((separationM - r) / r)
	}
	leg := math.Sqrt(max(0, distance*distance-separationM*separationM))
	side := separationM
	if p.EastM*w.NorthM-p.NorthM*w.EastM <= 0 {
		side = -separationM
	}
	// The tangent to the other's disc on the nearer side; head on, to the right.
	tangent := physics.Position{EastM: p.EastM*leg - p.NorthM*side, NorthM: p.EastM*side + p.NorthM*leg}.Scale(1 / (distance * distance))
	along := max(0, v.Dot(tangent))
	return tangent.Scale(along).Sub(v)
}

// scaleToSafe scales the moves of aircraft still in conflict towards a joint
// displacement without any, until none is left; each round scales at least one
// that was not yet fully scaled, so it ends.
func (e *Limiter) scaleToSafe(positions, moves []physics.Position, l Limits) {
	n := len(moves)
	if !e.markConflicts(positions, moves, l) {
		return
	}
	e.findSafeMoves(positions, l)
	for i := range n {
		if l.fixed(i) {
			e.safeMoves[i] = moves[i]
		}
	}
	e.unscaledMoves = append(e.unscaledMoves[:0], moves...)
	e.scale = reuse.Slice(e.scale, n)
	for i := range n {
		e.scale[i] = 1
	}
	const least = 1.0 / 32
	for range 6 * n {
		for i := range n {
			if e.correction[i].EastM == 0 {
				continue
			}
			if e.scale[i] /= 2; e.scale[i] < least {
				e.scale[i] = 0
			}
			moves[i] = e.safeMoves[i].Add(e.unscaledMoves[i].Sub(e.safeMoves[i]).Scale(e.scale[i]))
		}
		if !e.markConflicts(positions, moves, l) {
			return
		}
	}
	copy(moves, e.safeMoves)
}

// markConflicts marks, in correction, the aircraft that break the separation.
func (e *Limiter) markConflicts(positions, moves []physics.Position, l Limits) (any bool) {
	e.correction = reuse.Slice(e.correction, len(moves))
	for i := range moves {
		for j := range i {
			mine, theirs := l.avoidanceShares(i, j)
			if mine+theirs > 0 && !StaysApart(positions[i].Sub(positions[j]), moves[i].Sub(moves[j]), l.SeparationM) {
				e.correction[i].EastM, e.correction[j].EastM = max(e.correction[i].EastM, mine), max(e.correction[j].EastM, theirs)
				any = true
			}
		}
	}
	return any
}

// findSafeMoves finds a joint displacement that brings no pair closer: none, if every
// pair starts far enough apart, else the whole fleet stretched along each axis
// as far as speed and area allow, until the closest pair is apart.
func (e *Limiter) findSafeMoves(positions []physics.Position, l Limits) {
	e.safeMoves = reuse.Slice(e.safeMoves, len(positions))
	nearest := math.Inf(1)
	low, high := positions[0], positions[0]
	for i, p := range positions {
		for j := range i {
			if d := p.Sub(positions[j]).Norm(); d > 0 {
				nearest = min(nearest, d)
			}
		}
		low = physics.Position{EastM: min(low.EastM, p.EastM), NorthM: min(low.NorthM, p.NorthM)}
		high = physics.Position{EastM: max(high.EastM, p.EastM), NorthM: max(high.NorthM, p.NorthM)}
	}
	if nearest >= l.SeparationM {
		return
	}
	growth := min(separationMargin*l.SeparationM/nearest-1, 1e6)
	growEast, shiftEast := stretch(low.EastM, high.EastM, growth, l.AreaSideM)
	growNorth, shiftNorth := stretch(low.NorthM, high.NorthM, growth, l.AreaSideM)
	longest := 0.0
	for i, p := range positions {
		e.safeMoves[i] = physics.Position{
			EastM:  growEast*(p.EastM-(low.EastM+high.EastM)/2) + shiftEast,
			NorthM: growNorth*(p.NorthM-(low.NorthM+high.NorthM)/2) + shiftNorth,
		}
		longest = max(longest, e.safeMoves[i].Norm())
	}
	if longest > l.SpeedMaxMPS {
		for i := range e.safeMoves {
			e.safeMoves[i] = e.safeMoves[i].Scale(l.SpeedMaxMPS / longest * (1 - 1e-15))
		}
	}
}

// stretch returns how much an interval may grow about its middle, up to growth,
// and the shift that then keeps it within [0, area].
func stretch(low, high, growth, areaM float64) (grow, shift float64) {
	length := high - low
	if areaM <= 0 || length == 0 {
		return growth, 0
	}
	if low < 0 || high > areaM {
		return 0, 0
	}
	grow = min(growth, areaM/length-1)
	low, high = low-grow*length/2, high+grow*length/2
	return grow, max(0, -low) - max(0, high-areaM)
}

// StaysApart reports whether a pair, p from one another at a second's start and
// displaced by v relative to one another in it, keeps a separation or, having
// started closer, comes no closer. The tolerance, in square metres, is that of
// rounding.
func StaysApart(p, v physics.Position, separationM float64) bool {
	if p.Norm() < separationM {
		return p.Dot(v) >= -1e-9
	}
	return closestApproach(p, v) >= separationM
}

// closestApproach returns the least distance of such a pair during the second.
func closestApproach(p, v physics.Position) float64 {
	t := 0.0
	if vv := v.Dot(v); vv > 0 {
		t = min(max(-p.Dot(v)/vv, 0), 1)
	}
	return p.Add(v.Scale(t)).Norm()
}
