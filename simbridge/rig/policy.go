package rig

import (
	"time"

	"prefdt/inference/dispatch"
	"prefdt/inference/goal"
	"prefdt/inference/motion"
	"prefdt/inference/physics"
	"prefdt/inference/slot"

	"prefdt/firmware/leader"
)

// UserPrior describes the users that the policy assumes before any report.
var UserPrior = dispatch.UserPrior{ActiveUsers: 4, CPUHz: 1e9, TaskMean: physics.Task{Bits: 1e6, CyclesPerBit: 1000, DeadlineS: 0.9}}

// Scales are a calibration with round numbers.
func Scales() *goal.Constants {
	return &goal.Constants{
		EtaDelayS: 633, EtaEnergyJ: 11.6e3, Slots: 100, AircraftCount: 2,
		Conditioner: goal.Conditioner{Omegas: []float64{0, 0.5, 1}, DelayS: []float64{90, 200, 700}, EnergyJ: []float64{39e3, 29e3, 27e3}},
		SettingMap:  goal.SettingMap{Omegas: []float64{0, 0.1, 0.4, 1}},
	}
}

// AllowanceScheduler dispatches exactly at the price that spends the slot's allowance,
// and tracks the users: a scheduler without a network.
type AllowanceScheduler struct {
	Physics physics.Constants

	solver   dispatch.Solver
	tracker  motion.Planner
	targets  []physics.Position
	envelope motion.Limiter
}

func (p *AllowanceScheduler) Decide(s *slot.Snapshot, o goal.Objective, d *slot.Decision) (observation goal.Observation) {
	d.Resize(s)
	p.tracker.Observe(s.Users)
	low, high := 0.0, 3.0
	for range 20 {
		price := (low + high) / 2
		p.solver.Solve(&p.Physics, s, price, d)
		if d.TotalEdgeJ() > o.AllowanceJ() {
			low = price
		} else {
			high = price
		}
	}
	p.targets = p.tracker.Targets(&p.Physics, s.Aircraft, p.targets)
	var positions []physics.Position
	for m := range s.Aircraft {
		positions = append(positions, s.Aircraft[m].Position)
		d.Move[m] = motion.MoveToward(s.Aircraft[m].Position, p.targets[m], 8.4, 8.4)
	}
	p.envelope.Limit(positions, d.Move, motion.LimitsOf(&p.Physics))
	return observation
}

// slowedScheduler is a scheduler that a test may slow down or override.
type slowedScheduler struct {
	leader.Scheduler
	rig *Rig
}

func (h slowedScheduler) Decide(s *slot.Snapshot, o goal.Objective, d *slot.Decision) goal.Observation {
	time.Sleep(time.Duration(h.rig.delayNS.Swap(0)))
	observation := h.Scheduler.Decide(s, o, d)
	if h.rig.OverrideDecision != nil {
		h.rig.OverrideDecision(s, d)
	}
	return observation
}

// DelayNextDecision makes the next decision take so many slots.
func (r *Rig) DelayNextDecision(slots float64) { r.delayNS.Store(int64(r.Config.WallTime(slots))) }
