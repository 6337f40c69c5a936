package experiment

import (
	"math"

	"prefdt/offline/pareto"
	"prefdt/offline/teacher"
)

// Metrics are a sweep's, by seed.
type Metrics struct {
	Hypervolumes []float64 // in s J
	Tight        []float64 // the same to the tight reference point
	Fidelities   []float64
	Reaches      []float64 // s
	Settings     int
	Distinct     int // settings whose mean outcomes make a front
}

// Measure measures a sweep, whose hypervolumes have these reference points.
func (x *Sweep) Measure(wide, tight pareto.Point) *Metrics {
	return &Metrics{
		Hypervolumes: pareto.Hypervolumes(x.Outcomes, wide), Tight: pareto.Hypervolumes(x.Outcomes, tight),
		Fidelities: pareto.Fidelities(x.Settings, x.Outcomes), Reaches: pareto.BySeed(x.Outcomes, pareto.ReachS),
		Settings: len(x.Settings), Distinct: len(pareto.NonDominated(teacher.MeanPoints(x.Outcomes))),
	}
}

// Mean is the mean over seeds, NaN of none.
func Mean(x []float64) float64 {
	if len(x) == 0 {
		return math.NaN()
	}
	return pareto.Summarise(x).Mean
}
