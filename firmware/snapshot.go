package main

import (
	"cmp"
	"math"
	"slices"

	"prefdt/firmware/envelope"
	"prefdt/firmware/fleet"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
	"prefdt/telemetry"
)

func limits(c *Config, p *physics.Constants) envelope.Limits {
	return envelope.Limits{
		SpeedMaxMPS: min(c.Flight.SpeedMaxMPS, p.SpeedMaxMPS), SeparationM: p.SeparationM + separationMarginM, AreaM: p.AreaM,
		AltitudeM: p.AltitudeM, BandM: 20, FenceM: 15,
	}
}

// separationMarginM covers what two aircraft move while a measured position is
// on its way: a tenth of a second at twice v*.
const separationMarginM = 2

// see fills the snapshot: the users heard with a task, and the aircraft that
// fly for us. Users are not sent to any other.
func (l *Leader) see(n int) {
	s := &l.snapshot
	s.Slot, s.Slots = n, l.Config.Slots
	s.Aircraft, s.Users = l.serving(s.Aircraft[:0]), s.Users[:0]
	for i := range l.users.late {
		s.Users = append(s.Users, l.userOf(&l.users.late[i]))
	}
	l.forecast.Hear(s.Users) // their tasks are gone, and like these more will come
	s.Users, l.users.late = s.Users[:0], l.users.late[:0]
	slices.SortFunc(l.users.heard, func(a, b *user) int { return cmp.Compare(a.id, b.id) })
	for _, u := range l.users.heard {
		if u.report.Task == nil {
			continue
		}
		s.Users = append(s.Users, l.userOf(u))
	}
	l.forecast.Hear(s.Users)
	l.forecast.Expect(s)
}

// serving appends the aircraft that fly for us.
func (l *Leader) serving(dst []slot.Aircraft) []slot.Aircraft {
	for i := range l.views {
		v := &l.views[i]
		if !v.Flying || v.Order != fleet.OrderFly {
			continue
		}
		dst = append(dst, slot.Aircraft{
			Number: v.Number, Position: v.Position, SpeedMPS: v.SpeedMPS,
			ResidualJ: l.residualJ(i), CPUHz: l.Physics.EdgeCPUHz, Served: l.craft[i].served,
		})
	}
	return dst
}

// userOf is a report as the policy sees it; a gain that was not reported is
// the closed-form mean at that distance.
func (l *Leader) userOf(u *user) slot.User {
	r := &u.report
	out := slot.User{
		ID: u.id, Position: physics.Position{EastM: r.PositionM[0], NorthM: r.PositionM[1]},
		Task:      physics.Task{Bits: r.Task.Bits, CyclesPerBit: r.Task.CyclesPerBit, DeadlineS: r.Task.DeadlineS},
		QueueBits: r.QueueBits, CPUHz: r.CPUHz,
	}
	for i := range l.snapshot.Aircraft {
		a := &l.snapshot.Aircraft[i]
		gain, ok := r.Gain[a.Number]
		if !ok {
			gain = l.Physics.Channel.MeanGain(out.Position.Sub(a.Position).Norm(), l.Physics.AltitudeM)
		}
		out.Gain = append(out.Gain, gain)
	}
	return out
}

// tell publishes the decisions, one to each user with a task.
func (l *Leader) tell(n int) {
	i := 0
	for _, u := range l.users.heard {
		if u.report.Task == nil {
			continue
		}
		d := &l.decision.Users[i]
		i++
		out := telemetry.Decision{Slot: n}
		if d.Server > 0 && d.Offload > 0 && d.CPUHz > 0 && !math.IsNaN(d.Offload) {
			out.Aircraft = l.snapshot.Aircraft[d.Server-1].Number
			out.Offload, out.CPUHz = min(d.Offload, 1), d.CPUHz
		}
		publish(l.broker, l.broker.topics.Decision(u.name), 1, false, out)
	}
	for m := range l.snapshot.Aircraft {
		l.craft[l.snapshot.Aircraft[m].Number-1].served = l.decision.Served(m + 1)
	}
}
