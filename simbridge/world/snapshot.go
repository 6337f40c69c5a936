package world

import (
	"prefdt/inference/physics"
	"prefdt/inference/slot"
)

// Snapshot fills s with the present slot as a scheduler may know it. Lost
// aircraft are left out, so that an index into s.Aircraft is not an aircraft's
// number less one: Number has it.
func (w *World) Snapshot(s *slot.Snapshot) {
	s.Slot, s.Slots = w.Slot, w.Config.Slots
	s.Aircraft, s.Users = s.Aircraft[:0], s.Users[:0]
	for m := range w.Aircraft {
		a := &w.Aircraft[m]
		if a.Lost {
			continue
		}
		s.Aircraft = append(s.Aircraft, slot.Aircraft{
			Number: m + 1, Position: a.Position, SpeedMPS: a.SpeedMPS,
			RemainingJ: w.Config.Physics.BatteryCapacityJ - a.SpentJ,
			CPUHz:      w.Config.Physics.EdgeCPUHz, ServedLastSlot: a.Served,
		})
	}
	for i := range w.Arrivals {
		arrival := &w.Arrivals[i]
		gain := arrival.Gain
		if len(s.Aircraft) < len(w.Aircraft) {
			gain = make([]float64, 0, len(s.Aircraft))
			for _, a := range s.Aircraft {
				gain = append(gain, arrival.Gain[a.Number-1])
			}
		}
		s.Users = append(s.Users, slot.User{
			ID: arrival.User, Position: w.Users[arrival.User], Task: arrival.Task,
			CPUHz: w.Config.UserCPUHz, Gain: gain,
		})
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

// ReportLost draws whether a user's report of a slot is lost, at a loss rate.
func (c *Config) ReportLost(seed uint64, slot, user int, rate float64) bool {
	d := newStream(seed, purposeReport, slot, user, 0)
	return d.uniform() < rate
}
