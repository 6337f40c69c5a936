package battery

import (
	"math"
	"slices"
	"testing"
)

// Resets of the counters and of the pack do not change the energy drawn.
func TestCounterResets(t *testing.T) {
	all := Fields{Current: true, Energy: true, Remaining: true}
	for name, c := range map[string]struct {
		do              func(*Battery)
		consumed, drawn float64 // hectojoules reported, joules true
		percent         int8
	}{
		"nothing":   {func(*Battery) {}, 150, 15_000, 90},
		"restarted": {(*Battery).ResetCounters, 0, 15_000, 90},
		"swapped":   {(*Battery).SwapPack, 0, 15_000, 100},
	} {
		t.Run(name, func(t *testing.T) {
			b := New(150e3, all)
			b.DrawPower(150, 100)
			c.do(&b)
			m := b.Status(100e6)
			if float64(m.EnergyConsumed) != c.consumed || m.BatteryRemaining != c.percent || b.Total().J() != c.drawn {
				t.Errorf("reports %d hJ and %d %%, drew %v J", m.EnergyConsumed, m.BatteryRemaining, b.Total().J())
			}
			b.DrawPower(150, 10) // the current shows it, with the rounding carried over
			if m := b.Status(110e6); float64(m.EnergyConsumed) != c.consumed+15 ||
				math.Abs(float64(m.CurrentBattery)/100*float64(m.Voltages[0])/1000-150) > 1.5 {
				t.Errorf("10 s on: %+v", m)
			}
		})
	}
}

// Joules are counted by the start of the slots, also of slots scheduled in advance.
func TestScheduledSlots(t *testing.T) {
	b := New(150e3, Fields{})
	b.ScheduleSlot(0, 2e6)
	b.ScheduleSlot(1, 3e6)
	for us := int64(0); us < 4e6; us += 1e6 {
		b.OpenSlots(us)
		b.DrawPower(100, 1)
	}
	got := b.BySlot()
	if got[-1].FlightJ != 200 || got[0].FlightJ != 100 || got[1].FlightJ != 100 || b.Slot() != 1 {
		t.Errorf("%+v, slot %d", got, b.Slot())
	}
}

// Two packs together count what is drawn; a corrupted counter is wrong in one message.
func TestSecondPackAndCorruptedCounter(t *testing.T) {
	b := New(150e3, Fields{Current: true, Energy: true, Remaining: true})
	b.DrawPower(150, 100)
	if m := b.SecondPackStatus(100e6); m != nil {
		t.Errorf("a second pack that is not connected reports %+v", m)
	}
	b.SetSecondPack(true, 0.4)
	b.SecondPackStatus(100e6)
	b.DrawPower(150, 100)
	first, second := b.Status(200e6), b.SecondPackStatus(200e6)
	if first.Id != 0 || second.Id != 1 || first.EnergyConsumed != 150+90 || second.EnergyConsumed != 60 || b.Total().J() != 30_000 {
		t.Errorf("first %d of id %d, second %d of id %d, drawn %v", first.EnergyConsumed, first.Id, second.EnergyConsumed, second.Id,
			b.Total().J())
	}
	if p := float64(second.CurrentBattery) / 100 * float64(second.Voltages[0]) / 1000; math.Abs(p-60) > 1.5 {
		t.Errorf("the second pack delivers %v W of 60", p)
	}
	b.SetSecondPack(false, 0)
	for name, c := range map[string]struct {
		byJ  float64
		zero bool
		want int32
	}{"too much": {4000, false, 280}, "nothing": {0, true, 0}} {
		b.CorruptNextCounter(c.byJ, c.zero)
		if m, n := b.Status(200e6), b.Status(200e6); m.EnergyConsumed != c.want || n.EnergyConsumed != 240 {
			t.Errorf("%s: %d and then %d hJ", name, m.EnergyConsumed, n.EnergyConsumed)
		}
	}
}

// A sensor that reads too much reports more current and less charge; what is left, and
// the joules of the slots, stay true. A pack is left as its own sensor reads it.
func TestSensorGain(t *testing.T) {
	b := New(150e3, AllFields)
	b.SensorGain = 1.05
	b.DrawPower(1000, 30)
	if m := b.Status(30e6); m.EnergyConsumed != 315 || b.LeftJ() != 120e3 || b.Total().J() != 30e3 {
		t.Errorf("%d hJ counted of %v, %v left", m.EnergyConsumed, b.Total().J(), b.LeftJ())
	}
	if got := b.Charge(); math.Abs(got-0.79) > 1e-9 {
		t.Errorf("it reads %v of its charge, want 0.79", got)
	}
	b.SetReadsJ(30e3)
	if got := b.Charge(); math.Abs(got-0.2) > 1e-9 {
		t.Errorf("it reads %v, want 0.2", got)
	}
}

// A slow monitor has a new measurement every few seconds; a frozen one repeats its last,
// whatever is drawn, and goes on from the truth.
func TestSlowAndFrozenMonitor(t *testing.T) {
	slow := AllFields
	slow.EveryS = 5
	b := New(150e3, slow)
	var at []int64
	for us := int64(0); us <= 12e6; us += 250e3 {
		if b.Measures(us) {
			b.Status(us)
			at = append(at, us)
		}
		b.DrawPower(150, 0.25)
	}
	if !slices.Equal(at, []int64{0, 5e6, 10e6}) {
		t.Errorf("measures at %v us", at)
	}
	b = New(150e3, AllFields)
	b.DrawPower(150, 10)
	was := *b.Status(10e6)
	b.Freeze(true)
	b.DrawPower(300, 30)
	if m := b.Status(40e6); *m != was {
		t.Errorf("frozen, it reports %+v after %+v", *m, was)
	}
	b.Freeze(false)
	if m := b.Status(41e6); m.EnergyConsumed != 105 {
		t.Errorf("%d hJ afterwards, want 105", m.EnergyConsumed)
	}
}
