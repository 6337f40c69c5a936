package battery

import (
	"math"
	"testing"
)

// What happens to the counters and to the pack changes nothing of what was drawn.
func TestCountersBeginAnew(t *testing.T) {
	all := Fields{Current: true, Energy: true, Remaining: true}
	for name, c := range map[string]struct {
		do              func(*Battery)
		consumed, drawn float64 // hectojoules said, joules true
		percent         int8
	}{
		"nothing":   {func(*Battery) {}, 150, 15_000, 90},
		"restarted": {(*Battery).Restart, 0, 15_000, 90},
		"swapped":   {(*Battery).Swap, 0, 15_000, 100},
	} {
		t.Run(name, func(t *testing.T) {
			b := New(150e3, all)
			b.Fly(150, 100)
			c.do(&b)
			m := b.Status(100e6)
			if float64(m.EnergyConsumed) != c.consumed || m.BatteryRemaining != c.percent || b.Total().J() != c.drawn {
				t.Errorf("says %d hJ and %d %%, drew %v J", m.EnergyConsumed, m.BatteryRemaining, b.Total().J())
			}
			b.Fly(150, 10) // the current says so, with what rounding left over before
			if m := b.Status(110e6); float64(m.EnergyConsumed) != c.consumed+15 || math.Abs(float64(m.CurrentBattery)/100*float64(m.Voltages[0])/1000-150) > 1.5 {
				t.Errorf("10 s on: %+v", m)
			}
		})
	}
}

// Joules are booked by when slots begin, also those that were announced ahead.
func TestSlotsAhead(t *testing.T) {
	b := New(150e3, Fields{})
	b.Begin(0, 2e6)
	b.Begin(1, 3e6)
	for us := int64(0); us < 4e6; us += 1e6 {
		b.Reach(us)
		b.Fly(100, 1)
	}
	got := b.BySlot()
	if got[-1].FlightJ != 200 || got[0].FlightJ != 100 || got[1].FlightJ != 100 || b.Slot() != 1 {
		t.Errorf("%+v, slot %d", got, b.Slot())
	}
}
