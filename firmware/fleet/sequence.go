package fleet

// sequenceFilter tells frames that were overtaken from new ones, by MAVLink's sequence
// number of a sender: it has eight bits, and counts on with every frame.
type sequenceFilter struct {
	valid     bool
	last      byte
	receivedS float64 // the last one was received
}

// sequenceValidS is how long the number of the last frame says anything: a longer
// silence is a reboot's, or leaves the number anywhere.
const sequenceValidS = 2.0

// accepts is whether a frame is a new one.
func (s *sequenceFilter) accepts(number byte, now float64) bool {
	if s.valid && now-s.receivedS < sequenceValidS && int8(number-s.last) < 0 {
		return false
	}
	*s = sequenceFilter{true, number, now}
	return true
}
