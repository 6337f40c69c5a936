package methods

import (
	"cmp"
	"context"
	"fmt"

	"prefdt/inference/goal"
	"prefdt/offline/command"
	"prefdt/offline/pareto"
)

// Lagrangian CMDP, Table "classes" of the paper, class 1: reward-constrained policy
// optimisation (Tessler, Mankowitz and Mannor, ICLR 2019), one policy for each budget.
// It minimises delay subject to a mean energy of a flight of at most the budget: PPO on
// the Lagrangian
//
//	T_tot / eta_T + lambda (E_tot - budget) / eta_E,
//
// whose multiplier rises while flights spend more, on the slower of the two time scales.

// CMDPSettings of the three policies.
type CMDPSettings struct {
	BudgetsJ       []float64   `json:"budgets_j" yaml:"budgets_j"`
	MultiplierRate float64     `json:"multiplier_rate" yaml:"multiplier_rate" range:"1e-9,100"` // for each update, in units of 1/eta_E
	MultiplierMax  float64     `json:"multiplier_max" yaml:"multiplier_max" range:"1e-9,1e6"`
	PPO            PPOSettings `json:"ppo" yaml:"ppo"` // its preferences are not used
}

var cmdpMethod = Method{
	Name: "cmdp", Description: "proximal policy optimisation on a Lagrangian, one policy for each budget",
	Settings: func(c *Config) any { return c.CMDP },
	Spending: func(c *Config) []*int { return []*int{&c.CMDP.PPO.Steps} },
	Budget: func(r *Run) Budget {
		return Budget{Policies: len(r.CMDP.BudgetsJ), EnvironmentSteps: len(r.CMDP.BudgetsJ) * r.CMDP.PPO.Steps}
	},
	BudgetsJ: func(c *Config) []float64 { return c.CMDP.BudgetsJ },
	New:      makeCMDP,
	Paper:    &Paper{Ours: true},
}

// Check returns what is wrong with the settings.
func (s *CMDPSettings) Check() error {
	if len(s.BudgetsJ) == 0 || len(s.BudgetsJ) > 100 {
		return fmt.Errorf("%d budgets, want 1 to 100", len(s.BudgetsJ))
	}
	for i, b := range s.BudgetsJ {
		if !(b > 0 && b < 1e12) || i > 0 && b <= s.BudgetsJ[i-1] {
			return fmt.Errorf("budget %d is %v J, want positive numbers that rise", i, b)
		}
	}
	return cmp.Or(command.CheckRanges(s), s.PPO.Check())
}

// raise is the ascent of the multiplier, eq. (10) of Tessler et al.: a projected step of
// the constraint's violation.
func (s *CMDPSettings) raise(multiplier, energyJ, budgetJ, scaleJ float64) float64 {
	return min(max(multiplier+s.MultiplierRate*(energyJ-budgetJ)/scaleJ, 0), s.MultiplierMax)
}

// makeCMDP trains one policy for each budget.
func makeCMDP(ctx context.Context, r *Run) (NewPolicy, error) {
	s := &r.CMDP
	params, err := trainMembers(ctx, r, s.PPO, "CMDP", s.BudgetsJ, func(p *ppo, budgetJ float64) [objectives]float64 {
		x := &p.network.weights.Multiplier.Value.Data[0]
		*x = float32(s.raise(float64(*x), p.meanCost[1], budgetJ, r.Scales.EnergyJ))
		return [objectives]float64{1, float64(*x)}
	})
	nearest := func(g goal.Objective) int { return pareto.Nearest(s.BudgetsJ, g.BudgetJ()) }
	return newMembers(&r.World.Physics, s.PPO, params, nearest), err
}
