package account

import (
	"fmt"
	"math"
	"testing"
)

// A change of flight power is acted on before it is known exactly, though users of the offer compute in
// some slots, and not before it came. In mid flight that had taken 10 slots in the mean; early, where
// the archived airframe still weighs as much as a few measurements, 15.
func TestShockIsKnownInTime(t *testing.T) {
	const seeds = 12
	for _, tt := range []struct {
		shock, offerEvery int
		mostJ             float64 // of a user of the offer
		within            float64 // slots in the mean
	}{{30, 7, 0, 7}, {30, 4, 0, 8}, {2, 4, 0, 8}, {30, 3, 500, 10}, {30, 7, math.Inf(1), 7}} {
		s := sensor{everyS: [2]float64{0.4, 0.4}, lateS: 0.5, energy: true, current: true, offerEvery: tt.offerEvery,
			offerMostJ: tt.mostJ, lateResults: true,
			shockSlot: float64(tt.shock), slots: 60}
		mean := 0.0
		for seed := range uint64(seeds) {
			known := s.slots
			measuredFlight(t, &s, seed, 1, func(line string) {
				var slot int
				var multiplier float64
				if _, err := fmt.Sscanf(line, "slot %d: multiplier %f", &slot, &multiplier); err != nil {
					t.Fatal(err)
				}
				if slot < tt.shock && multiplier > 1.15 {
					t.Errorf("%+v, seed %d: multiplier %.2f in slot %d, before the shock", tt, seed, multiplier, slot)
				}
				if multiplier > 1.3 {
					known = min(known, slot)
				}
			})
			mean += float64(known-tt.shock) / seeds
		}
		if t.Logf("%+v: known after %.1f slots", tt, mean); mean > tt.within {
			t.Errorf("%+v: known after %.1f slots in the mean", tt, mean)
		}
	}
}
