package methods

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"prefdt/inference/goal"
	"prefdt/offline/command"
	"prefdt/offline/jobs"
	"prefdt/offline/pareto"
	"prefdt/offline/rollout"
)

// storedOutcomes are the outcomes of a method so far. The folder is of its settings and its world: see Claim.
type storedOutcomes struct {
	Settings []float64                 `json:"settings"`
	BySeed   map[uint64][]pareto.Point `json:"by_seed"` // by setting
}

func (r *Run) outcomesPath() string { return filepath.Join(r.Dir, "flights.json") }

// request asks for a setting: a preference, or a budget in joules.
func (m *Method) request(setting float64) rollout.Request {
	if m.BudgetsJ != nil {
		return rollout.Request{Mode: goal.Target, BudgetJ: setting}
	}
	return rollout.Request{Mode: goal.Preference, Omega: setting}
}

// readOutcomes reads outcomes at the same settings. Those at others are an error, a missing file is not.
func (r *Run) readOutcomes(settings []float64) (f storedOutcomes, err error) {
	err = command.ReadJSON(r.outcomesPath(), &f)
	if errors.Is(err, os.ErrNotExist) {
		return storedOutcomes{settings, map[uint64][]pareto.Point{}}, nil
	}
	if err == nil && (f.BySeed == nil || !slices.Equal(f.Settings, settings)) {
		err = errors.New("it is of another method, world or settings: give those, or another -out")
	}
	if err != nil {
		err = fmt.Errorf("flights %s: %w", r.outcomesPath(), err)
	}
	return f, err
}

// Fly flies a method's policies on every seed at every setting, by setting and seed,
// except what the folder has of it already. The result does not depend on the number of
// workers.
func Fly(ctx context.Context, r *Run, m *Method, newPolicy NewPolicy, settings []float64,
	seeds []uint64) ([][]pareto.Point, error) {
	known, err := r.readOutcomes(settings)
	if err != nil {
		return nil, err
	}
	var missing []uint64
	for _, seed := range seeds {
		if len(known.BySeed[seed]) != len(settings) {
			missing = append(missing, seed)
		}
	}
	var mu sync.Mutex
	newRunner := func() (*rollout.Runner, error) {
		return rollout.NewWithPolicy(newPolicy(), r.GoalConstants(), r.World, rollout.ReportLink{})
	}
	err = jobs.Do(ctx, len(missing), r.Workers, newRunner, func(f *rollout.Runner, i int) error {
		points := make([]pareto.Point, len(settings))
		for k, setting := range settings {
			if err := ctx.Err(); err != nil {
				return err
			}
			points[k] = f.Fly(missing[i], m.request(setting)).Point
		}
		mu.Lock()
		defer mu.Unlock()
		known.BySeed[missing[i]] = points
		return command.ReplaceJSON(r.outcomesPath(), "", known)
	}, command.Progress(r.Log, "seeds flown by "+m.Name, len(missing)))
	if err != nil {
		return nil, err
	}
	outcomes := make([][]pareto.Point, len(settings))
	for _, seed := range seeds {
		for k, p := range known.BySeed[seed] {
			outcomes[k] = append(outcomes[k], p)
		}
	}
	return outcomes, nil
}

// Figures are the paper's metrics of a method, each per seed and then averaged.
type Figures struct {
	Method   string    `json:"method"`
	Settings []float64 `json:"settings"`
	pareto.Summaries
	Fidelity        pareto.Summary `json:"fidelity"`
	BudgetError     float64        `json:"budget_error,omitempty"`     // mean of |E - budget| / budget, of methods flown at budgets
	BudgetViolation float64        `json:"budget_violation,omitempty"` // part of the flights above it
	MeanPoints      []pareto.Point `json:"mean_points"`                // by setting
	Budget          *Budget        `json:"budget,omitempty"`
}

// Measure computes the figures of outcomes by setting and seed.
func Measure(r *Run, m *Method, settings []float64, outcomes [][]pareto.Point) Figures {
	wide, tight := pareto.References(&r.World, pareto.Pool(outcomes...))
	x := pareto.Measure(settings, outcomes, wide, tight)
	f := Figures{
		Method: m.Name, Settings: settings, MeanPoints: pareto.MeanPoints(outcomes), Summaries: x.Summarise(),
		Fidelity: pareto.Summarise(x.Fidelities),
	}
	if m.BudgetsJ != nil {
		n := float64(len(outcomes) * len(outcomes[0]))
		for s := range outcomes[0] {
			for k, budgetJ := range settings {
				energyJ := outcomes[k][s].EnergyJ
				if f.BudgetError += math.Abs(energyJ/budgetJ-1) / n; energyJ > budgetJ {
					f.BudgetViolation += 1 / n
				}
			}
		}
	}
	if m.Budget != nil {
		b := m.Budget(r)
		f.Budget = &b
	}
	return f
}
