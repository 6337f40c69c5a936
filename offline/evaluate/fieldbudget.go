package evaluate

import (
	"context"
	"maps"
	"slices"

	"prefdt/inference/checkpoint"
	"prefdt/inference/goal"
	"prefdt/offline/baseline"
	"prefdt/offline/command"
	"prefdt/offline/experiment"
	"prefdt/offline/jobs"
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

// measureFieldBudgets flies the budgets of a field world.
func measureFieldBudgets(ctx context.Context, ck *checkpoint.Checkpoint, c Config) ([]FieldBudget, error) {
	if err := c.checkSeeds(); err != nil {
		return nil, err
	}
	calmJ := c.World.CalmFloorJ()
	var rows []FieldBudget
	for _, mode := range c.budgetModes() {
		for _, x := range budgetFloors {
			rows = append(rows, FieldBudget{Mode: mode, Floors: x, BudgetJ: x * calmJ, Seeds: len(c.Seeds),
				Arms: map[string]experiment.BudgetMeans{}})
		}
	}
	newRunners := func() (runners map[string]*rollout.Runner, err error) {
		estimators := c.fieldArms()
		estimators[policyArm], estimators[reportsArm] = c.newLearned(c.Estimator), nil
		delete(estimators, learnedArm) // the policy's
		runners = map[string]*rollout.Runner{}
		for name, e := range estimators {
			if runners[name], err = c.newFieldRunner(ck, e); err != nil {
				return nil, err
			}
		}
		runners[evenArm], err = rollout.NewWithPolicy(baseline.NewEven(&c.World.Physics), &ck.GoalConstants, c.World, rollout.ReportLink{})
		return runners, err
	}
	flown := make([]map[string][]rollout.Result, len(c.Seeds)) // by seed and arm, in the order of rows
	err := jobs.Do(ctx, len(c.Seeds), c.Workers, newRunners, func(runners map[string]*rollout.Runner, i int) error {
		flown[i] = map[string][]rollout.Result{}
		for name, runner := range runners {
			for _, b := range rows {
				if err := ctx.Err(); err != nil {
					return err
				}
				flown[i][name] = append(flown[i][name], runner.Fly(c.Seeds[i], rollout.Request{Mode: b.Mode, BudgetJ: b.BudgetJ}))
			}
		}
		return nil
	}, command.Progress(c.Progress, "seeds, budgets", len(c.Seeds)))
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

// armMeans are one arm's, by name.
type armMeans struct {
	Name string
	experiment.BudgetMeans
}

// Spent returns what the budget bought the policy and each arm.
func (b *FieldBudget) Spent() []armMeans {
	list := []armMeans{{policyArm, b.BudgetMeans}}
	for _, name := range slices.Sorted(maps.Keys(b.Arms)) {
		list = append(list, armMeans{name, b.Arms[name]})
	}
	return list
}
