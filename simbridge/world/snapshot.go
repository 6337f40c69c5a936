package world

import (
	"slices"

	"prefdt/inference/physics"
	"prefdt/inference/slot"
)

// Snapshot fills s with the present slot as a scheduler may know it. Lost
// aircraft are left out, so that an index into s.Aircraft is not an aircraft's
// number less one: Number has it. Gains stay as they are until the next but one Step.
func (w *World) Snapshot(s *slot.Snapshot) {
	s.Slot, s.Slots = w.Slot, w.Config.Slots
	s.Aircraft = s.Aircraft[:0]
	for m := range w.Aircraft {
		a := &w.Aircraft[m]
		if a.Lost {
			continue
		}
		s.Aircraft = append(s.Aircraft, slot.Aircraft{
			Number: m + 1, Position: a.Position, SpeedMPS: a.SpeedMPS,
			RemainingJ: w.Config.Physics.BatteryCapacityJ - a.SpentJ,
			CPUHz:      w.Config.Physics.EdgeCPUHz, ServedLastSlot: a.Served,
			Flown: a.Flown,
		})
	}
	s.Users = w.appendUsers(s.Users[:0], w.Arrivals)
	s.IdleUsers = w.appendUsers(s.IdleUsers[:0], w.Idle)
	s.Results = append(s.Results[:0], w.results...)
}

func (w *World) appendUsers(dst []slot.User, arrivals []Arrival) []slot.User {
	for i := range arrivals {
		a := &arrivals[i]
		dst = append(dst, slot.User{
			ID: a.User, Position: w.Users[a.User], Task: a.Task,
			CPUHz: w.scenario.ReportedCPUHz(a.User), Gain: w.inTheAir(a.Gain),
		})
	}
	return dst
}

// UsersAhead appends the users with a task of a slot to come, the mission's last at most, as they
// will report, at gains to the aircraft where they are now. No scheduler can know them; it shows
// what those lose that decide on another slot's.
func (w *World) UsersAhead(slots int, dst []slot.User) []slot.User {
	at := min(w.Slot+slots, w.Config.Slots-1)
	for _, a := range w.scenario.Active(at, nil) {
		if a.Task.Bits == 0 {
			continue
		}
		position := w.scenario.UserPosition(at, a.User)
		for m := range w.Aircraft {
			gain, _ := w.scenario.Gain(at, a.User, m, w.Aircraft[m].Position.Sub(position))
			a.Gain = append(a.Gain, gain)
		}
		dst = append(dst, slot.User{ID: a.User, Position: position, Task: a.Task, CPUHz: w.scenario.ReportedCPUHz(a.User),
			Gain: w.inTheAir(a.Gain)})
	}
	return dst
}

// inTheAir returns the gains to the aircraft that are not lost.
func (w *World) inTheAir(gains []float64) []float64 {
	if !slices.ContainsFunc(w.Aircraft, func(a Aircraft) bool { return a.Lost }) {
		return gains
	}
	kept := make([]float64, 0, len(gains))
	for m, gain := range gains {
		if !w.Aircraft[m].Lost {
			kept = append(kept, gain)
		}
	}
	return kept
}

// Hidden is the present truth that no report shows. It is for schedulers that are
// privileged to know it and for the labels of training: nothing that flies may read it.
type Hidden struct {
	WindMPS     physics.Position // velocity of the air over the ground in this slot, turbulence included
	PowerFactor float64          // flight power over eq. (prop) at the air speed, the slot's noise excluded
	UploadGain  [][]float64      // that uploads of this slot run at, in the order of the snapshot's users and aircraft
	Throttled   []bool           // by user
	CPUHz       []float64        // true, by user
}

// Hidden fills h with the truth of the present slot. The gains' memory is the world's,
// as that of Snapshot's.
func (w *World) Hidden(h *Hidden) {
	h.WindMPS, h.PowerFactor = w.scenario.WindMPS(w.Slot), w.scenario.PowerFactor(w.Slot)
	h.UploadGain, h.Throttled, h.CPUHz = h.UploadGain[:0], h.Throttled[:0], h.CPUHz[:0]
	for i := range w.Arrivals {
		h.UploadGain = append(h.UploadGain, w.inTheAir(w.Arrivals[i].Upload))
	}
	for u := range w.Users {
		h.Throttled = append(h.Throttled, w.scenario.Throttled(w.Slot, u))
		h.CPUHz = append(h.CPUHz, w.scenario.CPUHz(w.Slot, u))
	}
}

// FillAction turns the decision on a snapshot into an action of the present slot. A
// snapshot may be an earlier one, or lack users; a user without a decision
// computes locally. Its users are in order of ID.
func (w *World) FillAction(s *slot.Snapshot, d *slot.Decision, a *Action) {
	a.Server = append(a.Server[:0], make([]int, len(w.Arrivals))...)
	a.Offload = append(a.Offload[:0], make([]float64, len(w.Arrivals))...)
	a.Move = append(a.Move[:0], make([]physics.Position, len(w.Aircraft))...)
	for m := range s.Aircraft {
		a.Move[s.Aircraft[m].Number-1] = d.Move[m]
	}
	next := 0
	for i := range w.Arrivals {
		for next < len(s.Users) && s.Users[next].ID < w.Arrivals[i].User {
			next++
		}
		if next == len(s.Users) || s.Users[next].ID != w.Arrivals[i].User {
			continue
		}
		if server := d.Users[next].Server; server > 0 {
			a.Server[i], a.Offload[i] = s.Aircraft[server-1].Number, d.Users[next].Offload
		}
	}
}
