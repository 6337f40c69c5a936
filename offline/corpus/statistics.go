package corpus

import (
	"math"

	"prefdt/inference/model"
	"prefdt/inference/token"
)

// gatherStatistics gathers the standardisation of every kind of row over the first
// 300 flights of a corpus in its own world: random ones vary so much more that
// they would leave it little resolution.
func gatherStatistics(m *Manifest) (token.Statistics, error) {
	flights := 300
	identity := token.IdentityStatistics()
	r := NewExampleReader(m, &identity)
	var ex Example
	var rows [5]MomentSums
	for i := range m.Flights {
		if m.Flights[i].World > 0 {
			continue
		}
		if flights--; flights < 0 {
			break
		}
		if err := r.Read(&m.Flights[i], &ex); err != nil {
			return identity, err
		}
		rows[0].Add(ex.Aircraft, model.AircraftFeatures)
		rows[1].Add(ex.Pairs, model.PairFeatures)
		rows[2].Add(ex.State, model.StateFeatures)
		rows[3].Add(ex.Return, model.ReturnFeatures)
		rows[4].Add(ex.Action, model.ActionFeatures)
	}
	return token.Statistics{
		Aircraft: rows[0].Result(leastDeviation), Pair: rows[1].Result(leastDeviation), State: rows[2].Result(leastDeviation),
		Return: rows[3].Result(leastDeviation), Action: rows[4].Result(leastDeviation),
	}, nil
}

// leastDeviation of a feature of the shipped form.
const leastDeviation = 0.02

// MomentSums sums the features of rows, for their means and deviations.
type MomentSums struct {
	n            float64
	sum, squares []float64
}

// Add adds whole rows of a width.
func (m *MomentSums) Add(rows []float32, width int) {
	if m.sum == nil {
		m.sum, m.squares = make([]float64, width), make([]float64, width)
	}
	for i, x := range rows {
		m.sum[i%width] += float64(x)
		m.squares[i%width] += float64(x) * float64(x)
	}
	m.n += float64(len(rows) / max(width, 1))
}

// Result returns mean and deviation; a feature whose deviation is below the least hardly moves in the
// corpus and keeps its own unit, so that a small step outside it is not blown up.
func (m *MomentSums) Result(least float64) (r token.Moments) {
	for i := range m.sum {
		mean := m.sum[i] / m.n
		std := math.Sqrt(max(m.squares[i]/m.n-mean*mean, 0))
		if std < least {
			std = 1
		}
		r.Mean, r.Std = append(r.Mean, mean), append(r.Std, std)
	}
	return r
}
