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
// neither serves nor spends in slots any more, unless it is called back on its way.
func (w *World) Leave(m int) {
	a := &w.Aircraft[m]
	a.Lost, a.Left, a.WayJ = true, true, 0
}

// OnItsWay is whether aircraft m left and is not above its start yet.
func (w *World) OnItsWay(m int) bool {
	return w.Aircraft[m].Left && w.Aircraft[m].Position != w.Config.Start(m)
}

// CallBack has aircraft m, on its way home, serve from the present slot on.
func (w *World) CallBack(m int) { w.Aircraft[m].Lost, w.Aircraft[m].Left = false, false }

// flyHome flies a slot of the way home of aircraft m, at v*.
func (w *World) flyHome(m int) {
	a, way := &w.Aircraft[m], w.Config.Start(m).Sub(w.Aircraft[m].Position)
	if distanceM := way.Norm(); distanceM <= w.bestSpeedMPS {
		a.Position = w.Config.Start(m)
	} else {
		way = way.Scale(w.bestSpeedMPS / distanceM)
		a.Position = a.Position.Add(way)
	}
	a.WayJ += w.scenario.FlightPowerW(w.Slot, m, way)
}

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
