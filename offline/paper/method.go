package paper

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"runtime"

	"prefdt/configs/cli"
	"prefdt/offline/command"
	"prefdt/offline/experiment"
	"prefdt/offline/methods"
	"prefdt/offline/pareto"
	"prefdt/offline/rollout"
	"prefdt/offline/seeds"
	"prefdt/simbridge/world"
)

const methodUsage = `offline method trains one of the methods that the paper compares its policy with, if
it learns, and flies it.

  offline method -list
  offline method sca-mpc -seeds 100000:100010      fly it at an even grid of settings
  offline method ppo -budget 0.01 -out out/try     with a hundredth of its environment steps
  offline method ppo -resume                       continue

The folder -out keeps trained policies, and the outcomes of the last flights as they are flown:
Ctrl-C or SIGTERM may come at any time, or -limit end it: the exit status is 75 then,
and -resume goes on.

Flags:
`

// MethodCommand is "offline method".
func MethodCommand(ctx context.Context, call *cli.Call) error {
	f := call.Flags
	config := command.WorldFlag(f)
	recipe := f.String("recipe", "", "YAML `FILE` with the settings, as configs/methods.yaml")
	text := f.String("seeds", "100000:100010", "episodes to fly, `A:B` (B excluded): of calibration or of evaluation")
	settings := f.Int("settings", 21, "preferences to fly, evenly from the least delay to the least energy")
	budget := f.Float64("budget", 1, "`fraction` of the declared environment steps, tokens or transitions to learn from; of a solver's "+
		"iterations")
	out := f.String("out", "", "`FOLDER` of policies and outcomes (default out/methods/NAME)")
	resume := f.Bool("resume", false, "continue in -out; without anything there, start")
	ppo := f.String("ppo", "out/methods/ppo-plain", "`FOLDER` of the PPO policies, for methods that learn from their flights; trained "+
		"there if they are not")
	listed := f.Bool("list", false, "print the methods")
	limit := command.LimitFlag(f)
	workers := f.Int("workers", runtime.GOMAXPROCS(0), "policies or flights at a time; changes no result")
	asJSON := call.JSONFlag()
	words, err := call.Parse(methodUsage, 1)
	if err != nil {
		return err
	}
	ctx, stop := limit(ctx)
	defer stop()
	r := &methods.Run{Config: methods.Default(), PPODir: *ppo, Workers: *workers, Log: call.Stderr}
	if err := call.Config(*recipe, &r.Config); err != nil {
		return err
	}
	if *listed {
		list := methods.Methods(&r.Config)
		if *asJSON {
			return call.PrintJSON(list)
		}
		for _, m := range list {
			fmt.Fprintf(call.Stdout, "%-22s %s\n", m.Name, m.Description)
		}
		return nil
	}
	if len(words) != 1 {
		return cli.BadInputf("want the name of a method (-list shows them)")
	}
	m := methods.Find(&r.Config, words[0])
	if m == nil {
		return cli.BadInputf("no method is called %q (-list shows them)", words[0])
	}
	if !(*budget > 0 && *budget <= 100) || *settings < 2 || *settings > 1001 || *workers < 1 || *workers > 1024 {
		return cli.BadInputf("-budget is %v, -settings %d, -workers %d; want above 0 to 100, 2 to 1001, 1 to 1024", *budget, *settings,
			*workers)
	}
	if m.Spending != nil {
		for _, n := range m.Spending(&r.Config) {
			*n = max(int(float64(*n)**budget), 1)
		}
	}
	if r.World, err = config(world.Standard()); err != nil {
		return cli.BadInput(err)
	}
	flown, err := command.ParseSeeds(*text, heldOut)
	if err != nil {
		return cli.BadInput(err)
	}
	r.Dir = *out
	if r.Dir == "" {
		r.Dir = filepath.Join("out", "methods", m.Name)
	}
	if err := r.Claim(m, *resume); err != nil {
		return cli.BadInput(err)
	}
	policy := &experiment.Policy{World: r.World, Request: experiment.Preference, Settings: rollout.Linspace(0, 1, *settings)}
	arm := experiment.Arm{
		Name: "flights",
		Key: func() string {
			return experiment.Key(m.Name, m.Settings(&r.Config), r.Scales, r.World, *settings, flown)
		},
		Policy: func(ctx context.Context) (*experiment.Policy, error) { return policy, readyMethod(ctx, m, r, policy) },
		Protocols: func(p *experiment.Policy) []experiment.Protocol {
			return []experiment.Protocol{{Name: nominal, Settings: p.Settings, Request: p.Request, Seeds: flown}}
		},
	}
	set := experiment.Set{Dir: r.Dir, Log: r.Log, Workers: r.Workers}
	x, err := set.Fly(ctx, &arm)
	if err == nil {
		figures := newMethodFigures(r, m, x.Sweep(nominal))
		if *asJSON {
			return call.PrintJSON(figures)
		}
		return figures.print(call)
	}
	if command.Ended(ctx, err) {
		return command.Interrupted(ctx, "; the same command with -resume continues")
	}
	return fmt.Errorf("method %s: %w", m.Name, err)
}

// heldOut refuses seeds that a method may have learned from.
func heldOut(seed uint64) error {
	if seeds.CheckCalibration(seed) != nil && seeds.CheckEvaluation(seed) != nil {
		return fmt.Errorf("seed %d may have been trained on, use %d to %d or from %d", seed, seeds.CalibrationFirst, seeds.CalibrationLast,
			uint64(seeds.EvaluationFirst))
	}
	return nil
}

// methodFigures are the paper's metrics of a method, each per seed and then averaged.
type methodFigures struct {
	Method   string    `json:"method"`
	Settings []float64 `json:"settings"`
	pareto.Summaries
	Fidelity        pareto.Summary  `json:"fidelity"`
	BudgetError     float64         `json:"budget_error,omitempty"`     // mean of |E - budget| / budget, of methods flown at budgets
	BudgetViolation float64         `json:"budget_violation,omitempty"` // part of the flights above it
	MeanPoints      []pareto.Point  `json:"mean_points"`                // by setting
	Budget          *methods.Budget `json:"budget,omitempty"`
}

// newMethodFigures computes them.
func newMethodFigures(r *methods.Run, m *methods.Method, x *experiment.Sweep) *methodFigures {
	settings, outcomes := x.Settings, x.Outcomes
	wide, tight := pareto.References(&r.World, pareto.Pool(outcomes...))
	metrics := x.Measure(wide, tight)
	f := &methodFigures{
		Method: m.Name, Settings: settings, MeanPoints: pareto.MeanPoints(outcomes), Summaries: metrics.Summarise(),
		Fidelity: pareto.Summarise(metrics.Fidelities),
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

// print writes the figures as a table.
func (f *methodFigures) print(call *cli.Call) error {
	fmt.Fprintf(call.Stdout, "%s at %d settings on %d seeds, per seed\n", f.Method, len(f.Settings), f.Hypervolume.N)
	budgets := ""
	if f.BudgetError > 0 {
		budgets = fmt.Sprintf("budgets, |E/B-1|\t%.4g\t\t\nbudgets exceeded\t%.4g\t\t\n", f.BudgetError, f.BudgetViolation)
	}
	return f.Write(call.Stdout, "fidelity", f.Fidelity, budgets)
}
