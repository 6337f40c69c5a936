package fleet

// sequence tells frames that were overtaken from new ones, by MAVLink's sequence
// number of a sender: it has eight bits, and counts on with every frame.
type sequence struct {
	known  bool
	number byte
	atS    float64 // the last one was received
}

// countsS is how long the number of the last frame says anything: a longer
// silence is a reboot's, or leaves the number anywhere.
const countsS = 2.0

// accepts is whether a frame is a new one.
func (s *sequence) accepts(number byte, now float64) bool {
	if s.known && now-s.atS < countsS && int8(number-s.number) < 0 {
		return false
	}
	*s = sequence{true, number, now}
	return true
}
