package fleet

// sequenceFilter detects frames that arrive after a later one of the same sender, by
// MAVLink's sequence number: it has eight bits, and rises by one with every frame.
type sequenceFilter struct {
	valid     bool
	last      byte
	receivedS float64 // the last one was received
}

// sequenceValidS is how long the number of the last frame can be compared: in a longer
// silence the sender may have rebooted, or the number wrapped.
const sequenceValidS = 2.0

func (s *sequenceFilter) accepts(number byte, now float64) bool {
	if s.valid && now-s.receivedS < sequenceValidS && int8(number-s.last) < 0 {
		return false
	}
	*s = sequenceFilter{true, number, now}
	return true
}
