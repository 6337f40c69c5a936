package rollout

import "prefdt/offline/pareto"

// Outcomes returns the delay and energy of every flight of a sweep.
func Outcomes(results [][]Result) [][]pareto.Point {
	outcomes := make([][]pareto.Point, len(results))
	for i, row := range results {
		outcomes[i] = make([]pareto.Point, len(row))
		for s, x := range row {
			outcomes[i][s] = x.Point
		}
	}
	return outcomes
}
