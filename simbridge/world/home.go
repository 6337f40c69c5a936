package world

import (
	"math"

	"prefdt/inference/physics"
)

// An aircraft takes so long to climb to the altitude of the mission, and from there to its
// touchdown, measured in the loop with PX4: at hover, 6.7 and 12.9 kJ in calm air.
const (
	ClimbS   = 40.0
	DescentS = 76.3
)

// Leave has aircraft m, from 0, leave for home before the decision of the present slot: it
// neither serves nor spends in slots any more.
func (w *World) Leave(m int) { w.Aircraft[m].Lost, w.Aircraft[m].Left = true, true }

// ClimbJ returns what aircraft m took to climb, before slot 0.
func (w *World) ClimbJ(m int) float64 {
	return ClimbS * w.scenario.FlightPowerW(0, m, physics.Position{})
}

// TouchdownJ returns what aircraft m takes from where it is, from the present slot on, to its
// touchdown where it started: the way home, straight at a speed over ground, and the descent. The
// wind, and what multiplies flight power, are those of the seconds that it takes; after the last
// slot they stay.
func (w *World) TouchdownJ(m int, speedMPS float64) (joules float64) {
	way := w.Config.Start(m).Sub(w.Aircraft[m].Position)
	distanceM, at := way.Norm(), w.Slot
	for distanceM > 0 {
		stepM := min(speedMPS, distanceM)
		joules += stepM / speedMPS * w.scenario.FlightPowerW(at, m, way.Scale(speedMPS/way.Norm()))
		distanceM -= stepM
		at++
	}
	for leftS := DescentS; leftS > 0; leftS-- {
		joules += math.Min(leftS, 1) * w.scenario.FlightPowerW(at, m, physics.Position{})
		at++
	}
	return joules
}
