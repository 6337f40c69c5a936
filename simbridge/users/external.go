package users

import (
	"prefdt/inference/physics"
	"prefdt/telemetry"
)

// The methods of this file are for users that are processes of their own (Config.External):
// the simulator says what they have to compute and what their channel is, and counts.

// Task is a user's task in a slot; without bits it has none.
func (s *Simulator) Task(slot, user int) physics.Task {
	task, _ := s.task(slot, user)
	return task
}

// Upload is the gain at which a user's upload to aircraft m, from 0, runs in a slot.
func (s *Simulator) Upload(slot, user, m int) float64 {
	u := s.users[user]
	u.mutex.Lock()
	defer u.mutex.Unlock()
	u.position = s.truth.UserPosition(slot, user)
	_, upload := s.truth.Gain(slot, user, m, s.Position(m).Sub(u.position))
	return upload
}

// Finish counts a task that a user has computed, a part of it on aircraft m, from 0; below 0:
// on none.
func (s *Simulator) Finish(slot, user int, by string, m int, offload, cpuHz, completionS float64) {
	task, _ := s.task(slot, user)
	if task.Bits == 0 {
		return
	}
	u := s.users[user]
	u.mutex.Lock()
	defer u.mutex.Unlock()
	if u.opened[slot] {
		return
	}
	u.opened[slot] = true
	s.countReport(slot, user, true)
	if m < 0 {
		offload = 0
	} else {
		s.AddEdgeJ(m, slot, s.World.Physics.EdgeJ(task, physics.Share{CPUHz: cpuHz}, offload))
	}
	if by != telemetry.ByDecision && m < 0 {
		by = telemetry.ByLocal
	}
	u.record(slot, task, by, completionS, m+1, offload*task.Bits)
}
