// Package schedule numbers a mission's slots by time: when each begins, which one is
// open, how many were missed. A number is used once, also over a restart of the
// leader: then the autopilots' clocks, which ran on, show how much time passed.
//
// Inputs: the leader's clock, and the autopilots' times since boot. Outputs: the number
// and start of the next slot. Called by the leader's loop: before a slot, to open it,
// and after its settlement, to record the autopilots' times.
package schedule

import (
	"math"
	"time"
)

// ClockReference ties a slot's start to one autopilot's clock.
type ClockReference struct {
	BootMS    float64 `json:"boot_ms"`     // the autopilot's time since boot when the slot began; 0: never received
	MSPerSlot float64 `json:"ms_per_slot"` // its advance in a slot
}

// ClockReading is one autopilot's clock now.
type ClockReading struct {
	Fresh     bool // received lately
	BootMS    float64
	MSPerSlot float64
}

// State is what a restart needs.
type State struct {
	Next       int              `json:"next"` // the slot that may be open; never opened again
	Missed     int              `json:"missed"`
	References []ClockReference `json:"clocks"` // by aircraft, when slot Next began
}

// Schedule is the slots of one mission. Set the exported fields first.
type Schedule struct {
	Slots        int
	SlotDuration time.Duration // wall time of one
	DecideBy     time.Duration // the decision's deadline after a slot's start: later it is too late to open it

	Missed int

	current    int           // the slot open or to be opened next
	epoch      time.Duration // when slot 0 began
	references []ClockReference
}

// Begin sets the start of slot 0.
func (s *Schedule) Begin(now time.Duration) { s.current, s.epoch, s.Missed = 0, now, 0 }

// Current is the slot open or to be opened next.
func (s *Schedule) Current() int { return s.current }

// StartOf is when a slot begins.
func (s *Schedule) StartOf(n int) time.Duration { return s.epoch + time.Duration(n)*s.SlotDuration }

// Over is whether no slot is left to open.
func (s *Schedule) Over() bool { return s.current >= s.Slots }

// Advance selects the slot after n and returns it: n+1 or, if the rest of that one is
// too short to report and decide in, a later one.
func (s *Schedule) Advance(n int, now time.Duration) int {
	late, slack := now-s.StartOf(n+1), s.SlotDuration-s.DecideBy
	s.current = n + 1
	if late > slack {
		s.current += int((late-slack-1)/s.SlotDuration) + 1
	}
	s.current = min(s.current, s.Slots)
	return s.current
}

// End leaves no slot to open.
func (s *Schedule) End() { s.current = s.Slots }

// SetReferences records the autopilots' times at the start of the current slot, or at
// a moment outside the slots: sinceSlots is how many slots ago that was.
func (s *Schedule) SetReferences(readings []ClockReading, sinceSlots float64) {
	if len(s.references) != len(readings) {
		s.references = make([]ClockReference, len(readings))
	}
	for i, r := range readings {
		if r.BootMS > 0 {
			s.references[i] = ClockReference{r.BootMS - sinceSlots*r.MSPerSlot, r.MSPerSlot}
		}
	}
}

// State returns what a restart needs.
func (s *Schedule) State() State {
	return State{Next: s.current, Missed: s.Missed, References: append([]ClockReference(nil), s.references...)}
}

// Restore continues a mission; Resume numbers its slots once the clocks are known.
func (s *Schedule) Restore(st State) {
	s.current, s.Missed, s.references = st.Next, st.Missed, st.References
}

// Rebooted is whether an autopilot's clock was reset since the reference.
func (s *Schedule) Rebooted(i int, r ClockReading) bool {
	return i < len(s.references) && s.references[i].MSPerSlot > 0 && r.BootMS < s.references[i].BootMS
}

// ElapsedSlots is how many slots passed since slot Next began: the most by any
// autopilot that was not rebooted meanwhile. A reboot that Rebooted cannot tell,
// because the clock has passed the reference again, shows too few.
func (s *Schedule) ElapsedSlots(readings []ClockReading) (slots float64, known bool) {
	slots = math.NaN()
	for i, r := range readings {
		if i >= len(s.references) || !r.Fresh || s.references[i].MSPerSlot <= 0 || s.Rebooted(i, r) {
			continue
		}
		if e := (r.BootMS - s.references[i].BootMS) / s.references[i].MSPerSlot; !known || e > slots {
			slots, known = e, true
		}
	}
	return slots, known
}

// Resume continues after a restart, elapsed slots after the start of the slot that
// may have been open, which is not opened again.
func (s *Schedule) Resume(now time.Duration, elapsed float64) {
	was := s.current
	s.epoch = now - time.Duration((float64(was)+elapsed)*float64(s.SlotDuration))
	s.Advance(was, now)
}
