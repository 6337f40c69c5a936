package evaluate

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/stat"

	"prefdt/inference/checkpoint"
	"prefdt/inference/goal"
	"prefdt/offline/rollout"
	"prefdt/simbridge/world"
)

// Budget is how a total in joules was held, over all seeds.
type Budget struct {
	Perturbation string    `json:"perturbation"`
	Mode         goal.Mode `json:"mode"`
	BudgetJ      float64   `json:"budget_j"`
	// Errors are relative to max(budget, least total possible without
	// foreseeing the shock).
	Error         float64 `json:"error"`          // mean, signed
	AbsError      float64 `json:"abs_error"`      // mean
	ViolationRate float64 `json:"violation_rate"` // flights more than 1e-6 above
	Saturated     float64 `json:"saturated_rate"` // flights whose floor is above the budget
	// Gain is dE/dB over the budgets of this perturbation and mode.
	Gain float64 `json:"gain"`
}

// perturbation is a change of physics and the budgets asked for under it.
type perturbation struct {
	name    string
	set     func(*world.Config)
	budgets []float64
}

var perturbations = []perturbation{
	{"none", func(*world.Config) {}, []float64{27.5e3, 29e3, 31e3, 33e3, 35e3, 36.5e3, 38e3}},
	{"x1.5 from slot 50", shock(50, 1.5), []float64{36e3, 38e3, 39.5e3, 40.5e3, 42e3, 44e3}},
	{"x1.25 from slot 50", shock(50, 1.25), []float64{34e3, 37e3, 40e3}},
	{"x0.8 from slot 50", shock(50, 0.8), []float64{27e3, 30e3, 33e3}},
	{"gust 5 %", func(c *world.Config) { c.Gust = 0.05 }, []float64{29e3, 33e3, 36.5e3}},
	{"gust 15 %", func(c *world.Config) { c.Gust = 0.15 }, []float64{29e3, 33e3, 36.5e3}},
}

func shock(from int, factor float64) func(*world.Config) {
	return func(c *world.Config) { c.Shock = world.Shock{FromSlot: from, Factor: factor} }
}

// Budgets measures every perturbation, as targets and as ceilings.
func Budgets(ck *checkpoint.Checkpoint, c Config) ([]Budget, error) {
	var rows []Budget
	for _, p := range perturbations {
		at := c
		p.set(&at.World)
		for _, mode := range []goal.Mode{goal.Target, goal.Ceiling} {
			var requests []rollout.Request
			for _, j := range p.budgets {
				requests = append(requests, rollout.Request{Mode: mode, BudgetJ: j})
			}
			results, err := sweep(ck, at, requests, fmt.Sprintf("%s budgets, %s", mode, p.name))
			if err != nil {
				return nil, err
			}
			first := len(rows)
			var spent []float64
			for i, j := range p.budgets {
				row := Budget{Perturbation: p.name, Mode: mode, BudgetJ: j}
				mean := 0.0
				n := float64(len(results[i]))
				for _, x := range results[i] {
					e := x.EnergyJ/max(j, x.FloorJ) - 1
					row.Error += e / n
					row.AbsError += math.Abs(e) / n
					if e > 1e-6 {
						row.ViolationRate += 1 / n
					}
					if x.FloorJ > j {
						row.Saturated += 1 / n
					}
					mean += x.EnergyJ / n
				}
				spent = append(spent, mean)
				rows = append(rows, row)
			}
			_, gain := stat.LinearRegression(p.budgets, spent, nil, false)
			for i := first; i < len(rows); i++ {
				rows[i].Gain = gain
			}
		}
	}
	return rows, nil
}
