// Package height has the heights of the leader, each with what it is measured from in its type, so that the compiler refuses a mix.
// Every package of the leader that measures or commands one uses it; differences of two are metres.
package height

// AboveOrigin is a height above the origin's altitude, as positions and setpoints have it, m.
type AboveOrigin float64

// AboveGround is a height above the ground at its place, which is that of a home near it, m.
type AboveGround float64

// AboveSea is a height above mean sea level, as MAVLink has it, m.
type AboveSea float64

// Over is the height above the ground, where that is so high above the origin.
func (h AboveOrigin) Over(ground AboveOrigin) AboveGround { return AboveGround(h - ground) }

// Off is how far a height is from another, m.
func (h AboveOrigin) Off(from AboveOrigin) float64 {
	if h < from {
		return float64(from - h)
	}
	return float64(h - from)
}
