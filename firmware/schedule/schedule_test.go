package schedule

import (
	"testing"
	"time"
)

func atSlot(open int, clocks ...ClockReference) *Schedule {
	s := &Schedule{Slots: 100, SlotDuration: time.Second, DecideBy: 450 * time.Millisecond}
	s.Begin(0)
	s.Advance(open-1, s.StartOf(open))
	s.references = clocks
	return s
}

func TestAdvance(t *testing.T) {
	for _, c := range []struct {
		late float64 // seconds after the start of slot 8
		want int
	}{{-0.9, 8}, {0, 8}, {0.55, 8}, {0.56, 9}, {1.55, 9}, {1.56, 10}, {500, 100}} {
		s := atSlot(7)
		if got := s.Advance(7, s.StartOf(8)+time.Duration(c.late*1e9)); got != c.want {
			t.Errorf("%v s late: slot %d, want %d", c.late, got, c.want)
		}
	}
}

// TestRestartUsesTheLargestElapsedTime: no slot is flown twice when the first autopilot
// rebooted while the leader was down, and has since run for longer than its time at
// the last reference.
func TestRestartUsesTheLargestElapsedTime(t *testing.T) {
	for _, c := range []struct {
		name    string
		first   ClockReading
		elapsed float64
	}{
		{"both ran on", ClockReading{true, 45e3, 1000}, 40},
		{"the first rebooted", ClockReading{true, 2e3, 1000}, 40},
		{"the first rebooted long ago", ClockReading{true, 17e3, 1000}, 40},
		{"the first is not received", ClockReading{false, 45e3, 1000}, 40},
	} {
		s := atSlot(20, ClockReference{5e3, 1000}, ClockReference{60e3, 990})
		got, known := s.ElapsedSlots([]ClockReading{c.first, {true, 60e3 + 40*990, 990}})
		if !known || got < c.elapsed-0.01 || got > c.elapsed+0.01 {
			t.Errorf("%s: %v slots, %v", c.name, got, known)
		}
		s.Resume(1000*time.Second, got)
		if s.Current() != 60 && s.Current() != 61 {
			t.Errorf("%s: slot %d", c.name, s.Current())
		}
		if start := s.StartOf(60); start < 999999*time.Millisecond || start > 1000001*time.Millisecond {
			t.Errorf("%s: slot 60 began at %v", c.name, start)
		}
	}
}

func TestNoClockKnown(t *testing.T) {
	s := atSlot(20, ClockReference{5e3, 1000})
	if _, known := s.ElapsedSlots([]ClockReading{{true, 1e3, 1000}}); known {
		t.Error("a rebooted autopilot's clock was taken")
	}
}

// TestNoSlotIsOpenedTwice restarts at once, within the slot that was open.
func TestNoSlotIsOpenedTwice(t *testing.T) {
	s := atSlot(20, ClockReference{5e3, 1000})
	s.Resume(50*time.Second, 0.1)
	if s.Current() != 21 {
		t.Error(s.Current())
	}
}
