package pareto

import (
	"fmt"
	"io"
	"math"
	"text/tabwriter"
)

// Metrics are the paper's, by seed: each is of the front that a sweep's outcomes make on one seed.
type Metrics struct {
	Hypervolumes []float64 // in s J
	Tight        []float64 // the same to the tight reference point
	Fidelities   []float64 // none where nothing is requested
	Reaches      []float64 // s
	Corners      []float64 // s
	Settings     int
	Distinct     int // settings whose mean outcomes make a front
}

// Measure measures a sweep, whose hypervolumes have these reference points. The settings are what was requested; nil: nothing.
func Measure(settings []float64, outcomes [][]Point, wide, tight Point) *Metrics {
	m := &Metrics{
		Hypervolumes: Hypervolumes(outcomes, wide), Tight: Hypervolumes(outcomes, tight), Reaches: BySeed(outcomes, ReachS),
		Corners: BySeed(outcomes, CornerS), Settings: len(outcomes), Distinct: len(NonDominated(MeanPoints(outcomes))),
	}
	if settings != nil {
		m.Fidelities = Fidelities(settings, outcomes)
	}
	return m
}

// Mean is the mean over seeds, NaN of none.
func Mean(x []float64) float64 {
	if len(x) == 0 {
		return math.NaN()
	}
	return Summarise(x).Mean
}

// MeanPoints returns the mean outcome over seeds of each setting of a sweep.
func MeanPoints(outcomes [][]Point) []Point {
	means := make([]Point, len(outcomes))
	for k, row := range outcomes {
		for _, p := range row {
			means[k].DelayS += p.DelayS / float64(len(row))
			means[k].EnergyJ += p.EnergyJ / float64(len(row))
		}
	}
	return means
}

// SeedPoints returns one seed's outcomes at every setting of a sweep.
func SeedPoints(outcomes [][]Point, seed int) []Point {
	points := make([]Point, len(outcomes))
	for k := range outcomes {
		points[k] = outcomes[k][seed]
	}
	return points
}

// Summaries are metrics over the seeds.
type Summaries struct {
	Hypervolume      Summary `json:"hypervolume"`
	HypervolumeTight Summary `json:"hypervolume_tight"`
	CornerS          Summary `json:"corner_s"`
	ReachS           Summary `json:"reach_s"`
}

// Summarise takes them over the seeds.
func (m *Metrics) Summarise() Summaries {
	return Summaries{Summarise(m.Hypervolumes), Summarise(m.Tight), Summarise(m.Corners), Summarise(m.Reaches)}
}

// Write writes them as a table with one more row, and lines of its three columns after it.
func (s *Summaries) Write(w io.Writer, name string, last Summary, after string) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(table, "\tmean\tstd\t\n")
	for _, row := range []struct {
		name  string
		scale float64
		Summary
	}{
		{"hypervolume, 1e6 s J", 1e-6, s.Hypervolume}, {"tight, 1e6 s J", 1e-6, s.HypervolumeTight},
		{"corner, s", 1, s.CornerS}, {"reach, s", 1, s.ReachS}, {name, 1, last},
	} {
		fmt.Fprintf(table, "%s\t%.5g\t%.3g\t\n", row.name, row.Mean*row.scale, row.Std*row.scale)
	}
	fmt.Fprint(table, after)
	return table.Flush()
}
