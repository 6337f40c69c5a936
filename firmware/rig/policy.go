package rig

import (
	"time"

	"prefdt/inference/dispatch"
	"prefdt/inference/goal"
	"prefdt/inference/physics"
	"prefdt/inference/slot"
	"prefdt/inference/tracking"

	"prefdt/firmware/leader"
)

// Prior is who is imagined before anybody reported.
var Prior = dispatch.Crowd{Users: 4, CPUHz: 1e9, Task: physics.Task{Bits: 1e6, CyclesPerBit: 1000, DeadlineS: 0.9}}

// Scales are a calibration with round numbers.
func Scales() *goal.Scales {
	return &goal.Scales{
		EtaDelayS: 633, EtaEnergyJ: 11.6e3, Slots: 100, Aircraft: 2,
		Conditioner: goal.Conditioner{Omegas: []float64{0, 0.5, 1}, DelayS: []float64{90, 200, 700}, EnergyJ: []float64{39e3, 29e3, 27e3}},
		Remap:       goal.Remap{Omegas: []float64{0, 0.1, 0.4, 1}},
	}
}

// AtAllowance dispatches exactly at the price that spends the slot's allowance,
// and tracks the users: a scheduler without a network.
type AtAllowance struct {
	Physics physics.Constants

	solver   dispatch.Solver
	tracker  tracking.Tracker
	targets  []physics.Position
	envelope tracking.Envelope
}

func (p *AtAllowance) Decide(s *slot.Snapshot, o goal.Objective, d *slot.Decision) (seen goal.Seen) {
	d.Size(s)
	p.tracker.Observe(s.Users)
	low, high := 0.0, 3.0
	for range 20 {
		price := (low + high) / 2
		p.solver.Solve(&p.Physics, s, price, d)
		sum := 0.0
		for _, j := range d.EdgeJ {
			sum += j
		}
		if sum > o.AllowanceJ() {
			low = price
		} else {
			high = price
		}
	}
	p.targets = p.tracker.Targets(&p.Physics, s.Aircraft, p.targets)
	var positions []physics.Position
	for m := range s.Aircraft {
		positions = append(positions, s.Aircraft[m].Position)
		d.Move[m] = tracking.Move(s.Aircraft[m].Position, p.targets[m], 8.4, 8.4)
	}
	p.envelope.Limit(positions, d.Move, tracking.Limits{SpeedMaxMPS: p.Physics.SpeedMaxMPS, SeparationM: p.Physics.SeparationM, AreaM: p.Physics.AreaM})
	return seen
}

// hindered is a scheduler that a test may slow down or lead elsewhere.
type hindered struct {
	leader.Scheduler
	rig *Rig
}

func (h hindered) Decide(s *slot.Snapshot, o goal.Objective, d *slot.Decision) goal.Seen {
	now := h.rig.Clock
	if d := h.rig.slow.Swap(0); d > 0 {
		<-now.After(time.Duration(d))
	}
	for d, began := time.Duration(h.rig.burn.Swap(0)), now.Now(); now.Now()-began < d; {
	}
	seen := h.Scheduler.Decide(s, o, d)
	if h.rig.Steer != nil {
		h.rig.Steer(s, d)
	}
	return seen
}

// Burn has the next decision compute for so long.
func (r *Rig) Burn(d time.Duration) { r.burn.Store(int64(d)) }

// Stall has the next decision take so many slots.
func (r *Rig) Stall(slots float64) { r.slow.Store(int64(r.Config.Wall(slots))) }
