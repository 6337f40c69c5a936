package motion

import (
	"prefdt/inference/physics"
	"prefdt/inference/slot"
)

// StayNearHome turns the moves of aircraft that would end farther from home than their orders
// allow towards home, at the speed given, v*: with n slots left no aircraft is farther than
// n v* from home, so that it is there when it leaves.
func StayNearHome(s *slot.Snapshot, moves []physics.Position, bestMPS float64) {
	for m := range s.Aircraft {
		a := &s.Aircraft[m]
		way := a.Order.Home.Sub(a.Position)
		distanceM := way.Norm()
		if a.Order.LimitsHome && way.Sub(moves[m]).Norm() > a.Order.HomeLimitM {
			moves[m] = way.Scale(min(bestMPS/distanceM, 1))
		}
	}
}

// BestSpeedMPS is v*, the speed of least flight power, as of the last call of Targets.
func (p *Planner) BestSpeedMPS() float64 { return p.bestSpeedMPS }
