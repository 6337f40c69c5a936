package pareto

import "prefdt/simbridge/world"

// References returns the hypervolume's reference points in a world. In the
// standard one they are Reference and TightReference, in joules for the size of
// the fleet. These mean nothing in another world: there they are a fifth and a
// fiftieth beyond both ends of a teacher's front, which is in order of delay.
func References(c *world.Config, front []Point) (wide, tight Point) {
	standard := world.Standard()
	if c.Slots == standard.Slots && c.Trace == nil && c.SameConstants(standard) {
		wide, tight = Reference, TightReference
		wide.EnergyJ *= float64(c.Aircraft) / float64(standard.Aircraft)
		tight.EnergyJ *= float64(c.Aircraft) / float64(standard.Aircraft)
		return wide, tight
	}
	return Beyond(front, 0.2), Beyond(front, 0.02)
}

// Beyond returns the reference point that far beyond both ends of a front, as a
// fraction of their costs.
func Beyond(front []Point, fraction float64) Point {
	return Point{DelayS: (1 + fraction) * front[len(front)-1].DelayS, EnergyJ: (1 + fraction) * front[0].EnergyJ}
}
