package evaluate

import (
	"context"

	"prefdt/inference/checkpoint"
	"prefdt/inference/goal"
	"prefdt/offline/experiment"
	"prefdt/offline/rollout"
	"prefdt/offline/seeds"
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

func measureFieldBudgets(ctx context.Context, ck *checkpoint.Checkpoint, c Config) (rows []FieldBudget, err error) {
	calmJ := c.World.CalmFloorJ()
	var requests []rollout.Request
	for _, mode := range c.budgetModes() {
		for _, x := range budgetFloors {
			requests = append(requests, rollout.Request{Mode: mode, BudgetJ: x * calmJ})
		}
	}
	flown, err := c.flyArms(ctx, "budgets", seeds.CheckEvaluation, func(int) (map[string][]flight, error) {
		arms := map[string][]flight{}
		add := func(name string, runner *rollout.Runner) {
			for _, r := range requests {
				arms[name] = append(arms[name], flight{runner, r})
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
		runner, err := c.runnerOf(evenArm, ck, c.World)
		add(evenArm, runner)
		return arms, err
	})
	if err != nil {
		return nil, err
	}
	for k, x := range newBudgetFlights(requests, flown, hiddenArm) {
		b := FieldBudget{Mode: x.request.Mode, BudgetJ: x.request.BudgetJ, Floors: budgetFloors[k%len(budgetFloors)],
			Seeds: len(c.Seeds), Keepable: len(x.kept), Arms: x.means()}
		b.BudgetMeans = b.Arms[policyArm]
		delete(b.Arms, policyArm)
		rows = append(rows, b)
	}
	return rows, nil
}
