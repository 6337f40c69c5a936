package account

import (
	"fmt"
	"testing"
)

// A change of flight power is acted on before it is known exactly, though users of the offer compute in
// some slots: on these seeds after 6 slots in the mean, and not before it came. It had taken 10.
func TestShockIsKnownInTime(t *testing.T) {
	s := sensor{everyS: [2]float64{0.4, 0.4}, lateS: 0.5, energy: true, current: true, offerEvery: 7, lateResults: true, shockSlot: 30,
		slots: 60}
	const shock, seeds, within = 30, 12, 8.5
	mean := 0.0
	for seed := range uint64(seeds) {
		known := s.slots
		measuredFlight(t, &s, seed, 1, func(line string) {
			var slot int
			var multiplier float64
			if _, err := fmt.Sscanf(line, "slot %d: multiplier %f", &slot, &multiplier); err != nil {
				t.Fatal(err)
			}
			if slot < shock && multiplier > 1.15 {
				t.Errorf("seed %d: multiplier %.2f in slot %d, before the shock", seed, multiplier, slot)
			}
			if multiplier > 1.3 {
				known = min(known, slot)
			}
		})
		mean += float64(known-shock) / seeds
	}
	if t.Logf("known after %.1f slots", mean); mean > within {
		t.Errorf("known after %.1f slots in the mean, want %v at most", mean, within)
	}
}
