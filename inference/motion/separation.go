package motion

import (
	"math"
	"slices"

	"prefdt/inference/physics"
	"prefdt/inference/reuse"
)

// Limits are the constraints on a joint displacement.
type Limits struct {
	SpeedMaxMPS float64 // C1: metres in a slot of one second
	SeparationM float64 // C2: at every instant of the slot
	// MoreM is what each pair keeps beside it, of aircraft i and j at i*n+j and at j*n+i; nil: nothing.
	MoreM     []float64
	AreaSideM float64 // side of the square, 0 for none
	Fixed     []bool  // aircraft whose moves are not changed, whatever the limits; nil: none
	Unfenced  []bool  // aircraft that the area does not bind; nil: none
}

// LimitsOf returns the limits of a world with these constants.
func LimitsOf(c *physics.Constants) Limits {
	return Limits{SpeedMaxMPS: c.SpeedMaxMPS, SeparationM: c.SeparationM, AreaSideM: c.AreaSideM}
}

// Limiter changes joint displacements so that they keep limits. It holds working
// memory only; its zero value is ready.
type Limiter struct {
	requested, correction, safeMoves, unscaledMoves []physics.Position
	scale                                           []float64
}

const (
	// maxProjections bounds the rounds that look for the least change.
	maxProjections = 40
	// SeparationMargin enlarges the separation in the projections, so that they end
	// inside the limit instead of approaching it for ever.
	SeparationMargin = 1.01
)

// Limit changes moves, in place, as little as it finds possible so that each
// aircraft flies at most SpeedMaxMPS, ends inside the area, and every pair stays
// SeparationM, and its MoreM, apart all along the straight segments flown. Of a pair that
// starts closer than that, neither the end nor any instant is closer than the
// start, and they move apart. An aircraft that starts outside the area ends no
// farther outside. The moves of fixed aircraft are not changed; in a dense group
// around one, not all of this is possible. Moves that are not finite count as
// zero; positions must be finite. Limit reports whether it changed a move.
//
// Conflicts are resolved by projecting each pair's relative displacement onto
// the boundary of its velocity obstacle (van den Berg et al., Reciprocal n-body
// collision avoidance, 2011), half to each aircraft, for all pairs at once. In a
// dense group some conflicts remain; those moves are scaled, aircraft by aircraft,
// towards a joint displacement known to be safe.
func (l *Limiter) Limit(positions, moves []physics.Position, limits Limits) (changed bool) {
	n := len(moves)
	l.requested = append(l.requested[:0], moves...)
	for i := range moves {
		if !moves[i].Valid() {
			moves[i] = physics.Position{}
		}
		moves[i] = limits.clamp(i, positions[i], moves[i])
	}
	for range maxProjections {
		l.correction = reuse.Slice(l.correction, n)
		conflict := false
		for i := range n {
			for j := range i {
				ofI, ofJ := limits.avoidanceShares(i, j)
				if ofI+ofJ == 0 {
					continue
				}
				change := separatingChange(positions[j].Sub(positions[i]), moves[i].Sub(moves[j]),
					SeparationMargin*limits.separation(i, j, n), j, i)
				if change == (physics.Position{}) {
					continue
				}
				l.correction[i] = l.correction[i].Add(change.Scale(ofI))
				l.correction[j] = l.correction[j].Sub(change.Scale(ofJ))
				conflict = true
			}
		}
		if !conflict {
			break
		}
		for i := range n {
			moves[i] = limits.clamp(i, positions[i], moves[i].Add(l.correction[i]))
		}
	}
	l.scaleToSafe(positions, moves, limits)
	return !slices.Equal(moves, l.requested)
}

// separation is what aircraft i and j of n keep.
func (l Limits) separation(i, j, n int) float64 {
	if l.MoreM == nil {
		return l.SeparationM
	}
	return l.SeparationM + l.MoreM[i*n+j]
}

func (l Limits) fixed(i int) bool { return l.Fixed != nil && l.Fixed[i] }

// avoidanceShares are the shares of a pair's separating change that each one makes.
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

func (l Limits) clamp(i int, from, move physics.Position) physics.Position {
	if l.fixed(i) {
		return move
	}
	if l.AreaSideM > 0 && (l.Unfenced == nil || !l.Unfenced[i]) {
		move = from.Add(move).ClampToArea(l.AreaSideM).Sub(from)
	}
	if r := move.Norm(); r > l.SpeedMaxMPS {
		move = move.Scale(l.SpeedMaxMPS / r * (1 - 1e-15))
	}
	return move
}

// separatingChange returns the least change of the relative displacement v that keeps
// two aircraft apart by separationM during the slot, and zero if none is needed. p
// points from the first to the second, and v is the displacement of the first
// relative to the second. A pair that starts closer must end that far apart. i and
// j only choose the direction for two aircraft in the same position.
func separatingChange(p, v physics.Position, separationM float64, i, j int) physics.Position {
	distance := p.Norm()
	if distance < separationM {
		away := p.Scale(-1)
		if distance < 1e-9 {
			sin, cos := math.Sincos(2.399963 * float64(i+64*j)) // the golden angle spreads many of them evenly
			away, distance = physics.Position{EastM: cos, NorthM: sin}, 1
		}
		away = away.Scale(1 / distance)
		if missing := separationM - p.Norm() - v.Dot(away); missing > 0 {
			return away.Scale(missing)
		}
		return physics.Position{}
	}
	if closestApproach(p.Scale(-1), v) >= separationM {
		return physics.Position{}
	}
	w := v.Sub(p)
	if toward := w.Dot(p); toward < 0 && toward*toward > separationM*separationM*w.Dot(w) {
		r := w.Norm() // closest at the end of the slot: leave the disc about the other there
		return w.Scale((separationM - r) / r)
	}
	leg := math.Sqrt(max(0, distance*distance-separationM*separationM))
	side := separationM
	if p.EastM*w.NorthM-p.NorthM*w.EastM <= 0 {
		side = -separationM
	}
	// The tangent to the disc about the other, on the nearer side; head on, to the right.
	tangent := physics.Position{EastM: p.EastM*leg - p.NorthM*side, NorthM: p.EastM*side + p.NorthM*leg}.Scale(1 / (distance * distance))
	along := max(0, v.Dot(tangent))
	return tangent.Scale(along).Sub(v)
}

// scaleToSafe scales the moves of aircraft still in conflict towards a joint
// displacement without conflicts, until none is left. It ends, because each round
// scales at least one move that was not yet fully scaled.
func (l *Limiter) scaleToSafe(positions, moves []physics.Position, limits Limits) {
	n := len(moves)
	if !l.markConflicts(positions, moves, limits) {
		return
	}
	l.findSafeMoves(positions, limits)
	for i := range n {
		if limits.fixed(i) {
			l.safeMoves[i] = moves[i]
		}
	}
	l.unscaledMoves = append(l.unscaledMoves[:0], moves...)
	l.scale = reuse.Slice(l.scale, n)
	for i := range n {
		l.scale[i] = 1
	}
	const least = 1.0 / 32
	for range 6 * n {
		for i := range n {
			if l.correction[i].EastM == 0 {
				continue
			}
			if l.scale[i] /= 2; l.scale[i] < least {
				l.scale[i] = 0
			}
			moves[i] = l.safeMoves[i].Add(l.unscaledMoves[i].Sub(l.safeMoves[i]).Scale(l.scale[i]))
		}
		if !l.markConflicts(positions, moves, limits) {
			return
		}
	}
	copy(moves, l.safeMoves)
}

// markConflicts marks, in correction, the aircraft that do not keep the separation.
func (l *Limiter) markConflicts(positions, moves []physics.Position, limits Limits) (any bool) {
	l.correction = reuse.Slice(l.correction, len(moves))
	for i := range moves {
		for j := range i {
			ofI, ofJ := limits.avoidanceShares(i, j)
			if ofI+ofJ > 0 && !StaysApart(positions[i].Sub(positions[j]), moves[i].Sub(moves[j]), limits.separation(i, j, len(moves))) {
				l.correction[i].EastM, l.correction[j].EastM = max(l.correction[i].EastM, ofI), max(l.correction[j].EastM, ofJ)
				any = true
			}
		}
	}
	return any
}

// findSafeMoves finds a joint displacement that brings no pair closer: no move at all
// if every pair starts far enough apart, else one that stretches the whole fleet
// along each axis, as far as speed and area allow, until the closest pair is apart.
func (l *Limiter) findSafeMoves(positions []physics.Position, limits Limits) {
	l.safeMoves = reuse.Slice(l.safeMoves, len(positions))
	nearest, keepM := math.Inf(1), limits.SeparationM // of the pair with the least of what it is to keep
	low, high := positions[0], positions[0]
	for i, p := range positions {
		for j := range i {
			keep := limits.separation(i, j, len(positions))
			if d := p.Sub(positions[j]).Norm(); d > 0 && d*keepM < nearest*keep {
				nearest, keepM = d, keep
			}
		}
		low = physics.Position{EastM: min(low.EastM, p.EastM), NorthM: min(low.NorthM, p.NorthM)}
		high = physics.Position{EastM: max(high.EastM, p.EastM), NorthM: max(high.NorthM, p.NorthM)}
	}
	if nearest >= keepM {
		return
	}
	growth := min(SeparationMargin*keepM/nearest-1, 1e6)
	growEast, shiftEast := stretch(low.EastM, high.EastM, growth, limits.AreaSideM)
	growNorth, shiftNorth := stretch(low.NorthM, high.NorthM, growth, limits.AreaSideM)
	longest := 0.0
	for i, p := range positions {
		l.safeMoves[i] = physics.Position{
			EastM:  growEast*(p.EastM-(low.EastM+high.EastM)/2) + shiftEast,
			NorthM: growNorth*(p.NorthM-(low.NorthM+high.NorthM)/2) + shiftNorth,
		}
		longest = max(longest, l.safeMoves[i].Norm())
	}
	if longest > limits.SpeedMaxMPS {
		for i := range l.safeMoves {
			l.safeMoves[i] = l.safeMoves[i].Scale(limits.SpeedMaxMPS / longest * (1 - 1e-15))
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

// StaysApart reports whether a pair of aircraft, with relative position p at the
// start of a slot and relative displacement v in it, keeps a separation or, if it
// starts closer, comes no closer. The tolerance, in square metres, covers rounding.
func StaysApart(p, v physics.Position, separationM float64) bool {
	if p.Norm() < separationM {
		return p.Dot(v) >= -1e-9
	}
	return closestApproach(p, v) >= separationM
}

// closestApproach returns the least distance of such a pair during the slot.
func closestApproach(p, v physics.Position) float64 {
	t := 0.0
	if vv := v.Dot(v); vv > 0 {
		t = min(max(-p.Dot(v)/vv, 0), 1)
	}
	return p.Add(v.Scale(t)).Norm()
}
