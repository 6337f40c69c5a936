package evaluate

import (
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat"

	"prefdt/inference/checkpoint"
	"prefdt/inference/goal"
	"prefdt/offline/command"
	"prefdt/offline/rollout"
	"prefdt/simbridge/world"
)

// BudgetResult is how a total in joules was held, over all seeds.
//
// What a flight can be held to lies between two totals. The causal floor is the
// least that is possible without foreseeing a shock: what was spent before it, the
// edge energy of the shock's first slot, which is decided before that slot's
// flight can be measured, and flight at v* from then on. The most is what the same
// flight spends without a budget, from the start or, under a shock, from the slot
// after its first.
type BudgetResult struct {
	Perturbation string    `json:"perturbation"`
	Mode         goal.Mode `json:"mode"`
	BudgetJ      float64   `json:"budget_j"`
	MeanError    float64   `json:"error"`     // mean, signed, against max(budget, causal floor)
	MeanAbsError float64   `json:"abs_error"` // mean, against the same
	// PossibleError is the mean absolute error against the budget held to
	// between the causal floor and the most.
	PossibleError float64 `json:"possible_abs_error"`
	// StrictError is the mean absolute error against max(budget, spent before
	// the shock + flight at v*): it counts the shock's first slot, too.
	StrictError   float64 `json:"strict_abs_error"`
	ViolationRate float64 `json:"violation_rate"` // flights more than 1e-6 above a budget that their causal floor is not above
	Unspent       float64 `json:"unspent"`        // mean share of what was possible
	Saturated     float64 `json:"saturated_rate"` // flights whose causal floor is above the budget
	Unspendable   float64 `json:"unspendable_rate"`
	FloorJ        float64 `json:"floor_j"` // mean causal floor
	MostJ         float64 `json:"most_j"`  // mean
	// Gain is dE/dB over the budgets of this perturbation and mode.
	Gain float64 `json:"gain"`
}

// perturbation is a change of physics and the budgets requested under it.
type perturbation struct {
	name    string
	gust    float64
	shock   func(r *rand.Rand, slots int) world.Shock // nil: none
	budgets []float64                                 // of the standard world
}

var perturbations = []perturbation{
	{"none", 0, nil, []float64{27.5e3, 29.5e3, 31.5e3, 33e3, 34e3, 36e3, 38e3}},
	{"x1.5 at half time", 0, shockAtHalf(1.5), []float64{36e3, 38e3, 39.5e3, 40.5e3, 42e3, 44e3}},
	{"x1.25 at half time", 0, shockAtHalf(1.25), []float64{34e3, 37e3, 40e3}},
	{"x0.8 at half time", 0, shockAtHalf(0.8), []float64{27e3, 30e3, 33e3}},
	{"x0.8 to x2 at a random slot", 0, shockAtRandom, []float64{34e3, 37e3, 40e3}},
	{"gusts 5 %", 0.05, nil, []float64{29e3, 33e3, 36.5e3}},
	{"gusts 15 %", 0.15, nil, []float64{29e3, 33e3, 36.5e3}},
}

func shockAtHalf(factor float64) func(*rand.Rand, int) world.Shock {
	return func(_ *rand.Rand, slots int) world.Shock {
		return world.Shock{FromSlot: slots / 2, Factor: factor}
	}
}

func shockAtRandom(r *rand.Rand, slots int) world.Shock {
	return world.Shock{FromSlot: 1 + r.IntN(slots-1), Factor: 0.8 + 1.2*r.Float64()}
}

// MeasureBudgets measures every perturbation, as targets and as ceilings.
func MeasureBudgets(ctx context.Context, ck *checkpoint.Checkpoint, c Config) ([]BudgetResult, error) {
	var rows []BudgetResult
	for _, p := range perturbations {
		p.budgets = slices.Clone(p.budgets)
		for i := range p.budgets {
			p.budgets[i] *= c.World.EnergyScale()
		}
		for _, mode := range []goal.Mode{goal.Target, goal.Ceiling} {
			more, err := p.measure(ctx, ck, c, mode)
			if err != nil {
				return nil, err
			}
			rows = append(rows, more...)
		}
	}
	return rows, nil
}

// measure measures a perturbation's budgets. Seeds in succession that meet the same
// shock are flown together.
func (p *perturbation) measure(ctx context.Context, ck *checkpoint.Checkpoint, c Config, mode goal.Mode) ([]BudgetResult, error) {
	rows := make([]BudgetResult, len(p.budgets))
	spent := make([]float64, len(p.budgets))
	progress := command.Progress(c.Progress, fmt.Sprintf("seeds, %s budgets, %s", mode, p.name), len(c.Seeds))
	n := float64(len(c.Seeds))
	for first := 0; first < len(c.Seeds); {
		at := c
		at.World.Gust, at.World.Shock = p.gust, p.shockOf(c.Seeds[first], c.World.Slots)
		last := first + 1
		for last < len(c.Seeds) && p.shockOf(c.Seeds[last], c.World.Slots) == at.World.Shock {
			last++
		}
		at.Seeds, at.Progress = c.Seeds[first:last], io.Discard
		results, err := sweep(ctx, ck, at, p.requests(mode, at.World.Shock), "")
		if err != nil {
			return nil, err
		}
		for i := range rows {
			for s := range at.Seeds {
				rows[i].addFlight(p.budgets[i], &results[2*i][s], results[2*i+1][s].EnergyJ, n)
				spent[i] += results[2*i][s].EnergyJ / n
			}
		}
		progress(last)
		first = last
	}
	_, gain := stat.LinearRegression(p.budgets, spent, nil, false)
	for i := range rows {
		rows[i].Perturbation, rows[i].Mode, rows[i].BudgetJ, rows[i].Gain = p.name, mode, p.budgets[i], gain
	}
	return rows, nil
}

// requests are the budgets, each followed by the request that spends the most.
func (p *perturbation) requests(mode goal.Mode, shock world.Shock) []rollout.Request {
	var requests []rollout.Request
	for _, j := range p.budgets {
		unlimited := rollout.Request{Mode: goal.Target, BudgetJ: rollout.UnlimitedJ}
		if p.shock != nil {
			unlimited = rollout.Request{Mode: goal.Target, BudgetJ: j, ReviseSlot: shock.FromSlot + 1, RevisedBudgetJ: rollout.UnlimitedJ}
		}
		requests = append(requests, rollout.Request{Mode: mode, BudgetJ: j}, unlimited)
	}
	return requests
}

func (p *perturbation) shockOf(seed uint64, slots int) world.Shock {
	if p.shock == nil {
		return world.Shock{}
	}
	return p.shock(rand.New(rand.NewPCG(seed, 1)), slots)
}

// addFlight counts one of n flights.
func (b *BudgetResult) addFlight(budgetJ float64, x *rollout.Result, mostJ, n float64) {
	floor := x.FloorJ + x.ShockOnsetJ
	mostJ = max(mostJ, floor)
	e := x.EnergyJ/max(budgetJ, floor) - 1
	possible := min(max(budgetJ, floor), mostJ)
	b.MeanError += e / n
	b.MeanAbsError += math.Abs(e) / n
	b.PossibleError += math.Abs(x.EnergyJ/possible-1) / n
	b.StrictError += math.Abs(x.EnergyJ/max(budgetJ, x.FloorJ)-1) / n
	b.Unspent += max(1-x.EnergyJ/possible, 0) / n
	b.FloorJ += floor / n
	b.MostJ += mostJ / n
	if floor > budgetJ {
		b.Saturated += 1 / n
	} else if e > 1e-6 {
		b.ViolationRate += 1 / n
	}
	if mostJ < budgetJ {
		b.Unspendable += 1 / n
	}
}
