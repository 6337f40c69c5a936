package evaluate

import (
	"context"
	"slices"

	"prefdt/inference/checkpoint"
	"prefdt/inference/goal"
	"prefdt/offline/baseline"
	"prefdt/offline/experiment"
	"prefdt/offline/rollout"
)

// FieldBudget is a budget in a field world. The policy and its arms spend it by the same
// rule, and differ in what they believe of the air, the links and the CPUs; the even pacer
// believes nothing, and measures the joules that it spends.
type FieldBudget struct {
	Mode    goal.Mode `json:"mode"`
	BudgetJ float64   `json:"budget_j"`
	Floors  float64   `json:"floors"` // the budget over the energy of flight at v* in calm air
	Seeds   int       `json:"seeds"`
	// Keepable is on how many of them the arm that knows the hidden state ends within
	// baseline.KeepableWithin of the budget. All figures are means over these: no scheduler
	// is known to keep the others.
	Keepable int `json:"keepable"`

	experiment.BudgetMeans                                   // of the policy with its estimator
	Arms                   map[string]experiment.BudgetMeans `json:"arms"`
}

// reportsArm is the policy that takes every report as exact, in calm air.
const reportsArm = "reports"

// budgetFloors are the budgets of a field world, over the energy of flight at v* in calm air.
var budgetFloors = []float64{1.08, 1.20, 1.35}

func measureFieldBudgets(ctx context.Context, ck *checkpoint.Checkpoint, c Config) ([]FieldBudget, error) {
	calmJ := c.World.CalmFloorJ()
	var rows []FieldBudget
	for _, mode := range c.budgetModes() {
		for _, x := range budgetFloors {
			rows = append(rows, FieldBudget{Mode: mode, Floors: x, BudgetJ: x * calmJ, Seeds: len(c.Seeds),
				Arms: map[string]experiment.BudgetMeans{}})
		}
	}
	flown, err := c.flyArms(ctx, "budgets", func() (map[string][]flight, error) {
		arms := map[string][]flight{}
		add := func(name string, runner *rollout.Runner) {
			for _, b := range rows {
				arms[name] = append(arms[name], flight{runner, rollout.Request{Mode: b.Mode, BudgetJ: b.BudgetJ}})
			}
		}
		estimators := c.fieldArms()
		estimators[policyArm], estimators[reportsArm] = c.newLearned(c.Estimator), nil
		delete(estimators, learnedArm) // the policy's
		for name, e := range estimators {
			runner, err := c.newFieldRunner(ck, e)
			if err != nil {
				return nil, err
			}
			add(name, runner)
		}
		runner, err := rollout.NewWithPolicy(baseline.NewEven(&c.World.Physics), &ck.GoalConstants, c.World, rollout.ReportLink{})
		add(evenArm, runner)
		return arms, err
	})
	if err != nil {
		return nil, err
	}
	for k := range rows {
		b := &rows[k]
		unkeepable := func(flights map[string][]rollout.Result) bool { return !keepable(&flights[hiddenArm][k], b.BudgetJ) }
		kept := slices.DeleteFunc(slices.Clone(flown), unkeepable)
		b.Keepable = len(kept)
		for _, flights := range kept {
			for name, results := range flights {
				a := b.Arms[name]
				a.Add(results[k].Point, b.BudgetJ, float64(len(kept)))
				b.Arms[name] = a
			}
		}
		b.BudgetMeans = b.Arms[policyArm]
		delete(b.Arms, policyArm)
	}
	return rows, nil
}
